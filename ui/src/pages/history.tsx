import type { ComponentChildren } from 'preact'
import { useMemo } from 'preact/hooks'
import { type Asked, useAsk } from '../api/ask.ts'
import type { HistoryOut } from '../api/schema.ts'
import { Chart, type Series } from '../parts/chart.tsx'
import { Section, Segmented } from '../parts/page.tsx'
import { brief, perSecond } from '../parts/text.ts'
import { query, setQuery } from '../router.ts'

const ranges = [
  ['15m', '15 min'],
  ['1h', '1 h'],
  ['24h', '24 h'],
  ['7d', '7 d'],
] as const
export type Range = (typeof ranges)[number][0]

/** The time that the charts of the page cover; it is kept in the address. */
export function chosenRange(): Range {
  const wanted = query.value.get('range')
  return ranges.find(([range]) => range === wanted)?.[0] ?? '1h'
}

function RangeSwitch() {
  return (
    <Segmented<Range>
      label="Time"
      value={chosenRange()}
      choices={ranges}
      onChange={(next) => setQuery({ range: next === '1h' ? undefined : next })}
    />
  )
}

interface Scope {
  readonly app?: string
  readonly endpoint?: string
}

/** Short times are read often: each minute is still being counted. */
const everyMs: Readonly<Record<Range, number>> = { '15m': 5000, '1h': 10_000, '24h': 60_000, '7d': 60_000 }

/** The history of the server, of an application or of an endpoint. */
export function useHistory(scope: Scope = {}): Asked<HistoryOut> {
  const range = chosenRange()
  return useAsk('GET /history', { query: { ...scope, range } }, everyMs[range])
}

type Counter =
  | 'accepted'
  | 'delivered'
  | 'failed'
  | 'dead'
  | 'status2xx'
  | 'status3xx'
  | 'status4xx'
  | 'status5xx'
  | 'statusNone'

/** A chart of counters, as rates. */
function Rates({
  title,
  history,
  lines,
}: {
  title: string
  history: HistoryOut
  lines: readonly (readonly [counter: Counter, name: string, colour: string])[]
}) {
  const times = useTimes(history)
  const series = useMemo(
    () =>
      lines.map(
        ([counter, name, colour], i): Series => ({
          name,
          colour,
          values: history.series[counter].slice(0, -1).map((count) => count / history.stepSeconds),
          area: i === 0,
        }),
      ),
    [history],
  )
  return <Chart title={title} times={times} series={series} format={perSecond} />
}

const [second, minute, hour] = [1000, 60_000, 3_600_000]
/** In milliseconds, up to weeks. */
const durationSteps = [
  ...[0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((n) => n * second),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * minute),
  ...[1, 2, 6, 12, 24, 72, 168].map((n) => n * hour),
]

/** A chart of durations: median, 95 % and 99 %. */
function Durations({ title, history, of }: { title: string; history: HistoryOut; of: 'waitMs' | 'latencyMs' }) {
  const times = useTimes(history)
  const series = useMemo((): Series[] => {
    const { p50, p95, p99 } = history.series[of]
    return [
      { name: 'p50', colour: '--chart-3', values: p50.slice(0, -1) },
      { name: 'p95', colour: '--info', values: p95.slice(0, -1) },
      { name: 'p99', colour: '--chart-2', values: p99.slice(0, -1) },
    ]
  }, [history, of])
  return <Chart title={title} times={times} series={series} format={brief} steps={durationSteps} />
}

/** The start of each point. The last one is still being counted, and is left out: it would read as a fall. */
function useTimes({ since, stepSeconds, series }: HistoryOut): readonly number[] {
  const points = series.delivered.length - 1
  return useMemo(() => {
    const start = Date.parse(since) / 1000
    return Array.from({ length: points }, (_, i) => start + i * stepSeconds)
  }, [since, stepSeconds, points])
}

function Charts({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <Section title={title} actions={<RangeSwitch />}>
      <div class="charts">{children}</div>
    </Section>
  )
}

/** The whole server: events, deliveries and waits over time. */
export function ServerCharts({ history }: { history: HistoryOut }) {
  return (
    <Charts title="Traffic">
      <Rates
        title="Events and deliveries"
        history={history}
        lines={[
          ['delivered', 'delivered', '--good'],
          ['accepted', 'accepted', '--info'],
          ['failed', 'failed', '--bad'],
        ]}
      />
      <Durations title="Wait before the first attempt" history={history} of="waitMs" />
    </Charts>
  )
}

export function ApplicationCharts({ app }: { app: string }) {
  const { data } = useHistory({ app })
  return data === undefined ? <div class="charts-place" /> : <ServerCharts history={data} />
}

/** One endpoint: its receiver's answers, and how fast they came. */
export function EndpointCharts({ app, endpoint }: { app: string; endpoint: string }) {
  const { data } = useHistory({ app, endpoint })
  if (data === undefined) return <div class="charts-place" />
  return (
    <Charts title="Receiver">
      <Rates
        title="Answers"
        history={data}
        lines={[
          ['status2xx', '2xx', '--good'],
          ['status3xx', '3xx', '--chart-3'],
          ['status4xx', '4xx', '--wait'],
          ['status5xx', '5xx', '--bad'],
          ['statusNone', 'none', '--quiet'],
        ]}
      />
      <Durations title="Time to answer" history={data} of="latencyMs" />
    </Charts>
  )
}
