import { type Static, Type } from 'typebox'
import { type Endpoint, endpointDefaults, methods } from '../../domain/endpoint.ts'
import { given } from '../../domain/given.ts'
import type { NewEndpoint } from '../../store/store.ts'
import { Headers, lowerCased } from './endpoint-headers.ts'
import { integer, Metadata, nullable, uid } from './field.ts'
import { flowFields, toFlowChange, toFlowOut, toFlowReplacement } from './flow.ts'
import { namePattern } from './pattern.ts'
import { RetryIn, toRetryPolicy } from './retry.ts'

const eventTypes = Type.Array(Type.String({ maxLength: 256 }), { minItems: 1, maxItems: 1000, uniqueItems: true })
const channel = Type.String({ minLength: 1, maxLength: 128, pattern: namePattern })
const rate = integer(1, 1_000_000)

/** The fields of an endpoint that creating and changing it have in common. Null unsets. */
const fields = {
  description: Type.Optional(Type.String({ maxLength: 4096 })),
  uid: Type.Optional(uid('ep')),
  disabled: Type.Optional(Type.Boolean()),
  eventTypes: Type.Optional(nullable(eventTypes)),
  /** Svix's older name for it. */
  filterTypes: Type.Optional(nullable(eventTypes)),
  channels: Type.Optional(nullable(Type.Array(channel, { minItems: 1, maxItems: 10, uniqueItems: true }))),
  metadata: Type.Optional(Metadata),
  method: Type.Optional(Type.Enum([...methods])),
  headers: Type.Optional(nullable(Headers)),
  throttleRate: Type.Optional(nullable(rate)),
  /** Svix's older name for it. */
  rateLimit: Type.Optional(nullable(rate)),
  throttlePeriodSeconds: Type.Optional(nullable(integer(1, 86_400))),
  burst: Type.Optional(nullable(rate)),
  concurrency: Type.Optional(nullable(integer(1, 10_000))),
  timeoutMs: Type.Optional(nullable(integer(100, 300_000))),
  retry: Type.Optional(nullable(RetryIn)),
  ...flowFields,
}

/** What creates an endpoint. */
export const EndpointIn = Type.Object({
  url: Type.String({ minLength: 1 }),
  secret: Type.Optional(nullable(Type.String())),
  ...fields,
})
export type EndpointIn = Static<typeof EndpointIn>

/** What replaces an endpoint: what is absent goes back to its default, but for uid, headers and secret, which stay. */
export const EndpointPut = Type.Object({ url: Type.String({ minLength: 1 }), ...fields })
export type EndpointPut = Static<typeof EndpointPut>

/** What changes an endpoint: what is absent stays, null unsets. */
export const EndpointPatch = Type.Object({ url: Type.Optional(Type.String({ minLength: 1 })), ...fields })
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

/** All that replacing sets, in the store's words. */
export function toEndpointReplacement(input: EndpointPut): Partial<NewEndpoint> {
  const { secrets: _secrets, paused: _paused, uid, headers, ...rest } = toNewEndpoint(input, '')
  return {
    ...rest,
    flow: toFlowReplacement(input),
    ...(input.uid === undefined ? {} : { uid }),
    ...(input.headers === undefined ? {} : { headers }),
  }
}

/** The fields that were given, in the store's words. */
export function toEndpointChange(input: EndpointPatch): Partial<NewEndpoint> {
  const eventTypes = input.eventTypes === undefined ? input.filterTypes : input.eventTypes
  const throttleRate = input.throttleRate === undefined ? input.rateLimit : input.throttleRate
  return given({
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
export function toEndpointOut(endpoint: Endpoint) {
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
    createdAt: new Date(endpoint.createdAt).toISOString(),
    updatedAt: new Date(endpoint.updatedAt).toISOString(),
  }
}
