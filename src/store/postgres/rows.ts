import type { EpochMs } from '../../domain/clock.ts'
import type { Class } from '../../domain/delivery.ts'
import type { PendingRow } from '../delivering.ts'
import { toRetryInMs } from '../delivering.ts'

/** A waiting delivery, as the server's clock saw it. */
export interface PendingColumns {
  readonly message: number
  readonly due_at: EpochMs
  readonly attempts: number
  readonly prior_attempts: number
  readonly age_ms: number
  readonly order_key: number | null
  readonly held_ms: number | null
  readonly expires_in_ms: number | null
  readonly variant: number | null
}

export function toPendingRow(row: PendingColumns, rowClass: Class): PendingRow {
  return {
    message: row.message,
    class: rowClass,
    dueAt: row.due_at,
    attempts: row.attempts,
    priorAttempts: row.prior_attempts,
    ageMs: Math.max(0, row.age_ms),
    orderKey: row.order_key,
    retryInMs: toRetryInMs(row.held_ms),
    expiresInMs: row.expires_in_ms,
    variant: row.variant,
  }
}
