import { noSuch } from '../../domain/app-error.ts'
import type { Clock, EpochMs } from '../../domain/clock.ts'
import type { Load } from '../../domain/condition.ts'
import { type Attempt, type AttemptSummary, fresh, replay, timed } from '../../domain/delivery.ts'
import type { Turn } from '../../domain/forecast.ts'
import type { QueueFigures } from '../../domain/queue-figures.ts'
import { readSnapshot } from '../../domain/snapshot.ts'
import { Turns } from '../../domain/turns.ts'
import type { Ledger } from '../../metrics/ledger.ts'
import type { FrontRow, LaneFacts, QueuedRow, RowPlace, RowStatus, WaitingQueues } from '../../store/lanes.ts'
import type { DeliveryKey } from '../../store/messages.ts'
import type { Store } from '../../store/store.ts'
import {
  concurrencyOf,
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
import { surveyFailing } from '../search/survey-service.ts'
import { isPaced, type LaneStatus } from './blocker.ts'
import { turnOf } from './outlook.ts'
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
/** Lanes read in one turn, of a few reads each. */
const lanesAtOnce = 8

/** The stored state of a lane, and the state that its owner reports. */
export interface KnownLane extends LaneFacts, EffectiveRate, Pick<LaneStatus, 'live' | 'silent' | 'first'> {
  readonly concurrency: number
  readonly queue: QueueFigures
  readonly load: Load
}

/** A queued delivery, and in an ordered lane the delivery in front of it. */
interface KnownRow extends QueuedRow, Pick<RowStatus, 'retryInMs' | 'orderKey'> {
  /** When it becomes a dead letter: by the expiry of its message or the maximum age of the endpoint. */
  readonly endsAt: EpochMs | null
  readonly first: FrontRow | null
}

export interface ExplainedDelivery {
  readonly why: Why
  readonly lane: KnownLane
  readonly queued: (KnownRow & { readonly turn: Turn }) | undefined
  readonly latest: Attempt | undefined
}

/** Everything that blocks the waiting deliveries of an endpoint. */
export interface ExplainedEndpoint {
  readonly endpoint: Endpoint
  readonly why: EndpointWhy
  readonly lane: KnownLane
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
  readonly #ledger: Ledger

  constructor(store: ExplainerStore, clock: Clock, serverDefaults: ServerDefaults, ledger: Ledger) {
    this.#ledger = ledger
    this.#store = store
    this.#clock = clock
    this.#serverDefaults = serverDefaults
  }

  async delivery(message: ExplainedMessage, endpoint: Endpoint): Promise<ExplainedDelivery> {
    const asked = await this.#ask([endpoint.key])
    await this.#know([endpoint.key])
    return this.#explainDelivery(message, endpoint, asked)
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
    const queued = row && { ...row, turn: await this.#turn(row, delivery, endpoint, lane) }
    const lined = { ...lane, first: queued?.first ?? null }
    const facts = { message, endpoint, latest, dead, coalesced, queued, lane: lined, flow: lane.queue }
    return { why: whyNotDelivered(facts), lane, queued, latest: last }
  }

  /** The queue in front of a waiting delivery. */
  async #turn(row: KnownRow, { message }: DeliveryKey, endpoint: Endpoint, lane: KnownLane): Promise<Turn> {
    const place: RowPlace = { class: row.class, dueAt: row.dueAt, message }
    const position = await this.#ledger.position(endpoint.key, place)
    const { order } = endpoint.flow
    const isKeyed = order === 'key' && row.orderKey !== null && row.class !== replay
    const aheadInKey = isKeyed
      ? await this.#ledger.aheadInKey(endpoint.key, place, row.orderKey as number, position.ahead)
      : null
    const ownWait = lane.now + (Number.isFinite(row.retryInMs) ? Math.max(0, row.retryInMs) : 0)
    const notBefore = Math.round(Math.max(row.class === timed ? row.dueAt : 0, ownWait))
    const dueTimed = lane.nextTimedAt !== null && lane.nextTimedAt <= lane.now ? lane.queue.byClass[1] : 0
    const queued = { class: row.class, position, notBefore, aheadInKey }
    return turnOf(endpoint, { ...lane, dueTimed }, lane.queue, queued)
  }

  async endpoint(endpoint: Endpoint): Promise<ExplainedEndpoint> {
    const asked = await this.#ask([endpoint.key])
    await this.#know([endpoint.key])
    return this.#explain(endpoint, await this.#inLine(endpoint, await this.#lane(endpoint, asked)))
  }

  /**
   * The endpoints of an application, or of all with null, that are worst off: up to so many by each sort, each once.
   * Endpoints that were emptied or deleted meanwhile are left out.
   */
  async worst(app: number | null, most: Partial<Readonly<Record<QueueSort, number>>>) {
    await this.#ledger.ready()
    const ranked = new Set<number>()
    for (const sort of queueSorts) {
      for (const { endpoint } of await this.#ledger.worst(app, sort, most[sort] ?? 0)) ranked.add(endpoint)
    }
    const explained = await this.endpoints([...ranked])
    const totals = app === null ? this.#ledger.server() : this.#ledger.application(app)
    return { totals, worst: explained.filter(({ lane }) => lane.queue.waiting > 0) }
  }

  /** The endpoints that have failed for longest, of an application or of all with null: up to `worstKept`. */
  async failing(app: number | null): Promise<readonly ExplainedEndpoint[]> {
    return this.endpoints(await surveyFailing(this.#store, this.#clock, app))
  }

  /** Several endpoints by key, in this order. Deleted ones are left out. */
  async endpoints(keys: readonly number[]): Promise<readonly ExplainedEndpoint[]> {
    await this.#ledger.ready()
    const endpoints = await this.#store.loadEndpoints(keys)
    const byKey = new Map(endpoints.map((endpoint) => [endpoint.key, endpoint]))
    const asked = await this.#ask([...byKey.keys()])
    const explainOne = async (key: number) => {
      const endpoint = byKey.get(key)
      const lane = endpoint && (await this.#findLane(endpoint, asked))
      if (endpoint === undefined || lane === undefined) return []
      return [this.#explain(endpoint, await this.#inLine(endpoint, lane))]
    }
    const explained: ExplainedEndpoint[] = []
    for (let at = 0; at < keys.length; at += lanesAtOnce) {
      await Turns.by(this.#clock).next()
      explained.push(...(await Promise.all(keys.slice(at, at + lanesAtOnce).map(explainOne))).flat())
    }
    return explained
  }

  /** Has the queues of these endpoints counted, as far as the ledger does not know them. */
  async #know(endpoints: readonly number[]): Promise<void> {
    await this.#ledger.ready()
    for (const endpoint of endpoints) await this.#ledger.refresh(endpoint)
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
   * When the turn of each of these waiting deliveries comes: the instant that `delivery` gives. Of a delivery that waits alone,
   * the state of its lane tells; otherwise its queue is read.
   */
  async nextAttempts(waiting: readonly WaitingDelivery[], { lanes, asked }: Look): Promise<(EpochMs | null)[]> {
    const found: (EpochMs | null)[] = []
    await this.#know([...new Set(waiting.map(({ endpoint }) => endpoint.key))])
    for (let at = 0; at < waiting.length; at += lanesAtOnce) {
      await Turns.by(this.#clock).next()
      const some = waiting.slice(at, at + lanesAtOnce).map(async (delivery) => {
        const lane = lanes.get(delivery.endpoint.key)
        if (lane === undefined) return null
        const isAlone = this.#ledger.endpoint(delivery.endpoint.key).waiting < 2
        const why = isAlone ? whyByLane(delivery, lane) : undefined
        if (why !== undefined) return why.expectedAt
        return (await this.#explainDelivery(delivery.message, delivery.endpoint, asked)).why.expectedAt
      })
      found.push(...(await Promise.all(some)))
    }
    return found
  }

  async state(endpoint: Endpoint): Promise<EndpointState> {
    const [state = 'active'] = await this.states([endpoint])
    return state
  }

  #explain(endpoint: Endpoint, lane: KnownLane): ExplainedEndpoint {
    return { endpoint, lane, why: whyWaiting({ endpoint, lane, queue: lane.queue, load: lane.load }) }
  }

  /** A queued delivery with the facts of its row, and in an ordered lane the delivery in front of it. */
  async #findQueued(delivery: DeliveryKey, endpoint: Endpoint): Promise<KnownRow | undefined> {
    const { key, flow } = endpoint
    const queued = await this.#store.findQueued(delivery)
    const place = queued && { class: queued.class, dueAt: queued.dueAt, message: delivery.message }
    const row = place && (await this.#store.findRow(key, place))
    // Settled between the two reads.
    if (row === undefined) return queued && { ...queued, retryInMs: 0, orderKey: null, endsAt: null, first: null }
    const { retryInMs, orderKey } = row
    const endsAt = Math.min(row.expiresAt ?? Number.POSITIVE_INFINITY, row.since + retryPolicyOf(endpoint).maxAgeMs)
    const isOrdered = place?.class !== replay && (flow.order === 'fifo' || (flow.order === 'key' && orderKey !== null))
    const first =
      isOrdered && (await this.#store.findFront(key, flow.order === 'fifo' ? null : orderKey, place ?? null))
    return queued && { ...queued, retryInMs, orderKey, endsAt, first: first || null }
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
    const load = this.#ledger.load(endpoint.key, live?.snapshot.inFlight ?? 0)
    return {
      ...lane,
      ...rate,
      concurrency: concurrencyOf(endpoint),
      queue: this.#ledger.endpoint(endpoint.key),
      load,
      live,
      silent: isSame && lane.owner !== null && live === null,
      first: null,
    }
  }
}

/** Why a delivery waits, by the state of its lane; undefined where that depends on the deliveries in front of it. */
function whyByLane({ message, endpoint, latest, replaying }: WaitingDelivery, lane: LaneStatus): Why | undefined {
  if (endpoint.flow.order !== 'none' || endpoint.flow.coalesce !== null) return undefined
  const dueAt = replaying ? null : (latest?.nextAt ?? message.deliverAt)
  const itsClass = replaying ? replay : dueAt === null ? fresh : timed
  const attempts = latest?.n ?? 0
  const turn = { ahead: 0, line: 0, isExact: true, notBefore: dueAt ?? 0, share: 1, higher: 0, keyMs: 0 }
  const queued = { class: itsClass, dueAt: dueAt ?? 0, attempts, turn }
  const why = whyNotDelivered({ message, endpoint, latest, dead: undefined, queued, lane })
  const dependsOnOthers = isPaced(why) || (why.reason === 'waiting_for_worker' && why.nextAt !== null)
  return dependsOnOthers ? undefined : why
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
  | keyof Pick<WaitingQueues, 'endpointKeys'>
>
