import type { EpochMs } from '../../domain/clock.ts'
import type { Attempt, Class, DeadLetter, Message, MessageHead } from '../../domain/delivery.ts'
import type { Application, Endpoint } from '../../domain/endpoint.ts'
import { defaultFlow, type Flow, fromFlow, toFlow } from '../../domain/flow.ts'
import type { Subscription } from '../../domain/match.ts'
import type { NewEndpoint } from '../configuration.ts'
import type { PendingRow } from '../delivering.ts'
import { heldMsOf } from '../held.ts'
import { openRegion } from '../regions.ts'
import type { StoreContext } from '../store.ts'
import { newestSecret, openValue, SealError, type SealedPlace, sealedWith, sealValue, type Vault } from '../vault.ts'

// How rows become what the domain speaks of, and back. Lists and records are JSON text; truth is 0 or 1.

export interface ApplicationRow {
  readonly key: number
  readonly id: string
  readonly uid: string | null
  readonly name: string
  readonly dedupe_s: number | null
  readonly throttle_rate: number | null
  readonly metadata: string
  readonly settings: string | null
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
    metadata: JSON.parse(row.metadata),
    settings: fromJson<Application['settings']>(row.settings) ?? {},
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
  readonly disabled: number
  readonly disabled_reason: Endpoint['disabledReason']
  readonly paused: number
  readonly event_types: string | null
  readonly channels: string | null
  readonly secrets: string
  readonly method: Endpoint['method']
  readonly headers: string
  readonly metadata: string
  readonly throttle_rate: number | null
  readonly throttle_period_s: number
  readonly burst: number | null
  readonly concurrency: number | null
  readonly timeout_ms: number | null
  readonly retry: string | null
  readonly flow: string | null
  readonly created_at: EpochMs
  readonly updated_at: EpochMs
}

/** An endpoint's columns with what sending to it takes of its application. */
export const sendableColumns = `endpoint.*,
  (select settings from application where application.key = endpoint.app) as app_settings,
  (select throttle_rate from application where application.key = endpoint.app) as app_throttle_rate,
  (select secret from region where region.app = endpoint.app and region.name = endpoint.flow ->> '$.region')
    as region_secret`

export interface SendableRow extends EndpointRow {
  readonly app_settings: string | null
  readonly app_throttle_rate: number | null
  readonly region_secret: string | null
}

/** Throws `SealError` when the secrets or headers do not open. */
export function toEndpoint(row: EndpointRow, vault: Vault): Endpoint {
  return {
    key: row.key,
    id: row.id,
    app: row.app,
    uid: row.uid,
    url: row.url,
    description: row.description,
    disabled: row.disabled === 1,
    disabledReason: row.disabled_reason,
    paused: row.paused === 1,
    eventTypes: fromJson(row.event_types),
    channels: fromJson(row.channels),
    secrets: opened(row, 'secrets', vault),
    method: row.method,
    headers: opened(row, 'headers', vault),
    metadata: JSON.parse(row.metadata),
    throttleRate: row.throttle_rate,
    throttlePeriodSeconds: row.throttle_period_s,
    burst: row.burst,
    concurrency: row.concurrency,
    timeoutMs: row.timeout_ms,
    retry: fromJson(row.retry),
    flow: toFlow(fromJson<Partial<Flow>>(row.flow)),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

/**
 * The endpoint as the engine needs it. One whose secrets or headers do not open has none: nothing can then be sent to it,
 * and the other lanes go on.
 */
export function toSendable(row: SendableRow, vault: Vault, log: ((sentence: string) => void) | undefined): Endpoint {
  const { signatureHeaders = {} } = fromJson<Application['settings']>(row.app_settings) ?? {}
  const endpoint = openedOrBare(row, vault, log)
  const { region } = endpoint.flow
  const regionSecret =
    region === null || row.region_secret === null
      ? null
      : openRegion(vault, row.region_secret, { app: row.app, name: region }, log)
  return { ...endpoint, appThrottleRate: row.app_throttle_rate, signatureHeaders, regionSecret }
}

function openedOrBare(row: EndpointRow, vault: Vault, log: ((sentence: string) => void) | undefined): Endpoint {
  try {
    return toEndpoint(row, vault)
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    log?.(`nothing can be sent to ${row.id}: ${error.message}`)
    return toEndpoint({ ...row, secrets: '[]', headers: '{}' }, vault)
  }
}

/** What decides who gets messages, and how, where that is not as by default. */
export interface SubscriptionRow
  extends Pick<EndpointRow, 'key' | 'id' | 'event_types' | 'channels' | 'disabled' | 'flow'> {
  /** Null where the flow is the default one. */
  readonly secrets: string | null
}

export function toSubscription(
  row: SubscriptionRow,
  app: number,
  { vault, log }: StoreContext,
  regions: ReadonlyMap<string, string | null>,
): Subscription {
  const subscription = {
    endpoint: row.key,
    eventTypes: fromJson<string[]>(row.event_types),
    channels: fromJson<string[]>(row.channels),
  }
  const flow = toFlow(fromJson<Partial<Flow>>(row.flow))
  if (flow === defaultFlow) return subscription
  const signer = { ...row, app, secrets: row.secrets ?? '[]' }
  const secret =
    flow.signature === 'stored' ? newestSecret(signer.id, () => opened(signer, 'secrets', vault), log) : null
  const regionSecret = regions.get(flow.region ?? '') ?? null
  return { ...subscription, treatment: { id: row.id, flow, disabled: row.disabled === 1, secret, regionSecret } }
}

function opened<T>(
  row: Pick<EndpointRow, 'app' | 'key'> & Readonly<Partial<Record<'secrets' | 'headers', string>>>,
  field: 'secrets' | 'headers',
  vault: Vault,
): T {
  const text = row[field] ?? '[]'
  const stored = sealedWith(text) === undefined ? JSON.parse(text) : text
  return openValue(vault, stored, { app: row.app, endpoint: row.key, field })
}

/** A value as its column takes it: sealed, or JSON when there is nothing to seal. */
export function sealedColumn(vault: Vault, value: object, place: SealedPlace): string {
  const stored = sealValue(vault, value, place)
  return typeof stored === 'string' ? stored : JSON.stringify(stored)
}

/** The columns a caller may set, as named parameters; what is secret is sealed for this endpoint. */
export function endpointColumns(
  endpoint: NewEndpoint,
  identity: { readonly app: number; readonly key: number },
  vault: Vault,
) {
  const place = (field: string) => ({ app: identity.app, endpoint: identity.key, field })
  return {
    uid: endpoint.uid,
    url: endpoint.url,
    description: endpoint.description,
    disabled: endpoint.disabled ? 1 : 0,
    paused: endpoint.paused ? 1 : 0,
    event_types: toJson(endpoint.eventTypes),
    channels: toJson(endpoint.channels),
    secrets: sealedColumn(vault, endpoint.secrets, place('secrets')),
    method: endpoint.method,
    headers: sealedColumn(vault, endpoint.headers, place('headers')),
    metadata: JSON.stringify(endpoint.metadata),
    throttle_rate: endpoint.throttleRate,
    throttle_period_s: endpoint.throttlePeriodSeconds,
    burst: endpoint.burst,
    concurrency: endpoint.concurrency,
    timeout_ms: endpoint.timeoutMs,
    retry: toJson(endpoint.retry),
    flow: toJson(fromFlow(toFlow(endpoint.flow ?? null))),
  }
}

export interface MessageRow {
  readonly key: number
  readonly id: string
  readonly app: number
  readonly event_type: string
  readonly event_id: string | null
  readonly channels: string | null
  readonly content_type: string
  readonly endpoints: string
  readonly body: Uint8Array
  readonly tags: string | null
  readonly headers: string | null
  readonly deliver_at: EpochMs | null
  readonly expires_at: EpochMs | null
  readonly ordering_key: string | null
  readonly expunged_at: EpochMs | null
}

export function toMessage(row: MessageRow): Message {
  return {
    key: row.key,
    id: row.id,
    app: row.app,
    eventType: row.event_type,
    eventId: row.event_id,
    channels: fromJson(row.channels),
    body: row.body,
    contentType: row.content_type,
    endpoints: JSON.parse(row.endpoints),
    tags: fromJson(row.tags),
    headers: fromJson(row.headers),
    deliverAt: row.deliver_at,
    expiresAt: row.expires_at,
    orderingKey: row.ordering_key,
    expunged: row.expunged_at !== null,
  }
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

export type HeadRow = Omit<MessageRow, 'body' | 'endpoints'>

/** All of a message's columns but its body and its endpoints. */
export const headColumns =
  'key, id, app, event_type, event_id, channels, content_type, tags, headers, deliver_at, expires_at, ordering_key, ' +
  'expunged_at'

export function toHead(row: HeadRow): MessageHead {
  const { body: _, endpoints: __, ...head } = toMessage({ ...row, body: noBody, endpoints: '[]' })
  return head
}

const noBody = new Uint8Array(0)

export interface AttemptRow {
  readonly message: number
  readonly endpoint: number
  readonly n: number
  readonly id: string
  readonly at: EpochMs
  readonly duration_ms: number
  readonly status: number
  readonly code: Attempt['code']
  readonly error: string | null
  readonly response: Uint8Array | null
  readonly next_at: EpochMs | null
  readonly trigger: Attempt['trigger']
}

export function toAttempt(row: AttemptRow): Attempt {
  return {
    id: row.id,
    message: row.message,
    endpoint: row.endpoint,
    n: row.n,
    at: row.at,
    durationMs: row.duration_ms,
    status: row.status,
    code: row.code,
    error: row.error,
    response: row.response,
    nextAt: row.next_at,
    trigger: row.trigger,
  }
}

export interface DeadRow {
  readonly app: number
  readonly endpoint: number
  readonly message: number
  readonly reason: DeadLetter['reason']
  readonly attempts: number
  readonly died_at: EpochMs
  readonly status: number
  readonly code: DeadLetter['code']
  readonly error: string | null
  readonly response: Uint8Array | null
}

export function toDeadLetter(row: DeadRow): DeadLetter {
  return {
    app: row.app,
    endpoint: row.endpoint,
    message: row.message,
    reason: row.reason,
    attempts: row.attempts,
    diedAt: row.died_at,
    status: row.status,
    code: row.code,
    error: row.error,
    response: row.response,
  }
}

/** JSON text of a value that may be missing. */
export function toJson(value: unknown): string | null {
  return value === null ? null : JSON.stringify(value)
}

/** The value of JSON text that may be missing. */
export function fromJson<T>(text: string | null): T | null {
  return text === null ? null : JSON.parse(text)
}
