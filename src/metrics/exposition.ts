import { type OpenMetricsContentType, type PrometheusContentType, Registry } from 'prom-client'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import { Turns } from '../domain/turns.ts'
import { serves } from '../features/regions/rules.ts'
import type { ListedWorker, Store } from '../store/store.ts'
import { combined, type Sample, type Samples } from './combined.ts'
import { deathsShownMs, type Facts, type StoreFigures } from './facts.ts'
import { type Measure, type MeasureName, measures, waitingClasses } from './measures.ts'
import type { Histogram, Meter } from './meter.ts'
import { Worst } from './rounds.ts'

/** A text is kept this long, so that a scraper in a loop costs no more than one that asks every second. */
const keptMs = 1000
/** The names of an endpoint are read again when they are older than this. */
const namesKeptMs = 5 * 60_000
/** Endpoints whose names are read at once: reading one unseals its secrets. */
const namesAtOnce = 10

/** The figures of this process beside those that its meter counts. */
export interface OwnFigures {
  readonly version: string
  /** Undefined in a process that does not deliver. */
  readonly worker:
    | {
        readonly inFlight: number
        readonly inFlightLimit: number
        readonly waitingForSlot: number
        readonly lanes: number
        readonly unsettled: number
        readonly leaseAgeMs: number
        readonly leads: boolean
      }
    | undefined
  readonly startedAt: number
  readonly cpuSeconds: number
  readonly residentBytes: number
  readonly heapBytes: number
  readonly loopDelay: { readonly p50: number; readonly p99: number; readonly max: number }
}

interface ExpositionDeps {
  readonly store: Pick<Store, 'loadEndpoints' | 'applicationRefs'>
  readonly clock: Clock
  readonly meter: Meter
  readonly facts: Facts
  /** How many endpoints are named at most, by each of the two measures. */
  readonly endpoints: number
  readonly own: () => OwnFigures
  /** The figures of processes that listen on the same address; missing where there are none. */
  readonly gather?:
    | (() => Promise<{ readonly reports: readonly Samples[]; readonly ended: Samples | undefined }>)
    | undefined
}

/** Metrics as text, with the type of the text. */
export interface Exposed {
  readonly type: string
  readonly text: string
}

type ContentType = PrometheusContentType | OpenMetricsContentType

interface Kept {
  readonly at: SteadyMs
  readonly exposed: Promise<Exposed>
}

/** Writes all metrics as text. Nothing here runs unless metrics are asked for. */
export class Exposition {
  readonly #deps: ExpositionDeps
  readonly #names: EndpointNames
  readonly #kept = new Map<string, Kept>()

  constructor(deps: ExpositionDeps) {
    this.#deps = deps
    this.#names = new EndpointNames(deps.store, deps.clock)
  }

  /** The metrics in the form that an Accept header prefers. */
  write(accept: string | undefined): Promise<Exposed> {
    const { clock } = this.#deps
    const type = typeFor(accept)
    const kept = this.#kept.get(type)
    if (kept !== undefined && clock.steady() - kept.at < keptMs) return kept.exposed
    const exposed = this.#write(type)
    this.#kept.set(type, { at: clock.steady(), exposed })
    return exposed
  }

  async #write(type: ContentType): Promise<Exposed> {
    const own = await this.samples()
    const gathered = await this.#deps.gather?.()
    const all = gathered === undefined ? own : combined(own, gathered.reports, gathered.ended)
    const registry = new Registry<typeof type>()
    registry.setContentType(type)
    for (const [name, measure] of Object.entries(measures) as [MeasureName, Measure][]) {
      const values = all[name] ?? []
      if (values.length > 0) registry.registerMetric(metricOf(measure, values) as never)
    }
    return { type, text: await registry.metrics() }
  }

  /** The figures of this process. */
  async samples(): Promise<Samples> {
    const { meter, facts, own } = this.#deps
    const figures = own()
    // The leader describes the whole store where no process with an API does.
    if (figures.worker?.leads) facts.start()
    const whole = await facts.current()
    const reading = {
      meter,
      own: figures,
      whole,
      counted: facts.isStarted ? whole : undefined,
      worst: await this.#worst(whole),
    }
    return Object.fromEntries(Object.entries(readers).map(([name, read]) => [name, read(reading)]))
  }

  async #worst(whole: StoreFigures): Promise<Scrape['worst']> {
    const { meter, facts, endpoints: kept } = this.#deps
    if (kept === 0) return { waiting: [], failing: [] }
    const failing = new Worst<EndpointCount>(kept, ({ count }) => count)
    for (const [endpoint, { app, failures: count }] of meter.failing) failing.offer({ endpoint, app, count })
    const isKnown = facts.isStarted && whole.storeUp && whole.waiting !== undefined
    const ranked = isKnown ? await facts.worst(kept) : []
    const waiting = ranked.map(({ endpoint, app, waiting: count }) => ({ endpoint, app, count }))
    const names = await this.#names.of([...waiting, ...failing.list])
    const toSamples = (list: readonly EndpointCount[]) =>
      list.flatMap(({ endpoint, count }) => {
        const labels = names.get(endpoint)
        return labels === undefined ? [] : [{ labels, value: count }]
      })
    return { waiting: toSamples(waiting), failing: toSamples(failing.list) }
  }
}

/** The number of waiting deliveries, or of failures, of an endpoint. */
interface EndpointCount {
  readonly endpoint: number
  readonly app: number
  readonly count: number
}

/** The figures of one scrape. */
interface Scrape {
  readonly meter: Meter
  readonly own: OwnFigures
  readonly whole: StoreFigures
  /** The same in a process that shows metrics of the whole store; undefined in any other. */
  readonly counted: StoreFigures | undefined
  readonly worst: { readonly waiting: readonly Sample[]; readonly failing: readonly Sample[] }
}

const one = (value: number | null | undefined): readonly Sample[] => (value == null ? [] : [{ value }])
const seconds = (ms: number | undefined) => (ms === undefined ? [] : one(ms / 1000))
const by = (label: string, counts: Iterable<readonly [string, number]>): readonly Sample[] =>
  [...counts].map(([name, value]) => ({ labels: { [label]: name }, value }))

/** How each metric is read. No samples: the process does not have the metric. */
const readers: Readonly<Record<MeasureName, (reading: Scrape) => readonly Sample[]>> = {
  messagesAccepted: ({ meter }) => one(meter.messagesAccepted),
  messagesRepeated: ({ meter }) => one(meter.messagesRepeated),
  publishesRefused: ({ meter }) => by('reason', meter.refused),
  arrivals: ({ meter }) =>
    [...meter.arrivals].map(([name, value]) => {
      const [provider = '', result = ''] = name.split(' ')
      return { labels: { provider, result }, value }
    }),
  deliveriesAccepted: ({ meter }) => one(meter.deliveriesAccepted),
  deliveriesEnded: ({ meter }) => by('end', Object.entries(meter.ends)),
  deliveriesRetried: ({ meter }) => one(meter.deliveriesRetried),
  deadLetters: ({ meter }) => by('reason', Object.entries(meter.deadLetters)),
  attempts: ({ meter }) =>
    [...meter.attempts()].map(({ outcome, status, count }) => ({ labels: { outcome, status }, value: count })),
  deliveryWait: ({ meter }) => bucketsOf('deliveryWait', meter.deliveryWait),
  slotDelay: ({ meter }) => bucketsOf('slotDelay', meter.slotDelay),
  attemptDelay: ({ meter }) => bucketsOf('attemptDelay', meter.attemptDelay),
  attemptDuration: ({ meter }) => bucketsOf('attemptDuration', meter.attemptDuration),
  deliveryDuration: ({ meter }) => bucketsOf('deliveryDuration', meter.deliveryDuration),
  publishDuration: ({ meter }) => bucketsOf('publishDuration', meter.publishDuration),
  settleDuration: ({ meter }) => bucketsOf('settleDuration', meter.settleDuration),
  inFlight: ({ own }) => one(own.worker?.inFlight),
  inFlightLimit: ({ own }) => one(own.worker?.inFlightLimit),
  slotWaits: ({ own }) => one(own.worker?.waitingForSlot),
  lanesOwned: ({ own }) => one(own.worker?.lanes),
  unsettled: ({ own }) => one(own.worker?.unsettled),
  leads: ({ own }) => one(own.worker && Number(own.worker.leads)),
  leaseAge: ({ own }) => seconds(own.worker?.leaseAgeMs),
  storeUp: ({ whole }) => one(Number(whole.storeUp)),
  storeWrite: ({ whole }) => (whole.storeUp ? seconds(whole.condition?.commitMs) : []),
  loopDelay: ({ own: { loopDelay } }) =>
    by('percentile', [
      ['50', loopDelay.p50],
      ['99', loopDelay.p99],
      ['100', loopDelay.max],
    ]),
  build: ({ own }) => [{ labels: { version: own.version }, value: 1 }],
  cpu: ({ own }) => one(own.cpuSeconds),
  resident: ({ own }) => one(own.residentBytes),
  heap: ({ own }) => one(own.heapBytes),
  startTime: ({ own }) => one(own.startedAt),
  waiting: ({ counted }) =>
    counted?.waiting === undefined
      ? []
      : by(
          'class',
          waitingClasses.map((name, i) => [name, counted.waiting?.byClass[i] ?? 0]),
        ),
  behind: ({ counted }) => one(counted?.waiting?.behind),
  late: ({ counted }) => by('delay', Object.entries(counted?.waiting?.late ?? {})),
  oldestDue: ({ counted }) => seconds(counted?.waiting?.oldestDueMs),
  waitingEndpoints: ({ counted }) => one(counted?.waiting?.endpoints),
  lanes: ({ counted }) => by('state', Object.entries(counted?.lanes?.states ?? {})),
  regionLanes: ({ counted }) =>
    regionsOf(counted).flatMap(([region, states]) =>
      Object.entries(states).map(([state, value]) => ({ labels: { region, state }, value })),
    ),
  regionWorkers: ({ counted }) =>
    regionsOf(counted).flatMap(([region]) =>
      region === 'other' || counted === undefined ? [] : [{ labels: { region }, value: servingIn(counted, region) }],
    ),
  circuits: ({ counted }) => by('state', Object.entries(counted?.lanes?.circuits ?? {})),
  workers: ({ counted }) => (counted?.condition === undefined ? [] : by('state', workersBy(counted))),
  leader: ({ counted }) => (counted?.condition === undefined ? [] : one(Number(counted.leader !== undefined))),
  scheduleLag: ({ counted }) => (counted?.condition === undefined ? [] : seconds(counted.scheduleLagMs)),
  storeSize: ({ counted }) => one(counted?.condition?.bytes),
  walSize: ({ counted }) => one(counted?.condition?.logBytes),
  diskFree: ({ counted }) => one(counted?.condition?.disk?.freeBytes),
  surveyAge: ({ counted, whole }) => {
    const asOf = counted?.waiting?.asOf
    return asOf === undefined ? [] : seconds(Math.max(0, whole.now - asOf))
  },
  endpointWaiting: ({ worst }) => worst.waiting,
  endpointFailures: ({ worst }) => worst.failing,
}

/** The regions with their lanes; none while all lanes are of the default region. */
function regionsOf(counted: StoreFigures | undefined): [string, Readonly<Record<string, number>>][] {
  const regions = counted?.lanes?.regions
  return regions === undefined || regions.size < 2 ? [] : [...regions]
}

function servingIn({ workers, condition }: StoreFigures, region: string): number {
  const now = condition?.now ?? 0
  const alive = workers.filter(({ endedAt, leaseUntil }) => endedAt === null && leaseUntil > now)
  return alive.filter(({ regions }) => serves(regions, region)).length
}

function workersBy({ workers, condition }: StoreFigures): [string, number][] {
  const now = condition?.now ?? 0
  const count = (is: (worker: ListedWorker) => boolean) => workers.filter(is).length
  return [
    ['alive', count(({ endedAt, leaseUntil }) => endedAt === null && leaseUntil > now)],
    ['lapsed', count(({ endedAt, leaseUntil }) => endedAt === null && leaseUntil <= now)],
    ['dead', count(({ died, endedAt }) => died && endedAt !== null && endedAt > now - deathsShownMs)],
  ]
}

function bucketsOf(name: MeasureName, { bounds, counts, sum }: Histogram): readonly Sample[] {
  const { name: metric } = measures[name]
  let below = 0
  const buckets = [...bounds, '+Inf'].map((le, place): Sample => {
    below += counts[place] ?? 0
    return { metricName: `${metric}_bucket`, labels: { le }, value: below }
  })
  return [...buckets, { metricName: `${metric}_sum`, value: sum }, { metricName: `${metric}_count`, value: below }]
}

/** A metric as prom-client writes it. For OpenMetrics it takes `_total` off the name of a counter. */
function metricOf({ name, kind, help }: Measure, values: readonly Sample[]) {
  const metric = {
    name,
    type: kind,
    help,
    get: () => Promise.resolve({ name: metric.name, type: kind, help, values, aggregator: 'sum' }),
  }
  return metric
}

/** The names of endpoints for labels, remembered for some minutes. */
class EndpointNames {
  readonly #store: ExpositionDeps['store']
  readonly #clock: Clock
  #known = new Map<number, { readonly readAt: SteadyMs; readonly labels: Labels | undefined }>()

  constructor(store: ExpositionDeps['store'], clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /** The labels of endpoints; those that are deleted, or that the store could not name, are left out. */
  async of(wanted: readonly EndpointCount[]): Promise<ReadonlyMap<number, Labels>> {
    const turns = Turns.by(this.#clock)
    const now = this.#clock.steady()
    const byKey = new Map(wanted.map((each) => [each.endpoint, each]))
    const unknown = [...byKey.values()].filter(({ endpoint }) => {
      const known = this.#known.get(endpoint)
      return known === undefined || now - known.readAt >= namesKeptMs
    })
    for (let at = 0; at < unknown.length; at += namesAtOnce) {
      await turns.next()
      // A store in trouble names nothing; the other metrics are written all the same.
      await this.#read(unknown.slice(at, at + namesAtOnce), now).catch(() => {})
    }
    // Only the endpoints that are wanted are remembered.
    this.#known = new Map([...this.#known].filter(([endpoint]) => byKey.has(endpoint)))
    return new Map([...this.#known].flatMap(([endpoint, { labels }]) => (labels ? [[endpoint, labels] as const] : [])))
  }

  async #read(some: readonly EndpointCount[], readAt: SteadyMs): Promise<void> {
    const apps = await this.#store.applicationRefs(some.map(({ app }) => app))
    const endpoints = await this.#store.loadEndpoints(some.map(({ endpoint }) => endpoint))
    for (const { endpoint } of some) this.#known.set(endpoint, { readAt, labels: undefined })
    for (const { key, app, uid, id } of endpoints) {
      const application = apps.get(app)
      if (application === undefined) continue
      const labels = { application: application.uid ?? application.id, endpoint: uid ?? id }
      this.#known.set(key, { readAt, labels })
    }
  }
}

type Labels = Readonly<Record<'application' | 'endpoint', string>>

/** The type of the text for an Accept header: OpenMetrics where it is preferred, else Prometheus' own. */
function typeFor(accept = ''): ContentType {
  const weights = { open: 0, plain: 0 }
  for (const range of accept.slice(0, 1000).split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
    const q = Number(parameters.find((each) => each.startsWith('q='))?.slice(2) ?? 1)
    const weight = Number.isFinite(q) ? q : 0
    if (type === 'application/openmetrics-text') weights.open = Math.max(weights.open, weight)
    else if (type === 'text/plain' || type === 'text/*' || type === '*/*')
      weights.plain = Math.max(weights.plain, weight)
  }
  const prefersOpen = weights.open > 0 && weights.open >= weights.plain
  return prefersOpen ? Registry.OPENMETRICS_CONTENT_TYPE : Registry.PROMETHEUS_CONTENT_TYPE
}
