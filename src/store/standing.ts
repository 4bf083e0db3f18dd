import type { EpochMs } from '../domain/clock.ts'

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
  /** Those of these endpoints that something waits for, in their order. */
  waitingAmong(endpoints: readonly number[]): Promise<number[]>
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
