import type { EpochMs } from '../domain/clock.ts'
import { firstKeyAt } from '../domain/ids.ts'
import type { AppRetention, RetentionLimits } from '../store/maintenance.ts'
import type { DeliveryKey } from '../store/messages.ts'
import type { Store } from '../store/store.ts'
import { DeliveryEnds } from './delivery-ends.ts'

/** Applications that are read at once, and in all: beyond them the limits of the server hold. */
const appsPerPage = 500
const mostApps = 20_000
/** Messages that one step looks at. */
const messagesPerStep = 50
/** Deliveries whose dead letters are looked up at once. */
const deliveriesAtOnce = 500

type RetentionStore = Pick<
  Store,
  | 'retain'
  | 'listRetentions'
  | 'removeDead'
  | 'removeMessages'
  | 'listMessages'
  | 'deliveriesEnd'
  | 'loadDestinations'
  | 'attemptedEndpoints'
  | 'deadAmong'
>

/**
 * Removes old rows: first those of applications with limits of their own, a few messages at a time, then those of all others
 * by the limits of the server. Each round reads the applications again.
 */
export class RetentionSweep {
  readonly #store: RetentionStore
  readonly #limits: RetentionLimits
  readonly #ends: DeliveryEnds
  #round: Round | undefined

  constructor(store: RetentionStore, limits: RetentionLimits) {
    this.#store = store
    this.#limits = limits
    this.#ends = new DeliveryEnds(store)
  }

  /** Does a bounded part of a round; answers whether there is more to do right away. */
  async step(): Promise<boolean> {
    this.#round ??= { ...(await this.#applications()), next: 0, after: null }
    const round = this.#round
    const current = round.apps[round.next]
    if (current !== undefined) {
      if (!(await this.#retainOf(current, round))) {
        round.next++
        round.after = null
      }
      return true
    }
    const { more } = await this.#store.retain({ ...this.#limits, apps: round.apps })
    if (!more) this.#round = undefined
    return more
  }

  async #applications(): Promise<Pick<Round, 'now' | 'apps'>> {
    const apps: AppRetention[] = []
    for (;;) {
      const page = await this.#store.listRetentions(apps.at(-1)?.app ?? -1, appsPerPage)
      apps.push(...page.apps)
      if (page.apps.length < appsPerPage || apps.length >= mostApps) return { now: page.now, apps }
    }
  }

  /** Removes some rows of an application; answers whether it has more to look at. */
  async #retainOf({ app, historyMs, deadMs }: AppRetention, round: Round): Promise<boolean> {
    if (deadMs !== null && (await this.#store.removeDead(app, deadMs)) > 0) return true
    if (historyMs === null) return false
    const until = firstKeyAt(Math.max(0, Math.floor(round.now - historyMs)))
    const range = { from: 0, until, after: round.after, order: 'ascending', limit: messagesPerStep } as const
    const messages = await this.#store.listMessages(app, range)
    const over: number[] = []
    for (const { key } of messages) if (await this.#isOver(key)) over.push(key)
    await this.#store.removeMessages(app, over)
    round.after = messages.at(-1)?.key ?? null
    return messages.length === messagesPerStep
  }

  /** Whether the deliveries of a message have ended, and none of them is a dead letter that is kept. */
  async #isOver(message: number): Promise<boolean> {
    let end = await this.#ends.of(message)
    while (end === 'more') end = await this.#ends.of(message)
    if (end === 'queued') return false
    if (end.allDelivered) return true
    const [accepted] = await this.#store.loadDestinations([message], Number.MAX_SAFE_INTEGER)
    const endpoints = new Set([...(accepted?.endpoints ?? []), ...(await this.#store.attemptedEndpoints(message))])
    const deliveries: DeliveryKey[] = [...endpoints].map((endpoint) => ({ endpoint, message }))
    for (let at = 0; at < deliveries.length; at += deliveriesAtOnce) {
      if ((await this.#store.deadAmong(deliveries.slice(at, at + deliveriesAtOnce))).length > 0) return false
    }
    return true
  }
}

interface Round {
  /** The store's clock when the round began. */
  readonly now: EpochMs
  readonly apps: readonly AppRetention[]
  /** The current application, and its last message that was checked. */
  next: number
  after: number | null
}
