import type { EpochMs } from '../../domain/clock.ts'

/**
 * Rows that other programs insert in transactions of their own. A publication that names its row (`Publication.inbox`) takes it
 * along in the transaction that stores the message.
 */
export interface Inbox {
  /** The names under which rows wait, behind `after`, in the order of their bytes. */
  inboxApps(after: string, limit: number): Promise<string[]>
  /**
   * The first rows that wait under a name, in the order of their insertion: up to `limit`, and as many as have payloads of
   * `bytes` together, but at least one. A payload of more than `largest` bytes is left out.
   */
  inboxRows(app: string, limit: number, bytes: number, largest: number): Promise<InboxRow[]>
  /** Keeps the reason with a row that cannot be published; answers false when no such row waits. */
  refuseInboxRow(id: number, refusal: Refusal): Promise<boolean>
  /** Refused rows, the newest first. */
  refusedRows(limit: number): Promise<RefusedRow[]>
  /** The rows that wait, counted up to `limit`, and since when the oldest of them has. */
  countInbox(limit: number): Promise<InboxCounts>
  /** Has refused rows wait again, those with these ids or all; answers how many. */
  retryInbox(ids: readonly number[] | null): Promise<number>
  /** Removes up to `limit` rows that were refused so long ago; answers how many. */
  sweepInbox(ageMs: number, limit: number): Promise<number>
}

export interface InboxRow {
  readonly id: number
  readonly eventType: string
  /** Null when it is larger than asked for. */
  readonly payload: string | Uint8Array | null
  /** JSON, or its text. */
  readonly options: unknown
}

export interface Refusal {
  /** The code of the error (docs/errors.md). */
  readonly code: string
  readonly error: string
}

export interface RefusedRow extends Refusal {
  readonly id: number
  readonly app: string
  readonly eventType: string
  readonly createdAt: EpochMs
  readonly refusedAt: EpochMs
}

export interface InboxCounts {
  readonly waiting: number
  readonly oldestMs: number | null
  readonly refused: number
}
