import type { EpochMs } from '../../domain/clock.ts'
import type { Class } from '../../domain/delivery.ts'
import type { PendingRow } from '../delivering.ts'
import { retryInMsOf } from '../delivering.ts'

export interface PendingColumns {
  readonly message: number
  readonly class: Class
  readonly due_at: EpochMs
  readonly since: EpochMs
  readonly attempts: number
  readonly prior_attempts: number
  readonly order_key: number | null
  readonly held_until: EpochMs | null
  readonly expires_at: EpochMs | null
  readonly variant: number | null
}

export function toPendingRow(row: PendingColumns, now: EpochMs): PendingRow {
  return {
    message: row.message,
    class: row.class,
    dueAt: row.due_at,
    attempts: row.attempts,
    priorAttempts: row.prior_attempts,
    ageMs: Math.max(0, now - row.since),
    orderKey: row.order_key,
    retryInMs: retryInMsOf(row.held_until, now),
    expiresInMs: row.expires_at === null ? null : row.expires_at - now,
    variant: row.variant,
  }
}

/** The value of JSON text that may be missing. */
export function fromJson<T>(text: string | null): T | null {
  return text === null ? null : JSON.parse(text)
}
