import { noSuch } from '../../domain/app-error.ts'
import type { Clock, EpochMs } from '../../domain/clock.ts'
import { type Attempt, type AttemptSummary, fresh, replay, timed } from '../../domain/delivery.ts'
import { readSnapshot } from '../../domain/snapshot.ts'
import { Turns } from '../../domain/turns.ts'
import {
  countLimit,
  type FrontRow,
  type LaneFacts,
  type QueuedRow,
  type RowStatus,
  type WaitingQueues,
} from '../../store/lanes.ts'
import type { DeliveryKey } from '../../store/messages.ts'
import type { Store } from '../../store/store.ts'
import {
  type EffectiveRate,
  type Endpoint,
  type EndpointState,
  effectiveRate,
  endpointState,
  isStopped,
  retryPolicyOf,
  type ServerDefaults,
  type StateFacts,
} from '../endpoints/rules.ts'
import { type CountedQueue, countQueue, type Survey, surveyFailing, surveyQueues } from '../search/survey-service.ts'
import { isPaced, type LaneStatus } from './blocker.ts'
import {
  type EndpointWhy,
  type QueueSort,
  queueSorts,
  type Why,
  type WhyFacts,
  whyNotDelivered,
  whyWaiting,
} from './rules.ts'

/** Longest wait for an owner. It answers within a few milliseconds, or it is busy, stalled or dead. */
const answerMs = 500
/** Fewest looks, even after that time: when this process itself is busy, its own workers can answer in between. */
const fewestLooks = 6
const firstLookMs = 1
const longestLookMs = 50
/** Lanes read in one turn. Each counts up to `countLimit` rows of three classes: SQLite takes half a millisecond. */
const lanesAtOnce = 8

/** The stored state of a lane, and the state that its owner reports. */
export interface KnownLane extends LaneFacts, EffectiveRate, Pick<LaneStatus, 'live' | 'silent' | 'first'> {}

/** A queued delivery, and in an ordered lane the delivery in front of it. */
interface KnownRow extends QueuedRow, Pick<RowStatus, 'retryInMs'> {
  /** When it becomes a dead letter: by the expiry of its message or the maximum age of the endpoint. */
  readonly endsAt: EpochMs | null
  readonly first: FrontRow | null
}

export interface ExplainedDelivery {
  readonly why: Why
  readonly lane: KnownLane
  readonly queued: KnownRow | undefined
  readonly latest: Attempt | undefined
}

/** Everything that blocks the waiting deliveries of an endpoint. */
export interface ExplainedEndpoint {
  readonly endpoint: Endpoint
  readonly why: EndpointWhy
  readonly lane: KnownLane
  readonly total: number
  readonly isExact: boolean
  readonly oldestSince: EpochMs | null
}

type ExplainedMessage = WhyFacts['message']

/** A delivery that waits, in a list. */
export interface WaitingDelivery {
  readonly message: ExplainedMessage
  readonly endpoint: Endpoint
  /** Its latest attempt; undefined before the first. */
  readonly latest: Pick<AttemptSummary, 'n' | 'code' | 'status' | 'nextAt'> | undefined
  /** Whether it waits to be sent once more on request. */
  readonly replaying: boolean
}

/** Lanes as they were looked at. */
export interface Look {
  readonly lanes: ReadonlyMap<number, StatedLane>
  readonly asked: Asked
}
type StatedLane = LaneStatus & StateFacts

/** Explains why a delivery waits: asks the owners of lanes, reads the store, and lets the domain decide. */
export class Explainer {
  readonly #store: ExplainerStore
  readonly #clock: Clock
  readonly #serverDefaults: ServerDefaults
  /** Surveys under way, by application; null for all. */
  readonly #surveys = new Map<number | null, Promise<Survey>>()

  constructor(store: ExplainerStore, clock: Clock, serverDefaults: ServerDefaults) {
    this.#store = store
    this.#clock = clock
    this.#serverDefaults = serverDefaults
  }

  async delivery(message: ExplainedMessage, endpoint: Endpoint): Promise<ExplainedDelivery> {
    return this.#explainDelivery(message, endpoint, await this.#ask([endpoint.key]))
  }

  async #explainDelivery(message: ExplainedMessage, endpoint: Endpoint, asked: Asked): Promise<ExplainedDelivery> {
    const delivery = { endpoint: endpoint.key, message: message.key }
    // The queue is read first: a delivery that ends between the reads is then found among the ended ones.
    const row = await this.#findQueued(delivery, endpoint)
    const [dead, [coalesced], [latest], lane] = await Promise.all([
      row === undefined ? this.#store.findDead(endpoint.key, message.key) : undefined,
      row === undefined ? this.#store.findCoalesced([delivery]) : [],
      this.#store.latestAttempts([delivery]),
      this.#lane(endpoint, asked),
    ])
    const [last] = latest === undefined ? [] : await this.#store.loadAttempts([latest])
    const queued = row && { ...row, ahead: row.ahead + servedBefore(row, endpoint, lane) }
    const lined = { ...lane, first: queued?.first ?? null }
    const why = whyNotDelivered({ message, endpoint, latest, dead, coalesced, queued, lane: lined })
    return { why, lane, queued, latest: last }
  }

  async endpoint(endpoint: Endpoint): Promise<ExplainedEndpoint> {
    const asked = await this.#ask([endpoint.key])
    const lane = await this.#inLine(endpoint, await this.#lane(endpoint, asked))
    if (lane.waiting.every((count) => count < countLimit)) return this.#explain(endpoint, lane)
    const counted = await countQueue(this.#store, this.#clock, endpoint.key)
    // The queue may have been emptied meanwhile.
    return this.#explain(endpoint, lane, counted.count === 0 ? undefined : counted)
  }

  /**
   * The endpoints of an application, or of all with null, that are worst off: up to so many by each sort, each once.
   * Endpoints that were emptied or deleted meanwhile are left out.
   */
  async worst(app: number | null, most: Partial<Readonly<Record<QueueSort, number>>>) {
    const { worst: ranked, ...totals } = await this.#survey(app)
    const queues = queueSorts.flatMap((sort) => ranked[sort].slice(0, most[sort] ?? 0))
    const counts = new Map(queues.map((queue) => [queue.endpoint, queue]))
    const explained = await this.endpoints([...counts.keys()], counts)
    return { totals, worst: explained.filter(({ lane }) => lane.waiting.some((n) => n > 0)) }
  }

  /** The endpoints that have failed for longest, of an application or of all with null: up to `worstKept`. */
  async failing(app: number | null): Promise<readonly ExplainedEndpoint[]> {
    return this.endpoints(await surveyFailing(this.#store, this.#clock, app))
  }

  /** Several endpoints by key, in this order. Deleted ones are left out. */
  async endpoints(
    keys: readonly number[],
    counts?: ReadonlyMap<number, CountedQueue>,
  ): Promise<readonly ExplainedEndpoint[]> {
    const endpoints = await this.#store.loadEndpoints(keys)
    const byKey = new Map(endpoints.map((endpoint) => [endpoint.key, endpoint]))
    const asked = await this.#ask([...byKey.keys()])
    const explainOne = async (key: number) => {
      const endpoint = byKey.get(key)
      const lane = endpoint && (await this.#findLane(endpoint, asked))
      if (endpoint === undefined || lane === undefined) return []
      return [this.#explain(endpoint, await this.#inLine(endpoint, lane), counts?.get(key))]
    }
    const explained: ExplainedEndpoint[] = []
    for (let at = 0; at < keys.length; at += lanesAtOnce) {
      await Turns.by(this.#clock).next()
      explained.push(...(await Promise.all(keys.slice(at, at + lanesAtOnce).map(explainOne))).flat())
    }
    return explained
  }

  /** Callers that ask while a survey is under way share it. */
  #survey(app: number | null): Promise<Survey> {
    const known = this.#surveys.get(app)
    if (known !== undefined) return known
    const survey = surveyQueues(this.#store, this.#clock, app).finally(() => this.#surveys.delete(app))
    this.#surveys.set(app, survey)
    return survey
  }

  /** A lane with the state that its owner reports. */
  async lane(endpoint: Endpoint): Promise<KnownLane> {
    return this.#lane(endpoint, await this.#ask([endpoint.key]))
  }

  /** Looks at lanes, for `states` and `nextAttempts`. The owners of busy lanes are asked, all at once. */
  async look(endpoints: readonly Endpoint[]): Promise<Look> {
    const stored = await this.#store.laneStates([...new Set(endpoints.map(({ key }) => key))])
    const byKey = new Map(stored.map((lane) => [lane.endpoint, lane]))
    const busy = endpoints.filter((each) => !isStopped(each) && byKey.get(each.key)?.owner != null)
    const asked = busy.length === 0 ? noneAsked : await this.#ask(busy.map(({ key }) => key))
    const lanes = new Map<number, StatedLane>()
    for (const endpoint of endpoints) {
      const lane = byKey.get(endpoint.key)
      if (lane === undefined) continue
      const live = asked.get(endpoint.key)?.live ?? null
      // The answer came after the state was read.
      const now = Math.max(lane.now, live?.at ?? 0)
      const { rateFrom } = effectiveRate(endpoint, lane.appSettings, this.#serverDefaults)
      const owner = lane.owner === null ? null : unnamed
      lanes.set(endpoint.key, { ...lane, rateFrom, now, owner, live, first: null, silent: false })
    }
    return { lanes, asked }
  }

  /** The states of endpoints, in their order. */
  async states(endpoints: readonly Endpoint[], look?: Look): Promise<EndpointState[]> {
    const { lanes } = look ?? (await this.look(endpoints))
    return endpoints.map((endpoint) => endpointState(endpoint, lanes.get(endpoint.key)))
  }

  /**
   * When each of these waiting deliveries moves next: the instant that `delivery` gives. For most, the state of their lane
   * tells; the queue is read for deliveries that keep an order, coalesce, or wait for a limit that others may use first.
   */
  async nextAttempts(waiting: readonly WaitingDelivery[], { lanes, asked }: Look): Promise<(EpochMs | null)[]> {
    const found: (EpochMs | null)[] = []
    for (let at = 0; at < waiting.length; at += lanesAtOnce) {
      await Turns.by(this.#clock).next()
      const some = waiting.slice(at, at + lanesAtOnce).map(async (delivery) => {
        const lane = lanes.get(delivery.endpoint.key)
        if (lane === undefined) return null
        const why = whyByLane(delivery, lane)
        if (why !== undefined) return why.nextAt
        return (await this.#explainDelivery(delivery.message, delivery.endpoint, asked)).why.nextAt
      })
      found.push(...(await Promise.all(some)))
    }
    return found
  }

  async state(endpoint: Endpoint): Promise<EndpointState> {
    const [state = 'active'] = await this.states([endpoint])
    return state
  }

  /** Without a count of the whole queue, each class is counted up to a limit. */
  #explain(endpoint: Endpoint, known: KnownLane, counted?: Omit<CountedQueue, 'app'>): ExplainedEndpoint {
    const lane = { ...known, waiting: counted?.waiting ?? known.waiting }
    const [fresh, timed, replay] = lane.waiting
    const { count: total, isExact } = counted ?? {
      count: fresh + timed + replay,
      isExact: lane.waiting.every((count) => count < countLimit),
    }
    const why = whyWaiting({ endpoint, lane, total, isExact })
    return { endpoint, why, lane, total, isExact, oldestSince: counted?.oldest ?? lane.oldestSince }
  }

  /** A queued delivery with the facts of its row, and in an ordered lane the delivery in front of it. */
  async #findQueued(delivery: DeliveryKey, endpoint: Endpoint): Promise<KnownRow | undefined> {
    const { key, flow } = endpoint
    const queued = await this.#store.findQueued(delivery)
    const place = queued && { class: queued.class, dueAt: queued.dueAt, message: delivery.message }
    const row = place && (await this.#store.findRow(key, place))
    // Settled between the two reads.
    if (row === undefined) return queued && { ...queued, retryInMs: 0, endsAt: null, first: null }
    const { retryInMs, orderKey } = row
    const endsAt = Math.min(row.expiresAt ?? Number.POSITIVE_INFINITY, row.since + retryPolicyOf(endpoint).maxAgeMs)
    const isOrdered = place?.class !== replay && (flow.order === 'fifo' || (flow.order === 'key' && orderKey !== null))
    const first =
      isOrdered && (await this.#store.findFront(key, flow.order === 'fifo' ? null : orderKey, place ?? null))
    return queued && { ...queued, retryInMs, endsAt, first: first || null }
  }

  /** A lane with the front of its queue, where every delivery waits behind it. */
  async #inLine({ key, flow }: Endpoint, lane: KnownLane): Promise<KnownLane> {
    const { order = null, inFlight = 0 } = lane.live?.snapshot ?? {}
    // With several keys the other keys continue; only the owner knows when none can.
    const isStuck = flow.order === 'fifo' || (order !== null && order.waitMs !== 0)
    if (flow.order === 'none' || !isStuck || inFlight > 0) return lane
    const first = await this.#store.findFront(key, null, null)
    if (first === undefined || flow.order === 'fifo' || order?.waitMs == null) return { ...lane, first: first ?? null }
    // A delivery that waits for an operator is shown first.
    if (first.retryInMs === Number.POSITIVE_INFINITY) return { ...lane, first }
    return { ...lane, first: { ...first, retryInMs: (lane.live?.at ?? 0) + order.waitMs - lane.now } }
  }

  /** Asks the owners, and waits for their answers up to the limit. */
  async #ask(endpoints: readonly number[]): Promise<Asked> {
    const before = await this.#store.readAnswers(endpoints)
    const owned = before.filter(({ owner }) => owner !== null)
    const seen = new Map(owned.map(({ endpoint, snapshot }) => [endpoint, snapshot]))
    const keys = [...seen.keys()]
    if (keys.length === 0 || !(await this.#store.askLanes(keys))) return noneAsked
    const giveUpAt = this.#clock.steady() + answerMs
    for (let looks = 1, waitMs = firstLookMs; ; looks++, waitMs = Math.min(longestLookMs, waitMs * 2)) {
      await new Promise<void>((resolve) => void this.#clock.after(waitMs, resolve))
      const answers = await this.#store.readAnswers(keys)
      const words: Asked = new Map(
        answers.map(({ endpoint, owner, snapshot, snapshotAt }) => {
          const read = snapshot === seen.get(endpoint) ? undefined : readSnapshot(snapshot)
          // A snapshot of an earlier owner is out of date.
          const live = read === undefined || read.worker !== owner ? null : { at: snapshotAt, snapshot: read }
          return [endpoint, { owner, live }] as const
        }),
      )
      const isOver = [...words.values()].every(({ owner, live }) => owner === null || live !== null)
      if (isOver || (looks >= fewestLooks && this.#clock.steady() >= giveUpAt)) return words
    }
  }

  async #lane(endpoint: Endpoint, asked: Asked): Promise<KnownLane> {
    const lane = await this.#findLane(endpoint, asked)
    if (lane === undefined) throw noSuch('endpoint', endpoint.id)
    return lane
  }

  async #findLane(endpoint: Endpoint, asked: Asked): Promise<KnownLane | undefined> {
    const lane = await this.#store.findLane(endpoint.key)
    if (lane === undefined) return undefined
    const word = asked.get(endpoint.key)
    const isSame = word !== undefined && word.owner === (lane.owner?.worker ?? null)
    const live = isSame && word.live !== null ? { ...word.live, at: Math.min(word.live.at, lane.now) } : null
    const rate = effectiveRate(endpoint, lane.appSettings, this.#serverDefaults)
    return { ...lane, ...rate, live, silent: isSame && lane.owner !== null && live === null, first: null }
  }
}

/** Why a delivery waits, by the state of its lane; undefined where that depends on the deliveries in front of it. */
function whyByLane({ message, endpoint, latest, replaying }: WaitingDelivery, lane: LaneStatus): Why | undefined {
  if (endpoint.flow.order !== 'none' || endpoint.flow.coalesce !== null) return undefined
  const dueAt = replaying ? null : (latest?.nextAt ?? message.deliverAt)
  const itsClass = replaying ? replay : dueAt === null ? fresh : timed
  const queued = { class: itsClass, dueAt: dueAt ?? 0, attempts: latest?.n ?? 0, ahead: 0 }
  const why = whyNotDelivered({ message, endpoint, latest, dead: undefined, queued, lane })
  const dependsOnOthers = isPaced(why) || (why.reason === 'waiting_for_worker' && why.nextAt !== null)
  return dependsOnOthers ? undefined : why
}

/** Deliveries of other classes that go first: fresh ones before retries, both before replays. An ordered lane ignores classes. */
function servedBefore(row: QueuedRow, { flow }: Endpoint, { waiting, nextTimedAt, now }: LaneFacts): number {
  const [isFresh, isTimed] = waiting
  if (row.class === fresh || (row.class !== replay && flow.order !== 'none')) return 0
  const due = nextTimedAt !== null && nextTimedAt <= now ? isTimed : 0
  return row.class === replay ? isFresh + due : isFresh
}

/** The owners that were asked, with their answers. */
type Asked = ReadonlyMap<number, { readonly owner: number | null; readonly live: LaneStatus['live'] }>
const noneAsked: Asked = new Map()
/** An owner whose name does not matter. */
const unnamed = { description: '', leaseUntil: 0 }

type ExplainerStore = Pick<
  Store,
  | 'askLanes'
  | 'readAnswers'
  | 'laneStates'
  | 'findLane'
  | 'findQueued'
  | 'findRow'
  | 'findFront'
  | 'findDead'
  | 'findCoalesced'
  | 'latestAttempts'
  | 'loadAttempts'
  | 'loadEndpoints'
  | keyof WaitingQueues
>
