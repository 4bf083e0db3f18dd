import { useState } from 'preact/hooks'
import { pageItems } from '../../../src/domain/api.ts'
import { useAsk, usePages } from '../api/ask.ts'
import { call } from '../api/call.ts'
import { type Live, useLive } from '../api/live.ts'
import type { LaneOut, MessageAttemptOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button, Id } from '../parts/button.tsx'
import { Menu } from '../parts/menu.tsx'
import { Empty, Failure, Loading, Page, Section, Segmented } from '../parts/page.tsx'
import { Pill, Status, Tag } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { shortUrl, span, words } from '../parts/text.ts'
import { Ago } from '../parts/time.tsx'
import { type Params, query, setQuery } from '../router.ts'
import { mayManage, maySendAgain } from '../session.ts'
import { endpointMenu, useEndpointDialogs } from './endpoint-actions.tsx'
import { EndpointSettings } from './endpoint-settings.tsx'
import { EndpointCharts } from './history.tsx'
import { LanePicture } from './lane.tsx'
import { useNews, useRepeat } from './use-repeat.ts'

type View = 'attempts' | 'settings'

/** One endpoint: why its deliveries wait, its lane, its attempts and its settings. */
export function EndpointPage({ params }: { params: Params }) {
  const at = { app_id: params.app ?? '', endpoint_id: params.endpoint ?? '' }
  const endpoint = useAsk('GET /app/{app_id}/endpoint/{endpoint_id}', { path: at }, 5000)
  const why = useAsk('GET /app/{app_id}/endpoint/{endpoint_id}/why', { path: at }, 2000)
  const lane = useAsk('GET /app/{app_id}/endpoint/{endpoint_id}/lane', { path: at }, 5000)
  const live = useLive({ app: at.app_id, endpoint: at.endpoint_id })
  const app = useAsk('GET /app/{app_id}', { path: at })
  const dialogs = useEndpointDialogs(at)
  const view = (query.value.get('view') ?? 'attempts') as View
  const known = endpoint.data
  const shownLane = latest(live.lane, lane.data)

  if (endpoint.error && known === undefined) {
    return (
      <Page title="Endpoint" up={[['Endpoints', '/endpoints']]}>
        <Failure error={endpoint.error} retry={endpoint.refresh} />
      </Page>
    )
  }
  if (known === undefined) return <Loading />

  const refresh = async () => {
    await Promise.all([endpoint.refresh(), why.refresh(), lane.refresh()])
  }
  const run = async (operation: 'pause' | 'resume', done: string) => {
    await act(() => call(`POST /app/{app_id}/endpoint/{endpoint_id}/${operation}`, { path: at }), done)
    await refresh()
  }

  return (
    <Page
      title={shortUrl(known.url)}
      up={[
        ['Endpoints', '/endpoints'],
        [app.data?.name ?? at.app_id, `/app/${at.app_id}`],
      ]}
      note={<Pill state={shownLane?.state ?? known.state} />}
      actions={
        <>
          {mayManage() &&
            (known.paused ? (
              <Button icon="play" kind="primary" onPress={() => run('resume', 'Resumed.')}>
                Resume
              </Button>
            ) : (
              <Button icon="pause" onPress={() => run('pause', 'Paused. Deliveries wait.')}>
                Pause
              </Button>
            ))}
          {maySendAgain() && (
            <Button icon="send" onPress={() => dialogs.open('test')}>
              Send test event
            </Button>
          )}
          <Menu label="More actions" items={endpointMenu(known, shownLane, at, dialogs.open, refresh)} />
        </>
      }
    >
      <p class="sub">
        <Id id={known.id} />
        {known.uid && <Tag>{known.uid}</Tag>}
        {known.description && <span class="soft">{known.description}</span>}
      </p>
      {known.damaged.length > 0 && (
        <p class="callout" data-tone="bad">
          The stored {known.damaged.join(' and ')} cannot be opened. Rotate the secret, or replace the headers.
        </p>
      )}
      <section class="card why" aria-label="State">
        <div class="sentence">
          <p>{why.data?.detail ?? ' '}</p>
          {why.data?.warning && <p class="problem">{why.data.warning}</p>}
          {why.data && why.data.blockers.length > 1 && (
            <ul>
              {why.data.blockers.slice(1).map(({ reason, detail }) => (
                <li key={reason}>{detail}</li>
              ))}
            </ul>
          )}
          <p class="when">{why.data && why.data.waiting.total > 0 && why.data.forecast.sentence}</p>
        </div>
        {shownLane && why.data && <LanePicture lane={shownLane} why={why.data} />}
      </section>
      <EndpointCharts app={at.app_id} endpoint={known.id} />
      <div class="toolbar">
        <Segmented<View>
          label="View"
          value={view}
          choices={[
            ['attempts', 'Attempts'],
            ['settings', 'Settings'],
          ]}
          onChange={(next) => setQuery({ view: next === 'attempts' ? undefined : next })}
        />
      </div>
      {view === 'attempts' ? (
        <Attempts at={at} live={live} hrefOf={({ msgId, id }) => `/app/${at.app_id}/msg/${msgId}?attempt=${id}`} />
      ) : (
        <EndpointSettings endpoint={known} at={at} onChange={refresh} openDialog={dialogs.open} />
      )}
      {dialogs.render(known, refresh)}
    </Page>
  )
}

/** The newer of two readings: the stream's, and the one that was asked for after an action. */
function latest(a: LaneOut | undefined, b: LaneOut | undefined): LaneOut | undefined {
  if (a === undefined || b === undefined) return a ?? b
  return Date.parse(a.asOf) > Date.parse(b.asOf) ? a : b
}

export interface EndpointPath {
  readonly app_id: string
  readonly endpoint_id: string
}

interface AttemptsProps {
  readonly at: EndpointPath
  /** The stream of the endpoint: an attempt in it shows at once. */
  readonly live: Live
  hrefOf(attempt: MessageAttemptOut): string
}

/** The latest attempts at the endpoint. */
export function Attempts({ at, live, hrefOf }: AttemptsProps) {
  const [status, setStatus] = useState<'all' | '2'>('all')
  const list = usePages<MessageAttemptOut>(`${at.endpoint_id} ${status}`, (iterator) =>
    call('GET /app/{app_id}/attempt/endpoint/{endpoint_id}', {
      path: at,
      query: {
        limit: pageItems.usual,
        with_msg: true,
        with_content: false,
        ...(status !== 'all' && { status: Number(status) }),
        ...(iterator !== undefined && { iterator }),
      },
    }),
  )
  // A reader who has scrolled keeps the rows. The stream has the attempts of one process: the others are asked for.
  const isAtTop = list.rows.length <= pageItems.usual
  useRepeat(list.refresh, isAtTop ? 3000 : undefined)
  useNews(list.refresh, isAtTop ? live.attempts[0]?.id : undefined)
  return (
    <Section
      title="Attempts"
      actions={
        <Segmented<'all' | '2'>
          label="Result"
          value={status}
          choices={[
            ['all', 'All'],
            ['2', 'Failed'],
          ]}
          onChange={setStatus}
        />
      }
    >
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      <Table
        label="Attempts"
        columns={attemptColumns}
        rows={list.rows}
        keyOf={({ id }) => id}
        hrefOf={hrefOf}
        onEnd={list.more}
        isLoading={list.isLoading}
        empty={
          <Empty title="No attempts yet">
            Attempts show here as soon as a message is delivered. “Send test event” makes one.
          </Empty>
        }
      />
    </Section>
  )
}

const attemptColumns: Column<MessageAttemptOut>[] = [
  { name: 'Event type', width: 'minmax(0, 1.2fr)', cell: ({ msg, msgId }) => msg?.eventType ?? msgId },
  { name: 'Answer', width: '60px', cell: ({ responseStatusCode }) => <Status code={responseStatusCode} /> },
  {
    name: 'Problem',
    width: 'minmax(0, 1.8fr)',
    narrow: 'hide',
    cell: ({ code, error }) => (code === 'delivered' ? '' : <span title={error ?? ''}>{error ?? words(code)}</span>),
  },
  {
    name: 'Message',
    width: 'minmax(0, 1.4fr)',
    narrow: 'hide',
    cell: ({ msgId }) => <code class="faint">{msgId}</code>,
  },
  { name: 'Try', width: '32px', align: 'end', narrow: 'hide', cell: ({ attempt }) => attempt },
  {
    name: 'Took',
    width: '64px',
    align: 'end',
    narrow: 'hide',
    cell: ({ responseDurationMs }) => span(responseDurationMs),
  },
  { name: 'When', width: '80px', align: 'end', cell: ({ timestamp }) => <Ago at={timestamp} /> },
]
