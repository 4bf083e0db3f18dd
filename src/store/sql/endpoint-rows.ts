import type { EpochMs } from '../../domain/clock.ts'
import {
  type Endpoint,
  type SealedField,
  type Secret,
  type SignatureHeaders,
  sealedFields,
} from '../../domain/endpoint.ts'
import { type Flow, fromFlow, toFlow } from '../../domain/flow.ts'
import type { Subscription } from '../../domain/match.ts'
import type { NewEndpoint } from '../endpoints.ts'
import type { StoreContext } from '../store.ts'
import { newestSecret, openValue, SealError, sealValue, type Vault } from '../vault.ts'
import { openRegion } from './regions.ts'
import { type Shape, toJson, type Value } from './statement.ts'

export interface EndpointRow {
  readonly key: number
  readonly id: string
  readonly app: number
  readonly uid: string | null
  readonly url: string
  readonly description: string
  readonly disabled: boolean
  readonly disabled_reason: Endpoint['disabledReason']
  readonly paused: boolean
  readonly event_types: string[] | null
  readonly channels: string[] | null
  /** Sealed, unless empty, as headers are. */
  readonly secrets: string | readonly Secret[]
  readonly method: Endpoint['method']
  readonly headers: string | Readonly<Record<string, string>>
  readonly metadata: Readonly<Record<string, string>>
  readonly throttle_rate: number | null
  readonly throttle_period_s: number
  readonly burst: number | null
  readonly concurrency: number | null
  readonly timeout_ms: number | null
  readonly retry: Endpoint['retry']
  readonly flow: Partial<Flow> | null
  readonly created_at: EpochMs
  readonly updated_at: EpochMs
}

export interface SendableRow extends EndpointRow {
  readonly app_throttle_rate: number | null
  readonly signature_headers: SignatureHeaders | null
  readonly region_secret: string | null
}

/** The columns of an endpoint that a caller may set. */
export const settableColumns = [
  'uid',
  'url',
  'description',
  'disabled',
  'event_types',
  'channels',
  'secrets',
  'headers',
  'metadata',
  'throttle_rate',
  'throttle_period_s',
  'burst',
  'concurrency',
  'timeout_ms',
  'retry',
  'paused',
  'method',
  'flow',
] as const

/** All columns of an endpoint, qualified, since lanes have some of the same names. */
export const endpointColumns = ['key', 'id', 'app', ...settableColumns, 'disabled_reason', 'created_at', 'updated_at']
  .map((column) => `endpoint.${column}`)
  .join(', ')

/** An endpoint's columns with those of its application and its region that sending takes. Each is a probe for one row. */
export const sendableColumns = `${endpointColumns},
  (select throttle_rate from application where application.key = endpoint.app limit 1) as app_throttle_rate,
  (select settings -> 'signatureHeaders' from application where application.key = endpoint.app limit 1)
    as signature_headers,
  (select secret from region where region.app = endpoint.app and region.name = endpoint.flow ->> 'region' limit 1)
    as region_secret`

export const endpointShape: Shape<EndpointRow> = {
  json: ['event_types', 'channels', 'metadata', 'retry', 'flow'],
  flags: ['disabled', 'paused'],
  sealed: ['secrets', 'headers'],
}
export const sendableShape: Shape<SendableRow> = {
  ...endpointShape,
  json: ['event_types', 'channels', 'metadata', 'retry', 'flow', 'signature_headers'],
}

/** Sealed fields that do not open read as empty, and `onDamage` hears of each. */
export function toEndpoint(row: EndpointRow, vault: Vault, onDamage?: (error: SealError) => void): Endpoint {
  const damaged: SealedField[] = []
  const opened = { secrets: [], headers: {} } as Pick<Endpoint, SealedField>
  for (const field of sealedFields) {
    try {
      Object.assign(opened, { [field]: openValue(vault, row[field], { app: row.app, endpoint: row.key, field }) })
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      damaged.push(field)
      onDamage?.(error)
    }
  }
  return {
    key: row.key,
    id: row.id,
    app: row.app,
    uid: row.uid,
    url: row.url,
    description: row.description,
    disabled: row.disabled,
    disabledReason: row.disabled_reason,
    paused: row.paused,
    eventTypes: row.event_types,
    channels: row.channels,
    ...opened,
    ...(damaged.length > 0 && { damaged }),
    method: row.method,
    metadata: row.metadata,
    throttleRate: row.throttle_rate,
    throttlePeriodSeconds: row.throttle_period_s,
    burst: row.burst,
    concurrency: row.concurrency,
    timeoutMs: row.timeout_ms,
    retry: row.retry,
    flow: toFlow(row.flow),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

/** The endpoint as the engine needs it. Nothing is sent to a damaged one; the other lanes go on. */
export function toSendable(row: SendableRow, vault: Vault, log: ((sentence: string) => void) | undefined): Endpoint {
  const endpoint = toEndpoint(row, vault, ({ message }) => log?.(`nothing can be sent to ${row.id}: ${message}`))
  const { region } = endpoint.flow
  const regionSecret =
    region === null || row.region_secret === null
      ? null
      : openRegion(vault, row.region_secret, { app: row.app, name: region }, log)
  const { app_throttle_rate: appThrottleRate, signature_headers: signatureHeaders } = row
  return { ...endpoint, appThrottleRate, signatureHeaders: signatureHeaders ?? {}, regionSecret }
}

/** The columns that decide whether an endpoint gets a message, and how. */
export interface SubscriptionRow
  extends Pick<EndpointRow, 'key' | 'id' | 'event_types' | 'channels' | 'disabled' | 'flow'> {
  /** Null where the flow is the default one. */
  readonly secrets: string | readonly Secret[] | null
}

export function toSubscription(
  row: SubscriptionRow,
  app: number,
  { vault, log }: StoreContext,
  regions: ReadonlyMap<string, string | null>,
): Subscription {
  const subscription = { endpoint: row.key, eventTypes: row.event_types, channels: row.channels }
  if (row.flow === null) return subscription
  const flow = toFlow(row.flow)
  const place = { app, endpoint: row.key, field: 'secrets' }
  const open = () => openValue<readonly Secret[]>(vault, row.secrets ?? [], place)
  const secret = flow.signature === 'stored' ? newestSecret(row.id, open, log) : null
  const regionSecret = regions.get(flow.region ?? '') ?? null
  return { ...subscription, treatment: { id: row.id, flow, disabled: row.disabled, secret, regionSecret } }
}

/** The sealed columns of an endpoint as a database has them. */
export type SealedColumns = Readonly<Record<SealedField, unknown>>

/**
 * The values of those columns, with JSON as text and secrets sealed for this endpoint, as by `sealValue`. A damaged
 * record that is not replaced stays as it is `stored`: the right key, or a backup, may still open it.
 */
export function settableValues(
  endpoint: NewEndpoint & Pick<Endpoint, 'damaged'>,
  identity: { readonly app: number; readonly key: number },
  vault: Vault,
  stored?: SealedColumns,
) {
  const sealed = (field: SealedField) =>
    stored !== undefined && endpoint.damaged?.includes(field)
      ? stored[field]
      : sealValue(vault, endpoint[field], { app: identity.app, endpoint: identity.key, field })
  return {
    uid: endpoint.uid,
    url: endpoint.url,
    description: endpoint.description,
    disabled: endpoint.disabled,
    event_types: toJson(endpoint.eventTypes),
    channels: toJson(endpoint.channels),
    secrets: { sealed: sealed('secrets') },
    headers: { sealed: sealed('headers') },
    metadata: toJson(endpoint.metadata),
    throttle_rate: endpoint.throttleRate,
    throttle_period_s: endpoint.throttlePeriodSeconds,
    burst: endpoint.burst,
    concurrency: endpoint.concurrency,
    timeout_ms: endpoint.timeoutMs,
    retry: toJson(endpoint.retry),
    paused: endpoint.paused,
    method: endpoint.method,
    flow: toJson(fromFlow(toFlow(endpoint.flow ?? null))),
  } satisfies Record<(typeof settableColumns)[number], Value>
}
