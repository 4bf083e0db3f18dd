import { Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { pageItems } from '../../../src/domain/api.ts'
import { useAsk, usePages } from '../api/ask.ts'
import { call } from '../api/call.ts'
import type { SourceCreatedOut, SourceIn, SourceOut, SourceProviderOut, SourceSummaryOut } from '../api/schema.ts'
import { Button } from '../parts/button.tsx'
import { Code } from '../parts/code.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Form, type FormSchema, isSeconds, type Values } from '../parts/form.tsx'
import { Empty, Failure, Page } from '../parts/page.tsx'
import { Pill } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { figure, span } from '../parts/text.ts'
import { Ago } from '../parts/time.tsx'
import { navigate } from '../router.ts'
import { isAdmin } from '../session.ts'
import { useRepeat } from './use-repeat.ts'

/** URLs that take webhooks of other services in, of all applications. */
export function SourcesPage() {
  const [isNew, setNew] = useState(false)
  const providers = useProviders()
  const list = usePages<SourceSummaryOut>('', (iterator) =>
    call('GET /source', { query: { limit: pageItems.usual, ...(iterator !== undefined && { iterator }) } }),
  )
  useRepeat(list.refresh, list.rows.length <= pageItems.usual ? 5000 : undefined)
  const columns: Column<SourceSummaryOut>[] = [
    {
      name: 'Source',
      width: 'minmax(0, 1.6fr)',
      cell: ({ name, provider }) => (
        <span class="two-lines">
          <span>{name}</span>
          <span>{providers.get(provider)?.title ?? provider}</span>
        </span>
      ),
    },
    { name: 'Application', width: 'minmax(0, 1fr)', narrow: 'hide', cell: ({ appUid, appId }) => appUid ?? appId },
    {
      name: 'State',
      width: '110px',
      cell: (source) => <Pill state={stateOf(source, providers.get(source.provider))} />,
    },
    {
      name: 'Accepted',
      width: '90px',
      align: 'end',
      narrow: 'hide',
      cell: ({ arrivals }) => figure(arrivals.accepted),
    },
    { name: 'Refused', width: '90px', align: 'end', narrow: 'hide', cell: ({ arrivals }) => figure(arrivals.refused) },
    {
      name: 'Last event',
      width: '96px',
      align: 'end',
      narrow: 'hide',
      cell: ({ arrivals }) => <Ago at={arrivals.acceptedAt} none="never" />,
    },
  ]
  return (
    <Page
      title="Sources"
      actions={
        isAdmin() && (
          <Button icon="plus" kind="primary" onPress={() => setNew(true)}>
            Add source
          </Button>
        )
      }
    >
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      <div class="card">
        <Table
          label="Sources"
          columns={columns}
          rows={list.rows}
          keyOf={({ id }) => id}
          hrefOf={({ appId, id }) => `/app/${appId}/source/${id}`}
          rowHeight={56}
          onEnd={list.more}
          isLoading={list.isLoading}
          empty={
            <Empty title="No sources yet">
              A source is a URL for the webhooks of another service, such as GitHub or Stripe. Sluice verifies them and
              delivers them to the endpoints of an application.
            </Empty>
          }
        />
      </div>
      {isNew && (
        <AddSource
          providers={[...providers.values()]}
          onClose={() => {
            setNew(false)
            void list.refresh()
          }}
        />
      )}
    </Page>
  )
}

/** The providers by name. They never change while the server runs. */
export function useProviders(): ReadonlyMap<string, SourceProviderOut> {
  const { data } = useAsk('GET /source-provider', {})
  return new Map(data?.data.map((provider) => [provider.name, provider]))
}

/** A source without its secret, or one that refused its last arrivals and accepted none after them, asks for attention. */
export function stateOf(source: SourceOut, provider: SourceProviderOut | undefined): string {
  const { disabled, damaged, secrets, arrivals } = source
  if (damaged) return 'failed'
  if (disabled) return 'disabled'
  if (provider?.secret?.required && secrets.length === 0) return 'no_secret'
  return arrivals.refusedInRow > 0 ? 'refusing' : 'active'
}

/** Settings that every source has, behind those of its provider. */
const eventFields = ['eventType', 'eventId', 'replayWindowSeconds']

/** The fields of a provider's settings, in groups. */
export function settingGroups({ settings }: SourceProviderOut) {
  const own = Object.keys(propertiesOf(settings)).filter((name) => !eventFields.includes(name))
  return [
    ...(own.length > 0 ? [{ title: 'Verification', fields: own }] : []),
    { title: 'The event', fields: eventFields },
  ]
}

/** The schema of a provider's settings, with the defaults in the hints. */
export function settingsSchema({ settings, defaults }: SourceProviderOut): FormSchema {
  const properties = Object.entries(propertiesOf(settings)).map(([name, schema]) => {
    const value = defaults[name]
    const isSaid = value == null || value === '' || /default/.test(schema.description ?? '')
    const text = isSeconds(name) ? span(Number(value) * 1000) : [value].flat().join(', else ')
    const said = isSaid ? '' : ` Default: ${text}.`
    return [name, { ...schema, description: `${schema.description ?? ''}${said}` }]
  })
  return { ...(settings as FormSchema), properties: Object.fromEntries(properties) }
}

function propertiesOf(settings: SourceProviderOut['settings']): Readonly<Record<string, FormSchema>> {
  return (settings as FormSchema).properties ?? {}
}

function AddSource({ providers, onClose }: { providers: readonly SourceProviderOut[]; onClose(): void }) {
  const apps = useAsk('GET /app', { query: { limit: pageItems.most } })
  const [chosen, setChosen] = useState({ app: '', provider: 'github' })
  const [made, setMade] = useState<SourceCreatedOut>()
  const app = chosen.app === '' ? apps.data?.data[0]?.id : chosen.app
  const provider = providers.find(({ name }) => name === chosen.provider)
  if (provider === undefined || apps.data === undefined) return null
  if (app === undefined) {
    return (
      <Dialog title="Add a source" onClose={onClose}>
        <div class="body">
          <p>A source belongs to an application, whose endpoints get its events. Add an application first.</p>
        </div>
        <footer>
          <Button kind="primary" onPress={() => navigate('/applications')}>
            Open the applications
          </Button>
        </footer>
      </Dialog>
    )
  }
  if (made !== undefined) {
    return (
      <Dialog title={`${made.name} is ready`} wide onClose={onClose}>
        <div class="body">
          <Setup source={made} provider={provider} secret={made.secret} />
        </div>
        <footer>
          <Button kind="primary" onPress={() => navigate(`/app/${app}/source/${made.id}`)}>
            Open the source
          </Button>
        </footer>
      </Dialog>
    )
  }
  const choose = (name: 'app' | 'provider') => (event: { currentTarget: HTMLSelectElement }) =>
    setChosen({ ...chosen, [name]: event.currentTarget.value })
  return (
    <Dialog title="Add a source" wide onClose={onClose}>
      <div class="body">
        <label class="field">
          <span class="label">Application</span>
          <select name="app" value={app} onChange={choose('app')}>
            {apps.data.data.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
          <span class="hint">Its endpoints get the events.</span>
        </label>
        <label class="field">
          <span class="label">Provider</span>
          <select name="provider" value={chosen.provider} onChange={choose('provider')}>
            {providers.map(({ name, title }) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
          <span class="hint">
            <Inline text={provider.description} />
          </span>
        </label>
      </div>
      <Form
        key={provider.name}
        schema={sourceSchema(provider)}
        within="settings"
        groups={[
          { fields: ['name', 'uid', ...(provider.secret === null ? [] : ['secret'])] },
          ...settingGroups(provider),
        ]}
        action="Add"
        onCancel={onClose}
        onSave={async ({ name, uid, secret, ...settings }) => {
          const body = { provider: provider.name, settings, ...given({ name, uid, secret }) } as SourceIn
          setMade(await call('POST /app/{app_id}/source', { path: { app_id: app }, body }))
        }}
      />
    </Dialog>
  )
}

function given(values: Values): Values {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))
}

/** The schema of a new source: its own fields beside those of its provider. */
function sourceSchema(provider: SourceProviderOut): FormSchema {
  const { secret, title } = provider
  const schema = settingsSchema(provider)
  return {
    ...schema,
    properties: {
      ...schema.properties,
      name: { type: 'string', maxLength: 256, description: `Display name; ${title} by default.` },
      uid: { type: 'string', maxLength: 256, description: 'Your own name for it, accepted wherever the id is.' },
      ...(secret !== null && { secret: secretSchema(provider) }),
    },
  }
}

/** The field of a secret, under the name that the provider has for it. */
export function secretSchema({ secret, title }: SourceProviderOut): FormSchema {
  const chosen = `Shared with ${title}; Sluice makes one when it is empty.`
  const given = `${secret?.name} that ${title} shows. If it shows it only with the URL, add it afterwards.`
  const hint = secret?.origin === 'chosen' ? chosen : given
  return { type: 'string', minLength: secret?.minLength ?? 1, maxLength: 512, description: hint }
}

/** The URL to paste, the secret while it is known, and the steps at the provider. */
export function Setup({
  source,
  provider,
  secret,
}: {
  source: SourceOut
  provider: SourceProviderOut
  secret?: string | null
}) {
  return (
    <div class="setup">
      {source.url === null ? (
        <p class="soft">This key may not see the URL.</p>
      ) : (
        <>
          <p class="label">URL to paste</p>
          <Code text={source.url} label="URL" />
        </>
      )}
      {secret != null && (
        <>
          <p class="label">{provider.secret?.name ?? 'Secret'}, shown only now</p>
          <Code text={secret} label="secret" />
        </>
      )}
      <ol class="steps">
        {provider.steps.map((step) => (
          <li key={step}>
            <Inline text={step} />
          </li>
        ))}
      </ol>
      {provider.secret?.required && source.secrets.length === 0 && (
        <p class="callout" data-tone="wait">
          The source has no secret yet: requests get 503 until you set it with “New secret…” in the menu of the source.
        </p>
      )}
      {provider.reference !== null && (
        <p>
          <a class="inline" href={provider.reference} target="_blank" rel="noreferrer">
            {provider.title}’s documentation
          </a>
        </p>
      )}
    </div>
  )
}

/** Text with **bold** and `code`, and nothing else of Markdown. */
function Inline({ text }: { text: string }) {
  const parts = text.split(/(\*\*[^*]+\*\*|`[^`]+`)/)
  return (
    <>
      {parts.map((part, i) => {
        const key = `${i} ${part}`
        if (part.startsWith('**')) return <b key={key}>{part.slice(2, -2)}</b>
        return part.startsWith('`') ? <code key={key}>{part.slice(1, -1)}</code> : <Fragment key={key}>{part}</Fragment>
      })}
    </>
  )
}
