import type { Clock, SteadyMs } from '../domain/clock.ts'
import { type Class, classes, fresh, replay, timed } from '../domain/delivery.ts'
import { FairQueue } from '../domain/fair-queue.ts'
import { invariant, present } from '../domain/invariant.ts'
import type { DeadReason, Verdict } from '../domain/judge.ts'
import { isOrdered } from '../domain/lane.ts'
import { type Entry, isBefore } from '../domain/queue.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import { skipped } from '../store/delivering.ts'
import type { DueRead, DueRows, PendingRow, QueueFront, Store, StoredMessage } from '../store/store.ts'
import { Delivery } from './delivery.ts'
import type { Loop } from './loop.ts'
import type { OwnedLane } from './owned-lane.ts'

/**
 * One call reads at most this many pages, so that the event loop is soon free for others: few of lanes that have something
 * to send until then, more of empty lanes, which usually get a row or two.
 */
const fullPagesPerCall = 2
const emptyPagesPerCall = 64

/** The row of a message that this process has just stored. */
const plainRow: Omit<PendingRow, 'message' | 'dueAt'> = {
  ...{ class: fresh, attempts: 0, priorAttempts: 0, ageMs: 0, lateMs: 0 },
  ...{ orderKey: null, retryInMs: 0, expiresInMs: null, variant: null },
}

/** One page of one class of a lane. */
interface PageRequest {
  readonly owned: OwnedLane
  readonly class: Class
}

/** The pages that a lane waits for. All of them are read by one call. */
interface LaneRequest {
  readonly owned: OwnedLane
  readonly classes: Class[]
  wasEmpty: boolean
  taken: boolean
}

/**
 * Brings rows from the store into the lanes' queues, a page at a time, so that a backlog of a million rows costs memory for
 * a few hundred. Lanes that need rows in one turn share a call. When there are more than one call may read, applications
 * take turns, and lanes without anything to send go before the others; a turn costs the same however many lanes wait.
 */
export class Reader {
  readonly #deps: ReaderDeps
  readonly #requests = new Map<OwnedLane, LaneRequest>()
  /** Waiting lanes by whether they have something to send. A lane that has sent all meanwhile is in both. */
  readonly #full = new FairQueue<LaneRequest>()
  readonly #empty = new FairQueue<LaneRequest>()
  #scheduled = false

  constructor(deps: ReaderDeps) {
    this.#deps = deps
  }

  /** Lanes that wait to be read. */
  get waiting(): number {
    return this.#requests.size
  }

  /** Requests more rows of a class, if the lane needs them. */
  request(owned: OwnedLane, itsClass: Class): void {
    const wanted = owned.rows.classesToRead(itsClass)
    if (wanted.length === 0) return this.#hurry(owned)
    const now = this.#deps.clock.steady()
    let request = this.#requests.get(owned)
    if (request === undefined) {
      request = { owned, classes: [], wasEmpty: owned.lane.queued === 0, taken: false }
      this.#requests.set(owned, request)
      const queue = request.wasEmpty ? this.#empty : this.#full
      queue.push(owned.endpoint.app, request)
    }
    for (const c of wanted) {
      owned.rows.beginRead(c, now)
      request.classes.push(c)
    }
    this.#soon()
  }

  /** A lane that waited with something to send, and has sent it, waits with the empty ones. */
  #hurry(owned: OwnedLane): void {
    if (owned.lane.queued > 0) return
    const request = this.#requests.get(owned)
    if (request === undefined || request.wasEmpty) return
    request.wasEmpty = true
    this.#empty.push(owned.endpoint.app, request)
  }

  /** Requests more rows of every class. */
  requestAll(owned: OwnedLane): void {
    for (const c of classes) this.request(owned, c)
  }

  /**
   * Takes the first rows of a lane that was just claimed, as pages that were read. `begunAt` is an instant before the store read
   * them. An ordered lane has its queue read, of which the classes belong together.
   */
  takeFront(owned: OwnedLane, { pages, limit }: QueueFront, begunAt: SteadyMs): void {
    if (owned.lane.order || owned.lane.closed) return this.requestAll(owned)
    const now = this.#deps.clock.steady()
    for (const c of classes) {
      owned.rows.beginRead(c, begunAt)
      this.#take({ owned, class: c }, pages[c], limit, noHorizons)
      owned.rows.endRead(c, now)
    }
    this.requestAll(owned)
  }

  /** The fast path: queues a row that this process has just stored. False means that it must be read. */
  acceptStored(owned: OwnedLane, { identity, dueAt }: StoredMessage, begunAt: SteadyMs): boolean {
    const now = this.#deps.clock.steady()
    if (!owned.acceptStored(identity.key, begunAt, now)) return false
    const row = { ...plainRow, message: identity.key, dueAt }
    this.#deps.scheduler.offer(owned.lane, fresh, new Delivery(owned, row, now), now)
    return true
  }

  /** Reads now, without waiting for other requests that would share the call. */
  readNow(): void {
    if (this.#requests.size === 0) return
    const pages: PageRequest[] = []
    this.#choose(this.#empty, emptyPagesPerCall, pages)
    this.#choose(this.#full, fullPagesPerCall, pages)
    if (this.#requests.size > 0) this.#soon()
    if (pages.length > 0) void this.#read(pages)
  }

  #choose(queue: FairQueue<LaneRequest>, atMost: number, pages: PageRequest[]): void {
    for (let left = atMost; left > 0; ) {
      const request = queue.shift()
      if (request === undefined) return
      if (request.taken) continue
      request.taken = true
      const { owned } = request
      this.#requests.delete(owned)
      if (!owned.isOwned) continue
      for (const c of request.classes) pages.push({ owned, class: c })
      left -= request.classes.length
    }
  }

  #soon(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    this.#deps.clock.soon(() => {
      this.#scheduled = false
      this.readNow()
    })
  }

  async #read(requests: readonly PageRequest[]): Promise<void> {
    const { store, clock, loop, onTrouble } = this.#deps
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
      if (page && request.owned.isOwned) this.#take(request, page, limitOf(reads, i), horizons)
    }
    for (const { owned, class: itsClass } of requests) owned.rows.endRead(itsClass, clock.steady())
    for (const { owned, class: itsClass } of requests) {
      // All rows may have been in memory already, or others were added since. After trouble, housekeeping requests again.
      if (pages && owned.isOwned && !owned.rows.mustAwaitRead(itsClass)) this.request(owned, itsClass)
    }
    loop.turn()
  }

  #take(request: PageRequest, page: DueRows, limit: number, horizons: Horizons): void {
    const { clock, scheduler, loop, onUnwanted } = this.#deps
    const { owned, class: itsClass } = request
    const now = clock.steady()
    if (owned.lane.order) this.#takeOrdered(request, page, limit, horizons, now)
    else {
      for (const row of owned.rows.takePage(itsClass, page.rows, limit, now)) {
        const delivery = new Delivery(owned, row, now)
        if (row.retryInMs === 0) scheduler.offer(owned.lane, itsClass, delivery, now)
        else onUnwanted(delivery, leftByOrder(row))
      }
    }
    if (itsClass === timed && page.nextInMs !== undefined) loop.expectTimed(owned, now + page.nextInMs)
  }

  /**
   * Brings an ordered lane in line with a page. It is read from the front each time, so the page is the store's state of all
   * rows up to its end: new rows take their places, known rows are updated unless they are being sent, and rows that the
   * store no longer has are gone.
   */
  #takeOrdered(
    { owned, class: itsClass }: PageRequest,
    page: DueRows,
    limit: number,
    horizons: Horizons,
    now: SteadyMs,
  ): void {
    const { scheduler, onUnwanted } = this.#deps
    const { rows } = owned
    const { lane } = owned
    invariant(isOrdered(lane), 'a lane that is read in order has an order')
    const horizon = itsClass === replay ? undefined : horizons.get(owned)
    const known = new Map<number, Entry<Delivery>>()
    for (const entry of lane.order.entries()) if (entry.class === itsClass) known.set(entry.message, entry)

    const unwanted: { readonly delivery: Delivery; readonly reason: DeadReason }[] = []
    const isFull = page.rows.length >= limit
    let isCut = isFull
    for (const row of page.rows) {
      if (horizon && isBefore(horizon, row)) {
        isCut = true
        break
      }
      const entry = known.get(row.message)
      known.delete(row.message)
      let delivery: Delivery | undefined
      if (entry === undefined)
        delivery = rows.take(itsClass, row) ? new Delivery(owned, row, now, scheduler) : undefined
      else if (!rows.wasSettledDuringRead(row.message) && entry.item.ordered?.follow(row, now)) delivery = entry.item
      const reason = delivery && endsAs(owned, row)
      if (delivery && reason) unwanted.push({ delivery, reason })
    }
    const last = isFull ? page.rows.at(-1) : undefined
    for (const entry of known.values()) {
      if (entry.state !== 'waiting' || (last && isBefore(last, entry))) continue
      lane.order.end(entry, now)
      rows.forget(entry.message)
    }
    rows.endPass(itsClass, !isCut)
    scheduler.reconsider(lane, now)
    for (const { delivery, reason } of unwanted) onUnwanted(delivery, { state: 'dead', reason })
  }
}

/** Why a waiting row is to end: an operator skips it, or it blocks a lane in which nothing blocks any more. */
function endsAs(owned: OwnedLane, { retryInMs }: PendingRow): DeadReason | undefined {
  if (retryInMs === skipped) return 'skipped'
  return retryInMs === Number.POSITIVE_INFINITY && owned.endpoint.flow.deadHead === 'skip' ? 'exhausted' : undefined
}

/** The row of an ordered delivery, in a lane that is no longer ordered, as a row of any other delivery. */
function leftByOrder({ retryInMs }: PendingRow): Verdict {
  if (retryInMs === skipped) return { state: 'dead', reason: 'skipped' }
  if (retryInMs === Number.POSITIVE_INFINITY) return { state: 'dead', reason: 'exhausted' }
  return { state: 'waiting', waitMs: retryInMs }
}

/** The rows that a read was to bring. */
function limitOf(reads: readonly DueRead[], i: number): number {
  return present(reads[i], 'each page was asked for by a read').limit
}

type Horizons = ReadonlyMap<OwnedLane, PendingRow>
const noHorizons: Horizons = new Map()

/**
 * For each ordered lane, the last place up to which both its fresh and its timed rows have been read. A row behind it in one
 * class may have to go before an unread row of the other. A lane of which both were read to their end has none.
 */
function horizonsOf(requests: readonly PageRequest[], reads: readonly DueRead[], pages: readonly DueRows[]): Horizons {
  const horizons = new Map<OwnedLane, PendingRow>()
  for (const [i, { owned, class: itsClass }] of requests.entries()) {
    const rows = pages[i]?.rows ?? []
    const last = rows.at(-1)
    if (!owned.lane.order || itsClass === replay || last === undefined || rows.length < limitOf(reads, i)) continue
    const known = horizons.get(owned)
    if (known === undefined || isBefore(last, known)) horizons.set(owned, last)
  }
  return horizons
}

interface ReaderDeps {
  readonly store: Pick<Store, 'readDue'>
  readonly clock: Clock
  readonly scheduler: Scheduler<Delivery>
  readonly loop: Pick<Loop, 'turn' | 'expectTimed'>
  /** A delivery that was read is not to be sent as it is: its lane's ordering, or an operator, decided otherwise. */
  onUnwanted(delivery: Delivery, verdict: Verdict): void
  onTrouble(error: unknown): void
}
