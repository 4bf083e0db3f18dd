import type { Clock, EpochMs } from '../domain/clock.ts'
import { type Load, loadOf, noLoad } from '../domain/condition.ts'
import { type Class, fresh, timed } from '../domain/delivery.ts'
import { emptyQueue, type Position, type QueueFigures, type QueueTotals } from '../domain/queue-figures.ts'
import { Turns } from '../domain/turns.ts'
import type { QueueSort } from '../features/why/rules.ts'
import type { RowPlace } from '../store/lanes.ts'
import { delayOf } from '../store/plan.ts'
import type { Publication, RestingEnd, Settlement, Store } from '../store/store.ts'
import type { CommitObserver } from './observed-store.ts'
import { QueueBook, type RankedQueue } from './queue-book.ts'
import { type CountedQueue, type CountedStore, QueueCount, rungRows } from './queue-count.ts'
import type { QueueChange, QueueEntry, QueueTotal } from './queue-entry.ts'
import { Rounds } from './rounds.ts'

/** Between two counts of everything. */
const countEveryMs = 5000
/** After a change that was not told, everything is counted again this soon. */
const hurryMs = 50
/** A caller waits no longer than this for a count. */
const patienceMs = 2000
/** Rows read at most to find the place of a delivery, beyond those between two rungs. */
const placeRows = 4 * rungRows
/** A queue that other processes may have changed is counted again when its figures are older than this. */
const freshMs = 1000
/** Changes of more endpoints than this have everything counted again. */
const fewEndpoints = 100

interface LedgerDeps {
  readonly store: CountedStore & Pick<Store, 'countRange'>
  readonly clock: Clock
  /**
   * Whether this process reports its commits to the ledger (`observed`). Without that, each caller that asks has everything
   * counted, which suits a process that asks seldom.
   */
  readonly isTold?: boolean
  /** Whether other processes change the queues without telling. */
  readonly othersWrite?: boolean
  /** Trouble with the store, which only delays the next count. */
  readonly onTrouble?: (error: unknown) => void
}

/** A queue whose deliveries have been due for too long, as of the last count. */
export interface LateQueue {
  readonly endpoint: number
  readonly app: number
  readonly count: number
  /** How long its first delivery has been due. */
  readonly dueMs: number
}

/**
 * The one source of "how many wait". It counts all queues again and again in the background, a few thousand rows at a time, and
 * between two counts adds what the commits of this process report. On SQLite, where one process writes, its figures are those
 * of the store at any instant, at no cost; on Postgres they are as old as they say.
 */
export class Ledger implements CommitObserver {
  readonly #deps: LedgerDeps
  readonly #rounds: Rounds
  readonly #book: QueueBook
  /** Counts that are under way. */
  readonly #counts = new Set<QueueCount>()
  #round = 0
  /** When the last whole round ended. */
  #countedAt: EpochMs | undefined
  /** Changes that were not told, and those of them that a whole round has seen. */
  #doubts = 0
  #cleared = 0
  #late: readonly LateQueue[] = []
  #oneRound: Promise<void> | undefined
  #heard: (() => void)[] = []

  constructor(deps: LedgerDeps) {
    this.#deps = deps
    this.#book = new QueueBook(deps.clock.steady())
    this.#rounds = new Rounds(deps, countEveryMs, () => this.#countAll(() => this.#rounds.pause()))
  }

  /** Counts from now on until `stop`. */
  start(): void {
    this.#rounds.start()
  }

  stop(): void {
    this.#rounds.stop()
    for (const heard of this.#heard.splice(0)) heard()
  }

  /** Whether everything has been counted at least once. */
  get isCounted(): boolean {
    return this.#countedAt !== undefined
  }

  /** Resolves once everything has been counted, or when the caller has waited for long enough. Never rejects. */
  async ready(): Promise<void> {
    const { clock, isTold = false, othersWrite = false } = this.#deps
    const isRunning = this.#rounds.isRunning
    if (this.isCounted && !this.#isInDoubt && (isRunning || (isTold && !othersWrite))) return
    const counted = isRunning ? new Promise<void>((resolve) => this.#heard.push(resolve)) : this.#once()
    let cancel = () => {}
    const given = new Promise<void>((resolve) => {
      cancel = clock.after(patienceMs, resolve)
    })
    await Promise.race([counted, given])
    cancel()
  }

  /** Waiting deliveries in all; of an application; of an endpoint. For admission, which asks at each publish. */
  get waiting(): number {
    return this.#book.server.waiting
  }

  waitingOf(app: number): number {
    return this.#book.application(app)?.waiting ?? 0
  }

  waitingAt(endpoint: number): number {
    return this.#book.entry(endpoint)?.waiting ?? 0
  }

  /** Endpoints with waiting deliveries, or with arrivals and departures in the last minutes. */
  get active(): number {
    return this.#book.active
  }

  /** The queue of an endpoint. */
  endpoint(key: number): QueueFigures {
    const entry = this.#book.entry(key)
    const [isExact, asOf] = [this.#isExact(entry), this.#asOf(entry)]
    if (entry === undefined) return emptyQueue(asOf, isExact)
    const { waiting, byClass, oldestSince, flow } = entry
    const since = waiting === 0 ? null : oldestSince
    return { waiting, byClass, oldestSince: since, isExact, asOf, ...flow.ratesAt(this.#deps.clock.steady()) }
  }

  /** All queues of an application. */
  application(app: number): QueueTotals {
    return this.#totals(this.#book.application(app))
  }

  /** All queues. */
  server(): QueueTotals {
    return this.#totals(this.#book.server)
  }

  /** Queues of endpoints that are neither paused nor disabled, with deliveries that were due more than a minute ago. */
  get late(): readonly LateQueue[] {
    return this.#late
  }

  /** The queues of an application, or of all with null, that are worst off, the worst first. */
  async worst(app: number | null, sort: QueueSort, limit: number): Promise<readonly RankedQueue[]> {
    const { clock } = this.#deps
    return Turns.by(clock).run(this.#book.rank(app, sort, limit, clock.now()))
  }

  /** How many wait in all, of the applications with any, and at the endpoints with the most: for the history. */
  async depths(limit: number): Promise<{ scope: number | null; app: number | null; waiting: number }[]> {
    await this.ready()
    const apps = [...this.#book.applications()].toSorted(([, a], [, b]) => b - a).slice(0, limit)
    const worst = await this.worst(null, 'waiting', limit)
    return [
      { scope: null, app: null, waiting: this.waiting },
      ...apps.filter(([app]) => app > 0).map(([scope, waiting]) => ({ scope, app: null, waiting })),
      ...worst.map(({ endpoint: scope, app, waiting }) => ({ scope, app, waiting })),
    ]
  }

  /** The place of a waiting delivery: how many rows of its queue lie in front of it. It reads some thousand rows at most. */
  async position(endpoint: number, place: RowPlace): Promise<Position> {
    const entry = this.#book.entry(endpoint)
    const { from, rows } = entry?.ladder?.below(place) ?? { from: null, rows: 0 }
    const between = await this.#deps.store.countRange(endpoint, from, place, placeRows)
    return { ahead: rows + between, isExact: between < placeRows && (from === null || this.#isExact(entry)) }
  }

  /** Of the rows in front of a place, those with an ordering key. Of very many, the first few thousand tell about all. */
  async aheadInKey(endpoint: number, place: RowPlace, orderKey: number, ahead: number): Promise<number> {
    const found = await this.#deps.store.countRange(endpoint, null, place, placeRows, orderKey)
    return ahead <= placeRows ? found : Math.round((found * ahead) / placeRows)
  }

  /** The load of a queue, of whose deliveries so many are under way. A look at it is the memory of the next. */
  load(endpoint: number, underWay: number): Load {
    const entry = this.#book.entry(endpoint)
    if (entry === undefined) return noLoad
    entry.load = loadOf(entry.load, entry.waiting, underWay, entry.flow.ratesAt(this.#deps.clock.steady()))
    return entry.load
  }

  /** Counts the queue of an endpoint now, if it is short and not known exactly, or others may have changed it. */
  async refresh(endpoint: number): Promise<void> {
    const { othersWrite = false, clock, onTrouble } = this.#deps
    const entry = this.#book.entry(endpoint)
    const isOld = clock.now() - (entry?.countedAt ?? this.#countedAt ?? 0) > freshMs
    if (entry?.ladder !== undefined || (this.#isExact(entry) && !(othersWrite && isOld))) return
    try {
      await this.#countOne(endpoint)
    } catch (error) {
      onTrouble?.(error)
    }
  }

  /** Deliveries of these publications begin to wait, unless the store refuses them. */
  storing(publications: readonly Publication[]): void {
    for (const publication of publications) this.#publish(publication, 1)
  }

  unstored(publication: Publication): void {
    this.#publish(publication, -1)
  }

  accepted({ app }: Publication, merged: readonly number[]): void {
    if (merged.length > 0) this.coalesced(app, merged)
  }

  coalesced(app: number, endpoints: readonly number[]): void {
    // The row that gave way, or came too late, waited for the end of its window.
    const dueAt = this.#deps.clock.now()
    for (const endpoint of endpoints) this.#leave(app, endpoint, timed, dueAt, 0)
  }

  settled(settlements: readonly Settlement[]): void {
    for (const { app, endpoint, row, verdict } of settlements) {
      const { state } = verdict
      if (state === 'delivered' || state === 'dead') this.#leave(app, endpoint, row.class, row.dueAt, row.message)
      else if (state === 'waiting') {
        const dueAt = this.#deps.clock.now() + Math.ceil(verdict.waitMs)
        this.#change(app, { endpoint, class: row.class, dueAt: row.dueAt, message: row.message, by: -1 })
        this.#change(app, { endpoint, class: timed, dueAt, message: row.message, by: 1 })
      }
    }
  }

  ended(ends: readonly RestingEnd[]): void {
    for (const { app, endpoint, row } of ends) this.#leave(app, endpoint, row.class, row.dueAt, row.message)
  }

  cancelled(): void {
    this.changed()
  }

  changed(endpoints?: readonly number[]): void {
    const entries = endpoints?.length === 0 ? [] : endpoints?.map((endpoint) => this.#book.entry(endpoint))
    if (entries === undefined || entries.length > fewEndpoints || entries.includes(undefined)) this.#doubts++
    else for (const entry of entries) if (entry !== undefined) entry.isSure = false
    this.#rounds.hurry(hurryMs)
  }

  #publish(publication: Publication, by: 1 | -1): void {
    const { clock } = this.#deps
    const { app, endpoints, special } = publication
    const delayMs = delayOf(publication)
    const dueAt = clock.now() + delayMs
    const planned = special && new Map(special.map((each) => [each.endpoint, each]))
    for (const endpoint of endpoints) {
      const { drop, coalesce } = planned?.get(endpoint) ?? {}
      if (drop !== undefined) continue
      const itsClass: Class = delayMs > 0 || coalesce !== undefined ? timed : fresh
      const at = dueAt + (coalesce?.windowMs ?? 0)
      const entry = this.#change(app, { endpoint, class: itsClass, dueAt: at, message: 0, by })
      this.#book.arrived(entry, by, clock.steady())
      if (by > 0 && entry.waiting === 1) entry.oldestSince = dueAt
    }
  }

  #leave(app: number, endpoint: number, itsClass: Class, dueAt: EpochMs, message: number): void {
    const entry = this.#change(app, { endpoint, class: itsClass, dueAt, message, by: -1 })
    this.#book.departed(entry, entry.changedAt)
  }

  #change(app: number, change: QueueChange): QueueEntry {
    const entry = this.#book.change(app, change, this.#deps.clock.steady())
    for (const count of this.#counts) count.note(change)
    return entry
  }

  get #isInDoubt(): boolean {
    return this.#doubts > this.#cleared
  }

  #isExact(entry: QueueEntry | undefined): boolean {
    return this.isCounted && !this.#isInDoubt && (entry?.isSure ?? true)
  }

  #asOf(entry: QueueEntry | undefined): EpochMs {
    const { clock, isTold = false, othersWrite = false } = this.#deps
    if (isTold && !othersWrite) return clock.now()
    return entry !== undefined && entry.countedAt > 0 ? entry.countedAt : (this.#countedAt ?? clock.now())
  }

  #totals(total: QueueTotal | undefined): QueueTotals {
    const [isExact, asOf] = [this.#isExact(undefined), this.#asOf(undefined)]
    if (total === undefined) return { ...emptyQueue(asOf, isExact), endpoints: 0 }
    const { waiting, byClass, endpoints, flow } = total
    const rates = flow.ratesAt(this.#deps.clock.steady())
    return { waiting, byClass, endpoints, isExact, asOf, oldestSince: null, ...rates }
  }

  /** Counts everything once, outside the rounds. Callers that come meanwhile share it. */
  #once(): Promise<void> {
    this.#oneRound ??= this.#countAll(() => Turns.by(this.#deps.clock).next())
      .catch((error) => this.#deps.onTrouble?.(error))
      .finally(() => {
        this.#oneRound = undefined
      })
    return this.#oneRound
  }

  async #countAll(pause: () => Promise<void>): Promise<void> {
    const { clock, store, othersWrite = false } = this.#deps
    const [beganAt, doubts] = [clock.steady(), this.#doubts]
    const round = ++this.#round
    const late: LateQueue[] = []
    const count = new QueueCount(store, !othersWrite, null)
    this.#counts.add(count)
    try {
      for (;;) {
        for (const queue of await count.step()) {
          this.#take(queue, round)
          const { endpoint, app, late: behind, dueAgoMs } = queue
          if (behind > 0) late.push({ endpoint, app, count: behind, dueMs: dueAgoMs })
        }
        if (count.isOver) break
        await pause()
      }
    } finally {
      this.#counts.delete(count)
    }
    await Turns.by(clock).run(this.#book.endRound(round, beganAt, clock.steady()))
    this.#late = late
    this.#countedAt = clock.now()
    this.#cleared = Math.max(this.#cleared, doubts)
    for (const heard of this.#heard.splice(0)) heard()
  }

  async #countOne(endpoint: number): Promise<void> {
    const { store, othersWrite = false, clock } = this.#deps
    const count = new QueueCount(store, !othersWrite, endpoint)
    this.#counts.add(count)
    try {
      while (!count.isOver) {
        const [queue] = await count.step(true)
        if (queue !== undefined) {
          if (queue.endpoint === endpoint) return this.#take(queue)
          break
        }
        if (!count.isOver) await Turns.by(clock).next()
      }
    } finally {
      this.#counts.delete(count)
    }
    const entry = this.#book.entry(endpoint)
    if (entry === undefined) return
    this.#book.set(entry, [0, 0, 0])
    entry.countedAt = clock.now()
  }

  /** Takes over the count of a queue. */
  #take({ endpoint, app, byClass, oldestSince, ladder, isSure }: CountedQueue, round = this.#round): void {
    const { clock } = this.#deps
    const entry = this.#book.entryOf(app, endpoint, clock.steady())
    this.#book.set(entry, byClass)
    Object.assign(entry, { round, oldestSince, ladder, isSure, countedAt: clock.now() })
  }
}
