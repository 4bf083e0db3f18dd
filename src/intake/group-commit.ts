import type { Clock, SteadyMs } from '../domain/clock.ts'
import { queuedAtOnce } from '../store/plan.ts'
import type { Publication, Published, Store } from '../store/store.ts'
import { AnswerRate } from './answer-rate.ts'

/**
 * One transaction takes at most this much, so that none holds the database for long; on SQLite, 1,000 deliveries keep the
 * process busy for about 3 ms.
 */
const groupLimit = 512
const groupBytesLimit = 8 * 1024 * 1024
const groupDeliveriesLimit = 1000
/**
 * Transactions under way at once. Four keep Postgres's log writer busy. SQLite has one thread for them and for everything
 * else, to which fewer and larger ones leave more: the API takes 20,500 publishes/s with one, 18,100 with two.
 */
const groupsAtOnce = { sqlite: 1, postgres: 4 } as const

/** Something to be stored that waits for its answer. */
export interface Unanswered {
  readonly publication: Publication
  readonly since: SteadyMs
  /** Answers with an error. Must not throw. */
  readonly refuse: (reason: unknown) => void
}

/**
 * Stores what arrives in one turn of the event loop in one transaction (64,000 messages/s against 6,500 one by one); while
 * transactions are under way, later arrivals gather for the next.
 */
export class GroupCommit<T extends Unanswered> {
  readonly #parts: GroupCommitParts<T>
  #waiting: T[] = []
  /** Transactions under way. */
  readonly #groups = new Set<readonly T[]>()
  readonly #rate = new AnswerRate()
  #planned = false

  constructor(parts: GroupCommitParts<T>) {
    this.#parts = parts
  }

  add(one: T): void {
    this.#waiting.push(one)
    this.#soon()
  }

  /** One transaction begins per turn, so that what else there is to do gets its turn in between. */
  #soon(): void {
    if (this.#planned || this.#waiting.length === 0 || this.#groups.size === groupsAtOnce[this.#parts.store.dialect])
      return
    this.#planned = true
    this.#parts.clock.soon(() => {
      this.#planned = false
      void this.#storeGroup(this.#takeGroup())
      this.#soon()
    })
  }

  /** How long a message that arrives now is likely to wait: as the oldest has, or as what is ahead of it will take. */
  delayMs(): number {
    const now = this.#parts.clock.steady()
    let oldest = this.#waiting[0]?.since ?? now
    let unanswered = this.#waiting.length
    for (const group of this.#groups) {
      oldest = Math.min(oldest, group[0]?.since ?? now)
      unanswered += group.length
    }
    return Math.max(now - oldest, this.#rate.delayMs(unanswered, now))
  }

  /** Stores a group and answers each of it. Never rejects: its promise has no owner. */
  async #storeGroup(group: readonly T[]): Promise<void> {
    this.#groups.add(group)
    let answer: (one: T, i: number) => void
    try {
      const answers = await this.#parts.store.publish(group.map(({ publication }) => publication))
      answer = (one, i) => this.#parts.onStored(one, answers[i] as Published)
    } catch (error) {
      answer = (one) => this.#parts.onFailed(one, error)
    }
    this.#groups.delete(group)
    this.#rate.add(group.length, this.#parts.clock.steady())
    for (const [i, one] of group.entries()) {
      try {
        answer(one, i)
      } catch (error) {
        // A fault in one answer stays with its message: the rest of the group is stored and waits for its own.
        one.refuse(error)
      }
    }
    this.#soon()
  }

  #takeGroup(): T[] {
    let [bytes, deliveries, count] = [0, 0, 0]
    for (const { publication } of this.#waiting) {
      bytes += bytesOf(publication)
      // Those of a message for very many are queued afterwards.
      deliveries += publication.endpoints.length > queuedAtOnce ? 0 : publication.endpoints.length
      const isFull = count === groupLimit || bytes > groupBytesLimit || deliveries > groupDeliveriesLimit
      if (isFull && count > 0) break
      count++
    }
    if (count < this.#waiting.length) return this.#waiting.splice(0, count)
    const group = this.#waiting
    this.#waiting = []
    return group
  }
}

function bytesOf({ body, variants }: Publication): number {
  let bytes = body.length
  for (const variant of variants ?? []) bytes += variant.body?.length ?? 0
  return bytes
}

export interface GroupCommitParts<T extends Unanswered> {
  readonly store: Pick<Store, 'publish' | 'dialect'>
  readonly clock: Clock
  /** The store answered. */
  onStored(one: T, answer: Published): void
  /** The store failed; as far as is known, the message was not stored. */
  onFailed(one: T, error: unknown): void
}
