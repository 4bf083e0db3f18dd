import type { EpochMs } from '../domain/clock.ts'
import { firstKeyAt } from '../domain/ids.ts'
import { stepsOf } from '../features/erasure/rules.ts'
import type { AppRetention, PayloadEnd, RetentionLimits } from '../store/maintenance.ts'
import type { DeliveryKey } from '../store/messages.ts'
import type { Store } from '../store/store.ts'

/** Applications that are read at once, and in all: beyond them the limits of the server hold. */
const appsPerPage = 500
const mostApps = 20_000
const messagesPerStep = 50
/** Deliveries whose dead letters are looked up at once. */
const deliveriesAtOnce = 500

/**
 * Removes old rows: first those of applications with limits of their own, a few messages at a time, then those of all others
 * by the limits of the server. Each round reads the applications again.
 */
export class RetentionSweep {
  readonly #store: Store
  readonly #limits: RetentionLimits
  readonly #ends: DeliveryEnds
  #round: Round | undefined

  constructor(store: Store, limits: RetentionLimits) {
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

/** The deliveries of a message have ended: when the last one did, and whether all succeeded. */
interface Ended {
  readonly at: EpochMs
  readonly allDelivered: boolean
}

interface Walk extends Ended {
  readonly from: number
  readonly version: number
}

/** Messages that may be half looked at. The oldest is forgotten and looked at from its start. */
const walksKept = 10_000

/**
 * Finds out whether the deliveries of messages have ended. A message may have very many, so each call looks at some hundred
 * and remembers how far it came.
 */
export class DeliveryEnds {
  readonly #store: Pick<Store, 'deliveriesEnd'>
  readonly #walks = new Map<number, Walk>()

  constructor(store: Pick<Store, 'deliveriesEnd'>) {
    this.#store = store
  }

  /**
   * `queued` while a delivery is; `more` when there are more to look at, by another call. A call with another version
   * begins again: deliveries that were looked at may have been replayed since.
   */
  async of(message: number, version = 0): Promise<Ended | 'queued' | 'more'> {
    const known = this.#walks.get(message)
    const { from, at, allDelivered } = known?.version === version ? known : { from: 0, at: 0, allDelivered: true }
    const end = await this.#store.deliveriesEnd(message, from)
    if (end === undefined) return 'queued'
    const ended = { at: Math.max(at, end.at), allDelivered: allDelivered && end.allDelivered }
    this.#walks.delete(message)
    if (end.next === null) return ended
    this.#walks.set(message, { ...ended, from: end.next, version })
    if (this.#walks.size > walksKept) this.#walks.delete(this.#walks.keys().next().value as number)
    return 'more'
  }
}

/** Messages whose bodies one step erases. */
const payloadsPerStep = 50

/** Erases bodies that were kept for long enough, or whose deliveries have all succeeded. Answers whether there are more. */
export async function erasePayloads(store: Store, ends: DeliveryEnds): Promise<boolean> {
  const due = await store.duePayloadEnds(payloadsPerStep)
  const [gone, delivered, postponed]: [number[], PayloadEnd[], number[]] = [[], [], []]
  for (const found of due) {
    const { message, isOver } = found
    if (isOver) {
      gone.push(message)
      continue
    }
    const end = await ends.of(message, found.at)
    if (end === 'more') continue
    if (end !== 'queued' && end.allDelivered) delivered.push(found)
    else postponed.push(message)
  }
  for (const step of stepsOf(gone, await store.weighMessages(gone))) await store.expungeMessages(step)
  if (delivered.length > 0) {
    const erased = new Set(await store.eraseDelivered(delivered))
    gone.push(...erased)
    postponed.push(...delivered.map(({ message }) => message).filter((message) => !erased.has(message)))
  }
  if (gone.length > 0) await store.forgetPayloadEnds(gone)
  if (postponed.length > 0) await store.postponePayloadEnds(postponed)
  return due.length === payloadsPerStep || gone.length + postponed.length < due.length
}
