import type { Endpoint } from '../domain/endpoint.ts'

/** A hold, a debt or a rest that is read back from the store counts as no longer than this, whatever the clock did. */
export const longestRestMs = 24 * 60 * 60 * 1000

/**
 * Who delivers what. A worker joins and keeps renewing its lease; it claims lanes that have something to do and are
 * owned by nobody, and releases them when they rest. A worker whose lease has lapsed may be declared dead by any other;
 * its lanes then become claimable, and nothing it says is recorded any more.
 */
export interface Ownership {
  join(worker: NewWorker): Promise<number>
  /** Extends the lease, and declares dead whoever let theirs lapse. `alive: false` means this worker was declared dead. */
  renew(worker: number, leaseMs: number): Promise<Renewal>
  /** Hands back every lane and leaves. What the worker had not settled is delivered by others. */
  leave(worker: number): Promise<void>
  /**
   * Takes up to `limit` lanes that are due, the longest waiting first. With `ownedToo` it also answers every lane the
   * worker owns already: for when the answer to an earlier claim was lost.
   */
  claim(worker: number, limit: number, ownedToo?: boolean): Promise<Claim>
  /**
   * Gives lanes back with what their next owner must know. The store itself finds out when each is due next, in a way
   * that cannot miss a row published at the same moment. A lane whose endpoint's circuit was changed since it was claimed
   * does not rest, whatever is said here: whoever takes it next looks anew.
   */
  release(worker: number, lanes: readonly LaneRest[]): Promise<void>
  /**
   * Wakes every lane that nobody owns, that has something to do and that would sleep past it. It repairs what a
   * publisher that died between its commit and its wake-up left behind; the answer is how many it had to repair.
   */
  reconcile(): Promise<number>
}

export interface NewWorker {
  readonly leaseMs: number
  /** For people: host, process id, what it listens on. */
  readonly description: string
}

export interface Renewal {
  readonly alive: boolean
  /** Workers alive, this one included. */
  readonly workers: number
  /** Lanes to share among them: owned by any worker, or due and owned by nobody. */
  readonly activeLanes: number
  /** How many lanes the worker owns that owns the fewest. */
  readonly fewestLanes: number
}

export interface Claim {
  readonly lanes: ClaimedLane[]
  /** When the next lane that nobody owns is due, from now; undefined when none is. */
  readonly nextInMs: number | undefined
}

export interface ClaimedLane {
  readonly endpoint: Endpoint
  /** False when the last owner died: how full its bucket was is then unknown. */
  readonly clean: boolean
  /** How far from full the bucket is, by the last owner's word. */
  readonly bucketDebtMs: number
  /** How long a Retry-After still holds the lane. */
  readonly holdMs: number
  /** How well the receiver does, as it was last saved, and how long ago that was. */
  readonly health: string | null
  readonly healthAgeMs: number
}

export interface LaneRest {
  readonly endpoint: number
  readonly bucketDebtMs: number
  /** How long nothing may be sent, for want of a token or by Retry-After; the lane sleeps at least this long. */
  readonly notBeforeMs: number
  /** Missing when nothing of it has changed since it was saved. */
  readonly health?: string | null | undefined
}
