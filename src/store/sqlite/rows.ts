import type { EpochMs } from '../../domain/clock.ts'
import type { Class, Message, MessageHead } from '../../domain/delivery.ts'
import type { Application, Endpoint, SignatureHeaders } from '../../domain/endpoint.ts'
import type { Flow } from '../../domain/flow.ts'
import type { Subscription } from '../../domain/match.ts'
import type { PendingRow } from '../delivering.ts'
import { heldMsOf } from '../held.ts'
import * as rows from '../rows/endpoint.ts'
import * as messages from '../rows/message.ts'
import type { StoreContext } from '../store.ts'
import { sealedWith, type Vault } from '../vault.ts'

// What differs here from ../rows: JSON is text, and truth is 0 or 1.

/** A row as SQLite has it. */
export type Stored<Row, Json extends keyof Row, Truth extends keyof Row = never> = {
  readonly [Column in keyof Row]: Column extends Json
    ? string | Extract<Row[Column], null>
    : Column extends Truth
      ? number
      : Row[Column]
}

export type ApplicationRow = Stored<rows.ApplicationRow, 'metadata' | 'settings'>

export function toApplication(row: ApplicationRow): Application {
  return rows.toApplication({ ...row, metadata: JSON.parse(row.metadata), settings: fromJson(row.settings) })
}

type EndpointJson = 'event_types' | 'channels' | 'secrets' | 'headers' | 'metadata' | 'retry' | 'flow'
export type EndpointRow = Stored<rows.EndpointRow, EndpointJson, 'disabled' | 'paused'>

function parsedEndpoint(row: EndpointRow): rows.EndpointRow {
  return {
    ...row,
    disabled: row.disabled === 1,
    paused: row.paused === 1,
    event_types: fromJson(row.event_types),
    channels: fromJson(row.channels),
    secrets: unlessSealed(row.secrets),
    headers: unlessSealed(row.headers),
    metadata: JSON.parse(row.metadata),
    retry: fromJson(row.retry),
    flow: fromJson(row.flow),
  }
}

/** Sealed fields that do not open read as empty. */
export function toEndpoint(row: EndpointRow, vault: Vault): Endpoint {
  return rows.toEndpoint(parsedEndpoint(row), vault)
}

/** An endpoint's columns with what sending to it takes of its application. */
export const sendableColumns = `endpoint.*,
  (select throttle_rate from application where application.key = endpoint.app) as app_throttle_rate,
  (select settings -> '$.signatureHeaders' from application where application.key = endpoint.app) as signature_headers,
  (select secret from region where region.app = endpoint.app and region.name = endpoint.flow ->> '$.region')
    as region_secret`

export type SendableRow = EndpointRow & Stored<Omit<rows.SendableRow, keyof EndpointRow>, 'signature_headers'>

/** The endpoint as the engine needs it. */
export function toSendable(row: SendableRow, vault: Vault, log: StoreContext['log']): Endpoint {
  const signatureHeaders = fromJson<SignatureHeaders>(row.signature_headers)
  return rows.toSendable({ ...row, ...parsedEndpoint(row), signature_headers: signatureHeaders }, vault, log)
}

export type SubscriptionRow = Stored<rows.SubscriptionRow, 'event_types' | 'channels' | 'secrets' | 'flow', 'disabled'>

export function toSubscription(
  row: SubscriptionRow,
  app: number,
  context: StoreContext,
  regions: ReadonlyMap<string, string | null>,
): Subscription {
  const parsed = {
    ...row,
    event_types: fromJson<string[]>(row.event_types),
    channels: fromJson<string[]>(row.channels),
    disabled: row.disabled === 1,
    secrets: row.secrets === null ? null : unlessSealed(row.secrets),
    flow: fromJson<Partial<Flow>>(row.flow),
  }
  return rows.toSubscription(parsed, app, context, regions)
}

/** What a caller may set of an endpoint, as named parameters. */
export function endpointColumns(
  endpoint: Parameters<typeof rows.settableValues>[0],
  identity: { readonly app: number; readonly key: number },
  vault: Vault,
  stored?: rows.SealedColumns,
) {
  const values = rows.settableValues(endpoint, identity, vault, stored)
  return {
    ...values,
    disabled: endpoint.disabled ? 1 : 0,
    paused: endpoint.paused ? 1 : 0,
    secrets: sealedColumn(values.secrets),
    headers: sealedColumn(values.headers),
  }
}

/** What is sealed is text already, and no JSON. */
function sealedColumn(stored: unknown): string {
  return typeof stored === 'string' ? stored : JSON.stringify(stored)
}

/** The value of a sealed column that was never sealed. Text that is neither sealed nor JSON stays: it does not open. */
export function unlessSealed(text: string) {
  if (sealedWith(text) !== undefined) return text
  try {
    return JSON.parse(text)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return text
  }
}

export type MessageRow = Stored<messages.MessageRow, 'channels' | 'endpoints' | 'tags' | 'headers'>

export function toMessage(row: MessageRow): Message {
  return messages.toMessage({
    ...row,
    channels: fromJson(row.channels),
    tags: fromJson(row.tags),
    headers: fromJson(row.headers),
    endpoints: JSON.parse(row.endpoints),
  })
}

export type HeadRow = Stored<messages.HeadRow, 'channels' | 'tags'>

export function toHead(row: HeadRow): MessageHead {
  return messages.toHead({ ...row, channels: fromJson(row.channels), tags: fromJson(row.tags) })
}

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
    heldMs: heldMsOf(row.held_until, now),
    expiresInMs: row.expires_at === null ? null : row.expires_at - now,
    variant: row.variant,
  }
}

/** The value of JSON text that may be missing. */
export function fromJson<T>(text: string | null): T | null {
  return text === null ? null : JSON.parse(text)
}
