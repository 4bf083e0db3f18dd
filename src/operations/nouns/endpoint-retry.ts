import { type Static, Type } from 'typebox'
import { defaultRetryPolicy, type RetryPolicy } from '../../domain/retry.ts'
import { described, integer } from '../fields.ts'

const day = 24 * 3_600_000
const waitMs = integer(0, 7 * day)

/** When a failed delivery is tried again: waits written out, or growing up to a cap. */
export const RetryIn = Type.Object({
  waits: Type.Union(
    [
      Type.Object({
        kind: Type.Literal('list', { description: 'Form of the waits.' }),
        ms: Type.Array(waitMs, {
          maxItems: 100,
          description: 'Wait after each failed attempt; after the last one the delivery is dead.',
        }),
      }),
      Type.Object({
        kind: Type.Literal('exponential', { description: 'Form of the waits.' }),
        baseMs: described(integer(1, day), 'First wait.'),
        factor: Type.Number({
          minimum: 1,
          maximum: 100,
          description: 'How much longer each wait is than the one before.',
        }),
        capMs: described(integer(1, 7 * day), 'Longest wait.'),
        maxAttempts: described(integer(1, 100), 'Attempts in all.'),
      }),
    ],
    { description: 'Waits between attempts: a list, or growing up to a cap.' },
  ),
  jitter: Type.Optional(
    Type.Enum(['full', 'equal', 'none'], {
      description:
        'Random part added to a wait: `full` up to its length, `equal` up to half of it, `none`. A wait is never shortened.',
    }),
  ),
  maxAgeMs: Type.Optional(described(integer(1, 30 * day), 'No attempt begins after this time.')),
})
export type RetryIn = Static<typeof RetryIn>

/** The policy, with nothing but what a policy has, whatever else the caller sent. */
export function toRetryPolicy({ waits, jitter, maxAgeMs }: RetryIn): RetryPolicy {
  return {
    waits:
      waits.kind === 'list'
        ? { kind: 'list', ms: waits.ms }
        : {
            kind: 'exponential',
            baseMs: waits.baseMs,
            factor: waits.factor,
            capMs: waits.capMs,
            maxAttempts: waits.maxAttempts,
          },
    jitter: jitter ?? defaultRetryPolicy.jitter,
    maxAgeMs: maxAgeMs ?? defaultRetryPolicy.maxAgeMs,
  }
}

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
