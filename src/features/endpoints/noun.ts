import {
  boolean,
  choice,
  type Field,
  headers,
  integer,
  labels,
  list,
  milliseconds,
  name,
  object,
  seconds,
  type Typed,
  text,
  uid,
} from '../../domain/field.ts'
import type { CircuitPolicy, Coalesce, Shape } from '../../domain/flow.ts'
import type { RetryPolicy } from '../../domain/retry.ts'
import type { ClientCertificates, EndpointAuth } from '../credentials/rules.ts'

/**
 * A field of an endpoint that callers set, under its name in the API. It is either a column, under the same name in
 * `Endpoint`, or a part of the stored `flow`.
 */
interface EndpointField extends Field {
  readonly column?: string
  /** The name in `Flow`. */
  readonly flow?: string
  /** The value of an endpoint that sets none; null when absent. Null, where the API takes it, goes back to it. */
  readonly fallback?: unknown
  /** How many of the domain's units are one of the API's; 1 by default. */
  readonly times?: number
  /** It has no null: a null in a request means that the field is not given. */
  readonly noNull?: true
  readonly required?: true
  /** Replacing an endpoint without it leaves it as it is. */
  readonly stays?: true
  /** Answers do not have it, or have it in another form. */
  readonly hidden?: true
  /** Svix's older name, which the API takes and shows as well. */
  readonly alias?: string
}

const day = 86_400

export const methods = ['POST', 'PUT', 'PATCH', 'DELETE', 'GET'] as const
/**
 * `standard`: Standard Webhooks. `stored`: hex HMAC of the body alone, made at publish, the same on every attempt.
 * `timestamped`: `sha256=` + hex HMAC of `timestamp.body`. `github` and `stripe`: as those two sign.
 */
export const signatureProfiles = ['standard', 'stored', 'timestamped', 'github', 'stripe'] as const
/** The longest filter, in characters. */
export const filterLimit = 2000

/**
 * All fields of an endpoint that callers set. The types `Endpoint` and `Flow`, rows, schemas, flags, help and
 * docs/endpoint-fields.md follow from this table; see docs/contributing/endpoint-fields.md.
 */
export const endpointFields = {
  url: {
    column: 'url',
    kind: text(1),
    fallback: '',
    required: true,
    noNull: true,
    description: 'URL that deliveries are sent to.',
  },
  uid: {
    column: 'uid',
    kind: uid('ep'),
    stays: true,
    flag: '--uid <UID>',
    description: 'Your own name for it, unique among its kind; accepted wherever the id is.',
  },
  description: {
    column: 'description',
    kind: text(undefined, 8192),
    fallback: '',
    noNull: true,
    flag: '--description <TEXT>',
    description: 'Free text.',
  },
  disabled: {
    column: 'disabled',
    kind: boolean,
    fallback: false,
    noNull: true,
    description:
      'Whether deliveries are stopped. Messages published meanwhile wait or are dropped, see `whileDisabled`.',
  },
  eventTypes: {
    column: 'event_types',
    kind: list(text(undefined, 256), 1000),
    alias: 'filterTypes',
    flag: '--event-type <TYPE>',
    description: 'Event types: names, groups such as `video.*`, or `*`; null for all.',
    help: 'deliver only this event type, such as video.trending or video.*',
  },
  channels: {
    column: 'channels',
    kind: list(name(128), 10),
    flag: '--channel <CHANNEL>',
    description: 'Channels of a message. An endpoint with channels gets only messages that share one.',
    help: 'deliver only messages of this channel',
  },
  throttleRate: {
    column: 'throttle_rate',
    kind: integer(1, 1_000_000),
    alias: 'rateLimit',
    flag: '--rate <NUMBER>',
    description:
      'Attempts per period, over all workers; the default of the application or the server, or else unlimited.',
  },
  throttlePeriodSeconds: {
    column: 'throttle_period_s',
    kind: seconds(1, day),
    fallback: 1,
    flag: '--period <DURATION>',
    description: 'Period of the rate; a second by default.',
  },
  burst: {
    column: 'burst',
    kind: integer(1, 1_000_000),
    flag: '--burst <NUMBER>',
    description: 'Attempts that may be saved up; the default that belongs to the rate, or else a tenth of a period.',
  },
  concurrency: {
    column: 'concurrency',
    kind: integer(1, 10_000),
    flag: '--concurrency <NUMBER>',
    description: 'Attempts under way at once; 16 by default.',
  },
  timeoutMs: {
    column: 'timeout_ms',
    kind: milliseconds(100, 300_000),
    flag: '--timeout <DURATION>',
    description: "Time limit of one attempt; the server's setting by default.",
  },
  method: {
    column: 'method',
    kind: choice(methods),
    fallback: 'POST',
    noNull: true,
    flag: '--method <METHOD>',
    description: 'HTTP method of deliveries: `POST` (default), `PUT`, `PATCH`, `DELETE`, or `GET` without a body.',
  },
  retry: {
    column: 'retry',
    kind: object<RetryPolicy>(),
    flag: '--retry <POLICY>',
    description: 'When a failed delivery is tried again; ten attempts over three days by default. See docs/retry.md.',
    help: 'waits such as 5s,1m,1h; exponential:5s..1h,x12; none; or JSON (docs/retry.md)',
  },
  retryReplays: {
    flow: 'retryReplays',
    kind: boolean,
    fallback: false,
    flag: '--retry-replays <SWITCH>',
    description:
      'Whether a replayed message that fails again is retried by the policy; by default it becomes a dead letter after one attempt.',
    help: 'on or off: retry a replayed message that fails again',
  },
  propagateTrace: {
    flow: 'propagateTrace',
    kind: boolean,
    fallback: false,
    flag: '--propagate-trace <SWITCH>',
    description:
      'Whether deliveries carry `traceparent` and `tracestate`, so that the receiver continues the trace of the message. See docs/tracing.md.',
    help: 'on or off: send traceparent and tracestate with deliveries of traced messages',
  },
  headers: {
    column: 'headers',
    kind: headers,
    fallback: {},
    stays: true,
    hidden: true,
    flag: '--header <NAME=VALUE>',
    description:
      'Headers of every attempt. The values of headers whose names mark them as secrets are never shown again.',
    help: 'a header of every delivery',
  },
  auth: {
    column: 'auth',
    kind: object<EndpointAuth>(),
    stays: true,
    hidden: true,
    flag: '--auth <AUTH>',
    description:
      'Credentials of every attempt beside its signature: a bearer token, a user name with a password, or OAuth 2.0 client credentials. Secrets are never shown again. See docs/endpoint-auth.md.',
    help: 'bearer:TOKEN, basic:USER:PASSWORD, or @FILE with JSON, such as OAuth 2.0 client credentials (docs/endpoint-auth.md)',
  },
  clientCertificate: {
    column: 'client_certificate',
    kind: object<ClientCertificates>(),
    stays: true,
    hidden: true,
    flag: '--client-certificate <FILE>',
    description:
      'Certificate that connections show to the receiver (mutual TLS), with its key. The key is never shown again. See docs/endpoint-auth.md.',
    help: 'file with the client certificate for mutual TLS, its chain and its private key, as PEM',
  },
  metadata: {
    column: 'metadata',
    kind: labels,
    fallback: {},
    noNull: true,
    flag: '--metadata <NAME=VALUE>',
    description: 'Your own labels, up to 4096 bytes as JSON.',
  },
  headerTemplates: {
    flow: 'headerTemplates',
    kind: labels,
    flag: '--header-template <NAME=TEMPLATE>',
    description:
      'Headers of every attempt with values of the delivery, by name, such as `{"X-Event": "{eventType}"}`. Values: `{eventType}`, `{attempt}`, `{deliveryId}`, `{messageId}`, `{endpointId}`, `{timestamp}`, and `{header:NAME}` for a header with which the message arrived at a source. `User-Agent` replaces that of Sluice.',
    help: 'a header of every delivery with values such as {eventType}, {attempt} or {deliveryId}',
  },
  connectTimeoutMs: {
    flow: 'connectTimeoutMs',
    kind: milliseconds(100, 300_000),
    flag: '--connect-timeout <DURATION>',
    description:
      "Time limit of opening a connection: DNS, TCP and TLS. It counts within the time limit of the attempt; the server's setting by default.",
  },
  circuit: {
    flow: 'circuit',
    kind: object<CircuitPolicy | 'off'>(),
    flag: '--circuit <JSON>',
    description:
      "When the circuit opens; deliveries wait while it is open. `off` for never; null for the server's policy.",
    help: 'when the circuit opens, as JSON, or off',
  },
  adaptive: {
    flow: 'adaptive',
    kind: boolean,
    fallback: true,
    flag: '--adaptive <SWITCH>',
    description: 'Whether a 429 without Retry-After slows the endpoint down for a while; true by default.',
    help: 'on or off: slow down on a 429 without Retry-After',
  },
  disableAfterMs: {
    flow: 'disableAfterMs',
    kind: milliseconds(0, 365 * day * 1000),
    flag: '--disable-after <DURATION>',
    description:
      "Time of failing without one success that disables the endpoint; 0 = never; the server's setting by default.",
  },
  maxWaiting: {
    flow: 'maxWaiting',
    kind: integer(1, 1_000_000_000),
    flag: '--max-waiting <NUMBER>',
    description: "Deliveries that may wait; the server's limit by default.",
  },
  overflow: {
    flow: 'overflow',
    kind: choice(['refuse', 'drop_oldest', 'drop_new']),
    fallback: 'refuse',
    flag: '--overflow <POLICY>',
    description:
      'Policy when too many deliveries wait: `refuse` answers 429 to the publish, `drop_oldest` and `drop_new` make dead letters; `refuse` by default.',
  },
  maxAgeSeconds: {
    flow: 'maxAgeMs',
    times: 1000,
    kind: seconds(1, 365 * day),
    flag: '--max-age <DURATION>',
    description: 'Longest time a delivery may wait, tried or not; the limit of the retry policy by default.',
  },
  whileDisabled: {
    flow: 'whileDisabled',
    kind: choice(['hold', 'drop']),
    fallback: 'hold',
    flag: '--while-disabled <POLICY>',
    description:
      'Policy for messages published while the endpoint is disabled: `hold` (default), or `drop` with a dead letter.',
  },
  order: {
    flow: 'order',
    kind: choice(['none', 'fifo', 'key']),
    fallback: 'none',
    flag: '--order <ORDER>',
    description:
      'Ordering: `none` (default), `fifo` for one at a time as accepted, `key` for the same per `orderingKey`.',
  },
  deadHead: {
    flow: 'deadHead',
    kind: choice(['skip', 'block']),
    fallback: 'skip',
    flag: '--dead-head <POLICY>',
    description:
      'In an ordered lane, a delivery that used up its attempts becomes a dead letter (`skip`, the default) or blocks the others until an operator acts (`block`).',
  },
  coalesce: {
    flow: 'coalesce',
    kind: object<Coalesce>(),
    flag: '--coalesce <DURATION>',
    description: 'Replaces waiting deliveries of the same kind by the newest; null to deliver all.',
    help: 'deliver only the newest of a kind within this time; --unset coalesce turns it off',
  },
  filter: {
    flow: 'filter',
    kind: text(1, filterLimit),
    flag: '--filter <CONDITION>',
    description:
      'CEL condition over `payload`, `eventType`, `eventId`, `channels` and `tags`. A message is delivered only if it is true.',
    help: "deliver only messages that meet this CEL condition: 'payload.views > 1000'",
  },
  shape: {
    flow: 'shape',
    kind: object<Shape>(),
    stays: true,
    flag: '--shape <JSON>',
    description:
      'Fields of the payload that the endpoint gets, by `keep`, `drop`, `rename` and `pseudonymize`; all by default.',
  },
  region: {
    flow: 'region',
    kind: name(128),
    stays: true,
    flag: '--region <NAME>',
    description:
      "Region whose workers deliver to the endpoint; its application's by default. Pseudonyms are made with the application's secret of this region.",
    help: 'region whose workers deliver to it, and whose secret makes its pseudonyms',
  },
  egressProxy: {
    flow: 'egressProxy',
    kind: name(128),
    stays: true,
    flag: '--egress-proxy <NAME>',
    description:
      'Egress proxy of its deliveries, by its name in `SLUICE_EGRESS_PROXY`, or `direct`; by default that of its region, or of the server.',
    help: 'egress proxy of its deliveries, or direct',
  },
  signature: {
    flow: 'signature',
    kind: choice(signatureProfiles),
    fallback: 'standard',
    flag: '--signature <PROFILE>',
    description: `Signature profile of the requests: ${signatureProfiles.map((word) => `\`${word}\``).join(', ')}; \`standard\` by default.`,
  },
  version: {
    flow: 'version',
    kind: integer(1, 65_535),
    fallback: 1,
    stays: true,
    description: "Version that Svix's clients give an endpoint; it changes nothing.",
  },
} as const satisfies Readonly<Record<string, EndpointField>>

type EndpointFields = typeof endpointFields
export type FieldName = keyof EndpointFields

/** The fields that are objects of their own. */
export type ObjectName = {
  [Name in FieldName]: EndpointFields[Name]['kind'] extends { readonly is: 'object' } ? Name : never
}[FieldName]

/** The value of a field in the domain: null only without a fallback. */
export type ValueOf<Name extends FieldName> = EndpointFields[Name] extends { readonly fallback: unknown }
  ? Typed<EndpointFields[Name]>
  : Typed<EndpointFields[Name]> | null

/** The fields that are columns, as an endpoint has them. */
export type ColumnValues = {
  readonly [Name in FieldName as EndpointFields[Name] extends { readonly column: string } ? Name : never]: ValueOf<Name>
}
export type ColumnName = keyof ColumnValues

/** The fields that are stored in the `flow` of an endpoint, under their names there. */
export type FlowValues = {
  readonly [Name in FieldName as EndpointFields[Name] extends { readonly flow: infer Part extends string }
    ? Part
    : never]: ValueOf<Name>
}

/** The fields by name, for code that treats all alike. */
export const fieldEntries = (Object.entries(endpointFields) as [FieldName, EndpointField][]).map(
  ([name, field]) => [name, { ...field, fallback: field.fallback ?? null }] as const,
)

/** The columns of an endpoint that sets nothing. */
export const columnDefaults = Object.fromEntries(
  fieldEntries.flatMap(([name, { column, fallback }]) => (column === undefined ? [] : [[name, fallback]])),
) as unknown as ColumnValues

/** The parts of `Flow` with their fallbacks. */
export const flowDefaults = Object.fromEntries(
  fieldEntries.flatMap(([, { flow, fallback }]) => (flow === undefined ? [] : [[flow, fallback]])),
) as unknown as FlowValues
