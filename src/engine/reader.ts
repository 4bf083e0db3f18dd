import type { Clock, SteadyMs } from '../domain/clock.ts'
import { type Class, classes, fresh, replay, timed } from '../domain/delivery.ts'
import type { DeadReason } from '../domain/judge.ts'
import type { OrderedLine } from '../domain/order.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import type { DueRead, DueRows, PendingRow, Store, StoredMessage } from '../store/store.ts'
import { hasEnough, horizonOf, takeOrdered } from './ordered-rows.ts'
import { type Delivery, forgetSettled, isReading, newDelivery, type OwnedLane } from './owned-lane.ts'

/** A lane is read again when fewer rows than this are left in memory. */
const lowWater = 64
const pageRows = 192
/**
 * One call reads at most this many pages, so that whoever else is served meanwhile does not wait for more: few of lanes
 * that have something to send until then, more of those that have nothing, which usually get a row or two.
 */
const fullAtOnce = 2
const emptyAtOnce = 64
/**
 * How long after it began at the head a queue is read from there again. A row committed late, by a transaction that took its
 * time, lies in front of where reading has come to, and one that nobody told of where nobody reads any more; in a lane that
 * never runs dry, or always gets what is stored straight away, it would wait for ever.
 */
const passMs = 15_000

/** What a row looks like that was just stored, but for what it is about. */
const plainRow: Omit<PendingRow, 'message' | 'dueAt'> = {
  ...{ class: fresh, attempts: 0, priorAttempts: 0, ageMs: 0 },
  ...{ orderKey: null, heldMs: 0, expiresInMs: null, variant: null },
}

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
    if (owned.lane.order) return this.#wantOrdered(owned, itsClass, owned.lane.order)
    if (owned.lane.queues[itsClass].size >= lowWater) return
    this.#wish(owned, itsClass)
  }

  /** Asks for more rows of every class. */
  wantAll(owned: OwnedLane): void {
    for (const c of classes) this.want(owned, c)
  }

  /**
   * In a lane that keeps an order, fresh and timed rows are read together, and from the head each time: what was committed
   * late lies in front of what has been read, and may have been accepted before what comes next.
   */
  #wantOrdered(owned: OwnedLane, itsClass: Class, order: OrderedLine<Delivery>): void {
    const marks = { low: lowWater, page: pageRows }
    if (itsClass === replay) {
      if (owned.unsure || !hasEnough(order, replay, marks)) this.#wish(owned, replay)
      return
    }
    if (owned.cursors[fresh].reading || owned.cursors[timed].reading) return
    if (!owned.unsure && (hasEnough(order, fresh, marks) || hasEnough(order, timed, marks))) return
    owned.unsure = false
    this.#wish(owned, fresh)
    this.#wish(owned, timed)
  }

  #wish(owned: OwnedLane, itsClass: Class): void {
    const cursor = owned.cursors[itsClass]
    cursor.reading = true
    // A pass that began before rows were added must be followed by another.
    if (cursor.after === null) {
      cursor.stale = false
      cursor.beganAt = this.#parts.clock.steady()
    }
    this.#wishes.push({ owned, class: itsClass })
    this.#soon()
  }

  /**
   * Takes in a row that this process has just stored, as if it had been read. Answers false when it must be read: others may
   * be in front of it, it has a place in an order, a read since storing it began may have brought it already, or the queue
   * has not been read for so long that something may lie in it which nobody told of.
   */
  takeStored(owned: OwnedLane, { identity, dueAt }: StoredMessage, begunAt: SteadyMs): boolean {
    const { lane, cursors, held } = owned
    if (isReading(owned) || owned.lastReadAt >= begunAt) return false
    if (lane.order || lane.closed || !cursors[fresh].complete || lane.queues[fresh].size >= lowWater) return false
    const now = this.#parts.clock.steady()
    if (now - cursors[fresh].beganAt >= passMs) return false
    owned.lastActiveAt = now
    held.add(identity.key)
    const row = { ...plainRow, message: identity.key, dueAt }
    this.#parts.scheduler.offer(lane, fresh, newDelivery(owned, row, now), now)
    return true
  }

  /** Reads what was asked for, without waiting for others that would share the call. */
  readNow(): void {
    if (this.#wishes.length === 0) return
    const all = this.#wishes
    this.#wishes = []
    const read: Wish[] = []
    let [full, empty] = [0, 0]
    for (const wish of all) {
      const fits = wish.owned.lane.queued === 0 ? empty++ < emptyAtOnce : full++ < fullAtOnce
      // An ordered lane's classes are read together.
      if (fits || (read.length > 0 && read.at(-1)?.owned === wish.owned)) read.push(wish)
      else this.#wishes.push(wish)
    }
    if (this.#wishes.length > 0) this.#soon()
    void this.#read(read)
  }

  #soon(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    this.#parts.clock.soon(() => {
      this.#scheduled = false
      this.readNow()
    })
  }

  async #read(wishes: readonly Wish[]): Promise<void> {
    const reads = wishes.map(({ owned, class: itsClass }): DueRead => {
      const { after } = owned.cursors[itsClass]
      const known = owned.lane.order?.known(itsClass) ?? 0
      return { endpoint: owned.endpoint.key, class: itsClass, after, limit: known + pageRows }
    })
    let pages: DueRows[] | undefined
    try {
      pages = await this.#parts.store.readDue(reads)
    } catch (error) {
      this.#parts.onTrouble(error)
    }
    const horizons = horizonsOf(wishes, reads, pages ?? [])
    for (const [i, wish] of wishes.entries()) {
      const page = pages?.[i]
      wish.owned.cursors[wish.class].reading = false
      wish.owned.lastReadAt = this.#parts.clock.steady()
      // A lane dropped while the read was under way takes nothing in.
      if (!page || !this.#parts.owns(wish.owned)) continue
      if (wish.owned.lane.order) this.#takeOrdered(wish, page, (reads[i] as DueRead).limit, horizons)
      else this.#take(wish, page)
    }
    for (const wish of wishes) {
      forgetSettled(wish.owned)
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
      const delivery = newDelivery(owned, row, now)
      // It waits where an ordered lane left it; in this one it waits as anything does.
      if (row.heldMs !== 0) this.#parts.onLeftBehind(delivery)
      else scheduler.offer(owned.lane, itsClass, delivery, now)
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

  #takeOrdered({ owned, class: itsClass }: Wish, page: DueRows, limit: number, horizons: Horizons): void {
    const { clock, scheduler } = this.#parts
    const now = clock.steady()
    const horizon = itsClass === replay ? undefined : horizons.get(owned)
    const end = this.#parts.onUnwanted
    takeOrdered({ owned, class: itsClass, page, limit, horizon, scheduler, now, end })
    if (itsClass === timed && page.nextInMs !== undefined) this.#parts.onTimed(owned, now + page.nextInMs)
  }
}

type Horizons = ReadonlyMap<OwnedLane, PendingRow | undefined>

/** How far the fresh and timed rows of each ordered lane have been read together. */
function horizonsOf(wishes: readonly Wish[], reads: readonly DueRead[], pages: readonly DueRows[]): Horizons {
  const horizons = new Map<OwnedLane, PendingRow | undefined>()
  for (const { owned } of wishes) {
    if (!owned.lane.order || horizons.has(owned)) continue
    const both = wishes.flatMap((wish, i) => {
      const page = pages[i]
      return wish.owned === owned && wish.class !== replay && page ? [{ page, limit: reads[i]?.limit ?? 0 }] : []
    })
    horizons.set(owned, horizonOf(both))
  }
  return horizons
}

export interface ReaderParts {
  readonly store: Pick<Store, 'readDue'>
  readonly clock: Clock
  readonly scheduler: Scheduler<Delivery>
  owns(owned: OwnedLane): boolean
  /** A row of a lane without order was left in its place by one with. */
  onLeftBehind(delivery: Delivery): void
  /** A delivery of an ordered lane is to end without being sent. */
  onUnwanted(delivery: Delivery, reason: DeadReason): void
  /** A timed row of the lane will be due then. */
  onTimed(owned: OwnedLane, at: number): void
  onRead(): void
  onTrouble(error: unknown): void
}

/** Another read of the lane is still out, so reading again now would skip the same rows; housekeeping asks again. */
function mustWait({ owned, class: itsClass }: Wish): boolean {
  return itsClass === timed && owned.cursors[itsClass].stale && owned.settledMeanwhile.length > 0
}
