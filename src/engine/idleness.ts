import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Chores } from './chores.ts'
import type { LaneBook } from './lane-book.ts'
import type { Ownership } from './ownership.ts'

/** One that was asked for and has not come is asked for again. */
const reconcileAgainMs = 5000

/** Knows whether there is anything to send soon, by looking for what nobody told of: for a process that is to end then. */
export class Idleness {
  readonly #parts: IdlenessParts
  #reconcileAskedAt: SteadyMs = Number.NEGATIVE_INFINITY

  constructor(parts: IdlenessParts) {
    this.#parts = parts
  }

  /**
   * Whether nothing can be sent within this time, as far as is known: nothing is under way, due or about to be. Asked, it
   * sees to it that it comes to know: it looks for lost wake-ups once, and for lanes that chores have given work. What was
   * published `since` then, by another part of this process, is looked for as well.
   */
  isIdle(withinMs: number, since: SteadyMs): boolean {
    const { clock, chores, ownership, book } = this.#parts
    if (chores.busy) return false
    const now = clock.steady()
    const { reconciledAt } = ownership
    const askedAt = this.#reconcileAskedAt
    if (reconciledAt === undefined || reconciledAt < askedAt || askedAt <= since) {
      if (now - askedAt > reconcileAgainMs || (askedAt <= since && since < now)) {
        this.#reconcileAskedAt = now
        void ownership.reconcile()
      }
      return false
    }
    if (ownership.claimedAt <= Math.max(reconciledAt, chores.endedAt)) {
      ownership.claimSoon()
      return false
    }
    const until = now + withinMs
    return chores.nextAt > until && ownership.isIdleUntil(until) && book.isIdleUntil(until, now)
  }
}

export interface IdlenessParts {
  readonly clock: Clock
  readonly chores: Chores
  readonly ownership: Ownership
  readonly book: LaneBook
}
