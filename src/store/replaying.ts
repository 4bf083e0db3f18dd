import type { EpochMs } from '../domain/clock.ts'
import type { Class } from '../domain/delivery.ts'
import type { DeliveryKey } from './browsing.ts'

/** Sending again, never again, and finding out where a delivery stands. */
export interface Replaying {
  /**
   * Queues deliveries once more, in the class that is served last, with their attempts and their age counted anew and
   * numbered on; a dead letter ceases to be one. Answers those it queued. Left out are those that are queued already
   * (one that waits for more than a moment is brought forward instead) and those whose message is expunged or gone.
   */
  replay(deliveries: readonly DeliveryKey[]): Promise<DeliveryKey[]>
  /** Erases a message's body and takes its deliveries out of every queue. What is being sent at this moment may arrive. */
  expungeMessage(message: number): Promise<void>
  /** Where a delivery waits; undefined when it is in no queue. */
  findQueued(delivery: DeliveryKey): Promise<QueuedRow | undefined>
  /** Which of these deliveries wait in the class of replays. */
  findReplaying(deliveries: readonly DeliveryKey[]): Promise<DeliveryKey[]>
  /** What is stored of an endpoint's lane; undefined when there is no such endpoint. */
  findLane(endpoint: number): Promise<LaneFacts | undefined>
}

export interface QueuedRow {
  readonly class: Class
  readonly dueAt: EpochMs
  readonly attempts: number
  /** Rows of its class in front of it, counted up to `countLimit`. */
  readonly ahead: number
}

/** What the store knows of a lane. Its owner knows more: what is in flight, and how full the bucket is at this moment. */
export interface LaneFacts {
  /** The store's clock, for comparing with the instants here. */
  readonly now: EpochMs
  readonly stopped: boolean
  readonly owner: { readonly worker: number; readonly description: string; readonly leaseUntil: EpochMs } | null
  /** When the lane wakes; null while it is owned, stopped or has nothing to do. */
  readonly dueAt: EpochMs | null
  /** Retry-After; in the past when nothing holds the lane. */
  readonly holdUntil: EpochMs
  /** When the bucket is full again, by the last owner's word. */
  readonly bucketFullAt: EpochMs
  /** No sooner than this, by the last owner's word. */
  readonly notBefore: EpochMs
  /** Rows per class, each counted up to `countLimit`. */
  readonly waiting: readonly [fresh: number, timed: number, replay: number]
  /** When the earliest timed row is due. */
  readonly nextTimedAt: EpochMs | null
  /** Since when the longest waiting of the counted rows has been waiting. */
  readonly oldestSince: EpochMs | null
  /** How well the receiver does, as it was last saved, and how long ago that was. */
  readonly health: string | null
  readonly healthAgeMs: number
  readonly workersAlive: number
}

/** Counting stops here: a backlog of a million is "at least this many", and costs no more than this. */
export const countLimit = 1000

/** A timed row due within this time stays where it is: a worker may already be about to read it, and would send it too. */
export const bringForwardMs = 1000
