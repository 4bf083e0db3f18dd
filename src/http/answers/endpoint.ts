import { Type } from 'typebox'
import { methods } from '../../domain/endpoint.ts'
import { nullable } from '../schemas/field.ts'
import { Instant, Labels } from './field.ts'
import { flowOut } from './flow.ts'

/** When a failed delivery is tried again. */
export const RetryOut = Type.Object({
  waits: Type.Union([
    Type.Object({ kind: Type.Literal('list'), ms: Type.Array(Type.Integer()) }),
    Type.Object({
      kind: Type.Literal('exponential'),
      baseMs: Type.Integer(),
      factor: Type.Number(),
      capMs: Type.Integer(),
      maxAttempts: Type.Integer(),
    }),
  ]),
  jitter: Type.Enum(['full', 'equal', 'none']),
  maxAgeMs: Type.Integer(),
})

/** An endpoint as callers see it; its secret and its headers have routes of their own. */
export const EndpointOut = Type.Object({
  id: Type.String(),
  uid: nullable(Type.String()),
  url: Type.String(),
  description: Type.String(),
  disabled: Type.Boolean(),
  disabledReason: nullable(
    Type.String({
      description: 'Who disabled it: `operator`, `gone` after a 410, or `failing` after failing for too long.',
    }),
  ),
  paused: Type.Boolean({ description: 'What is published meanwhile waits.' }),
  method: Type.Enum([...methods]),
  eventTypes: nullable(Type.Array(Type.String())),
  filterTypes: nullable(Type.Array(Type.String(), { description: "Svix's older name for eventTypes." })),
  channels: nullable(Type.Array(Type.String())),
  throttleRate: nullable(Type.Integer({ description: 'Attempts per period, kept exactly' })),
  rateLimit: nullable(Type.Integer({ description: "Svix's older name for throttleRate." })),
  throttlePeriodSeconds: Type.Integer(),
  burst: nullable(Type.Integer({ description: 'How many may be saved up; a tenth of a period when null' })),
  concurrency: nullable(Type.Integer({ description: 'Attempts under way at once' })),
  timeoutMs: nullable(Type.Integer()),
  retry: nullable(RetryOut),
  ...flowOut,
  damaged: Type.Array(Type.Enum(['secret', 'headers']), {
    description:
      'Stored parts that no longer open. Nothing is sent until each is replaced: rotate the secret, or put the headers.',
  }),
  metadata: Labels,
  version: Type.Integer(),
  createdAt: Instant,
  updatedAt: Instant,
})
