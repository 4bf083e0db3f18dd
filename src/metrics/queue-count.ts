import type { EpochMs } from '../domain/clock.ts'
import type { QueueCursor, RowPlace, Store, WaitingCount, WaitingCounts } from '../store/store.ts'
import { isBefore, Ladder } from './ladder.ts'
import type { QueueChange } from './queue-entry.ts'

/**
 * Rows counted at once: 1.5 ms of SQLite's time where each is of another endpoint (5,000 such rows took 17 ms), and half a
 * millisecond within one long queue, where more are counted.
 */
export const surveyRows = { short: 500, long: 5000 } as const
/** Between two rungs of a ladder. */
export const rungRows = 1000

/** Deliveries that were due longer ago than this are behind. */
export const behindMs = 60_000

/** The rows of one queue, counted to its end. */
export interface CountedQueue {
  readonly endpoint: number
  readonly app: number
  readonly byClass: readonly [number, number, number]
  readonly oldestSince: EpochMs | null
  /** Rows that were due more than `behindMs` ago; 0 where the endpoint is stopped. */
  readonly late: number
  /** How long the first row has been due; negative while none is. */
  readonly dueAgoMs: number
  readonly isStopped: boolean
  /** Of a long queue. */
  readonly ladder: Ladder | undefined
  /** False when the queue changed while it was read, and it is not known whether the count has seen that. */
  readonly isSure: boolean
}

interface Sums {
  endpoint: number
  app: number
  byClass: [number, number, number]
  oldestSince: EpochMs | null
  late: number
  dueAgoMs: number
  isStopped: boolean
  ladder: Ladder | undefined
  isSure: boolean
}

export type CountedStore = Pick<Store, 'surveyWaiting' | 'queueRungs'>

/**
 * A count of queues that is under way, page by page, while deliveries come and go. A change in front of the place that it has
 * reached is added to the count of its queue; the pages to come will see a change behind it.
 */
export class QueueCount {
  readonly #store: CountedStore
  /** Whether a page is read at once when it is asked for: changes that are reported afterwards happened afterwards. */
  readonly #readsAtOnce: boolean
  #next: QueueCursor | null
  #isOver = false
  /** The queue that is counted in part. */
  #open: Sums | undefined
  /** Whether the last page lay within one queue. */
  #isWithin = false
  #isReading = false
  #during: QueueChange[] = []

  /** Counts all queues, or those from an endpoint on. */
  constructor(store: CountedStore, readsAtOnce: boolean, from: number | null) {
    this.#store = store
    this.#readsAtOnce = readsAtOnce
    this.#next = from === null ? null : { endpoint: from, class: 0, dueAt: 0, message: 0 }
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** The endpoint at which the next page begins; null at the first. */
  get at(): number | null {
    return this.#next?.endpoint ?? null
  }

  /** Takes note of a change. */
  note(change: QueueChange): void {
    if (this.#isReading) this.#during.push(change)
    else this.#apply(change)
  }

  /** Counts a page; answers the queues that it ended. With `one`, the count ends with the first queue. */
  async step(one = false): Promise<CountedQueue[]> {
    const inQueue = one || this.#isWithin
    const rows = inQueue ? surveyRows.long : surveyRows.short
    const before = this.#next
    this.#isReading = true
    const page: WaitingCounts = await this.#store.surveyWaiting(before, rows, behindMs, inQueue).finally(() => {
      this.#isReading = false
    })
    const ended = this.#take(page)
    const { next } = page
    this.#next = next
    this.#isOver = next === null || (one && next.endpoint !== before?.endpoint)
    const during = this.#during
    this.#during = []
    for (const change of during) this.#applyLate(change, ended)
    // Only a page within one long queue is followed by a long one: of many short queues, fewer rows are read at once.
    this.#isWithin = this.#open !== undefined && page.counts.every(({ endpoint }) => endpoint === next?.endpoint)
    if (this.#open !== undefined && next !== null) await this.#climb(this.#open, before, next, page)
    return ended
  }

  #take({ counts, next }: WaitingCounts): Sums[] {
    const ended: Sums[] = []
    const end = (sums: Sums | undefined) => {
      if (sums === undefined) return
      const [fresh, timed, replay] = sums.byClass
      if (fresh + timed + replay < rungRows) sums.ladder = undefined
      ended.push(sums)
    }
    let open = this.#open
    for (const count of counts) {
      if (open?.endpoint !== count.endpoint) {
        end(open)
        open = sumsOf(count)
      }
      addTo(open, count)
    }
    this.#open = undefined
    if (open !== undefined && next?.endpoint === open.endpoint) this.#open = open
    else end(open)
    return ended
  }

  /** Adds the rungs of a page to the ladder of the queue that goes on behind it. */
  async #climb(open: Sums, before: QueueCursor | null, next: QueueCursor, { counts }: WaitingCounts): Promise<void> {
    const from = before?.endpoint === open.endpoint ? before : null
    const counted = counts.reduce((sum, { endpoint, count }) => sum + (endpoint === open.endpoint ? count : 0), 0)
    open.ladder ??= new Ladder()
    if (counted <= rungRows) return open.ladder.add(placeOf(next), counted)
    const rungs = await this.#store.queueRungs(open.endpoint, from === null ? null : placeOf(from), rungRows, counted)
    for (const rung of rungs) open.ladder.add(rung, rungRows)
    const rest = counted - rungs.length * rungRows
    const last = rungs.at(-1)
    if (rest > 0 && (last === undefined || isBefore(last, next))) open.ladder.add(placeOf(next), rest)
  }

  #apply(change: QueueChange): void {
    const { endpoint, class: itsClass, by } = change
    const open = this.#open
    if (open?.endpoint !== endpoint || this.#next === null || isBefore(this.#next, change)) return
    open.byClass[itsClass] = Math.max(0, open.byClass[itsClass] + by)
    open.ladder?.change(change, by)
  }

  /** A change that was told while a page was read. */
  #applyLate(change: QueueChange, ended: readonly Sums[]): void {
    const sums = ended.find(({ endpoint }) => endpoint === change.endpoint)
    if (sums === undefined) {
      if (this.#open?.endpoint === change.endpoint && !this.#readsAtOnce) this.#open.isSure = false
      return this.#apply(change)
    }
    sums.byClass[change.class] = Math.max(0, sums.byClass[change.class] + change.by)
    if (!this.#readsAtOnce) sums.isSure = false
  }
}

function placeOf({ class: itsClass, dueAt, message }: RowPlace): RowPlace {
  return { class: itsClass, dueAt, message }
}

function sumsOf({ endpoint, app, stopped: isStopped }: WaitingCount): Sums {
  const none = { oldestSince: null, late: 0, dueAgoMs: Number.NEGATIVE_INFINITY, ladder: undefined, isSure: true }
  return { endpoint, app, byClass: [0, 0, 0], isStopped, ...none }
}

function addTo(sums: Sums, { class: itsClass, count, late, dueAgoMs, oldestSince, stopped }: WaitingCount): void {
  sums.byClass[itsClass] += count
  sums.oldestSince = Math.min(sums.oldestSince ?? oldestSince, oldestSince)
  sums.isStopped = stopped
  if (stopped) return
  sums.late += late
  sums.dueAgoMs = Math.max(sums.dueAgoMs, dueAgoMs)
}
