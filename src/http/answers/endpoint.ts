import { Type } from 'typebox'
import { methods } from '../../domain/endpoint.ts'
import { described } from '../fields.ts'
import { nullable } from '../schemas/field.ts'
import { Instant, Labels } from './field.ts'
import { flowOut } from './flow.ts'

/** When a failed delivery is tried again. */
export const RetryOut = Type.Object({
  waits: Type.Union(
    [
      Type.Object({
        kind: Type.Literal('list', { description: 'Form of the waits.' }),
        ms: Type.Array(Type.Integer(), {
          description: 'Wait after each failed attempt; after the last one the delivery is dead.',
        }),
      }),
      Type.Object({
        kind: Type.Literal('exponential', { description: 'Form of the waits.' }),
        baseMs: Type.Integer({ description: 'First wait.' }),
        factor: Type.Number({ description: 'How much longer each wait is than the one before.' }),
        capMs: Type.Integer({ description: 'Longest wait.' }),
        maxAttempts: Type.Integer({ description: 'Attempts in all.' }),
      }),
    ],
    { description: 'Waits between attempts: a list, or growing up to a cap.' },
  ),
  jitter: Type.Enum(['full', 'equal', 'none'], {
    description:
      'Random part added to a wait: `full` up to its length, `equal` up to half of it, `none`. A wait is never shortened.',
  }),
  maxAgeMs: Type.Integer({ description: 'No attempt begins after this time.' }),
})

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
