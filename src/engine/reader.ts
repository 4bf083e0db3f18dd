import type { Clock, SteadyMs } from '../domain/clock.ts'
import { type Class, classes, fresh, replay, timed } from '../domain/delivery.ts'
import type { Verdict } from '../domain/judge.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import { skipped } from '../store/delivering.ts'
import type { DueRead, DueRows, PendingRow, Store, StoredMessage } from '../store/store.ts'
import { Delivery } from './delivery.ts'
import type { Loop } from './loop.ts'
import { horizonOf, takeOrdered } from './ordering.ts'
import type { OwnedLane } from './owned-lane.ts'

/**
 * One call reads at most this many pages, so that the event loop is soon free for others: few of lanes that have something
 * to send until then, more of empty lanes, which usually get a row or two.
 */
const fullLanesPerCall = 2
const emptyLanesPerCall = 64

/** The row of a message that this process has just stored. */
const plainRow: Omit<PendingRow, 'message' | 'dueAt'> = {
  ...{ class: fresh, attempts: 0, priorAttempts: 0, ageMs: 0, lateMs: 0 },
  ...{ orderKey: null, retryInMs: 0, expiresInMs: null, variant: null },
}

interface ReadRequest {
  readonly owned: OwnedLane
  readonly class: Class
}

/**
 * Brings rows from the store into the lanes' queues, a page at a time, so that a backlog of a million rows costs memory for
 * a few hundred. All lanes that need rows in one turn share one call.
 */
export class Reader {
  readonly #parts: ReaderParts
  #requests: ReadRequest[] = []
  #scheduled = false

  constructor(parts: ReaderParts) {
    this.#parts = parts
  }

  /** Requests more rows of a class, if the lane needs them. */
  request(owned: OwnedLane, itsClass: Class): void {
    for (const c of owned.rows.classesToRead(itsClass)) {
      owned.rows.beginRead(c, this.#parts.clock.steady())
      this.#requests.push({ owned, class: c })
      this.#soon()
    }
  }

  /** Requests more rows of every class. */
  requestAll(owned: OwnedLane): void {
    for (const c of classes) this.request(owned, c)
  }

  /** The fast path: queues a row that this process has just stored. False means that it must be read. */
  acceptStored(owned: OwnedLane, { identity, dueAt }: StoredMessage, begunAt: SteadyMs): boolean {
    const now = this.#parts.clock.steady()
    if (!owned.acceptStored(identity.key, begunAt, now)) return false
    const row = { ...plainRow, message: identity.key, dueAt }
    this.#parts.scheduler.offer(owned.lane, fresh, new Delivery(owned, row, now), now)
    return true
  }

  /** Reads now, without waiting for other requests that would share the call. */
  readNow(): void {
    if (this.#requests.length === 0) return
    const all = this.#requests
    this.#requests = []
    const chosen: ReadRequest[] = []
    let [full, empty] = [0, 0]
    for (const request of all) {
      const fits = request.owned.lane.queued === 0 ? empty++ < emptyLanesPerCall : full++ < fullLanesPerCall
      // The classes of an ordered lane are read together.
      if (fits || (chosen.length > 0 && chosen.at(-1)?.owned === request.owned)) chosen.push(request)
      else this.#requests.push(request)
    }
    if (this.#requests.length > 0) this.#soon()
    void this.#read(chosen)
  }

  #soon(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    this.#parts.clock.soon(() => {
      this.#scheduled = false
      this.readNow()
    })
  }

  async #read(requests: readonly ReadRequest[]): Promise<void> {
    const { store, clock, loop, onTrouble } = this.#parts
    const reads = requests.map(({ owned, class: itsClass }) => owned.rows.readOf(itsClass))
    let pages: DueRows[] | undefined
    try {
      pages = await store.readDue(reads)
    } catch (error) {
      onTrouble(error)
    }
    const horizons = horizonsOf(requests, reads, pages ?? [])
    for (const [i, request] of requests.entries()) {
      const page = pages?.[i]
      // A lane dropped while the read was under way takes nothing in.
      if (page && request.owned.isOwned) this.#take(request, page, (reads[i] as DueRead).limit, horizons)
    }
    for (const { owned, class: itsClass } of requests) owned.rows.endRead(itsClass, clock.steady())
    for (const { owned, class: itsClass } of requests) {
      // All rows may have been in memory already, or others were added since. After trouble, housekeeping requests again.
      if (pages && owned.isOwned && !owned.rows.mustAwaitRead(itsClass)) this.request(owned, itsClass)
    }
    loop.startSome()
  }

  #take({ owned, class: itsClass }: ReadRequest, page: DueRows, limit: number, horizons: Horizons): void {
    const { clock, scheduler, loop, onUnwanted } = this.#parts
    const now = clock.steady()
    if (owned.lane.order) {
      const horizon = itsClass === replay ? undefined : horizons.get(owned)
      const unwanted = takeOrdered({ owned, class: itsClass, page, limit, horizon, scheduler, now })
      for (const { delivery, reason } of unwanted) onUnwanted(delivery, { state: 'dead', reason })
    } else {
      for (const row of owned.rows.takePage(itsClass, page.rows, now)) {
        const delivery = new Delivery(owned, row, now)
        if (row.retryInMs === 0) scheduler.offer(owned.lane, itsClass, delivery, now)
        else onUnwanted(delivery, leftByOrder(row))
      }
    }
    if (itsClass === timed && page.nextInMs !== undefined) loop.expectTimed(owned, now + page.nextInMs)
  }
}

/** The row of an ordered delivery, in a lane that is no longer ordered, as a row of any other delivery. */
function leftByOrder({ retryInMs }: PendingRow): Verdict {
  if (retryInMs === skipped) return { state: 'dead', reason: 'skipped' }
  if (retryInMs === Number.POSITIVE_INFINITY) return { state: 'dead', reason: 'exhausted' }
  return { state: 'waiting', waitMs: retryInMs }
}

type Horizons = ReadonlyMap<OwnedLane, PendingRow | undefined>

/** How far the fresh and timed rows of each ordered lane have been read together. */
function horizonsOf(requests: readonly ReadRequest[], reads: readonly DueRead[], pages: readonly DueRows[]): Horizons {
  const horizons = new Map<OwnedLane, PendingRow | undefined>()
  for (const { owned } of requests) {
    if (!owned.lane.order || horizons.has(owned)) continue
    const both = requests.flatMap((request, i) => {
      const page = pages[i]
      return request.owned === owned && request.class !== replay && page ? [{ page, limit: reads[i]?.limit ?? 0 }] : []
    })
    horizons.set(owned, horizonOf(both))
  }
  return horizons
}

export interface ReaderParts {
  readonly store: Pick<Store, 'readDue'>
  readonly clock: Clock
  readonly scheduler: Scheduler<Delivery>
  readonly loop: Pick<Loop, 'startSome' | 'expectTimed'>
  /** A delivery that was read is not to be sent as it is: its lane's ordering, or an operator, decided otherwise. */
  onUnwanted(delivery: Delivery, verdict: Verdict): void
  onTrouble(error: unknown): void
}
