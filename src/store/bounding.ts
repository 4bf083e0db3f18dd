import type { Endpoint } from '../domain/endpoint.ts'
import type { DeadReason } from '../domain/judge.ts'
import type { PendingRow } from './delivering.ts'

/**
 * Ending what waits for too long, or as one of too many, without a try. On a lane that somebody owns only the owner does
 * so, by settling; on a lane that nobody owns anybody may, here, because it stays unowned until that is done. So a
 * delivery never has two ends. What ends and why is decided by the caller.
 */
export interface Bounding {
  /**
   * The lanes in which something waits and which nobody owns: those of the next `limit` endpoints behind `after` that have
   * anything waiting. Each comes with the first row of every class, due or not.
   */
  readResting(after: number | null, limit: number): Promise<Resting>
  /** The first `limit` rows of every class of one queue, due or not. */
  readHeads(endpoint: number, limit: number): Promise<PendingRow[]>
  /**
   * Up to `limit` deliveries whose message's time is up, the earliest first, from `next` of another page on; those in lanes
   * that somebody owns are left out. A page may be short, or repeat what an earlier one had.
   */
  readExpired(from: number | null, limit: number): Promise<Expired>
  /** Ends deliveries without a try, where nobody owns their lane and they still wait; answers which. */
  endResting(ends: readonly RestingEnd[]): Promise<RestingEnd[]>
}

export interface Resting {
  readonly lanes: readonly RestingLane[]
  /** Where to go on; null behind the last endpoint. */
  readonly next: number | null
}

/** A lane that nobody owns, with what decides how long its rows may wait. */
export interface RestingLane extends Pick<Endpoint, 'app' | 'retry' | 'flow'> {
  readonly endpoint: number
  readonly rows: readonly PendingRow[]
}

export interface Expired {
  readonly deliveries: readonly WaitingDelivery[]
  /** Where to go on; null when nothing more has expired. */
  readonly next: number | null
}

export interface WaitingDelivery {
  readonly endpoint: number
  readonly app: number
  readonly row: PendingRow
}

export interface RestingEnd extends WaitingDelivery {
  readonly reason: DeadReason
}
