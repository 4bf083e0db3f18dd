import { useState } from 'preact/hooks'
import { useAsk } from '../api/ask.ts'
import { call } from '../api/call.ts'
import { forms } from '../api/forms.ts'
import type { EndpointOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Form } from '../parts/form.tsx'
import { Empty, Facts, Section } from '../parts/page.tsx'
import { say } from '../parts/toast.tsx'
import { mayManage } from '../session.ts'
import { Credentials } from './credentials.tsx'
import type { EndpointPath } from './endpoint.tsx'
import type { EndpointDialog } from './endpoint-actions.tsx'

/** The settings of an endpoint in groups, as they are thought of. */
const endpointGroups = [
  { title: 'Destination', fields: ['url', 'description', 'uid', 'eventTypes', 'channels', 'filter'] },
  {
    title: 'Limits',
    fields: [
      'throttleRate',
      'throttlePeriodSeconds',
      'burst',
      'concurrency',
      'timeoutMs',
      'connectTimeoutMs',
      'adaptive',
    ],
  },
  {
    title: 'Queue',
    fields: ['maxWaiting', 'overflow', 'maxAgeSeconds', 'whileDisabled', 'order', 'deadHead', 'coalesce'],
  },
  { title: 'Failures', fields: ['retry', 'retryReplays', 'circuit', 'disableAfterMs'] },
  { title: 'Request', fields: ['method', 'signature', 'headerTemplates', 'shape', 'region', 'metadata'] },
] as const

interface SettingsProps {
  readonly endpoint: EndpointOut
  readonly at: EndpointPath
  onChange(): Promise<void>
  openDialog(dialog: EndpointDialog): void
}

/** Every setting of an endpoint. Only fields that were changed are sent. */
export function EndpointSettings({ endpoint, at, onChange, openDialog }: SettingsProps) {
  // As they were when the form was shown or last saved: a change by another operator must not empty what is being written.
  const [known, setKnown] = useState(endpoint)
  if (!mayManage()) {
    const shown = endpointGroups.flatMap(({ fields }) => fields).map((name) => [name, textOf(endpoint, name)] as const)
    return (
      <>
        <Section title="Settings" note="This key may read only.">
          <Facts facts={shown} />
        </Section>
        <Credentials endpoint={endpoint} at={at} onChange={onChange} />
      </>
    )
  }
  return (
    <>
      <Section title="Settings" note="An empty field takes the default of the application or the server.">
        <Form
          key={known.updatedAt}
          layout="grid"
          schema={forms.EndpointIn}
          groups={endpointGroups}
          values={known}
          changesOnly
          action="Save changes"
          onSave={async (body) => {
            if (Object.keys(body).length === 0) return say('Nothing was changed.')
            setKnown(await call('PATCH /app/{app_id}/endpoint/{endpoint_id}', { path: at, body }))
            say('Settings saved.')
            await onChange()
          }}
        />
      </Section>
      <Credentials endpoint={endpoint} at={at} onChange={onChange} />
      <Headers at={at} />
      <Section
        title="Signing secret"
        actions={
          <>
            <Button onPress={() => openDialog('secret')}>Show</Button>
            <Button onPress={() => openDialog('rotate')}>Rotate…</Button>
          </>
        }
      >
        <p class="inside soft">Deliveries are signed with it, so that the receiver knows that they are genuine.</p>
      </Section>
    </>
  )
}

function textOf(endpoint: EndpointOut, name: string): string {
  const value = (endpoint as Readonly<Record<string, unknown>>)[name]
  if (value === null || value === undefined || value === '') return '–'
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** Headers that go out with every delivery. Values of secret ones are not shown again. */
function Headers({ at }: { at: EndpointPath }) {
  const headers = useAsk('GET /app/{app_id}/endpoint/{endpoint_id}/headers', { path: at })
  const [isOpen, setOpen] = useState(false)
  const shown = Object.entries(headers.data?.headers ?? {})
  const hidden = headers.data?.sensitive ?? []
  return (
    <Section title="Headers" actions={<Button onPress={() => setOpen(true)}>Add or change…</Button>}>
      {shown.length + hidden.length === 0 ? (
        <Empty title="No headers of its own">
          Add one, such as an Authorization header that the receiver asks for.
        </Empty>
      ) : (
        <Facts
          facts={[
            ...shown.map(([name, value]) => [name, <code key={name}>{value}</code>] as const),
            ...hidden.map(
              (name) =>
                [
                  name,
                  <span key={name} class="faint">
                    hidden
                  </span>,
                ] as const,
            ),
          ]}
        />
      )}
      {isOpen && (
        <Dialog title="Add or change a header" onClose={() => setOpen(false)}>
          <Form
            schema={{
              type: 'object',
              required: ['name'],
              properties: {
                name: { type: 'string', description: 'Such as Authorization.' },
                value: { type: 'string', maxLength: 1999, description: 'Empty to remove the header.' },
              },
            }}
            groups={[{ fields: ['name', 'value'] }]}
            action="Save"
            onCancel={() => setOpen(false)}
            onSave={async ({ name, value }) => {
              const body = { headers: { [String(name)]: value === undefined ? null : String(value) } }
              const done = await act(
                () => call('PATCH /app/{app_id}/endpoint/{endpoint_id}/headers', { path: at, body }),
                'Saved.',
              )
              if (done) setOpen(false)
              await headers.refresh()
            }}
          />
        </Dialog>
      )}
    </Section>
  )
}
