import type { EpochMs, SteadyMs } from '../domain/clock.ts'
import type { Class } from '../domain/delivery.ts'
import type { Sliced } from '../domain/turns.ts'
import type { QueueSort } from '../features/why/rules.ts'
import { type QueueChange, QueueEntry, QueueTotal } from './queue-entry.ts'

/** The queue of an endpoint among others. */
export interface RankedQueue {
  readonly endpoint: number
  readonly app: number
  readonly waiting: number
  readonly oldestSince: EpochMs
}

/** Work in parts pauses after this many entries: there may be 100,000. */
const entriesPerPart = 500

/** The numbers of the ledger: the queues with work, and their sums by application and in all. */
export class QueueBook {
  readonly #entries = new Map<number, QueueEntry>()
  readonly #apps = new Map<number, QueueTotal>()
  readonly server: QueueTotal

  constructor(now: SteadyMs) {
    this.server = new QueueTotal(now)
  }

  /** Endpoints with waiting deliveries, or with arrivals and departures in the last minutes. */
  get active(): number {
    return this.#entries.size
  }

  entry(endpoint: number): QueueEntry | undefined {
    return this.#entries.get(endpoint)
  }

  application(app: number): QueueTotal | undefined {
    return this.#apps.get(app)
  }

  /** The entry of an endpoint, which is made where there is none. */
  entryOf(app: number, endpoint: number, now: SteadyMs): QueueEntry {
    let entry = this.#entries.get(endpoint)
    if (entry === undefined) {
      entry = new QueueEntry(app, now)
      this.#entries.set(endpoint, entry)
    }
    return entry
  }

  /** A row came or left. */
  change(app: number, change: QueueChange, now: SteadyMs): QueueEntry {
    const entry = this.entryOf(app, change.endpoint, now)
    entry.changedAt = now
    this.#add(entry, change.class, change.by)
    entry.ladder?.change(change, change.by)
    return entry
  }

  /** Deliveries began to wait for an endpoint. */
  arrived(entry: QueueEntry, count: number, now: SteadyMs): void {
    entry.flow.arrived(count, now)
    this.#totalOf(entry.app, now).flow.arrived(count, now)
    this.server.flow.arrived(count, now)
  }

  /** A delivery ended. */
  departed(entry: QueueEntry, now: SteadyMs): void {
    entry.flow.departed(1, now)
    this.#totalOf(entry.app, now).flow.departed(1, now)
    this.server.flow.departed(1, now)
  }

  /** The queue was counted. */
  set(entry: QueueEntry, byClass: readonly [number, number, number]): void {
    const [fresh, timed, replay] = entry.byClass
    this.#add(entry, 0, byClass[0] - fresh)
    this.#add(entry, 1, byClass[1] - timed)
    this.#add(entry, 2, byClass[2] - replay)
    entry.isSure = true
  }

  #add(entry: QueueEntry, itsClass: Class, by: number): void {
    const { waiting } = entry
    const changed = entry.add(itsClass, by)
    if (changed === 0) return
    const ofApp = this.#totalOf(entry.app, entry.changedAt)
    ofApp.add(itsClass, changed)
    this.server.add(itsClass, changed)
    const endpoints = Number(entry.waiting > 0) - Number(waiting > 0)
    ofApp.endpoints += endpoints
    this.server.endpoints += endpoints
  }

  #totalOf(app: number, now: SteadyMs): QueueTotal {
    let total = this.#apps.get(app)
    if (total === undefined) {
      total = new QueueTotal(now)
      this.#apps.set(app, total)
    }
    return total
  }

  /** The waiting deliveries of every application that has any. */
  *applications(): Iterable<readonly [app: number, waiting: number]> {
    for (const [app, { waiting }] of this.#apps) if (waiting > 0) yield [app, waiting]
  }

  /** The queues that are worst off, the worst first. */
  *rank(app: number | null, sort: QueueSort, limit: number, now: EpochMs): Sliced<readonly RankedQueue[]> {
    const isWorse = (a: RankedQueue, b: RankedQueue) => {
      const [waiting, age] = [b.waiting - a.waiting, a.oldestSince - b.oldestSince]
      return ((sort === 'waiting' ? waiting || age : age || waiting) || a.endpoint - b.endpoint) < 0
    }
    const worst: RankedQueue[] = []
    let looked = 0
    for (const [endpoint, { app: owner, waiting, oldestSince }] of this.#entries) {
      if (++looked % entriesPerPart === 0) yield
      // Endpoints of operational webhooks belong to no application that a caller can name.
      if (waiting === 0 || owner === 0 || (app !== null && owner !== app)) continue
      const queue = { endpoint, app: owner, waiting, oldestSince: oldestSince ?? now }
      const last = worst.at(-1)
      if (worst.length === limit && last !== undefined && !isWorse(queue, last)) continue
      const at = worst.findIndex((other) => isWorse(queue, other))
      worst.splice(at < 0 ? worst.length : at, 0, queue)
      worst.length = Math.min(worst.length, limit)
    }
    return worst
  }

  /**
   * Ends a round of counting that began at an instant: queues that it has not seen were empty when it passed them. Forgets those
   * that are empty and still.
   */
  *endRound(round: number, beganAt: SteadyMs, now: SteadyMs): Sliced<void> {
    let looked = 0
    for (const [endpoint, entry] of this.#entries) {
      if (++looked % entriesPerPart === 0) yield
      if (entry.round !== round && entry.changedAt < beganAt) {
        this.set(entry, [0, 0, 0])
        entry.ladder = undefined
      }
      if (entry.waiting === 0 && entry.flow.isStill(now)) this.#entries.delete(endpoint)
    }
    for (const [app, { waiting, flow }] of this.#apps) {
      if (++looked % entriesPerPart === 0) yield
      if (waiting === 0 && flow.isStill(now)) this.#apps.delete(app)
    }
  }
}
