import type { EpochMs } from '../../domain/clock.ts'
import type { Application, Endpoint, Secret, SignatureHeaders } from '../../domain/endpoint.ts'
import { type Flow, fromFlow, toFlow } from '../../domain/flow.ts'
import type { Subscription } from '../../domain/match.ts'
import type { NewEndpoint } from '../configuration.ts'
import { openRegion } from '../regions.ts'
import type { StoreContext } from '../store.ts'
import { newestSecret, openValue, SealError, sealValue, type Vault } from '../vault.ts'

import { toJson } from './json.ts'

// How rows become what the domain speaks of, and back. Here JSON columns are values and truth is a boolean: what a database
// has otherwise, its own rows.ts turns into this.

export interface ApplicationRow {
  readonly key: number
  readonly id: string
  readonly uid: string | null
  readonly name: string
  readonly dedupe_s: number | null
  readonly throttle_rate: number | null
  readonly metadata: Readonly<Record<string, string>>
  readonly settings: Application['settings'] | null
  readonly version: number
  readonly created_at: EpochMs
  readonly updated_at: EpochMs
}

export function toApplication(row: ApplicationRow): Application {
  return {
    key: row.key,
    id: row.id,
    uid: row.uid,
    name: row.name,
    dedupeSeconds: row.dedupe_s,
    throttleRate: row.throttle_rate,
    metadata: row.metadata,
    settings: row.settings ?? {},
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

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

/** Throws `SealError` when the secrets or headers do not open. */
export function toEndpoint(row: EndpointRow, vault: Vault): Endpoint {
  const place = (field: string) => ({ app: row.app, endpoint: row.key, field })
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
    secrets: openValue(vault, row.secrets, place('secrets')),
    method: row.method,
    headers: openValue(vault, row.headers, place('headers')),
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

/**
 * The endpoint as the engine needs it. One whose secrets or headers do not open has none: nothing can then be sent to it,
 * and the other lanes go on.
 */
export function toSendable(row: SendableRow, vault: Vault, log: ((sentence: string) => void) | undefined): Endpoint {
  const endpoint = openedOrBare(row, vault, log)
  const { region } = endpoint.flow
  const regionSecret =
    region === null || row.region_secret === null
      ? null
      : openRegion(vault, row.region_secret, { app: row.app, name: region }, log)
  const { app_throttle_rate: appThrottleRate, signature_headers: signatureHeaders } = row
  return { ...endpoint, appThrottleRate, signatureHeaders: signatureHeaders ?? {}, regionSecret }
}

function openedOrBare(row: EndpointRow, vault: Vault, log: ((sentence: string) => void) | undefined): Endpoint {
  try {
    return toEndpoint(row, vault)
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    log?.(`nothing can be sent to ${row.id}: ${error.message}`)
    return toEndpoint({ ...row, secrets: [], headers: {} }, vault)
  }
}

/** What decides who gets messages, and how, where that is not as by default. */
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

/** What they are set to, with JSON as text; what is secret is sealed for this endpoint, as `sealValue` has it. */
export function settableValues(
  endpoint: NewEndpoint,
  identity: { readonly app: number; readonly key: number },
  vault: Vault,
) {
  const place = (field: string) => ({ app: identity.app, endpoint: identity.key, field })
  return {
    uid: endpoint.uid,
    url: endpoint.url,
    description: endpoint.description,
    disabled: endpoint.disabled,
    event_types: toJson(endpoint.eventTypes),
    channels: toJson(endpoint.channels),
    secrets: sealValue(vault, endpoint.secrets, place('secrets')),
    headers: sealValue(vault, endpoint.headers, place('headers')),
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
  } satisfies Record<(typeof settableColumns)[number], unknown>
}
