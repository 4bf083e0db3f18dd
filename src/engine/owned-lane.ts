import type { Bucket } from '../domain/bucket.ts'
import type { SteadyMs } from '../domain/clock.ts'
import type { Class } from '../domain/delivery.ts'
import { type Endpoint, endpointDefaults, rateLimit } from '../domain/endpoint.ts'
import type { RetryPolicy } from '../domain/retry.ts'
import type { Lane, LaneLimits } from '../domain/scheduler.ts'
import type { Throughput } from '../domain/throughput.ts'
import type { Line } from '../sender/send.ts'
import type { DueRead, PendingRow } from '../store/store.ts'

/** A lane this worker owns: the scheduler's view of it, the way to its receiver, and what has been read of its queue. */
export interface OwnedLane {
  endpoint: Endpoint
  line: Line
  policy: RetryPolicy
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
  doomed: Set<number> | null
  /** When the next timed row is due, as far as is known. */
  nextTimedAt: SteadyMs
  lastActiveAt: SteadyMs
  /** Attempts that ended, whatever became of them. */
  readonly throughput: Throughput
  /** Being handed to another worker: nothing new is started. */
  leaving: boolean
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
  abort: (() => void) | undefined
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

export function isReading(owned: OwnedLane): boolean {
  return owned.cursors.some((cursor) => cursor.reading)
}

export function limitsOf(endpoint: Endpoint): LaneLimits {
  return { rate: rateLimit(endpoint), concurrency: endpoint.concurrency ?? endpointDefaults.concurrency }
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
    abort: undefined,
  }
}
