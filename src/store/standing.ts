import type { EpochMs } from '../domain/clock.ts'
import type { Class } from '../domain/delivery.ts'

/**
 * How lanes stand at this moment. What is in flight, how full a bucket is and what has been read only a lane's owner
 * knows; it is asked, and answers through the store. Nobody waits for an answer that does not come.
 */
export interface Standing {
  /** Asks the owners of these lanes; answers whether any worker can hear the question. */
  askLanes(endpoints: readonly number[]): Promise<boolean>
  /** Stores what the owner of lanes says of them. Of lanes that are not the worker's, nothing is stored. */
  answerLanes(worker: number, answers: readonly LaneAnswer[]): Promise<void>
  /** What was last answered, of those of these lanes that exist; in the order of their endpoints. */
  readAnswers(endpoints: readonly number[]): Promise<StoredAnswer[]>
  /** What the row of a queued delivery tells beside its place; undefined when it is not there any more. */
  findRow(endpoint: number, place: RowPlace): Promise<RowStanding | undefined>
  /**
   * Who is first of those that wait in a lane with an order: of all, or of those with an ordering key, and only in front of
   * a place, where one is named. With a key, it is looked for among the first `countLimit` of each class.
   */
  findFirst(endpoint: number, orderKey: number | null, before: RowPlace | null): Promise<FirstRow | undefined>
  /** Those of these endpoints that something waits for, in their order. */
  waitingAmong(endpoints: readonly number[]): Promise<number[]>
}

/** Where a row lies. */
export interface RowPlace {
  readonly class: Class
  readonly dueAt: EpochMs
  readonly message: number
}

export interface RowStanding {
  /** See `PendingRow`. */
  readonly heldMs: number
  readonly orderKey: number | null
  /** When it was first due. */
  readonly since: EpochMs
  /** When nobody wants it any more; null for never. */
  readonly expiresAt: EpochMs | null
}

/** A delivery that others may stand behind. */
export interface FirstRow {
  /** The id of its message; null when that is gone. */
  readonly id: string | null
  readonly message: number
  readonly attempts: number
  readonly heldMs: number
}

/** An owner's word on one lane: a `LaneSnapshot` as text. */
export interface LaneAnswer {
  readonly endpoint: number
  readonly snapshot: string
}

export interface StoredAnswer {
  readonly endpoint: number
  /** The worker that owns the lane now; null when nobody does. */
  readonly owner: number | null
  readonly snapshot: string | null
  /** When it was stored; 0 when there is none. */
  readonly snapshotAt: EpochMs
}
