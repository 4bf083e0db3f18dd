import { noSuch } from '../domain/app-error.ts'
import type { LaneStatus } from '../domain/blocker.ts'
import type { Clock, EpochMs } from '../domain/clock.ts'
import { type Attempt, fresh, type Message, replay } from '../domain/delivery.ts'
import { type Endpoint, retryPolicyOf } from '../domain/endpoint.ts'
import { readSnapshot } from '../domain/snapshot.ts'
import { type Why, whyNotDelivered } from '../domain/why.ts'
import { type EndpointWhy, totalOf, whyWaiting } from '../domain/why-waiting.ts'
import { countLimit, type FirstRow, type LaneFacts, type QueuedRow, type RowStatus } from '../store/lanes.ts'
import type { DeliveryKey } from '../store/messages.ts'
import type { Store } from '../store/store.ts'

/** How long an owner is waited for. It answers within a few milliseconds, or it is busy, stalled or dead. */
const answerMs = 500
/** However long each took: where this process is busy itself, its own workers get to answer in between. */
const fewestLooks = 6
const firstLookMs = 1
const longestLookMs = 50

/** A lane as it is stored, and as its owner says it is. */
export interface KnownLane extends LaneFacts, Pick<LaneStatus, 'live' | 'silent' | 'first'> {}

/** A queued delivery, and in a lane that keeps an order who is in front of it. */
export interface KnownRow extends QueuedRow, Pick<RowStatus, 'retryInMs'> {
  /** When its time is up: its message's, or what a delivery may wait at the endpoint. */
  readonly endsAt: EpochMs | null
  readonly first: FirstRow | null
}

/** Where one delivery stands. */
export interface ExplainedDelivery {
  readonly why: Why
  readonly lane: KnownLane
  readonly queued: KnownRow | undefined
  readonly latest: Attempt | undefined
}

/** What stands in the way of all that waits for an endpoint. */
export interface ExplainedEndpoint {
  readonly endpoint: Endpoint
  readonly why: EndpointWhy
  readonly lane: KnownLane
  readonly total: number
  readonly isExact: boolean
  readonly oldestSince: number | null
}

/** Finds out why something is not delivered yet: asks the owners of lanes, reads the store, and has the domain decide. */
export class Explainer {
  readonly #store: ExplainerStore
  readonly #clock: Clock

  constructor(store: ExplainerStore, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  async delivery(message: Message, endpoint: Endpoint): Promise<ExplainedDelivery> {
    const delivery = { endpoint: endpoint.key, message: message.key }
    const asked = await this.#ask([endpoint.key])
    // The queue is read before what ended: a delivery that ends in between is then seen to have ended.
    const row = await this.#findQueued(delivery, endpoint)
    const [dead, [coalesced], [latest], lane] = await Promise.all([
      row === undefined ? this.#store.findDead(endpoint.key, message.key) : undefined,
      row === undefined ? this.#store.findCoalesced([delivery]) : [],
      this.#store.latestAttempts([delivery]),
      this.#lane(endpoint, asked),
    ])
    const [last] = latest === undefined ? [] : await this.#store.loadAttempts([latest])
    const queued = row && { ...row, ahead: row.ahead + servedBefore(row, endpoint, lane) }
    const facts = {
      message,
      endpoint,
      latest,
      dead,
      coalesced,
      queued,
      lane: { ...lane, first: queued?.first ?? null },
    }
    return { why: whyNotDelivered(facts), lane, queued, latest: last }
  }

  async endpoint(endpoint: Endpoint): Promise<ExplainedEndpoint> {
    const asked = await this.#ask([endpoint.key])
    return this.#explain(endpoint, await this.#inLine(endpoint, await this.#lane(endpoint, asked)))
  }

  /** Each of these endpoints that something waits for; those that were emptied or deleted meanwhile are left out. */
  async all(endpoints: readonly Endpoint[]): Promise<ExplainedEndpoint[]> {
    const asked = await this.#ask(endpoints.map(({ key }) => key))
    const explained = await Promise.all(
      endpoints.map(async (endpoint) => {
        const lane = await this.#findLane(endpoint, asked)
        return lane === undefined ? [] : [this.#explain(endpoint, await this.#inLine(endpoint, lane))]
      }),
    )
    return explained.flat().filter(({ total }) => total > 0)
  }

  /** A lane with its owner's word on it. */
  async lane(endpoint: Endpoint): Promise<KnownLane> {
    return this.#lane(endpoint, await this.#ask([endpoint.key]))
  }

  #explain(endpoint: Endpoint, lane: KnownLane): ExplainedEndpoint {
    const isExact = lane.waiting.every((count) => count < countLimit)
    const facts = { endpoint, lane, isExact }
    const { oldestSince } = lane
    return { endpoint, why: whyWaiting(facts), lane, total: totalOf(facts), isExact, oldestSince }
  }

  /** A queued delivery, with what its row tells, and who stands in front of it where that matters. */
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
      isOrdered && (await this.#store.findFirst(key, flow.order === 'fifo' ? null : orderKey, place ?? null))
    return queued && { ...queued, retryInMs, endsAt, first: first || null }
  }

  /** A lane with the first in its line, where all that waits stands behind it. */
  async #inLine({ key, flow }: Endpoint, lane: KnownLane): Promise<KnownLane> {
    const { order = null, inFlight = 0 } = lane.live?.snapshot ?? {}
    // With several keys the others go on; only its owner knows when none may.
    const isStuck = flow.order === 'fifo' || (order !== null && order.waitMs !== 0)
    if (flow.order === 'none' || !isStuck || inFlight > 0) return lane
    const first = await this.#store.findFirst(key, null, null)
    if (first === undefined || flow.order === 'fifo' || order?.waitMs == null) return { ...lane, first: first ?? null }
    // What takes somebody is told before what others wait for.
    if (first.retryInMs === Number.POSITIVE_INFINITY) return { ...lane, first }
    return { ...lane, first: { ...first, retryInMs: (lane.live?.at ?? 0) + order.waitMs - lane.now } }
  }

  /** Asks the owners and waits for them a while. */
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
          // What an earlier owner said is not true any more.
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
    return { ...lane, live, silent: isSame && lane.owner !== null && live === null, first: null }
  }
}

/** How many of other classes go first: what is fresh before retries, and both before replays. In order, place decides. */
function servedBefore(row: QueuedRow, { flow }: Endpoint, { waiting, nextTimedAt, now }: LaneFacts): number {
  const [isFresh, isTimed] = waiting
  if (row.class === fresh || (row.class !== replay && flow.order !== 'none')) return 0
  const due = nextTimedAt !== null && nextTimedAt <= now ? isTimed : 0
  return row.class === replay ? isFresh + due : isFresh
}

/** Who was asked, and what they said. */
type Asked = ReadonlyMap<number, { readonly owner: number | null; readonly live: LaneStatus['live'] }>
const noneAsked: Asked = new Map()

type ExplainerStore = Pick<
  Store,
  | 'askLanes'
  | 'readAnswers'
  | 'findLane'
  | 'findQueued'
  | 'findRow'
  | 'findFirst'
  | 'findDead'
  | 'findCoalesced'
  | 'latestAttempts'
  | 'loadAttempts'
>
