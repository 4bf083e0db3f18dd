import type { Clock } from '../domain/clock.ts'
import { type Class, timed } from '../domain/delivery.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import type { DueRead, DueRows, Store } from '../store/store.ts'
import { type Delivery, isReading, newDelivery, type OwnedLane } from './owned-lane.ts'

/** A lane is read again when fewer rows than this are left in memory. */
const lowWater = 64
const pageRows = 192
/**
 * How long a pass through a queue goes on before the next begins at the head. A row committed late, by a transaction
 * that took its time, lies in front of where the pass has come to; in a lane that never runs dry it would wait for ever.
 */
const passMs = 15_000

interface Wish {
  readonly owned: OwnedLane
  readonly class: Class
}

/**
 * Brings rows from the store into the lanes' queues, a page at a time, so that a backlog of a million costs memory for a
 * few hundred. All lanes that want rows in one turn share one call.
 */
export class Reader {
  readonly #parts: ReaderParts
  #wishes: Wish[] = []
  #scheduled = false

  constructor(parts: ReaderParts) {
    this.#parts = parts
  }

  /** Asks for more rows of a class, unless enough are queued, none are left, or a read is under way already. */
  want(owned: OwnedLane, itsClass: Class): void {
    const cursor = owned.cursors[itsClass]
    if (cursor.complete || cursor.reading || owned.lane.closed) return
    if (owned.lane.queues[itsClass].size >= lowWater) return
    cursor.reading = true
    // A pass that began before rows were added must be followed by another.
    if (cursor.after === null) {
      cursor.stale = false
      cursor.beganAt = this.#parts.clock.steady()
    }
    this.#wishes.push({ owned, class: itsClass })
    if (this.#scheduled) return
    this.#scheduled = true
    this.#parts.clock.soon(() => {
      this.#scheduled = false
      const wishes = this.#wishes
      this.#wishes = []
      void this.#read(wishes)
    })
  }

  async #read(wishes: readonly Wish[]): Promise<void> {
    const reads = wishes.map(({ owned, class: itsClass }): DueRead => {
      const { after } = owned.cursors[itsClass]
      return { endpoint: owned.endpoint.key, class: itsClass, after, limit: pageRows }
    })
    let pages: DueRows[] | undefined
    try {
      pages = await this.#parts.store.readDue(reads)
    } catch (error) {
      this.#parts.onTrouble(error)
    }
    for (const [i, wish] of wishes.entries()) {
      const page = pages?.[i]
      wish.owned.cursors[wish.class].reading = false
      // A lane dropped while the read was under way takes nothing in.
      if (page && this.#parts.owns(wish.owned)) this.#take(wish, page)
    }
    for (const wish of wishes) {
      if (!isReading(wish.owned)) {
        for (const message of wish.owned.settledMeanwhile) wish.owned.held.delete(message)
        wish.owned.settledMeanwhile.length = 0
      }
      // Nothing new may have been among the rows, or rows were added since.
      if (pages && this.#parts.owns(wish.owned) && !mustWait(wish)) this.want(wish.owned, wish.class)
    }
    this.#parts.onRead()
  }

  #take({ owned, class: itsClass }: Wish, page: DueRows): void {
    const { clock, scheduler } = this.#parts
    const now = clock.steady()
    const cursor = owned.cursors[itsClass]
    let takenAny = false
    for (const row of page.rows) {
      if (owned.held.has(row.message)) {
        // Settled meanwhile, a timed row may also be the one that it became: only a later read can tell.
        if (itsClass === timed && owned.settledMeanwhile.includes(row.message)) cursor.stale = true
        continue
      }
      takenAny = true
      owned.held.add(row.message)
      scheduler.offer(owned.lane, itsClass, newDelivery(owned, row, now), now)
    }
    const last = page.rows.at(-1)
    if (page.rows.length === pageRows && last) {
      // Not before it has brought something: it may take several pages to get past what is held already.
      const isOver = takenAny && now - cursor.beganAt >= passMs
      cursor.after = isOver ? null : { dueAt: last.dueAt, message: last.message }
    } else {
      cursor.after = null
      cursor.complete = !cursor.stale
    }
    if (itsClass === timed && page.nextInMs !== undefined) this.#parts.onTimed(owned, now + page.nextInMs)
  }
}

export interface ReaderParts {
  readonly store: Pick<Store, 'readDue'>
  readonly clock: Clock
  readonly scheduler: Scheduler<Delivery>
  owns(owned: OwnedLane): boolean
  /** A timed row of the lane will be due then. */
  onTimed(owned: OwnedLane, at: number): void
  onRead(): void
  onTrouble(error: unknown): void
}

/** Another read of the lane is still out, so reading again now would skip the same rows; housekeeping asks again. */
function mustWait({ owned, class: itsClass }: Wish): boolean {
  return itsClass === timed && owned.cursors[itsClass].stale && owned.settledMeanwhile.length > 0
}
