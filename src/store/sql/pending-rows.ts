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

/** The values of the same columns, in the order of `pendingColumns`. */
export type PendingValues = readonly [
  message: number,
  dueAt: EpochMs,
  attempts: number,
  priorAttempts: number,
  orderKey: number | null,
  variant: number | null,
  ageMs: number,
  lateMs: number,
  retryInMs: number | null,
  expiresInMs: number | null,
]

/** The columns of `PendingColumns`, from those of `pending` under a name. */
export function pendingColumns(pending: string, now: string): string {
  const names = ['message', 'due_at', 'attempts', 'prior_attempts', 'order_key', 'variant']
  return `
    ${names.map((name) => `${pending}.${name}`).join(', ')}, ${now} - ${pending}.since as age_ms,
    ${now} - ${pending}.due_at as late_ms,
    ${sqlRetryInMs(`${pending}.held_until`, now)} as retry_in_ms, ${pending}.expires_at - ${now} as expires_in_ms`
}

export function toPendingRow(row: PendingColumns, rowClass: Class): PendingRow {
  const { message, due_at: dueAt, attempts, prior_attempts: prior, order_key: orderKey, variant } = row
  const { age_ms: ageMs, late_ms: lateMs, retry_in_ms: retryInMs, expires_in_ms: expiresInMs } = row
  return pendingRow(rowClass, message, dueAt, attempts, prior, orderKey, variant, ageMs, lateMs, retryInMs, expiresInMs)
}

/** A waiting delivery, from the values of `pendingColumns`. */
export function pendingRow(
  rowClass: Class,
  ...[message, dueAt, attempts, priorAttempts, orderKey, variant, ageMs, lateMs, retryInMs, expiresInMs]: PendingValues
): PendingRow {
  return {
    message,
    class: rowClass,
    dueAt,
    attempts,
    priorAttempts,
    ageMs: Math.max(0, ageMs),
    lateMs: Math.max(0, lateMs),
    orderKey,
    retryInMs: toRetryInMs(retryInMs),
    expiresInMs,
    variant,
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
