import type { EpochMs } from '../domain/clock.ts'
import type { Class, Message } from '../domain/delivery.ts'
import type { DisabledReason, Endpoint } from '../domain/endpoint.ts'
import type { DeadReason } from '../domain/judge.ts'
import type { Notice } from '../domain/notice.ts'
import type { OutcomeCode } from '../domain/outcome.ts'

/** Deliveries on their way out, and the end of those that wait too long. */
export interface Deliveries extends Delivering, Bounding {}

/** Deliveries on their way out, for whoever owns their lanes. */
export interface Delivering {
  /** Reads the head of queues, in order: by due instant, then by key. Rows stay in place until they are settled. */
  readDue(reads: readonly DueRead[]): Promise<DueRows[]>
  /** What is needed to send these messages; those that no longer exist are left out. */
  loadMessages(keys: readonly number[]): Promise<Outgoing[]>
  /** As `loadMessages`, for deliveries that get something else than the message's own body, or a signature with it. */
  loadVariants(keys: readonly VariantKey[]): Promise<Outgoing[]>
  /**
   * Records attempts and their verdicts, all or none. `fenced` means the worker was declared dead: nothing was recorded,
   * and it must drop what it holds. Settling the same thing twice is harmless: a row that is no longer queued is not
   * queued again.
   */
  settle(worker: number, settlements: readonly Settlement[], effects: LaneEffects): Promise<'settled' | 'fenced'>
}

/** Timed rows are read only when due; fresh and replayed ones always are. */
export interface DueRead {
  readonly endpoint: number
  readonly class: Class
  /** Continue behind this row; null starts at the head. */
  readonly after: { readonly dueAt: EpochMs; readonly message: number } | null
  readonly limit: number
}

export interface DueRows {
  readonly rows: PendingRow[]
  /** For the timed class, when fewer rows than asked were due: when the next one will be, from now. */
  readonly nextInMs: number | undefined
}

export interface PendingRow {
  readonly message: number
  readonly class: Class
  /** The stored due instant: part of the row's key. Not for deciding by. */
  readonly dueAt: EpochMs
  /** Attempts that count against the policy. */
  readonly attempts: number
  /** Attempts made before a replay, which do not. */
  readonly priorAttempts: number
  /** How long ago the delivery was first due, when read. */
  readonly ageMs: number
  /** In ordered lanes: what goes one after the other; null for whatever has no order. */
  readonly orderKey: number | null
  /**
   * In ordered lanes: how long it still waits for its retry, when read; `Infinity` until somebody acts, and `skipped` once
   * somebody did so by taking it out of the way.
   */
  readonly heldMs: number
  /** How long until nobody wants it any more, when read; 0 or less when that is past, null for never. */
  readonly expiresInMs: number | null
  /** Which body it is sent with; null for the message's own. */
  readonly variant: number | null
}

/** Which variant of which message. */
export interface VariantKey {
  readonly message: number
  readonly variant: number
}

export interface Outgoing extends Pick<Message, 'key' | 'id' | 'eventType' | 'body' | 'contentType' | 'headers'> {
  /** Null for the message's own body. */
  readonly variant: number | null
  /** Made when the message was accepted; null when each attempt is signed anew. */
  readonly signature: string | null
}

export interface Settlement {
  readonly endpoint: number
  readonly app: number
  readonly row: PendingRow
  /** Null when it ended without being tried. */
  readonly attempt: TriedAttempt | null
  /** Its lane keeps an order: others wait for this to be recorded, and an operator may be directing it. */
  readonly inOrder?: boolean
  readonly verdict:
    | { readonly state: 'delivered' }
    | { readonly state: 'waiting'; readonly waitMs: number }
    /** As waiting, but it keeps its place in the queue. */
    | { readonly state: 'held'; readonly waitMs: number }
    /** As held, until somebody acts. */
    | { readonly state: 'blocked' }
    | { readonly state: 'dead'; readonly reason: DeadReason }
}

/** How an attempt went, as it is recorded. */
export interface TriedAttempt {
  readonly id: string
  readonly startedAgoMs: number
  readonly durationMs: number
  readonly status: number
  readonly code: OutcomeCode
  readonly error: string | null
  readonly response: Uint8Array | null
}

export interface LaneEffects {
  /** Recorded at once, so that a Retry-After outlives its worker. A longer hold already recorded stays. */
  readonly holds: readonly { readonly endpoint: number; readonly holdMs: number }[]
  /** Endpoints that are disabled from now on, which is noticed; `failingMs` is how long they had been failing. */
  readonly disable: readonly {
    readonly endpoint: number
    readonly reason: DisabledReason
    readonly failingMs?: number
  }[]
  /** How well receivers do, where that changed in a way that must outlive the worker. */
  readonly health: readonly { readonly endpoint: number; readonly health: string | null }[]
  /** What else operators are to be told. */
  readonly notices?: readonly Notice[]
}

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

/** What a dead letter says of its last attempt when it ended without being tried. */
export const untried = { status: 0, code: 'untried', error: null, response: null } as const
