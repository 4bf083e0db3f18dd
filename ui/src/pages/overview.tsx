import { useState } from 'preact/hooks'
import { age } from '../../../src/domain/phrases.ts'
import { useAsk } from '../api/ask.ts'
import { silentSince } from '../api/heard.ts'
import { type Live, useLive } from '../api/live.ts'
import type { HistoryOut, LiveAttemptOut } from '../api/schema.ts'
import { Empty, Page, Section, Stat } from '../parts/page.tsx'
import { Status } from '../parts/pill.tsx'
import { brief, exact, figure, perSecond, share, waitingFigure } from '../parts/text.ts'
import { Ago } from '../parts/time.tsx'
import { Findings } from './findings.tsx'
import { chosenRange, ServerCharts, useHistory } from './history.tsx'

/** The page for the engineer on call: figures, findings with their remedies, and the latest attempts. */
export function OverviewPage() {
  const live = useLive()
  const history = useHistory()
  const doctor = useAsk('GET /doctor', {}, 5000)
  return (
    <Page title="Overview" note={<Connection live={live} />}>
      <Stats live={live} history={history.data} />
      {history.data === undefined ? <div class="charts-place" /> : <ServerCharts history={history.data} />}
      <div class="columns main-side">
        <Findings doctor={doctor} />
        <Feed live={live} />
      </div>
    </Page>
  )
}

function Connection({ live: { isConnected, overview } }: { live: Live }) {
  if (silentSince.value !== undefined) {
    return (
      <span class="pill" data-tone="bad">
        No answer
      </span>
    )
  }
  if (overview !== undefined && !overview.storeUp) {
    return (
      <span class="pill" data-tone="bad">
        The store does not answer
      </span>
    )
  }
  return (
    <span class="pill soft" data-tone={isConnected ? 'good' : 'quiet'}>
      {isConnected ? 'Live' : 'Connecting'}
    </span>
  )
}

/** The figures of now, and of the time that the charts cover. */
function Stats({ live: { overview }, history }: { live: Live; history: HistoryOut | undefined }) {
  const { perSecond: rates, waiting, workers, circuits } = overview ?? {}
  const totals = history?.totals
  const attempts = totals === undefined ? 0 : totals.delivered + totals.failed
  const saturation = workers === undefined || workers.limit === 0 ? undefined : workers.inFlight / workers.limit
  const range = chosenRange().replace('m', ' min').replace('h', ' h').replace('d', ' d')
  return (
    <div class="stats wide">
      <Stat name="Events in" value={perSecond(rates?.accepted)} />
      <Stat name="Delivered" value={perSecond(rates?.delivered)} note={`${perSecond(rates?.failed)} failed`} />
      <Stat
        name="Success"
        value={attempts === 0 || totals === undefined ? '–' : share(totals.delivered / attempts)}
        note={range}
      />
      <Stat
        name="Waiting"
        value={waiting == null ? '–' : waitingFigure(waiting)}
        note={waiting == null ? undefined : waiting.behind === 0 ? 'none behind' : `${figure(waiting.behind)} behind`}
        tone={waiting != null && waiting.behind > 0 ? 'wait' : undefined}
        href="/endpoints?sort=waiting"
      />
      <Stat
        name="Oldest due"
        value={waiting == null || waiting.total === 0 ? '–' : age(waiting.oldestDueMs)}
        tone={waiting != null && waiting.oldestDueMs > 60_000 ? 'wait' : undefined}
        href="/endpoints?sort=oldest"
      />
      <Stat
        name="p95 wait"
        value={brief(totals?.waitMs.p95)}
        note={range}
        tone={(totals?.waitMs.p95 ?? 0) > 30_000 ? 'wait' : undefined}
      />
      <Stat
        name="In flight"
        value={figure(workers?.inFlight)}
        note={saturation === undefined ? undefined : `${share(saturation)} of ${exact(workers?.limit ?? 0)}`}
        tone={(saturation ?? 0) > 0.97 ? 'bad' : (saturation ?? 0) > 0.85 ? 'wait' : undefined}
        href="/workers"
      />
      <Stat
        name="Open circuits"
        value={circuits == null ? '–' : figure(circuits.open + circuits.halfOpen)}
        tone={circuits != null && circuits.open > 0 ? 'bad' : undefined}
        href="/endpoints?sort=failing"
      />
      <Stat
        name="Dead letters"
        value={figure(totals?.dead)}
        note={range}
        tone={(totals?.dead ?? 0) > 0 ? 'bad' : undefined}
        href="/dead"
      />
    </div>
  )
}

/** Attempts as they end. While the pointer rests on it, it stands still. */
function Feed({ live: { attempts, overview } }: { live: Live }) {
  const [held, setHeld] = useState<readonly LiveAttemptOut[]>()
  const shown = (held ?? attempts).slice(0, 14)
  const feed = overview?.feed
  return (
    <Section
      title="Attempts"
      note={
        held !== undefined
          ? 'held'
          : feed !== undefined && feed.of > feed.shown
            ? `${feed.shown} of ${feed.of} shown`
            : undefined
      }
    >
      {shown.length === 0 ? (
        <Empty title="Quiet">Attempts show here as they end.</Empty>
      ) : (
        <ul class="feed" onPointerEnter={() => setHeld(attempts)} onPointerLeave={() => setHeld(undefined)}>
          {shown.map(({ id, appId, msgId, eventType, endpointUid, endpointId, responseStatusCode, timestamp }) => (
            <li key={id}>
              <a href={`/app/${appId}/msg/${msgId}`}>
                <Status code={responseStatusCode} />
                <span class="two-lines">
                  <span>{eventType}</span>
                  <span>{endpointUid ?? endpointId}</span>
                </span>
                <span class="faint">
                  <Ago at={timestamp} />
                </span>
              </a>
            </li>
          ))}
        </ul>
      )}
    </Section>
  )
}
