import { useState } from 'preact/hooks'
import { useAsk } from '../api/ask.ts'
import { call } from '../api/call.ts'
import type { MessageOut, SourceOut, SourceProviderOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button, Id } from '../parts/button.tsx'
import { Code } from '../parts/code.tsx'
import { confirm, Dialog } from '../parts/dialog.tsx'
import { Form, isSeconds, labelOf } from '../parts/form.tsx'
import { Menu } from '../parts/menu.tsx'
import { Empty, Facts, Failure, Loading, Page, Section, Stat } from '../parts/page.tsx'
import { Pill, Tag } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { capital, count, figure, localTime, span, words } from '../parts/text.ts'
import { Ago, toMs } from '../parts/time.tsx'
import { say } from '../parts/toast.tsx'
import { navigate, type Params } from '../router.ts'
import { isAdmin } from '../session.ts'
import { Grace } from './grace.tsx'
import { Setup, secretSchema, settingGroups, settingsSchema, stateOf, useProviders } from './sources.tsx'

interface At {
  readonly app_id: string
  readonly source_id: string
}

type Shown = 'change' | 'url' | 'secret'

/** One source: its URL, the events that arrived, and the requests that it refused. */
export function SourcePage({ params }: { params: Params }) {
  const at: At = { app_id: params.app ?? '', source_id: params.source ?? '' }
  const source = useAsk('GET /app/{app_id}/source/{source_id}', { path: at }, 3000)
  const app = useAsk('GET /app/{app_id}', { path: at })
  const providers = useProviders()
  const [shown, setShown] = useState<Shown>()
  const { data } = source
  if (source.error && data === undefined) {
    return (
      <Page title="Source" up={[['Sources', '/sources']]}>
        <Failure error={source.error} retry={source.refresh} />
      </Page>
    )
  }
  const provider = data === undefined ? undefined : providers.get(data.provider)
  if (data === undefined || provider === undefined) return <Loading />
  const close = () => {
    setShown(undefined)
    void source.refresh()
  }
  const setDisabled = async (disabled: boolean) => {
    const done = disabled ? 'Disabled: its URL answers 404.' : 'Enabled.'
    await act(() => call('PATCH /app/{app_id}/source/{source_id}', { path: at, body: { disabled } }), done)
    await source.refresh()
  }
  return (
    <Page
      title={data.name}
      up={[
        ['Sources', '/sources'],
        [app.data?.name ?? at.app_id, `/app/${at.app_id}`],
      ]}
      note={<Pill state={stateOf(data, provider)} />}
      actions={
        isAdmin() && (
          <>
            {data.disabled ? (
              <Button icon="play" kind="primary" onPress={() => setDisabled(false)}>
                Enable
              </Button>
            ) : (
              <Button icon="pause" onPress={() => setDisabled(true)}>
                Disable
              </Button>
            )}
            <Menu
              label="More actions"
              items={[
                { label: 'Change…', icon: 'settings', onPress: () => setShown('change') },
                { label: 'New URL…', icon: 'refresh', onPress: () => setShown('url') },
                ...(provider.secret === null
                  ? []
                  : [{ label: 'New secret…', icon: 'keys' as const, onPress: () => setShown('secret') }]),
                { label: 'Delete…', icon: 'dead', tone: 'bad', apart: true, onPress: () => removeSource(at, data) },
              ]}
            />
          </>
        )
      }
    >
      <p class="sub">
        <Id id={data.id} />
        <Tag>{provider.title}</Tag>
        {data.uid && <Tag>{data.uid}</Tag>}
      </p>
      <Arrivals source={data} />
      <div class="columns">
        <Section title="Set up" note={graceText(data)}>
          <div class="inside">
            <Setup source={data} provider={provider} />
          </div>
        </Section>
        <Section title="Settings">
          <Facts facts={settingFacts(data)} />
        </Section>
      </div>
      <Events at={at} id={data.id} />
      {isAdmin() && <Refused at={at} />}
      {shown === 'change' && <ChangeSource at={at} source={data} provider={provider} onClose={close} />}
      {shown === 'url' && <NewUrl at={at} provider={provider} onClose={close} />}
      {shown === 'secret' && <NewSecret at={at} provider={provider} onClose={close} />}
    </Page>
  )
}

function Arrivals({ source: { arrivals } }: { source: SourceOut }) {
  const { accepted, acceptedAt, refused, refusedAt, refusedInRow, refusedCode } = arrivals
  return (
    <div class="stats three">
      <Stat name="Accepted" value={figure(accepted)} note={<Ago at={acceptedAt} none="none yet" />} />
      <Stat name="Refused" value={figure(refused)} note={<Ago at={refusedAt} none="none yet" />} />
      <Stat
        name="Refused in a row"
        value={figure(refusedInRow)}
        tone={refusedInRow > 0 ? 'bad' : undefined}
        note={refusedInRow > 0 && refusedCode !== null ? capital(words(refusedCode)) : 'All is well'}
      />
    </div>
  )
}

/** Until when an old URL or an old secret still counts. */
function graceText({ tokens, secrets }: SourceOut): string | undefined {
  const until = (list: SourceOut['tokens']) => Math.max(0, ...list.map(({ expiresAt }) => toMs(expiresAt) ?? 0))
  const parts = [
    ['URL', until(tokens)],
    ['secret', until(secrets)],
  ] as const
  const text = parts
    .filter(([, at]) => at > 0)
    .map(([name, at]) => `the old ${name} works until ${localTime(at).slice(0, 16)}`)
    .join(', ')
  return text === '' ? undefined : capital(text)
}

function settingFacts({ settings, sensitiveSettings }: SourceOut) {
  const hidden = sensitiveSettings.map((name) => [nameOf(name), <span class="faint">set, not shown</span>] as const)
  const known = Object.entries(settings)
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => [nameOf(name), <Setting key={name} name={name} value={value} />] as const)
  return [...hidden, ...known]
}

/** The label of a setting without its unit, which the value has. */
function nameOf(setting: string): string {
  return labelOf(setting).replace(/ \(s\)$/, '')
}

function Setting({ name, value }: { name: string; value: unknown }) {
  if (isSeconds(name)) return <>{span(Number(value) * 1000)}</>
  return (
    <>
      {[value].flat().map((each) => (
        <div key={String(each)}>
          <code>{String(each)}</code>
        </div>
      ))}
    </>
  )
}

/** The newest events, which are messages of the application. */
function Events({ at, id }: { at: At; id: string }) {
  const path = { app_id: at.app_id }
  const query = { limit: 20, channel: id, with_content: false }
  const messages = useAsk('GET /app/{app_id}/msg', { path, query }, 3000)
  return (
    <Section title="Events" note="The newest 20">
      {messages.error && <Failure error={messages.error} retry={messages.refresh} />}
      <Table
        label="Events"
        columns={eventColumns}
        rows={messages.data?.data ?? []}
        keyOf={(message) => message.id}
        hrefOf={(message) => `/app/${at.app_id}/msg/${message.id}`}
        isLoading={messages.isLoading}
        empty={<Empty title="No events yet">They show here as soon as the provider sends one.</Empty>}
      />
    </Section>
  )
}

const eventColumns: Column<MessageOut>[] = [
  { name: 'Event type', width: 'minmax(0, 1.4fr)', cell: ({ eventType }) => eventType },
  { name: 'Id', width: 'minmax(0, 2fr)', narrow: 'hide', cell: ({ id }) => <code class="faint">{id}</code> },
  { name: 'Arrived', width: '100px', align: 'end', cell: ({ timestamp }) => <Ago at={timestamp} /> },
]

type Sample = ReturnType<typeof useSamples>['samples'][number]

function useSamples(at: At) {
  const asked = useAsk('GET /app/{app_id}/source/{source_id}/sample', { path: at }, 3000)
  return { ...asked, samples: asked.data?.data ?? [] }
}

/** The newest refused requests. */
function Refused({ at }: { at: At }) {
  const { samples, error, isLoading, refresh } = useSamples(at)
  const [opened, setOpened] = useState<Sample>()
  const columns: Column<Sample>[] = [
    {
      name: 'Reason',
      width: 'minmax(0, 3fr)',
      cell: ({ code, reason, unsampled }) => (
        <span class="two-lines">
          <span>{reason}</span>
          <span>
            {capital(words(code))}
            {unsampled > 0 && ` · ${count(unsampled, 'more request')} in the same second`}
          </span>
        </span>
      ),
    },
    { name: 'From', width: 'minmax(0, 1fr)', narrow: 'hide', cell: ({ address }) => address },
    { name: 'Time', width: '84px', align: 'end', narrow: 'hide', cell: (sample) => <Ago at={sample.at} /> },
    {
      name: 'Actions',
      width: '84px',
      align: 'end',
      cell: (sample) => <Button onPress={() => setOpened(sample)}>Show</Button>,
    },
  ]
  return (
    <Section title="Refused requests" note="A sample of the newest">
      {error && <Failure error={error} retry={refresh} />}
      <Table
        label="Refused requests"
        columns={columns}
        rows={samples}
        keyOf={(sample) => `${sample.at} ${sample.code} ${sample.address}`}
        rowHeight={56}
        isLoading={isLoading}
        empty={<Empty title="No refused requests">Requests that cannot be verified show here, with the reason.</Empty>}
      />
      {opened !== undefined && <SampleDialog sample={opened} onClose={() => setOpened(undefined)} />}
    </Section>
  )
}

function SampleDialog({ sample, onClose }: { sample: Sample; onClose(): void }) {
  const { at, reason, method, query, address, headers, body, bytes } = sample
  const text = new TextDecoder().decode(Uint8Array.from(atob(body), (character) => character.charCodeAt(0)))
  return (
    <Dialog title="Refused request" wide onClose={onClose}>
      <div class="body">
        <p>{reason}</p>
        <Facts
          facts={[
            ['Time', localTime(toMs(at) ?? 0)],
            ['Method', method],
            ['Parameters', query === '' ? 'none' : query],
            ['From', address],
            ['Body', bytes === null ? 'not read' : count(bytes, 'byte')],
          ]}
        />
        <Code
          text={Object.entries(headers)
            .map(([name, value]) => `${name}: ${value}`)
            .join('\n')}
          label="headers"
        />
        {text !== '' && <Code text={text} label="beginning of the body" />}
      </div>
    </Dialog>
  )
}

async function removeSource(at: At, { name, uid }: SourceOut): Promise<void> {
  const go = await confirm({
    title: `Delete ${name}?`,
    text: 'Its URL answers 404, so the provider loses its events. Messages that arrived stay. This cannot be undone.',
    action: 'Delete',
    kind: 'danger',
    typed: uid ?? name,
  })
  if (!go) return
  if (await act(() => call('DELETE /app/{app_id}/source/{source_id}', { path: at }), 'Deleted.')) navigate('/sources')
}

interface ChangeProps {
  readonly at: At
  readonly provider: SourceProviderOut
  onClose(): void
}

function ChangeSource({ at, source, provider, onClose }: ChangeProps & { readonly source: SourceOut }) {
  const schema = settingsSchema(provider)
  const isKept = (name: string) => source.sensitiveSettings.includes(name)
  return (
    <Dialog title="Change the source" wide onClose={onClose}>
      <Form
        schema={{
          ...schema,
          // A setting that is not shown stays as it is when it is left empty.
          required: ['name', ...(schema.required ?? []).filter((name) => !isKept(name))],
          properties: { ...schema.properties, name: { type: 'string', minLength: 1, maxLength: 256 } },
        }}
        groups={[{ fields: ['name'] }, ...settingGroups(provider)]}
        values={{ ...source.settings, name: source.name }}
        within="settings"
        action="Save"
        onCancel={onClose}
        onSave={async ({ name, ...settings }) => {
          const body = { name: String(name), settings }
          await call('PATCH /app/{app_id}/source/{source_id}', { path: at, body })
          say('Saved.')
          onClose()
        }}
      />
    </Dialog>
  )
}

/** A new URL; the old one works for a while. */
function NewUrl({ at, provider, onClose }: ChangeProps) {
  const [url, setUrl] = useState<string | null>()
  if (url !== undefined) {
    return (
      <Dialog title="New URL" onClose={onClose}>
        <div class="body">
          <p>Paste it at {provider.title} before the old one stops.</p>
          <Code text={url ?? ''} label="URL" />
        </div>
      </Dialog>
    )
  }
  return (
    <Dialog title="New URL" onClose={onClose}>
      <form
        onSubmit={async (event) => {
          event.preventDefault()
          const gracePeriodSeconds = Number(new FormData(event.currentTarget).get('grace'))
          await act(async () => {
            const rotated = await call('POST /app/{app_id}/source/{source_id}/token/rotate', {
              path: at,
              body: { gracePeriodSeconds },
            })
            setUrl(rotated.url)
          }, 'The URL is changed.')
        }}
      >
        <div class="body">
          <p>For a URL that became known, or from time to time. You paste the new one at {provider.title}.</p>
          <Grace of="URL" usual="two days" />
        </div>
        <footer>
          <Button onPress={onClose}>Cancel</Button>
          <Button type="submit" kind="primary">
            Make a new URL
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}

/** A new secret; requests that are signed with the old one are accepted for a while. */
function NewSecret({ at, provider, onClose }: ChangeProps) {
  const [made, setMade] = useState<string>()
  const { secret } = provider
  const isGiven = secret?.origin === 'given'
  const { minLength = 1, description } = secretSchema(provider)
  return (
    <Dialog title="New secret" onClose={onClose}>
      {made !== undefined ? (
        <div class="body">
          <p>Paste it at {provider.title}. It is shown only now.</p>
          <Code text={made} label="secret" />
        </div>
      ) : (
        <form
          onSubmit={async (event) => {
            event.preventDefault()
            const form = new FormData(event.currentTarget)
            const written = String(form.get('secret')).trim()
            const body = { gracePeriodSeconds: Number(form.get('grace')), ...(written !== '' && { secret: written }) }
            await act(async () => {
              const rotated = await call('POST /app/{app_id}/source/{source_id}/secret/rotate', { path: at, body })
              if (rotated.secret === null) onClose()
              else setMade(rotated.secret)
            }, 'The secret is changed.')
          }}
        >
          <div class="body">
            <label class="field">
              <span class="label">
                {secret?.name}
                {!isGiven && <span class="optional">optional</span>}
              </span>
              <input
                name="secret"
                type="text"
                required={isGiven}
                minLength={minLength}
                maxLength={512}
                autocomplete="off"
                spellcheck={false}
              />
              <span class="hint">{description}</span>
            </label>
            <Grace of="secret" usual="two days" />
          </div>
          <footer>
            <Button onPress={onClose}>Cancel</Button>
            <Button type="submit" kind="primary">
              Change
            </Button>
          </footer>
        </form>
      )}
    </Dialog>
  )
}
