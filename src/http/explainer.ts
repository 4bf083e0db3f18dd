import { AppError } from '../domain/app-error.ts'
import type { LaneStanding } from '../domain/blocker.ts'
import type { Clock } from '../domain/clock.ts'
import type { Attempt, Message } from '../domain/delivery.ts'
import type { Endpoint } from '../domain/endpoint.ts'
import { readSnapshot } from '../domain/snapshot.ts'
import { type Why, whyNotDelivered } from '../domain/why.ts'
import { type EndpointWhy, totalOf, whyWaiting } from '../domain/why-waiting.ts'
import { countLimit, type LaneFacts, type QueuedRow } from '../store/replaying.ts'
import type { Store } from '../store/store.ts'

/** How long an owner is waited for. It answers within a few milliseconds, or it is busy, stalled or dead. */
const answerMs = 500
const firstLookMs = 1
const longestLookMs = 50

/** A lane as it is stored, and as its owner says it is. */
export interface KnownLane extends LaneFacts, Pick<LaneStanding, 'live' | 'silent'> {}

/** Where one delivery stands. */
export interface ExplainedDelivery {
  readonly why: Why
  readonly lane: KnownLane
  readonly queued: QueuedRow | undefined
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
    const queued = await this.#store.findQueued(delivery)
    const [dead, [coalesced], [latest], lane] = await Promise.all([
      queued === undefined ? this.#store.findDead(endpoint.key, message.key) : undefined,
      queued === undefined ? this.#store.findCoalesced([delivery]) : [],
      this.#store.latestAttempts([delivery]),
      this.#lane(endpoint.key, asked),
    ])
    return { why: whyNotDelivered({ message, endpoint, latest, dead, coalesced, queued, lane }), lane, queued, latest }
  }

  async endpoint(endpoint: Endpoint): Promise<ExplainedEndpoint> {
    const asked = await this.#ask([endpoint.key])
    return this.#explain(endpoint, await this.#lane(endpoint.key, asked))
  }

  /** Each of these endpoints that something waits for; those that were emptied or deleted meanwhile are left out. */
  async all(endpoints: readonly Endpoint[]): Promise<ExplainedEndpoint[]> {
    const asked = await this.#ask(endpoints.map(({ key }) => key))
    const explained: ExplainedEndpoint[] = []
    for (const endpoint of endpoints) {
      const lane = await this.#findLane(endpoint.key, asked)
      if (lane !== undefined) explained.push(this.#explain(endpoint, lane))
    }
    return explained.filter(({ total }) => total > 0)
  }

  /** A lane with its owner's word on it. */
  async lane(endpoint: number): Promise<KnownLane> {
    return this.#lane(endpoint, await this.#ask([endpoint]))
  }

  #explain(endpoint: Endpoint, lane: KnownLane): ExplainedEndpoint {
    const isExact = lane.waiting.every((count) => count < countLimit)
    const facts = { endpoint, lane, isExact }
    const { oldestSince } = lane
    return { endpoint, why: whyWaiting(facts), lane, total: totalOf(facts), isExact, oldestSince }
  }

  /** Asks the owners and waits for them a while. */
  async #ask(endpoints: readonly number[]): Promise<Asked> {
    const before = await this.#store.readAnswers(endpoints)
    const owned = before.filter(({ owner }) => owner !== null)
    const seen = new Map(owned.map(({ endpoint, snapshot }) => [endpoint, snapshot]))
    const keys = [...seen.keys()]
    if (keys.length === 0 || !(await this.#store.askLanes(keys))) return noneAsked
    const giveUpAt = this.#clock.steady() + answerMs
    for (let waitMs = firstLookMs; ; waitMs = Math.min(longestLookMs, waitMs * 2)) {
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
      if (isOver || this.#clock.steady() >= giveUpAt) return words
    }
  }

  async #lane(endpoint: number, asked: Asked): Promise<KnownLane> {
    const lane = await this.#findLane(endpoint, asked)
    if (lane === undefined) throw new AppError('not_found', 'There is no such endpoint.')
    return lane
  }

  async #findLane(endpoint: number, asked: Asked): Promise<KnownLane | undefined> {
    const lane = await this.#store.findLane(endpoint)
    if (lane === undefined) return undefined
    const word = asked.get(endpoint)
    const isSame = word !== undefined && word.owner === (lane.owner?.worker ?? null)
    const live = isSame && word.live !== null ? { ...word.live, at: Math.min(word.live.at, lane.now) } : null
    return { ...lane, live, silent: isSame && lane.owner !== null && live === null }
  }
}

/** Who was asked, and what they said. */
type Asked = ReadonlyMap<number, { readonly owner: number | null; readonly live: LaneStanding['live'] }>
const noneAsked: Asked = new Map()

type ExplainerStore = Pick<
  Store,
  'askLanes' | 'readAnswers' | 'findLane' | 'findQueued' | 'findDead' | 'findCoalesced' | 'latestAttempts'
>
