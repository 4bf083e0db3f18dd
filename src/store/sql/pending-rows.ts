import type { EpochMs } from '../../domain/clock.ts'
import type { Class } from '../../domain/delivery.ts'
import { type PendingRow, sqlRetryInMs, toRetryInMs } from '../delivering.ts'

/** A waiting delivery, as the store's clock saw it. */
export interface PendingColumns {
  readonly message: number
  readonly due_at: EpochMs
  readonly attempts: number
  readonly prior_attempts: number
  readonly age_ms: number
  readonly late_ms: number
  readonly order_key: number | null
  readonly retry_in_ms: number | null
  readonly expires_in_ms: number | null
  readonly variant: number | null
}

/** The columns of `PendingColumns`, from those of `pending` under a name. */
export function pendingColumns(pending: string, now: string): string {
  const names = ['message', 'due_at', 'attempts', 'prior_attempts', 'order_key', 'variant']
  return `
    ${names.map((name) => `${pending}.${name}`).join(', ')}, ${now} - ${pending}.since as age_ms,
    ${now} - ${pending}.due_at as late_ms,
    ${sqlRetryInMs(`${pending}.held_until`, now)} as retry_in_ms, ${pending}.expires_at - ${now} as expires_in_ms`
}

export function toPendingRow(row: PendingColumns, rowClass: Class): PendingRow {
  return {
    message: row.message,
    class: rowClass,
    dueAt: row.due_at,
    attempts: row.attempts,
    priorAttempts: row.prior_attempts,
    ageMs: Math.max(0, row.age_ms),
    lateMs: Math.max(0, row.late_ms),
    orderKey: row.order_key,
    retryInMs: toRetryInMs(row.retry_in_ms),
    expiresInMs: row.expires_in_ms,
    variant: row.variant,
  }
}

/**
 * Where the next page of expired rows begins: at the last instant of a full page, or behind it when all of the page is of
 * that instant. Null behind the last page.
 */
export function nextExpired(
  rows: readonly { readonly expires_at: EpochMs }[],
  from: EpochMs | null,
  limit: number,
): EpochMs | null {
  const last = rows.at(-1)
  if (rows.length < limit || last === undefined) return null
  return last.expires_at === from ? last.expires_at + 1 : last.expires_at
}
