import { type Static, Type } from 'typebox'
import { AppError, noSuch } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { decodeKey } from '../../domain/ids.ts'
import { Turns } from '../../domain/turns.ts'
import { type Caller, viewShared } from '../../operations/access.ts'
import { dateTime, described, Instant, iso, nullable, optional, text, whole } from '../../operations/fields.ts'
import { appKeyOf, isRef } from '../../operations/lookup.ts'
import { type Noun, type Out, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import { readInstants, refuseIf } from '../../operations/validate.ts'
import { type Endpoint, managementApplication } from '../endpoints/rules.ts'
import {
  hourMs,
  latestSteps,
  longestSeriesMs,
  pointsLimit,
  type ShownCounter,
  type Sketch,
  type Steps,
  Sums,
  serverScope,
  shownCounters,
  stepsBetween,
} from './rules.ts'
import type { HistoryPlace, HistoryRange, ReadHistory } from './store.ts'

const dayMs = 24 * hourMs
const ranges = { '15m': hourMs / 4, '1h': hourMs, '24h': dayMs, '7d': 7 * dayMs, '90d': 90 * dayMs } as const
const sparkRanges = { '24h': dayMs, '7d': 7 * dayMs } as const
type Range = keyof typeof ranges

/** Rows read in one turn. With a count in every bucket of both sketches, 100 take SQLite and this process 2 ms. */
const rowsAtOnce = 100
const sparklinesLimit = 100
/** Endpoints that are looked up, or whose hours are read, in one turn: the hours of a week take 4 ms. */
const endpointsAtOnce = 10

type HistoryServices = Pick<Services, 'store' | 'clock'>

const appRef = optional(Type.String({ maxLength: 256 }), 'Application, by id or uid.')

const HistoryQuery = Type.Object({
  app: appRef,
  endpoint: optional(Type.String({ maxLength: 256 }), 'Endpoint, by id, or with an application also by uid.'),
  range: optional(Type.Enum(Object.keys(ranges) as Range[]), 'Length of the time up to now; 1h by default.'),
  since: optional(dateTime, 'From this instant on, instead of `range`.'),
  until: optional(dateTime, 'Before this instant; now by default. With `since` only.'),
})

const SparklineQuery = Type.Object({
  app: appRef,
  endpoint: described(
    Type.Array(Type.String({ maxLength: 256 }), { minItems: 1, maxItems: sparklinesLimit }),
    'Endpoints, each by id, or with an application also by uid.',
  ),
  range: optional(Type.Enum(Object.keys(sparkRanges) as (keyof typeof sparkRanges)[]), '24h by default.'),
})

const counts = (description: string) => Type.Array(Type.Integer(), { description })
const quantiles = (description: string) => Type.Array(nullable(Type.Number()), { description })
const Quantiles = Type.Object({ p50: quantiles('Median.'), p95: quantiles('95 %.'), p99: quantiles('99 %.') })
const total = (description: string) => nullable(Type.Number({ description }))
const TotalQuantiles = Type.Object({ p50: total('Median.'), p95: total('95 %.'), p99: total('99 %.') })

const meanings: Readonly<Record<ShownCounter, string>> = {
  accepted: 'Messages accepted; always 0 for an endpoint.',
  delivered: 'Deliveries that succeeded.',
  failed: 'Attempts that failed.',
  dead: 'Deliveries that became dead letters, apart from expired and dropped ones.',
  coalesced: 'Deliveries that a newer one replaced.',
  dropped: 'Deliveries dropped because too many waited or the endpoint was disabled.',
  expired: 'Deliveries whose message expired.',
  status2xx: 'Attempts answered 2xx.',
  status3xx: 'Attempts answered 3xx.',
  status4xx: 'Attempts answered 4xx.',
  status5xx: 'Attempts answered 5xx.',
  statusNone: 'Attempts without an answer.',
  arrived: 'Deliveries that began to wait.',
}

function perCounter<T>(make: (name: ShownCounter) => T): Record<ShownCounter, T> {
  return Object.fromEntries(shownCounters.map((name) => [name, make(name)])) as Record<ShownCounter, T>
}

const waitMeaning = 'From when a delivery was due to its first attempt, in milliseconds; null without one.'
const latencyMeaning = 'Duration of attempts, in milliseconds; null without one.'

const HistoryOut = Type.Object({
  since: described(Instant, 'Start of the first point.'),
  until: described(Instant, 'End of the last point.'),
  stepSeconds: whole('Seconds per point.'),
  series: Type.Object(
    {
      ...perCounter((name) => counts(meanings[name])),
      waiting: quantiles('Waiting deliveries, in the mean of the time; null where none were counted.'),
      waitMs: described(Quantiles, waitMeaning),
      latencyMs: described(Quantiles, latencyMeaning),
    },
    { description: 'One value per point.' },
  ),
  totals: Type.Object(
    {
      ...perCounter((name) => whole(meanings[name])),
      waitMs: described(TotalQuantiles, waitMeaning),
      latencyMs: described(TotalQuantiles, latencyMeaning),
    },
    { description: 'Quantiles of the whole range.' },
  ),
})

const SparklinesOut = Type.Object({
  since: described(Instant, 'Start of the first point.'),
  until: described(Instant, 'End of the last point.'),
  stepSeconds: whole('Seconds per point: an hour.'),
  data: Type.Array(
    Type.Object({
      endpointId: text('Id of the endpoint.'),
      delivered: counts(meanings.delivered),
      failed: counts(meanings.failed),
    }),
    { description: 'Scopes in the order of the request.' },
  ),
})

export const history: Noun = {
  tag: 'History',
  description: 'Counts and durations over time, for charts.',
  schemas: { HistoryOut, SparklinesOut },
  routes: [
    route('GET /history', viewShared, {
      id: 'v1.history.get',
      summary: 'Get the history of the server, an application or an endpoint',
      description: `Up to ${pointsLimit} points. Minutes are kept for two days, hours for \`historyRetention\`. Without \`app\` and \`endpoint\` it is the whole server's, which takes an API key that is not bound to one application. The counts of the last seconds may be missing. Quantiles are at most 5 % off.`,
      query: HistoryQuery,
      answers: { 200: HistoryOut },
      handle: ({ query, request: { caller } }, services) =>
        services.histories.do(caller?.id ?? '', async () => {
          const scope = await scopeOf(services, caller, query)
          const stepsAtLeast = readSteps(query, services.clock.now())
          return toHistoryOut(await readSeries(services, scope, stepsAtLeast))
        }),
    }),
    route('GET /history/sparkline', viewShared, {
      id: 'v1.history.sparklines',
      summary: 'Get the successes and failures of several endpoints by the hour',
      description: 'For lists. Endpoints that do not exist are left out.',
      query: SparklineQuery,
      answers: { 200: SparklinesOut },
      handle: ({ query, request: { caller } }, services) =>
        services.histories.do(caller?.id ?? '', async () => {
          const app = await appKeyOf(services.store, caller, query.app)
          const endpoints = await endpointsOf(services, app, query.endpoint)
          return readSparklines(
            services,
            endpoints,
            latestSteps(sparkRanges[query.range ?? '24h'], services.clock.now(), hourMs),
          )
        }),
    }),
  ],
}

async function scopeOf(
  sources: HistoryServices,
  caller: Caller | null,
  query: Static<typeof HistoryQuery>,
): Promise<number> {
  if (query.app === undefined && query.endpoint === undefined) {
    if (caller?.app == null) return serverScope
    const message = 'The history of the whole server takes a key for all applications; name `app`.'
    throw new AppError('insufficient_access', message)
  }
  const app = await appKeyOf(sources.store, caller, query.app)
  const { endpoint: ref } = query
  if (ref === undefined) return app as number
  const [endpoint] = await endpointsOf(sources, app, [ref])
  if (endpoint === undefined) throw noSuch('endpoint', ref)
  return endpoint.key
}

/** The endpoints of these names, of one application or, by id alone, of any. */
async function endpointsOf({ store, clock }: HistoryServices, app: number | null, refs: readonly string[]) {
  const wanted = [...new Set(refs)].filter(isRef)
  const found: Endpoint[] = []
  for (let at = 0; at < wanted.length; at += endpointsAtOnce) {
    if (wanted.length > 1) await Turns.by(clock).next()
    const some = wanted.slice(at, at + endpointsAtOnce)
    const keys = some.map((ref) => decodeKey('ep', ref)).filter((key) => key !== undefined)
    const byId = new Map((await store.loadEndpoints(keys)).map((endpoint) => [endpoint.id, endpoint]))
    for (const ref of some) {
      const endpoint = byId.get(ref) ?? (await store.findEndpoint(app ?? managementApplication, ref))
      if (endpoint !== undefined && (app === null || endpoint.app === app)) found.push(endpoint)
    }
  }
  return found
}

/** The steps of the answer, when they are at least this long. */
function readSteps({ range, ...query }: Static<typeof HistoryQuery>, now: EpochMs): (leastMs: number) => Steps {
  const { since, until = now } = readInstants('query', { since: query.since, until: query.until })
  const problem = (name: string, message: string) => refuseIf([{ at: ['query', name], message, type: 'range' }])
  if (since === undefined) {
    if (query.until !== undefined) problem('until', 'needs `since`')
    return (leastMs) => latestSteps(ranges[range ?? '1h'], now, leastMs)
  }
  if (range !== undefined) problem('range', 'cannot be given together with `since`')
  if (until <= since) problem('since', 'must be before `until`')
  if (until - since > longestSeriesMs - 2 * dayMs) problem('since', 'must be within 718 days before `until`')
  return (leastMs) => stepsBetween(since, until, now, leastMs)
}

/** The sums of a scope by the steps. A scope that was kept by the hour alone for some of the time is shown by hours. */
async function readSeries(sources: HistoryServices, scope: number, stepsAtLeast: (leastMs: number) => Steps) {
  const steps = stepsAtLeast(0)
  const isFine = steps.span === hourMs || !(await isByHour(sources, scope, steps))
  return addUp(sources, scope, isFine ? steps : stepsAtLeast(hourMs))
}

async function isByHour(sources: HistoryServices, scope: number, { since, stepMs, points }: Steps): Promise<boolean> {
  const from = Math.floor(since / hourMs) * hourMs
  const range: HistoryRange = { scope, span: hourMs, from, until: since + stepMs * points }
  for await (const rows of pagesOf(sources, range)) if (rows.some(({ sums }) => sums.byHour)) return true
  return false
}

async function addUp(sources: HistoryServices, scope: number, steps: Steps) {
  const { since, stepMs, span } = steps
  const points = Array.from({ length: steps.points }, () => new Sums())
  const range: HistoryRange = { scope, span, from: since, until: since + stepMs * steps.points }
  for await (const rows of pagesOf(sources, range)) {
    for (const { at, sums } of rows) points[Math.floor((at - since) / stepMs)]?.addStored(sums)
  }
  return { steps, points }
}

/** Rows in small pages, each in a turn of its own: the pages of requests that come together must not add up. */
async function* pagesOf({ store, clock }: HistoryServices, range: HistoryRange): AsyncGenerator<ReadHistory['rows']> {
  let place: HistoryPlace | null = null
  do {
    await Turns.by(clock).next()
    const page: ReadHistory = await store.readHistory(range, place, rowsAtOnce)
    yield page.rows
    place = page.next
  } while (place !== null)
}

function toHistoryOut({ steps, points }: Awaited<ReturnType<typeof addUp>>): Out<typeof HistoryOut> {
  const total = new Sums()
  for (const each of points) total.merge(each)
  return {
    ...timesOf(steps),
    series: {
      ...perCounter((name) => points.map((sums) => sums.get(name))),
      waiting: points.map(({ meanWaiting }) => (meanWaiting === undefined ? null : Math.round(meanWaiting * 10) / 10)),
      waitMs: perQuantile((share) => points.map(({ wait }) => quantileOf(wait, share))),
      latencyMs: perQuantile((share) => points.map(({ latency }) => quantileOf(latency, share))),
    },
    totals: {
      ...perCounter((name) => total.get(name)),
      waitMs: perQuantile((share) => quantileOf(total.wait, share)),
      latencyMs: perQuantile((share) => quantileOf(total.latency, share)),
    },
  }
}

function timesOf({ since, stepMs, points }: Steps) {
  return { since: iso(since), until: iso(since + stepMs * points), stepSeconds: stepMs / 1000 }
}

function perQuantile<T>(make: (share: number) => T) {
  return { p50: make(0.5), p95: make(0.95), p99: make(0.99) }
}

/** To a tenth of a millisecond: more would be noise. */
function quantileOf(sketch: Sketch, share: number): number | null {
  const ms = sketch.quantile(share)
  return ms === undefined ? null : Math.round(ms * 10) / 10
}

async function readSparklines({ store, clock }: HistoryServices, endpoints: readonly Endpoint[], steps: Steps) {
  const { since, stepMs, points } = steps
  const zeros = () => Array.from({ length: points }, () => 0)
  const lines = new Map(endpoints.map(({ key }) => [key, { delivered: zeros(), failed: zeros() }]))
  const keys = [...lines.keys()]
  for (let at = 0; at < keys.length; at += endpointsAtOnce) {
    await Turns.by(clock).next()
    const scopes = keys.slice(at, at + endpointsAtOnce)
    for (const hour of await store.readOutcomes(scopes, since, since + stepMs * points)) {
      const line = lines.get(hour.scope)
      const place = Math.floor((hour.at - since) / stepMs)
      if (line === undefined) continue
      line.delivered[place] = (line.delivered[place] ?? 0) + hour.delivered
      line.failed[place] = (line.failed[place] ?? 0) + hour.failed
    }
  }
  const data = endpoints.map(({ key, id }) => ({
    endpointId: id,
    ...(lines.get(key) ?? { delivered: [], failed: [] }),
  }))
  return { ...timesOf(steps), data }
}
