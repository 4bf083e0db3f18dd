import { useState } from 'preact/hooks'
import { useAsk } from '../api/ask.ts'
import { call } from '../api/call.ts'
import { type Live, useLive } from '../api/live.ts'
import type { EndpointOut } from '../api/schema.ts'
import { Credentials } from '../pages/credentials.tsx'
import { Attempts, type EndpointPath } from '../pages/endpoint.tsx'
import { TestDialog } from '../pages/endpoint-actions.tsx'
import { chosenRange, EndpointCharts, useHistory } from '../pages/history.tsx'
import { ReplayDialog } from '../pages/replay-dialog.tsx'
import { TaskProgress } from '../pages/task-progress.tsx'
import { useNews } from '../pages/use-repeat.ts'
import { act } from '../parts/act.ts'
import { Button, Id } from '../parts/button.tsx'
import { confirm } from '../parts/dialog.tsx'
import { Menu, type MenuItem } from '../parts/menu.tsx'
import { Facts, Failure, Loading, Page, Section, Segmented, Stat } from '../parts/page.tsx'
import { figure, share, shortUrl, span, waitingFigure } from '../parts/text.ts'
import { Ago } from '../parts/time.tsx'
import { say } from '../parts/toast.tsx'
import { navigate, type Params, query, setQuery } from '../router.ts'
import { mayManage, maySendAgain } from '../session.ts'
import { EndpointForm } from './endpoint-form.tsx'
import { EndpointState, eventsOf } from './endpoints.tsx'
import { ownApp } from './portal-session.ts'
import { SignatureView } from './signature.tsx'

type View = 'activity' | 'settings' | 'signature'
const up = [['Endpoints', '/portal']] as const

/** One endpoint: how it does, its attempts, its settings and its signature. */
export function EndpointPage({ params }: { params: Params }) {
  const at = { app_id: ownApp(), endpoint_id: params.endpoint ?? '' }
  const endpoint = useAsk('GET /app/{app_id}/endpoint/{endpoint_id}', { path: at }, 4000)
  const why = useAsk('GET /app/{app_id}/endpoint/{endpoint_id}/why', { path: at }, 3000)
  const live = useLive({ app: at.app_id, endpoint: at.endpoint_id })
  useNews(why.refresh, live.attempts[0]?.id)
  const [dialog, setDialog] = useState<'test' | 'replay'>()
  const [replay, setReplay] = useState<string>()
  const view = (query.value.get('view') ?? 'activity') as View
  const known = endpoint.data
  if (known === undefined) {
    if (endpoint.error === undefined) return <Loading />
    return (
      <Page title="Endpoint" up={up}>
        <Failure error={endpoint.error} retry={endpoint.refresh} />
      </Page>
    )
  }
  const refresh = async () => {
    await Promise.all([endpoint.refresh(), why.refresh()])
  }
  const close = () => setDialog(undefined)
  return (
    <Page
      title={shortUrl(known.url)}
      up={up}
      note={<EndpointState endpoint={known} />}
      actions={<Actions endpoint={known} at={at} refresh={refresh} open={setDialog} />}
    >
      <p class="sub">
        <Id id={known.id} />
        {known.description && <span class="soft">{known.description}</span>}
        <span class="soft">{eventsOf(known.eventTypes)}</span>
      </p>
      {why.data && why.data.waiting.total > 0 && (
        <p class="callout" data-tone={known.state === 'active' ? 'info' : 'wait'}>
          {known.state === 'circuit_open' ? (
            <>
              It failed again and again, so its deliveries wait. The next one is tried{' '}
              <Ago at={why.data.nextAt} none="soon" />.
            </>
          ) : (
            why.data.detail
          )}
        </p>
      )}
      {replay !== undefined && dialog !== 'replay' && (
        <Section title="Sending again">
          <div class="inside">
            <TaskProgress key={replay} app={at.app_id} task={replay} />
          </div>
        </Section>
      )}
      <div class="toolbar">
        <Segmented<View>
          label="View"
          value={view}
          choices={[
            ['activity', 'Activity'],
            ['settings', 'Settings'],
            ['signature', 'Signature'],
          ]}
          onChange={(next) => setQuery({ view: next === 'activity' ? undefined : next })}
        />
      </div>
      {view === 'activity' && <Activity at={at} live={live} waiting={why.data?.waiting} />}
      {view === 'settings' && <Settings endpoint={known} at={at} onChange={refresh} />}
      {view === 'signature' && <SignatureView at={at} />}
      {dialog === 'test' && <TestDialog at={at} endpoint={known} onClose={close} onDone={refresh} />}
      {dialog === 'replay' && <ReplayDialog at={at} onClose={close} onStarted={setReplay} onEnd={refresh} />}
    </Page>
  )
}

interface ActionsProps {
  readonly endpoint: EndpointOut
  readonly at: EndpointPath
  refresh(): Promise<void>
  open(dialog: 'test' | 'replay'): void
}

function Actions({ endpoint, at, refresh, open }: ActionsProps) {
  const run = async (work: () => Promise<unknown>, done: string) => {
    await act(work, done)
    await refresh()
  }
  const items: MenuItem[] = []
  if (maySendAgain()) items.push({ label: 'Send again since…', icon: 'refresh', onPress: () => open('replay') })
  if (mayManage()) {
    const disabled = !endpoint.disabled
    items.push(
      {
        label: disabled ? 'Disable' : 'Enable',
        icon: disabled ? 'close' : 'play',
        onPress: () =>
          run(
            () => call('PATCH /app/{app_id}/endpoint/{endpoint_id}', { path: at, body: { disabled } }),
            disabled ? 'Disabled.' : 'Enabled. Waiting messages are sent.',
          ),
      },
      {
        label: 'Delete…',
        icon: 'dead',
        tone: 'bad',
        apart: true,
        async onPress() {
          const go = await confirm({
            title: 'Delete this endpoint?',
            text: `${endpoint.url} gets nothing more, and deliveries that wait for it are cancelled. This cannot be undone.`,
            action: 'Delete',
            kind: 'danger',
          })
          if (!go) return
          const done = await act(() => call('DELETE /app/{app_id}/endpoint/{endpoint_id}', { path: at }), 'Deleted.')
          if (done) navigate('/portal')
        },
      },
    )
  }
  return (
    <>
      {mayManage() &&
        (endpoint.paused ? (
          <Button
            icon="play"
            kind="primary"
            onPress={() =>
              run(
                () => call('POST /app/{app_id}/endpoint/{endpoint_id}/resume', { path: at }),
                'Resumed. Waiting messages are sent.',
              )
            }
          >
            Resume
          </Button>
        ) : (
          <Button
            icon="pause"
            onPress={() =>
              run(
                () => call('POST /app/{app_id}/endpoint/{endpoint_id}/pause', { path: at }),
                'Paused. New messages wait.',
              )
            }
          >
            Pause
          </Button>
        ))}
      {maySendAgain() && (
        <Button icon="send" onPress={() => open('test')}>
          Send test event
        </Button>
      )}
      <Menu label="More actions" items={items} />
    </>
  )
}

interface ActivityProps {
  readonly at: EndpointPath
  readonly live: Live
  readonly waiting: { total: number; isExact: boolean } | undefined
}

/** Figures, charts and attempts. */
function Activity({ at, live, waiting }: ActivityProps) {
  const { data } = useHistory({ app: at.app_id, endpoint: at.endpoint_id })
  const totals = data?.totals
  const attempts = totals === undefined ? 0 : totals.delivered + totals.failed
  const ok = attempts === 0 || totals === undefined ? undefined : totals.delivered / attempts
  const range = { '15m': '15 min', '1h': '1 h', '24h': '24 h', '7d': '7 d' }[chosenRange()]
  return (
    <>
      <div class="stats">
        <Stat name="Delivered" value={figure(totals?.delivered)} note={`last ${range}`} />
        <Stat
          name="Failed attempts"
          value={figure(totals?.failed)}
          note={`last ${range}`}
          tone={(totals?.failed ?? 0) > 0 ? 'bad' : undefined}
        />
        <Stat name="Success" value={share(ok)} note="of attempts" tone={(ok ?? 1) < 0.9 ? 'wait' : undefined} />
        <Stat name="Time to answer" value={span(totals?.latencyMs.p95)} note="95 % are faster" />
        <Stat name="Waiting" value={waiting === undefined ? '–' : waitingFigure(waiting)} note="now" />
      </div>
      <EndpointCharts app={at.app_id} endpoint={at.endpoint_id} />
      <Attempts at={at} live={live} hrefOf={({ msgId, id }) => `/portal/message/${msgId}?attempt=${id}`} />
    </>
  )
}

function Settings({ endpoint, at, onChange }: { endpoint: EndpointOut; at: EndpointPath; onChange(): Promise<void> }) {
  // As they were when the form was shown: the text of the user stays.
  const [known] = useState(endpoint)
  const credentials = <Credentials endpoint={endpoint} at={at} onChange={onChange} />
  if (!mayManage()) {
    return (
      <>
        <Section title="Settings" note="This link may only look.">
          <Facts
            facts={[
              ['URL', endpoint.url],
              ['Description', endpoint.description || '–'],
              ['Events', endpoint.eventTypes?.join(', ') ?? 'All events'],
              ['Requests per second', endpoint.throttleRate ?? 'The usual limit'],
            ]}
          />
        </Section>
        {credentials}
      </>
    )
  }
  return (
    <>
      <EndpointForm
        values={known}
        action="Save changes"
        onSave={async ({ url, description, eventTypes, throttleRate }) => {
          await call('PATCH /app/{app_id}/endpoint/{endpoint_id}', {
            path: at,
            body: { url, description, throttleRate, eventTypes: eventTypes && [...eventTypes] },
          })
          say('Saved.')
          await onChange()
        }}
      />
      {credentials}
    </>
  )
}
