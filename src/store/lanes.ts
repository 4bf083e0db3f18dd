import type { EpochMs } from '../domain/clock.ts'
import type { Class } from '../domain/delivery.ts'
import type { RateLimit } from '../domain/rate.ts'
import type { SlotWaits } from '../domain/snapshot.ts'
import type { ApplicationSettings } from '../features/applications/noun.ts'
import type { Endpoint } from '../features/endpoints/rules.ts'
import type { RegionShare, Regions } from '../features/regions/rules.ts'
import type { Outgoing, QueueFront } from './delivering.ts'
import type { DeliveryKey } from './messages.ts'

/** Lanes: the workers that own them, their state, and commands to their queues. */
export interface Lanes extends Ownership, LaneViews, WaitingQueues {
  /** The facts that are stored of an endpoint's lane; undefined when there is no such endpoint. */
  findLane(endpoint: number): Promise<LaneFacts | undefined>
  /** The place where a delivery waits; undefined when it is in no queue. */
  findQueued(delivery: DeliveryKey): Promise<QueuedRow | undefined>
}

/** A hold, a debt or a rest that is read back from the store counts as no longer than this, however the clock was set. */
export const longestRestMs = 24 * 60 * 60 * 1000

/** A rest in whole milliseconds, rounded up so that it is never undercut, and bounded. */
export function restMs(ms: number): number {
  return Math.min(longestRestMs, Math.max(0, Math.ceil(ms)))
}

/** Longer than the slowest bucket takes to fill: a new owner starts with an empty bucket at worst. */
const longestDebtMs = 2_000_000 * longestRestMs

/** The debt of a bucket in whole milliseconds, rounded up, and bounded against a broken clock. */
export function storedDebtMs(ms: number): number {
  return Math.min(longestDebtMs, Math.max(0, Math.ceil(ms)))
}

/**
 * Workers and the lanes that they own. A worker joins and keeps renewing its lease; it claims unowned lanes that have
 * work, and releases them when they rest. Any worker may declare another dead whose lease has lapsed; the lanes of a dead
 * worker become claimable, and its results are refused.
 */
export interface Ownership {
  join(worker: NewWorker): Promise<number>
  /**
   * Extends the lease, and declares workers dead whose lease has lapsed. `alive: false`: this worker was declared dead. Lanes
   * are counted, if several workers share them, unless `countLanes` is false: it takes time for each active lane. Without
   * `looks` it extends the lease alone: looking at the others takes time for each living worker.
   */
  renew(worker: number, leaseMs: number, report?: WorkerReport, countLanes?: boolean, looks?: boolean): Promise<Renewal>
  /** A worker that is stopping claims nothing more: the others hear of it at once, and share its lanes from now on. */
  startLeaving(worker: number): Promise<void>
  /** Releases every lane and leaves. Other workers make the deliveries that this one had not settled. */
  leave(worker: number): Promise<void>
  /**
   * Takes up to `limit` lanes that are due in each of the regions, the longest waiting first; null stands for all regions.
   * The first rows of their queues come along, read once the lanes are this worker's. With `ownedToo` it also answers every lane the worker owns already: for a caller that lost the answer to an earlier
   * claim.
   */
  claim(worker: number, limit: number, ownedToo?: boolean, regions?: Regions): Promise<Claim>
  /**
   * Unowned lanes that are due, by application. Among the next `applications` behind a place that have unowned lanes with an
   * instant, it answers up to `lanesEach` lanes of each that are due and of these regions, the longest waiting first. An
   * application counts once for each region of its lanes. For a worker that finds more lanes due than it takes at once.
   * `next` is null behind the last application.
   */
  findDue(after: DuePlace | null, most: DueLimits, regions?: Regions): Promise<DueLanes>
  /** Takes those of these lanes that are due, unowned and of these regions. */
  claimNamed(worker: number, endpoints: readonly number[], regions?: Regions): Promise<Taken>
  /**
   * Releases lanes with the facts that their next owner needs. The store itself finds out when each is due next, in a way
   * that cannot miss a row published at the same moment. A lane whose endpoint's circuit was changed since it was claimed
   * does not rest, whatever `LaneRest` says: its next owner decides.
   */
  release(worker: number, lanes: readonly LaneRest[]): Promise<void>
  /**
   * Wakes every unowned lane that has work and would sleep past it: a publisher may have died between its commit and its
   * wake-up. Answers how many lanes it woke.
   */
  reconcile(): Promise<number>
}

export interface NewWorker {
  readonly leaseMs: number
  /** For operators: host, process id, address. */
  readonly description: string
  /** Missing for all regions. */
  readonly regions?: Regions
}

export interface Renewal {
  readonly alive: boolean
  /** Workers alive, this one included. Each may have attempts under way. Missing when the renewal did not look. */
  readonly workers?: number
  /** Workers alive that are not leaving: they share the lanes. At least one. Missing like `workers`. */
  readonly sharers?: number
  /** The lanes to share among them, if they were counted. */
  readonly lanes?: LaneCounts | undefined
  /**
   * The shares of the regions that the worker serves, by name: only while a living worker has regions. Otherwise all workers
   * share all lanes.
   */
  readonly regions?: ReadonlyMap<string, RegionShare>
  /** Workers that this renewal declared dead, each with the number of lanes that it owned. */
  readonly died?: readonly { readonly worker: number; readonly description: string; readonly lanes: number }[]
}

/** The lanes that workers share. */
export interface LaneCounts {
  /** Lanes owned by any worker, or due and unowned. */
  readonly activeLanes: number
  /** How many lanes the worker owns that owns the fewest of those that share. */
  readonly fewestLanes: number
}

/** A worker's report about itself, for operators. */
export interface WorkerReport {
  readonly version: string
  readonly host: string
  readonly pid: number
  /** Attempts under way. */
  readonly inFlight: number
  /** Attempts that may be under way at once. Workers of earlier versions do not report it. */
  readonly inFlightLimit?: number
  /** Its lanes that could send and wait for a slot. Workers of earlier versions do not report it. */
  readonly waits?: SlotWaits
  /** The worker's own clock as it reported. Workers of earlier versions do not report it. */
  readonly clockAt?: EpochMs
}

/** A worker, as the store knows it. */
export interface ListedWorker {
  readonly worker: number
  readonly description: string
  /** Null until its first renewal. */
  readonly report: WorkerReport | null
  readonly joinedAt: EpochMs
  /** When it last extended its lease. */
  readonly seenAt: EpochMs
  readonly leaseUntil: EpochMs
  readonly endedAt: EpochMs | null
  /** Whether it was declared dead; false for a worker that left. */
  readonly died: boolean
  readonly lanes: number
  readonly leads: boolean
  readonly regions: Regions
}

/** Lanes that a worker has taken. */
export interface Taken {
  readonly lanes: ClaimedLane[]
  /** Messages of the first rows of their queues. A message may be missing although it exists. */
  readonly messages: readonly Outgoing[]
}

export interface Claim extends Taken {
  /** When the next unowned lane is due, from now; undefined when none is. */
  readonly nextInMs: number | undefined
}

/** A place in the walk over the applications that have unowned lanes with an instant. */
export interface DuePlace {
  readonly app: number
  readonly region: string
}

/** How much one step of the walk looks at. */
export interface DueLimits {
  readonly applications: number
  readonly lanesEach: number
}

export interface DueLane {
  readonly endpoint: number
  readonly app: number
}

export interface DueLanes {
  readonly lanes: readonly DueLane[]
  readonly next: DuePlace | null
}

export interface ClaimedLane {
  readonly endpoint: Endpoint
  /** False when it is unknown how full the bucket was: the last owner died, or did not store its limit. */
  readonly clean: boolean
  /** How far from full the bucket is, as the last owner stored it. */
  readonly bucketDebtMs: number
  /** The limit that the last owner counted by; null when it had none, undefined when none is stored. */
  readonly bucketLimit: RateLimit | null | undefined
  /** How long a Retry-After still holds the lane. */
  readonly holdMs: number
  /** How well the receiver does, as it was last saved, and how long ago that was. */
  readonly health: string | null
  readonly healthAgeMs: number
  /** Missing when the queue has to be read apart. */
  readonly front?: QueueFront | undefined
}

export interface LaneRest {
  readonly endpoint: number
  readonly bucketDebtMs: number
  /** The limit that the debt was counted by: another one may be in force when the lane is claimed. */
  readonly bucketLimit: RateLimit | null
  /** How long nothing may be sent, for want of a token or by Retry-After; the lane sleeps at least this long. */
  readonly notBeforeMs: number
  /** Missing when nothing of it has changed since it was saved. */
  readonly health?: string | null | undefined
}

/**
 * The state of lanes at this moment. Only a lane's owner knows what is in flight, how full its bucket is and which rows it
 * has read. It is asked for a snapshot and stores one; a caller does not wait for an owner that does not answer.
 */
export interface LaneViews {
  /** Counts the lanes of up to `limit` endpoints behind a key for which deliveries wait, by the way they look. */
  surveyLanes(
    after: number | null,
    limit: number,
  ): Promise<{ readonly groups: readonly LaneGroup[]; readonly next: number | null }>
  /** The facts that decide the states of endpoints, of those lanes that exist. */
  laneStates(endpoints: readonly number[]): Promise<LaneState[]>
  /** Asks the owners of these lanes; answers whether any worker can hear the question. */
  askLanes(endpoints: readonly number[]): Promise<boolean>
  /** Stores an owner's snapshots of its lanes, each a `LaneSnapshot` as text. Snapshots of lanes that the worker does not own are dropped. */
  answerLanes(
    worker: number,
    answers: readonly { readonly endpoint: number; readonly snapshot: string }[],
  ): Promise<void>
  /** The latest snapshots of those of these lanes that exist, in the order of their endpoints. */
  readAnswers(endpoints: readonly number[]): Promise<StoredAnswer[]>
  /** The rest of a queued delivery's row; undefined when the row is gone. */
  findRow(endpoint: number, place: RowPlace): Promise<RowStatus | undefined>
  /**
   * The front of an ordered lane: its first row, or the first with an ordering key; with `before`, only in front of that
   * place. A key is looked for among the first `searchLimit` rows of each class.
   */
  findFront(endpoint: number, orderKey: number | null, before: RowPlace | null): Promise<FrontRow | undefined>
  /**
   * Retries the first delivery of an ordered lane, or the named one, at once and with all its attempts (`retry`), or ends it
   * as a dead letter (`skip`). The lane's owner carries it out, so that the delivery has one end:
   *   stored — the lane's owner carries it out, or the next one;
   *   busy — there is nothing to retry: it does not wait for a retry, but for its turn, or is being sent;
   *   none — no such delivery waits.
   */
  commandFront(endpoint: number, message: number | null, command: FrontCommand): Promise<FrontAnswer>
}

/** Lanes that look the same, as a survey counts them. */
export interface LaneGroup {
  readonly owned: boolean
  /** Whether the endpoint is paused or disabled. */
  readonly stopped: boolean
  /** When the lane is due: not at all, now, or later. Meaningless while it is owned. */
  readonly due: 'none' | 'now' | 'later'
  readonly region: string
  /** See `LaneFacts`. */
  readonly health: string | null
  readonly healthAgeMs: number
  /** The endpoint of a lane with stored health, which is a group by itself; null for a group of other lanes. */
  readonly endpoint: number | null
  readonly count: number
}

/** Reads for the ledger, which counts queues: the size of each step is its caller's. */
export interface WaitingQueues {
  /** The keys of the endpoints of an application, or of all with null, behind a key and in their order. */
  endpointKeys(
    app: number | null,
    after: number | null,
    limit: number,
  ): Promise<{ readonly endpoint: number; readonly app: number }[]>
  /** Of the next `limit` rows of a queue behind a place, every so many: the places of those rows. */
  queueRungs(endpoint: number, after: RowPlace | null, every: number, limit: number): Promise<RowPlace[]>
  /**
   * The rows of a queue between two places, both left out; null stands for its begin. It looks at the first `limit` of them, and
   * counts those with the ordering key if one is given.
   */
  countRange(
    endpoint: number,
    after: RowPlace | null,
    before: RowPlace,
    limit: number,
    orderKey?: number | null,
  ): Promise<number>
}

/** The primary key of a row within its endpoint's queue. */
export interface RowPlace {
  readonly class: Class
  readonly dueAt: EpochMs
  readonly message: number
}

export interface RowStatus {
  /** See `PendingRow`. */
  readonly retryInMs: number
  readonly orderKey: number | null
  /** When it was first due. */
  readonly since: EpochMs
  /** When the message expires; null for never. */
  readonly expiresAt: EpochMs | null
}

/** The delivery at the front of an ordered lane. */
export interface FrontRow {
  /** The id of its message; null when that is gone. */
  readonly id: string | null
  readonly message: number
  readonly attempts: number
  readonly retryInMs: number
}

export interface StoredAnswer {
  readonly endpoint: number
  /** The worker that owns the lane now; null when the lane is unowned. */
  readonly owner: number | null
  readonly snapshot: string | null
  /** When it was stored; 0 when there is none. */
  readonly snapshotAt: EpochMs
}

export type FrontCommand = 'retry' | 'skip'

export type FrontAnswer = { readonly state: 'stored' | 'busy'; readonly message: number } | { readonly state: 'none' }

export interface QueuedRow {
  readonly class: Class
  readonly dueAt: EpochMs
  readonly attempts: number
}

/** The few stored facts of a lane that show in a list of endpoints. */
export interface LaneState
  extends Omit<LaneFacts, 'owner' | 'stopped' | 'bucketFullAt' | 'nextTimedAt' | 'nextTimedAttempts'> {
  readonly endpoint: number
  readonly owner: number | null
}

/** The stored facts of a lane. Its owner knows more: the attempts in flight, and how full the bucket is at this moment. */
export interface LaneFacts {
  /** The store's clock, for comparing with the instants here. */
  readonly now: EpochMs
  readonly stopped: boolean
  readonly owner: { readonly worker: number; readonly description: string; readonly leaseUntil: EpochMs } | null
  /** When the lane wakes; null while it is owned, stopped or has nothing to do. */
  readonly dueAt: EpochMs | null
  /** Retry-After; in the past when nothing holds the lane. */
  readonly holdUntil: EpochMs
  /** When the bucket is full again, as the last owner stored it. */
  readonly bucketFullAt: EpochMs
  /** The earliest instant of the next attempt, as the last owner stored it. */
  readonly notBefore: EpochMs
  /** When the earliest timed row is due. */
  readonly nextTimedAt: EpochMs | null
  /** The attempts of the row that is due then. */
  readonly nextTimedAttempts: number
  /** How well the receiver does, as it was last saved, and how long ago that was. */
  readonly health: string | null
  readonly healthAgeMs: number
  readonly workersAlive: number
  readonly region: string
  /** Workers alive that serve the region. */
  readonly workersServing: number
  readonly appSettings: ApplicationSettings
}

/** A search along a queue stops here, so that a backlog of a million costs no more than this. */
export const searchLimit = 1000
