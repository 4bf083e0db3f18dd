import { useState } from 'preact/hooks'
import { useAsk } from '../api/ask.ts'
import { call } from '../api/call.ts'
import type { MessageOut, SourceOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button, Id } from '../parts/button.tsx'
import { Code } from '../parts/code.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { isSeconds, labelOf } from '../parts/form.tsx'
import { Menu } from '../parts/menu.tsx'
import { Empty, Facts, Failure, Loading, Page, Section, Stat } from '../parts/page.tsx'
import { Pill, Tag } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { capital, count, figure, localTime, span, words } from '../parts/text.ts'
import { Ago, toMs } from '../parts/time.tsx'
import type { Params } from '../router.ts'
import { isAdmin } from '../session.ts'
import { type At, ChangeSource, NewSecret, NewUrl, removeSource } from './source-dialogs.tsx'
import { Setup, stateOf, useProviders } from './sources.tsx'

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
