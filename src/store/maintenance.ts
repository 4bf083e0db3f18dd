import type { EpochMs } from '../domain/clock.ts'
import type { AlertBook, AlertChange, Silence } from '../features/alerts/rules.ts'
import { bringForwardMs } from '../features/dead-letters/store.ts'
import type { StoredNotice } from '../features/notices/rules.ts'
import type { ListedWorker } from './lanes.ts'

/** The work that keeps a store in shape, and the one process that does it. */
export interface Maintenance extends Leading, Retention, Notices, Alerts, Sweeping {}

/** Removes rows that nothing refers to any more, a bounded number at a time. Any process may do so at any time. */
export interface Sweeping {
  /**
   * Removes some rows of deleted applications and endpoints: there may be a million. Deliveries that waited end as
   * cancelled, without an attempt. Answers how many did, and whether there is more to remove right away.
   */
  sweepRemoved(): Promise<{ readonly cancelled: number; readonly more: boolean }>
  /** Removes up to `limit` coalescing windows that have ended; answers how many. */
  sweepWindows(limit: number): Promise<number>
}

/** How many endpoints of a deleted application one transaction stops, and how many rows one removes. */
export const endpointsPerRemoval = 200
export const rowsPerRemoval = 1000

/**
 * A window that ends within this time takes no more messages, and the next message opens another: a worker may be
 * about to read the waiting row, and would send a message that was replaced.
 */
export const closingMs = bringForwardMs

/**
 * The leader does the jobs that are done once for the whole store. One process leads at a time, for a lease that it keeps
 * renewing. Each leader has a higher epoch than the one before. Two leaders at once for a moment are harmless: every
 * job compares and sets, or can be done twice.
 */
export interface Leading {
  /** Takes or renews the lead; `leads: false` when another process has it. */
  lead(candidate: Candidate, leaseMs: number): Promise<Lead>
  /** Gives the lead up; another process may take it at once. */
  resign(candidate: Candidate): Promise<void>
  /** The leader at this moment; undefined when there is none. */
  leader(): Promise<Leader | undefined>
  /** Workers, the newest first; ended ones are kept for a week. */
  listWorkers(limit: number): Promise<ListedWorker[]>
}

export interface Candidate {
  /** Different in each process. */
  readonly id: string
  /** For operators: host, process id, address. */
  readonly description: string
}

export interface Lead {
  readonly leads: boolean
  readonly epoch: number
  /** How long the present lead lasts unless it is renewed. */
  readonly leftMs: number
}

export interface Leader {
  readonly description: string
  readonly epoch: number
  readonly sinceMs: number
}

/** Removes old rows, a bounded number at a time. Doing it twice is harmless. */
export interface Retention {
  /**
   * Removes some messages with their attempts, dead letters and ended tasks that are older than the limits.
   * A message that still waits somewhere, or has a dead letter that is kept, stays with its attempts.
   */
  retain(limits: RetentionLimits): Promise<Retained>
  /** Applications with retention of their own behind a key, in the order of their keys, and the store's clock. */
  listRetentions(after: number, limit: number): Promise<{ readonly now: EpochMs; readonly apps: AppRetention[] }>
  /** Removes some dead letters of an application that died longer ago than this, the oldest first; answers how many. */
  removeDead(app: number, keptMs: number): Promise<number>
  /**
   * Removes messages of an application with all that is known of them, but none that is being expanded or waits for the
   * dead-letter file. Answers how many. The caller has seen that their deliveries ended and that no dead letter is left.
   */
  removeMessages(app: number, messages: readonly number[]): Promise<number>
  /** Keeps the database in shape: on Postgres a place for the days to come, on SQLite a file no larger than need be. */
  upkeep(): Promise<void>
  /** Messages whose retention has ended, or whose deliveries must be checked. */
  duePayloadEnds(limit: number): Promise<PayloadEnd[]>
  /** Looks at these bodies again when their messages are twice as old, but no later than in some hours. */
  postponePayloadEnds(messages: readonly number[]): Promise<void>
  /** Notes that the bodies of these messages are erased. */
  forgetPayloadEnds(messages: readonly number[]): Promise<void>
}

/** A body that may have been kept for long enough. */
export interface PayloadEnd {
  readonly message: number
  /** The instant of this look. A replay moves it. */
  readonly at: EpochMs
  /** Whether it has; otherwise it is erased only if all deliveries have succeeded. */
  readonly isOver: boolean
}

/** The longest wait between two looks. */
export const lastLookMs = 6 * 60 * 60 * 1000

/** How long rows are kept; null for ever. */
export interface RetentionLimits {
  readonly historyMs: number | null
  readonly deadMs: number | null
  /**
   * Applications with limits of their own. `retain` leaves their messages alone until they are older than both limits, and
   * all their dead letters.
   */
  readonly apps?: readonly AppRetention[]
}

/** The limits of an application; null where the server's holds. */
export interface AppRetention {
  readonly app: number
  readonly historyMs: number | null
  readonly deadMs: number | null
}

export interface Retained {
  /** How many rows, and on Postgres tables of whole days. */
  readonly removed: number
  /** Whether there is more to remove right away. */
  readonly more: boolean
}

export const nothingRetained: Retained = { removed: 0, more: false }

/**
 * Notices for operators. A notice is written in the transaction of the change that it reports, and stays until its sender
 * removes it: each is sent at least once.
 */
export interface Notices {
  /** The oldest ones. */
  listNotices(limit: number): Promise<StoredNotice[]>
  removeNotices(keys: readonly number[]): Promise<void>
}

/** Alerts, and silences in which they are not announced. The leader alone steps alerts. */
export interface Alerts {
  /** All alerts, silences that are not over, and the store's clock. */
  readAlerts(): Promise<AlertBook & { readonly silences: readonly StoredSilence[] }>
  /**
   * Stores changes of alerts, each with the notice of its announcement: both or neither. Leaves out changes of alerts that
   * another process changed since they were read. Answers the changes that were stored.
   */
  changeAlerts(changes: readonly AlertChange[]): Promise<AlertChange[]>
  addSilence(silence: NewSilence): Promise<StoredSilence>
  /** Ends a silence now; answers whether it was there and not over. */
  endSilence(id: string): Promise<boolean>
}

export interface NewSilence extends Pick<Silence, 'rule' | 'subject'> {
  /** The time from now until it begins. */
  readonly startsInMs: number
  readonly lengthMs: number
  readonly reason: string
  /** The caller, as in the audit log. */
  readonly createdBy: string
}

export interface StoredSilence extends Silence {
  readonly reason: string
  readonly createdBy: string
  readonly createdAt: EpochMs
}

/** Silences that are not over, at most. */
export const silencesLimit = 1000
