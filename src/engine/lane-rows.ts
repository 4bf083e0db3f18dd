import type { SteadyMs } from '../domain/clock.ts'
import { type Class, classes, fresh, replay, timed } from '../domain/delivery.ts'
import { invariant } from '../domain/invariant.ts'
import type { Lane } from '../domain/lane.ts'
import type { OrderedQueue } from '../domain/queue.ts'
import type { DueRead, PendingRow } from '../store/store.ts'

/** A lane is read again when fewer rows than this are left in memory. */
const lowWater = 64
/** Rows that one read brings. */
const pageRows = 192
/** Rows of a class that an ordered lane keeps in memory at most, while it looks for keys that may start. */
const windowRows = 2048
/**
 * A pass through a queue begins again at the front after this long. A transaction that commits late adds its row in front of
 * the cursor, and a lost signal leaves a row that no read is looking for. A lane that never runs dry would find neither.
 */
const passMs = 15_000
/** An ordered lane with waiting deliveries stays with its owner, which compares it with the store this often. */
const recheckMs = 2000

invariant(
  lowWater < pageRows && pageRows < windowRows,
  'a page fills a lane beyond its low water, and a window holds pages',
)

const noClass: readonly Class[] = []
const oneClass: Readonly<Record<Class, readonly Class[]>> = { 0: [fresh], 1: [timed], 2: [replay] }
const freshAndTimed: readonly Class[] = [fresh, timed]

/** A pass through one class of a lane's queue, a page at a time. */
interface Pass {
  /** The last row of the last page; null for the front of the queue. */
  after: DueRead['after']
  /** When the pass began at the front. */
  beganAt: SteadyMs
  reading: boolean
  /** The last read saw the end of the queue, and no row was added since. */
  complete: boolean
  /** Rows were added since the pass began, so that its end is not the end of the queue. */
  stale: boolean
}

/**
 * The rows of an owned lane that are in memory, and how far its queue has been read. Two rules hold at any moment:
 * - A message is in memory once. It leaves memory when its end is recorded, or when the last read has ended that began
 *   before, because that read may still show its row.
 * - A class counts as read to its end only if no row was added since its pass began at the front.
 */
export class LaneRows {
  readonly #lane: Lane<unknown>
  readonly #passes: readonly [Pass, Pass, Pass]
  /** Missing while there are none. */
  #inMemory: Set<number> | undefined
  /** Messages settled during a read. They stay in memory until it ends. */
  #settledDuringRead: number[] | undefined
  /** The trimmer is reading the front of the queue. */
  #surveying = false
  /** Fresh rows that are being read by their names. */
  #named = 0
  #lastReadAt: SteadyMs
  /** The rows of an ordered lane are to be compared with the store. */
  #needsRecheck = false

  constructor(lane: Lane<unknown>, now: SteadyMs) {
    this.#lane = lane
    this.#lastReadAt = now
    const pass = (): Pass => ({ after: null, beganAt: 0, reading: false, complete: false, stale: false })
    this.#passes = [pass(), pass(), pass()]
  }

  get isReading(): boolean {
    const [one, two, three] = this.#passes
    return this.#surveying || this.#named > 0 || one.reading || two.reading || three.reading
  }

  /** Whether every class was read to its end. */
  get isComplete(): boolean {
    return classes.every((c) => this.isReadToEnd(c))
  }

  isReadToEnd(itsClass: Class): boolean {
    return this.#passes[itsClass].complete
  }

  isInMemory(message: number): boolean {
    return this.#inMemory?.has(message) === true
  }

  wasSettledDuringRead(message: number): boolean {
    return this.#settledDuringRead?.includes(message) === true
  }

  /** The classes to read for more rows of this one: none while enough are queued, none are left or a read is under way. */
  classesToRead(itsClass: Class): readonly Class[] {
    const { complete, reading } = this.#passes[itsClass]
    const { closed, order, queues } = this.#lane
    if (complete || reading || closed) return noClass
    if (order === undefined) return queues[itsClass].size < lowWater ? oneClass[itsClass] : noClass
    if (itsClass === replay) return this.#needsRecheck || !hasEnough(order, replay) ? oneClass[replay] : noClass
    // Fresh and timed rows are read together, and from the front each time: a row that was committed late lies in front of
    // those in memory, and may have been accepted before the one that is next.
    if (this.#passes[fresh].reading || this.#passes[timed].reading) return noClass
    return this.#needsRecheck || !(hasEnough(order, fresh) || hasEnough(order, timed)) ? freshAndTimed : noClass
  }

  /** Begins to read a class: from the front, or behind the last page of the pass under way. */
  beginRead(itsClass: Class, now: SteadyMs): void {
    const pass = this.#passes[itsClass]
    invariant(!pass.reading, 'one read of a class is under way at a time')
    pass.reading = true
    if (itsClass === fresh) this.#needsRecheck = false
    // A pass that began before rows were added must be followed by another.
    if (pass.after !== null) return
    pass.stale = false
    pass.beganAt = now
  }

  /** The question to the store for the read that was begun. */
  readOf(itsClass: Class): DueRead {
    const known = this.#lane.order?.known(itsClass) ?? 0
    const { after } = this.#passes[itsClass]
    return { endpoint: this.#lane.endpoint, class: itsClass, after, limit: known + pageRows }
  }

  /** Takes one row into memory. False: its message is there already. */
  take(itsClass: Class, { message }: PendingRow): boolean {
    if (!this.isInMemory(message)) {
      this.#keep(message)
      return true
    }
    // The timed row of a message settled during the read is either the settled row or its retry; only a later read shows it.
    if (itsClass === timed && this.wasSettledDuringRead(message)) this.#passes[timed].stale = true
    return false
  }

  /**
   * Takes a page of an unordered lane, of up to `limit` rows, and moves the cursor. Answers the rows that were not in memory.
   */
  takePage(itsClass: Class, rows: readonly PendingRow[], limit: number, now: SteadyMs): PendingRow[] {
    const pass = this.#passes[itsClass]
    const taken = rows.filter((row) => this.take(itsClass, row))
    const last = rows.at(-1)
    if (rows.length < limit || last === undefined) this.endPass(itsClass, true)
    else {
      // A pass ends early only after it brought something: it may take several pages to get past the rows in memory.
      const isOver = taken.length > 0 && now - pass.beganAt >= passMs
      pass.after = isOver ? null : { dueAt: last.dueAt, message: last.message }
    }
    return taken
  }

  /** The next read begins at the front. `sawEnd` says whether this pass saw the end of the queue. */
  endPass(itsClass: Class, sawEnd: boolean): void {
    const pass = this.#passes[itsClass]
    pass.after = null
    pass.complete = sawEnd && !pass.stale
  }

  /** A read ended, with an answer or without. Its rows have been taken. */
  endRead(itsClass: Class, now: SteadyMs): void {
    invariant(this.#passes[itsClass].reading, 'a read of a class ends once, after it began')
    this.#passes[itsClass].reading = false
    this.#lastReadAt = now
    this.#forgetSettled()
  }

  /** Whether another read now would skip the same rows, because an older one is still under way. */
  mustAwaitRead(itsClass: Class): boolean {
    return itsClass === timed && this.#passes[timed].stale && this.#settledDuringRead !== undefined
  }

  /**
   * Takes a message into memory that this process has just stored, as if its row had been read: the fast path. False means
   * that the row must be read: others may be in front of it, the lane is ordered or closed, a read that ended after storing
   * began may have brought it, or the last pass is so long ago that the queue may hold a row whose signal was lost.
   */
  acceptStored(message: number, begunAt: SteadyMs, now: SteadyMs): boolean {
    if (this.isReading || this.#lastReadAt >= begunAt || !this.#takesAlone(now)) return false
    this.#keep(message)
    return true
  }

  /**
   * Begins to read a fresh row by its name, so that rows in memory are not read again. `unread` means that the queue must be
   * read instead, for the same reasons as in `acceptStored`.
   */
  awaitNamed(message: number, now: SteadyMs): 'reading' | 'in memory' | 'unread' {
    if (!this.#takesAlone(now)) return 'unread'
    if (this.isInMemory(message)) return 'in memory'
    this.#named++
    return 'reading'
  }

  /** The read of a named row ended, with an answer or without. Its row has been taken. */
  endNamed(now: SteadyMs): void {
    this.#named--
    invariant(this.#named >= 0, 'a read by name ends once, after it began')
    this.#lastReadAt = now
    this.#forgetSettled()
  }

  /** Whether a fresh row may be taken into memory by itself: the lane has read its queue, not too long ago, and has room. */
  #takesAlone(now: SteadyMs): boolean {
    const { order, closed, queues } = this.#lane
    const { complete, beganAt } = this.#passes[fresh]
    const hasRoom = queues[fresh].size + this.#named < lowWater
    return order === undefined && !closed && complete && hasRoom && now - beganAt < passMs
  }

  /** The end of a message's row is recorded. */
  settled(message: number): void {
    if (!this.isReading) return this.forget(message)
    this.#settledDuringRead ??= []
    this.#settledDuringRead.push(message)
  }

  /** The message is no longer in memory, though no end of it was recorded here. */
  forget(message: number): void {
    this.#inMemory?.delete(message)
  }

  /** While nothing is to be sent, the lane takes little memory. */
  rest(): void {
    if (this.#inMemory?.size === 0) this.#inMemory = undefined
  }

  #keep(message: number): void {
    this.#inMemory ??= new Set()
    this.#inMemory.add(message)
  }

  /** Rows of the class may have been added, or given back. */
  reopen(itsClass: Class): void {
    const pass = this.#passes[itsClass]
    pass.stale = true
    pass.complete = false
  }

  /** Compares an ordered lane with the store: an operator or another process may have changed its rows. */
  recheck(): void {
    if (this.#lane.order === undefined) return
    this.#needsRecheck = true
    for (const c of classes) this.reopen(c)
  }

  /** As `recheck`, now and then: for rows that were committed late and signals that were lost. */
  recheckIfOld(now: SteadyMs): void {
    const { order } = this.#lane
    if (order && order.size > 0 && now - this.#passes[fresh].beganAt >= recheckMs) this.recheck()
  }

  /** The trimmer begins to read the front of the queue. */
  beginSurvey(): void {
    this.#surveying = true
  }

  /** The trimmer has read these rows. Those not in memory are taken, to be ended at once; the others wait there. */
  endSurvey(rows: readonly PendingRow[], now: SteadyMs): { taken: PendingRow[]; waiting: PendingRow[] } {
    const waiting = rows.filter(({ message }) => this.isInMemory(message) && !this.wasSettledDuringRead(message))
    const taken = rows.filter(({ message }) => !this.isInMemory(message))
    for (const { message } of taken) this.#keep(message)
    this.#surveying = false
    this.#lastReadAt = now
    this.#forgetSettled()
    return { taken, waiting }
  }

  #forgetSettled(): void {
    if (this.#settledDuringRead === undefined || this.isReading) return
    for (const message of this.#settledDuringRead) this.forget(message)
    this.#settledDuringRead = undefined
  }
}

/** Whether enough rows are in memory to keep an ordered lane busy, or as many as may be. */
function hasEnough(order: OrderedQueue<unknown>, itsClass: Class): boolean {
  const known = order.known(itsClass)
  if (known >= windowRows - pageRows) return true
  if (itsClass === replay) return known >= lowWater
  return order.ordering === 'fifo' ? known >= lowWater : order.startable >= lowWater
}
