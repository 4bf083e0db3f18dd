import { type Static, Type } from 'typebox'
import { defined } from '../../domain/defined.ts'
import { type Endpoint, endpointDefaults, methods } from '../../domain/endpoint.ts'
import type { NewEndpoint } from '../../store/store.ts'
import {
  described,
  Headers,
  Instant,
  integer,
  iso,
  Labels,
  lowerCased,
  Metadata,
  namePattern,
  nullable,
  uid,
} from '../fields.ts'
import type { Out } from '../route.ts'
import { flowFields, flowOut, toFlowChange, toFlowOut, toFlowReplacement } from './endpoint-flow.ts'
import { RetryIn, RetryOut, toRetryPolicy } from './endpoint-retry.ts'

/** An endpoint as callers see it; its secret and its headers have routes of their own. */
export const EndpointOut = Type.Object({
  id: Type.String({ description: 'Unique id, assigned by the server.' }),
  uid: nullable(
    Type.String({ description: 'Your own name for it, unique among its kind; accepted wherever the id is.' }),
  ),
  url: Type.String({ description: 'URL that deliveries are sent to.' }),
  description: Type.String({ description: 'Free text.' }),
  disabled: Type.Boolean({
    description:
      'Whether deliveries are stopped. Messages published meanwhile wait or are dropped, see `whileDisabled`.',
  }),
  disabledReason: nullable(
    Type.String({
      description: 'Reason: `operator`, `gone` after a 410, or `failing` after failing for too long.',
    }),
  ),
  paused: Type.Boolean({ description: 'Messages published meanwhile wait.' }),
  method: Type.Enum([...methods], { description: 'HTTP method of deliveries.' }),
  eventTypes: nullable(
    Type.Array(Type.String(), { description: 'Event types: names, groups such as `video.*`, or `*`; null for all.' }),
  ),
  filterTypes: nullable(Type.Array(Type.String(), { description: "Svix's older name for eventTypes." })),
  channels: nullable(
    Type.Array(Type.String(), {
      description: 'Channels of a message. An endpoint with channels gets only messages that share one.',
    }),
  ),
  throttleRate: nullable(Type.Integer({ description: 'Attempts per period, kept exactly' })),
  rateLimit: nullable(Type.Integer({ description: "Svix's older name for throttleRate." })),
  throttlePeriodSeconds: Type.Integer({ description: 'Length of a period; a second by default.' }),
  burst: nullable(Type.Integer({ description: 'Attempts that may be saved up; null for a tenth of a period.' })),
  concurrency: nullable(Type.Integer({ description: 'Attempts under way at once' })),
  timeoutMs: nullable(Type.Integer({ description: "Time limit of one attempt; the server's setting by default." })),
  retry: nullable(
    described(
      RetryOut,
      'When a failed delivery is tried again; ten attempts over three days by default. See docs/retry.md.',
    ),
  ),
  ...flowOut,
  damaged: Type.Array(Type.Enum(['secret', 'headers']), {
    description:
      'Stored parts that no longer open. Nothing is sent until each is replaced: rotate the secret, or put the headers.',
  }),
  metadata: described(Labels, 'Your own labels, up to 4096 bytes as JSON.'),
  version: Type.Integer({ description: 'Always 1.' }),
  createdAt: described(Instant, 'Time of creation.'),
  updatedAt: described(Instant, 'Time of the last change.'),
})

const eventTypes = Type.Array(Type.String({ maxLength: 256 }), { minItems: 1, maxItems: 1000, uniqueItems: true })
const channel = Type.String({ minLength: 1, maxLength: 128, pattern: namePattern })
const rate = integer(1, 1_000_000)

/** The fields of an endpoint that creating and changing it have in common. Null unsets. */
const fields = {
  description: Type.Optional(Type.String({ maxLength: 4096, description: 'Free text.' })),
  uid: Type.Optional(described(uid('ep'), 'Your own name for it, unique among its kind; accepted wherever the id is.')),
  disabled: Type.Optional(
    Type.Boolean({
      description:
        'Whether deliveries are stopped. Messages published meanwhile wait or are dropped, see `whileDisabled`.',
    }),
  ),
  eventTypes: Type.Optional(
    nullable(described(eventTypes, 'Event types: names, groups such as `video.*`, or `*`; null for all.')),
  ),
  /** Svix's older name for it. */
  filterTypes: Type.Optional(nullable(described(eventTypes, "Svix's older name for `eventTypes`."))),
  channels: Type.Optional(
    nullable(
      Type.Array(channel, {
        minItems: 1,
        maxItems: 10,
        uniqueItems: true,
        description: 'Channels of a message. An endpoint with channels gets only messages that share one.',
      }),
    ),
  ),
  metadata: Type.Optional(described(Metadata, 'Your own labels, up to 4096 bytes as JSON.')),
  method: Type.Optional(Type.Enum([...methods], { description: 'HTTP method of deliveries.' })),
  headers: Type.Optional(
    nullable(
      described(
        Headers,
        'Headers of every attempt. The values of headers whose names mark them as secrets are never shown again.',
      ),
    ),
  ),
  throttleRate: Type.Optional(
    nullable(described(rate, 'Attempts per period, over all workers; unlimited by default.')),
  ),
  /** Svix's older name for it. */
  rateLimit: Type.Optional(nullable(described(rate, "Svix's older name for `throttleRate`."))),
  throttlePeriodSeconds: Type.Optional(
    nullable(described(integer(1, 86_400), 'Length of a period; a second by default.')),
  ),
  burst: Type.Optional(nullable(described(rate, 'Attempts that may be saved up; a tenth of a period by default.'))),
  concurrency: Type.Optional(nullable(described(integer(1, 10_000), 'Attempts under way at once; 16 by default.'))),
  timeoutMs: Type.Optional(
    nullable(described(integer(100, 300_000), "Time limit of one attempt; the server's setting by default.")),
  ),
  retry: Type.Optional(
    nullable(
      described(
        RetryIn,
        'When a failed delivery is tried again; ten attempts over three days by default. See docs/retry.md.',
      ),
    ),
  ),
  ...flowFields,
}

/** Creates an endpoint. */
export const EndpointIn = Type.Object({
  url: Type.String({ minLength: 1, description: 'URL that deliveries are sent to.' }),
  secret: Type.Optional(
    nullable(
      Type.String({
        description: '`whsec_` and 24 to 64 bytes in base64, or `whsk_` and an ed25519 key; generated by default.',
      }),
    ),
  ),
  ...fields,
})
export type EndpointIn = Static<typeof EndpointIn>

/** Replaces an endpoint: absent fields go back to their defaults; uid, headers and secret stay. */
export const EndpointPut = Type.Object({
  url: Type.String({ minLength: 1, description: 'URL that deliveries are sent to.' }),
  ...fields,
})
export type EndpointPut = Static<typeof EndpointPut>

/** Changes an endpoint: absent fields stay, null unsets. */
export const EndpointPatch = Type.Object({
  url: Type.Optional(Type.String({ minLength: 1, description: 'URL that deliveries are sent to.' })),
  ...fields,
})
export type EndpointPatch = Static<typeof EndpointPatch>

export function toNewEndpoint(input: EndpointIn, secret: string): NewEndpoint {
  return {
    uid: null,
    description: '',
    disabled: false,
    eventTypes: null,
    channels: null,
    paused: false,
    method: 'POST',
    headers: {},
    metadata: {},
    throttleRate: null,
    throttlePeriodSeconds: endpointDefaults.throttlePeriodSeconds,
    burst: null,
    concurrency: null,
    timeoutMs: null,
    retry: null,
    ...toEndpointChange(input),
    url: new URL(input.url).href,
    secrets: [{ secret, expiresAt: null }],
  }
}

/** The fields that replacing sets, as the store names them. */
export function toEndpointReplacement(input: EndpointPut): Partial<NewEndpoint> {
  const { secrets: _secrets, paused: _paused, uid, headers, ...rest } = toNewEndpoint(input, '')
  return {
    ...rest,
    flow: toFlowReplacement(input),
    ...(input.uid === undefined ? {} : { uid }),
    ...(input.headers === undefined ? {} : { headers }),
  }
}

/** The fields that a request sets, as the store names them. */
export function toEndpointChange(input: EndpointPatch): Partial<NewEndpoint> {
  const eventTypes = input.eventTypes === undefined ? input.filterTypes : input.eventTypes
  const throttleRate = input.throttleRate === undefined ? input.rateLimit : input.throttleRate
  return defined({
    url: input.url === undefined ? undefined : new URL(input.url).href,
    description: input.description,
    uid: input.uid,
    disabled: input.disabled,
    eventTypes,
    channels: input.channels,
    metadata: input.metadata,
    method: input.method,
    headers: input.headers === null ? {} : input.headers && lowerCased(input.headers),
    throttleRate,
    throttlePeriodSeconds:
      input.throttlePeriodSeconds === null ? endpointDefaults.throttlePeriodSeconds : input.throttlePeriodSeconds,
    burst: input.burst,
    concurrency: input.concurrency,
    timeoutMs: input.timeoutMs,
    retry: input.retry && toRetryPolicy(input.retry),
    flow: toFlowChange(input),
  })
}

/** An endpoint as callers see it; its secret and its headers' values have routes of their own. */
export function toEndpointOut(endpoint: Endpoint): Out<typeof EndpointOut> {
  return {
    id: endpoint.id,
    uid: endpoint.uid,
    url: endpoint.url,
    description: endpoint.description,
    disabled: endpoint.disabled,
    disabledReason: endpoint.disabledReason,
    paused: endpoint.paused,
    method: endpoint.method,
    eventTypes: endpoint.eventTypes,
    filterTypes: endpoint.eventTypes,
    channels: endpoint.channels,
    throttleRate: endpoint.throttleRate,
    rateLimit: endpoint.throttleRate,
    throttlePeriodSeconds: endpoint.throttlePeriodSeconds,
    burst: endpoint.burst,
    concurrency: endpoint.concurrency,
    timeoutMs: endpoint.timeoutMs,
    retry: endpoint.retry,
    ...toFlowOut(endpoint.flow),
    damaged: (endpoint.damaged ?? []).map((field) => (field === 'secrets' ? ('secret' as const) : field)),
    metadata: endpoint.metadata,
    version: 1,
    createdAt: iso(endpoint.createdAt),
    updatedAt: iso(endpoint.updatedAt),
  }
}
