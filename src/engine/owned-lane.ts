import type { Bucket } from '../domain/bucket.ts'
import type { SteadyMs } from '../domain/clock.ts'
import { type Class, classes } from '../domain/delivery.ts'
import { type Endpoint, endpointDefaults, rateLimit } from '../domain/endpoint.ts'
import type { Health, HealthRules } from '../domain/health.ts'
import type { Verdict } from '../domain/judge.ts'
import type { Lane, LaneLimits } from '../domain/lane.ts'
import type { Entry, Ordering } from '../domain/order.ts'
import type { RetryPolicy } from '../domain/retry.ts'
import type { Throughput } from '../domain/throughput.ts'
import type { Line } from '../sender/send.ts'
import type { DueRead, PendingRow } from '../store/store.ts'

/** A lane this worker owns: the scheduler's view of it, the way to its receiver, and what has been read of its queue. */
export interface OwnedLane {
  endpoint: Endpoint
  line: Line
  policy: RetryPolicy
  /** How well the receiver does, and how that is judged. */
  readonly health: Health
  rules: HealthRules
  readonly lane: Lane<Delivery>
  readonly cursors: readonly [Cursor, Cursor, Cursor]
  /** Messages that were read and are not settled yet. A row read twice is known by being here. */
  readonly held: Set<number>
  /** Messages settled while a read was under way: that read may still show them. They stay in `held` until it ends. */
  readonly settledMeanwhile: number[]
  /** Ends that are not recorded yet. */
  unsettled: number
  /** Deliveries that have ended for good since the lane was taken. */
  ended: number
  /** Messages too many for the endpoint: they end when their turn comes. Null while there are none. */
  doomed: ReadonlySet<number> | null
  /** The head of its queue is being looked at, beside what is read for sending. */
  looking: boolean
  /** When a read of its rows last ended, for whatever purpose. */
  lastReadAt: SteadyMs
  /** When the next timed row is due, as far as is known. */
  nextTimedAt: SteadyMs
  lastActiveAt: SteadyMs
  /** Attempts that ended, whatever became of them. */
  readonly throughput: Throughput
  /** Being handed to another worker: nothing new is started. */
  leaving: boolean
  /** In a lane that keeps an order: what is known of its rows is to be compared with the store. */
  unsure: boolean
}

/** How far one class of a lane's queue has been read. */
export interface Cursor {
  after: DueRead['after']
  /** When this pass through the queue began at its head. */
  beganAt: SteadyMs
  /** The last read reached the end. The next one starts at the head, because rows may have been added anywhere. */
  complete: boolean
  /** A read is under way. */
  reading: boolean
  /** Rows were added since this pass through the queue began, so its end is not the end. */
  stale: boolean
}

/** One row on its way through this worker. */
export interface Delivery {
  readonly owned: OwnedLane
  readonly row: PendingRow
  /** When it was first due, on the steady clock. */
  readonly bornAt: SteadyMs
  /** When nobody wants it any more, on the steady clock. */
  readonly expiresAt: SteadyMs
  bucket: Bucket | undefined
  left: boolean
  startedAt: SteadyMs
  /** In which era of its receiver's health it began. */
  era: number
  abort: (() => void) | undefined
  /** In a lane that keeps an order. */
  standing: Standing | undefined
}

/** How a delivery stands in a lane that keeps an order. */
export interface Standing {
  readonly entry: Entry<Delivery>
  /** What became of it, once that is recorded. */
  verdict: Verdict | undefined
  /** Since when: waits count from then on, in the store as well. */
  recordedAt: SteadyMs
  /** Nothing of it is on the wire. */
  slotFree: boolean
  /** Somebody wants it out of the way. */
  skipped: boolean
  /** It waits no longer: its end is being recorded. */
  ending: boolean
}

export function newCursors(): OwnedLane['cursors'] {
  const cursor = (): Cursor => ({ after: null, beganAt: 0, complete: false, reading: false, stale: false })
  return [cursor(), cursor(), cursor()]
}

/** Marks that a class may hold rows that were not read. */
export function reopen(owned: OwnedLane, itsClass: Class): void {
  const cursor = owned.cursors[itsClass]
  cursor.stale = true
  cursor.complete = false
}

/** Marks that somebody may have changed what waits in a lane that keeps an order: the store is to be asked again. */
export function doubt(owned: OwnedLane): void {
  if (owned.lane.order === undefined) return
  owned.unsure = true
  for (const c of classes) reopen(owned, c)
}

/** A lane that keeps an order and has somebody waiting in it is not given back, and so is looked at this often. */
const lookAgainMs = 2000

/** What was committed late, and what a lost signal told of, is found by looking once more. */
export function lookAgain(owned: OwnedLane, now: SteadyMs): void {
  const { order } = owned.lane
  if (order && order.size > 0 && now - owned.cursors[0].beganAt >= lookAgainMs) doubt(owned)
}

/** Whether a read of its rows is under way. */
export function isReading({ looking, cursors }: OwnedLane): boolean {
  return looking || cursors[0].reading || cursors[1].reading || cursors[2].reading
}

/** Once no read is under way, what was settled during it is forgotten. */
export function forgetSettled(owned: OwnedLane): void {
  if (isReading(owned)) return
  for (const message of owned.settledMeanwhile) owned.held.delete(message)
  owned.settledMeanwhile.length = 0
}

export function limitsOf(endpoint: Endpoint): LaneLimits {
  const concurrency = endpoint.concurrency ?? endpointDefaults.concurrency
  return { rate: rateLimit(endpoint), concurrency: endpoint.flow.order === 'fifo' ? 1 : concurrency }
}

export function orderingOf({ flow }: Endpoint): Ordering | undefined {
  return flow.order === 'none' ? undefined : flow.order
}

/** A row on its way through this worker, from now on. */
export function newDelivery(owned: OwnedLane, row: PendingRow, now: SteadyMs): Delivery {
  return {
    owned,
    row,
    bornAt: now - row.ageMs,
    expiresAt: row.expiresInMs === null ? Number.POSITIVE_INFINITY : now + row.expiresInMs,
    bucket: undefined,
    left: false,
    startedAt: 0,
    era: 0,
    abort: undefined,
    standing: undefined,
  }
}
