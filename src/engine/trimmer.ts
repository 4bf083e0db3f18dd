import { oldest, trimmedTo } from '../domain/bounds.ts'
import type { Clock } from '../domain/clock.ts'
import type { DeadReason } from '../domain/judge.ts'
import type { PendingRow, Store } from '../store/store.ts'
import { SurplusCount } from '../store/surplus.ts'
import { type Delivery, forgetSettled, newDelivery, type OwnedLane } from './owned-lane.ts'

/** Deliveries ended in one step. */
const chunkRows = 500

/**
 * Ends the oldest of what waits where more waits than may and the endpoint would rather lose those: for the lanes this
 * worker owns. What is being sent stays, and counts.
 */
export class Trimmer {
  readonly #parts: TrimmerParts
  #round: Look[] = []

  constructor(parts: TrimmerParts) {
    this.#parts = parts
  }

  /** Looks at one lane; answers whether there are more to look at. Begins a new round when the last one is over. */
  async step(): Promise<boolean> {
    if (this.#round.length === 0) {
      this.#parts.each(
        (owned) => this.#limitOf(owned) && this.#round.push({ owned, counted: undefined, trimmed: false }),
      )
    }
    const look = this.#round.at(-1)
    if (look === undefined) return false
    const more = this.#parts.owns(look.owned) && (await this.#trim(look))
    if (!more) this.#round.pop()
    return this.#round.length > 0
  }

  #limitOf({ endpoint, lane }: OwnedLane): number | undefined {
    return lane.closed ? undefined : trimmedTo(endpoint, this.#parts.waitingLimit)
  }

  /** Counts a page or ends up to a chunk; answers whether more of the same lane is left to do. */
  async #trim(look: Look): Promise<boolean> {
    const { store, owns } = this.#parts
    const { owned } = look
    const limit = this.#limitOf(owned)
    if (limit === undefined) return false
    const { key } = owned.endpoint
    look.counted ??= { count: new SurplusCount(store, key, limit), endedBefore: owned.ended, surplus: undefined }
    const { counted } = look
    if (counted.surplus === undefined) {
      counted.surplus = await counted.count.step()
      return true
    }
    const { surplus, endedBefore } = counted
    // Counted, and yet gone, or about to be: what ended since, and what the store has yet to hear of.
    const excess = surplus - (owned.ended - endedBefore) - owned.unsettled
    owned.doomed = null
    if (excess <= 0 || !owns(owned)) {
      // More may have been there than were counted.
      look.counted = undefined
      const again = look.trimmed
      look.trimmed = false
      return again
    }
    // What is settled while the heads are read stays in `held` until they are here.
    owned.looking = true
    let rows: PendingRow[]
    try {
      rows = await store.readHeads(key, chunkRows)
    } finally {
      owned.looking = false
      owned.lastReadAt = this.#parts.clock.steady()
    }
    look.trimmed = owns(owned) && (await this.#end(owned, oldest(rows, Math.min(excess, chunkRows)))) > 0
    return look.trimmed
  }

  /** Ends rows at once where they are not in memory, and when their turn comes where they are; answers how many at once. */
  async #end(owned: OwnedLane, rows: readonly PendingRow[]): Promise<number> {
    const { clock, end } = this.#parts
    const untouched = rows.filter(({ message }) => !owned.held.has(message))
    const waiting = rows.filter(({ message }) => owned.held.has(message) && !owned.settledMeanwhile.includes(message))
    forgetSettled(owned)
    if (waiting.length > 0) owned.doomed = new Set(waiting.map(({ message }) => message))
    if (untouched.length === 0) return 0
    const now = clock.steady()
    await new Promise<void>((resolve) => {
      let left = untouched.length
      for (const row of untouched) {
        owned.held.add(row.message)
        end(newDelivery(owned, row, now), 'overflow', () => --left === 0 && resolve())
      }
    })
    return untouched.length
  }
}

/** How many are too many, once that is known, and how many had ended before they were counted. */
interface Counted {
  readonly count: SurplusCount
  readonly endedBefore: number
  surplus: number | undefined
}

/** One lane of a round. */
interface Look {
  readonly owned: OwnedLane
  counted: Counted | undefined
  /** Whether any were ended since. */
  trimmed: boolean
}

export interface TrimmerParts {
  readonly store: Pick<Store, 'surveyWaiting' | 'readHeads'>
  readonly clock: Clock
  /** How many may wait at an endpoint that says nothing of it. */
  readonly waitingLimit: number
  each(visit: (owned: OwnedLane) => void): void
  owns(owned: OwnedLane): boolean
  /** Ends a delivery without an attempt; `recorded` is called once that is durable, or no longer ours. */
  end(delivery: Delivery, reason: DeadReason, recorded: () => void): void
}
