import type { StoredNotice } from '../domain/notice.ts'
import type { Applications } from './applications.ts'
import { bringForwardMs } from './dead-letters.ts'
import type { Endpoints } from './endpoints.ts'

/** The work that keeps a store in shape, and the one process that does it. */
export interface Maintenance extends Leading, Retention, Notices, Sweeping {}

/** Removing rows that nothing refers to any more, a bounded number at a time. Any process may do so at any time. */
export interface Sweeping {
  /**
   * Removes some rows of deleted applications and endpoints: there may be a million. Deliveries that waited end as
   * cancelled, without an attempt.
   */
  sweepRemoved(): Promise<Swept>
  /** Removes up to `limit` coalescing windows that have ended; answers how many. */
  sweepWindows(limit: number): Promise<number>
}

export interface Swept {
  /** Deliveries that will never be made, because their endpoint was deleted. */
  readonly cancelled: number
  /** Whether there is more to remove right away. */
  readonly more: boolean
}

/** How many endpoints of a deleted application one transaction stops, and how many rows one removes. */
export const endpointsPerRemoval = 200
export const rowsPerRemoval = 1000

/**
 * A window that ends within this time takes nothing in any more, and the next message opens another: a worker may be
 * about to read the row that waits, and would send what another one has replaced.
 */
export const closingMs = bringForwardMs

/**
 * Who does what is to be done once for the whole store: one process at a time, for a lease that it keeps renewing. Each
 * leader has a higher epoch than the one before. What a leader does is safe when two believe to lead for a moment: every
 * job compares and sets, or can be done twice.
 */
export interface Leading {
  /** Takes or renews the lead; `leads: false` when somebody else has it. */
  lead(candidate: Candidate, leaseMs: number): Promise<Lead>
  /** Gives the lead up, for another to take at once. */
  resign(candidate: Candidate): Promise<void>
  /** Who leads at this moment; undefined when nobody does. */
  leader(): Promise<Leader | undefined>
}

export interface Candidate {
  /** Another one for each process. */
  readonly id: string
  /** For people: host, process id, what it listens on. */
  readonly description: string
}

export interface Lead {
  readonly leads: boolean
  readonly epoch: number
  /** How long the lead that there is now holds without being renewed. */
  readonly leftMs: number
}

export interface Leader {
  readonly description: string
  readonly epoch: number
  readonly sinceMs: number
}

/** Letting go of what is old. Everything here is done a bounded bit at a time, and harmless when done twice. */
export interface Retention {
  /**
   * Removes some of what is older than it is kept for: messages with their attempts, dead letters, tasks that have ended.
   * A message that still waits somewhere, or has a dead letter that is kept, stays with all that is known of it.
   */
  retain(limits: RetentionLimits): Promise<Retained>
  /** Keeps the database in shape: on Postgres a place for the days to come, on SQLite a file no larger than need be. */
  upkeep(): Promise<void>
  /** Messages whose body was to be kept only until now. */
  duePayloadEnds(limit: number): Promise<number[]>
  /** Says that these messages' bodies are erased. */
  forgetPayloadEnds(messages: readonly number[]): Promise<void>
}

/** How long things are kept; null for ever. */
export interface RetentionLimits {
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
 * What operators are to be told. A notice is written in the transaction that does what it tells of, and stays until
 * whoever sends it says that it was sent: it is told at least once.
 */
export interface Notices {
  /** The oldest ones. */
  listNotices(limit: number): Promise<StoredNotice[]>
  removeNotices(keys: readonly number[]): Promise<void>
}

/** The methods that delete: each database has its own. */
export interface Removals
  extends Pick<Applications, 'deleteApplication'>,
    Pick<Endpoints, 'deleteEndpoint'>,
    Pick<Sweeping, 'sweepRemoved'> {}
