import { useState } from 'preact/hooks'
import { call } from '../api/call.ts'
import { forms } from '../api/forms.ts'
import type { EndpointOut, EndpointPatch } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button } from '../parts/button.tsx'
import { confirm, Dialog } from '../parts/dialog.tsx'
import { Form, type FormSchema, type Values } from '../parts/form.tsx'
import { Empty, Facts, Section, Segmented } from '../parts/page.tsx'
import { Ago } from '../parts/time.tsx'
import { say } from '../parts/toast.tsx'
import { mayManage } from '../session.ts'
import type { EndpointPath } from './endpoint.tsx'

type Kind = 'bearer' | 'basic' | 'oauth2'

const fieldsOf: Readonly<Record<Kind, readonly string[]>> = {
  bearer: ['token'],
  basic: ['username', 'password'],
  oauth2: ['tokenUrl', 'clientId', 'clientSecret', 'scope', 'audience', 'method', 'privateKey', 'keyId'],
}
const needed: Readonly<Record<Kind, readonly string[]>> = {
  bearer: ['token'],
  basic: ['username', 'password'],
  oauth2: ['tokenUrl', 'clientId'],
}
const secrets = ['token', 'password', 'clientSecret']
const kindNames = { bearer: 'Bearer token', basic: 'User and password', oauth2: 'OAuth 2.0' } as const

/** The change of an endpoint that sets or removes credentials. */
type Change = Partial<Pick<EndpointPatch, 'auth' | 'clientCertificate'>>

interface CredentialsProps {
  readonly endpoint: EndpointOut
  readonly at: EndpointPath
  onChange(): Promise<void>
}

/** The credentials of requests toward the receiver. Secrets are set here and never shown again. */
export function Credentials({ endpoint, at, onChange }: CredentialsProps) {
  const [dialog, setDialog] = useState<'auth' | 'certificate'>()
  const { auth, clientCertificate } = endpoint
  const patch = async (body: Change, done: string) => {
    await call('PATCH /app/{app_id}/endpoint/{endpoint_id}', { path: at, body })
    say(done)
    setDialog(undefined)
    await onChange()
  }
  const remove = async (what: string, body: Change) => {
    const text = 'The next requests go out without it. To have it back, it must be given again.'
    const go = await confirm({ title: `Remove the ${what}?`, text, action: 'Remove', kind: 'danger' })
    if (go) await act(() => patch(body, 'Removed.'), '')
  }
  return (
    <>
      <Section
        title="Credentials"
        actions={
          mayManage() && (
            <>
              {auth && <Button onPress={() => remove('credentials', { auth: null })}>Remove credentials…</Button>}
              <Button onPress={() => setDialog('auth')}>{auth ? 'Change credentials…' : 'Set credentials…'}</Button>
            </>
          )
        }
      >
        {auth ? (
          <Facts facts={authFacts(auth)} />
        ) : (
          <Empty title="No credentials">For a receiver that asks for a token or a password.</Empty>
        )}
      </Section>
      <Section
        title="Client certificate"
        actions={
          mayManage() && (
            <>
              {clientCertificate && (
                <Button onPress={() => remove('client certificate', { clientCertificate: null })}>
                  Remove certificate…
                </Button>
              )}
              <Button onPress={() => setDialog('certificate')}>
                {clientCertificate ? 'Replace certificate…' : 'Set certificate…'}
              </Button>
            </>
          )
        }
      >
        {clientCertificate ? (
          <Facts facts={certificateFacts(clientCertificate)} />
        ) : (
          <Empty title="No client certificate">For a receiver that asks for mutual TLS.</Empty>
        )}
      </Section>
      {dialog === 'auth' && (
        <AuthDialog endpoint={endpoint} onClose={() => setDialog(undefined)} onSave={(body) => patch(body, 'Saved.')} />
      )}
      {dialog === 'certificate' && (
        <Dialog title="Client certificate" onClose={() => setDialog(undefined)}>
          <Form
            schema={certificateSchema}
            groups={[{ fields: clientCertificate ? [...pemFields, 'overlapSeconds'] : pemFields }]}
            within="clientCertificate"
            action="Save"
            onCancel={() => setDialog(undefined)}
            onSave={(values) =>
              patch({ clientCertificate: values as unknown as NonNullable<Change['clientCertificate']> }, 'Saved.')
            }
          />
        </Dialog>
      )}
    </>
  )
}

interface AuthDialogProps {
  readonly endpoint: EndpointOut
  onClose(): void
  onSave(body: Change): Promise<void>
}

function AuthDialog({ endpoint: { auth }, onClose, onSave }: AuthDialogProps) {
  const [kind, setKind] = useState<Kind>((auth?.kind as Kind | undefined) ?? 'bearer')
  return (
    <Dialog title="Credentials" onClose={onClose}>
      <div class="kinds">
        <Segmented<Kind>
          label="Kind"
          value={kind}
          choices={Object.entries(kindNames) as [Kind, string][]}
          onChange={setKind}
        />
      </div>
      <Form
        key={kind}
        schema={authSchema(kind)}
        groups={[{ fields: fieldsOf[kind] }]}
        values={auth?.kind === kind ? (auth as Values) : {}}
        within="auth"
        action="Save"
        onCancel={onClose}
        onSave={(values) => onSave({ auth: { kind, ...values } })}
      />
    </Dialog>
  )
}

function authSchema(kind: Kind): FormSchema {
  const properties = Object.entries(forms.EndpointIn.properties?.auth?.properties ?? {})
  const hidden = (name: string) => (secrets.includes(name) ? { format: 'password' } : {})
  return {
    type: 'object',
    required: needed[kind],
    properties: Object.fromEntries(properties.map(([name, schema]) => [name, { ...schema, ...hidden(name) }])),
  }
}

const pemFields = ['certificate', 'key']
const certificateSchema = forms.EndpointIn.properties?.clientCertificate ?? {}

type FactList = readonly (readonly [name: string, value: preact.ComponentChildren])[]

function authFacts(auth: NonNullable<EndpointOut['auth']>): FactList {
  const { kind, username, tokenUrl, clientId, method, keyId, scope, audience } = auth
  const facts = [
    ['Kind', kindNames[kind]],
    ['User name', username],
    ['Token URL', tokenUrl],
    ['Client id', clientId],
    ['Method', method],
    ['Key id', keyId],
    ['Scope', scope],
    ['Audience', audience],
    ['Secret', 'set'],
  ] as const
  return facts.filter(([, value]) => value !== null)
}

function certificateFacts(certificate: NonNullable<EndpointOut['clientCertificate']>): FactList {
  const { subject, issuer, fingerprint, validUntil, replaces } = certificate
  return [
    ['Owner', subject],
    ['Issuer', issuer],
    ['Fingerprint', <code key="fingerprint">{fingerprint}</code>],
    ['Valid until', <Day key="until" at={validUntil} />],
    ...(replaces === null
      ? []
      : ([['Certificate before is used until', <Ago key="before" at={replaces.usedUntil} />]] as const)),
  ]
}

/** A day, and how far it is: certificates last for months. */
function Day({ at }: { at: string }) {
  return (
    <>
      {at.slice(0, 10)} (<Ago at={at} />)
    </>
  )
}
