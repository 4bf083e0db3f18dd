import type { EpochMs } from '../../domain/clock.ts'
import type { Class } from '../../domain/delivery.ts'
import type { PendingRow } from '../delivering.ts'
import { toHeldMs } from '../held.ts'
import { type SealedColumns, settableColumns, settableValues } from '../rows/endpoint.ts'
import { toJson } from '../sql/json.ts'
import type { Vault } from '../vault.ts'

// What differs here from ../rows. The driver parses JSON columns, and would write a list as a Postgres array.

export const endpointColumns = `key, id, app, ${settableColumns.join(', ')}, disabled_reason, created_at, updated_at`

/** An endpoint's columns with what sending to it takes of its application. */
export const sendableColumns = `${endpointColumns},
  (select throttle_rate from application where key = endpoint.app limit 1) as app_throttle_rate,
  (select settings -> 'signatureHeaders' from application where key = endpoint.app limit 1) as signature_headers,
  (select secret from region where app = endpoint.app and name = endpoint.flow ->> 'region' limit 1) as region_secret`

/** What a caller may set of an endpoint, in the order of `settableColumns`. */
export function endpointValues(
  endpoint: Parameters<typeof settableValues>[0],
  identity: { readonly app: number; readonly key: number },
  vault: Vault,
  stored?: SealedColumns,
): unknown[] {
  const values = settableValues(endpoint, identity, vault, stored)
  const written = { ...values, secrets: toJson(values.secrets), headers: toJson(values.headers) }
  return settableColumns.map((column) => written[column])
}

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
    heldMs: toHeldMs(row.held_ms),
    expiresInMs: row.expires_in_ms,
    variant: row.variant,
  }
}

/** The parameters for these columns, of which the first is `$first`. */
export function parametersFor(columns: readonly string[], first: number): string {
  return columns.map((_, i) => `$${first + i}`).join(', ')
}
