import { type Static, Type } from 'typebox'
import { defaultRetryPolicy, type RetryPolicy } from '../../domain/retry.ts'
import { integer } from './field.ts'

const day = 24 * 3_600_000
const waitMs = integer(0, 7 * day)

/** When a failed delivery is tried again: waits written out, or growing up to a cap. */
export const RetryIn = Type.Object({
  waits: Type.Union([
    Type.Object({ kind: Type.Literal('list'), ms: Type.Array(waitMs, { maxItems: 100 }) }),
    Type.Object({
      kind: Type.Literal('exponential'),
      baseMs: integer(1, day),
      factor: Type.Number({ minimum: 1, maximum: 100 }),
      capMs: integer(1, 7 * day),
      maxAttempts: integer(1, 100),
    }),
  ]),
  jitter: Type.Optional(Type.Enum(['full', 'equal', 'none'])),
  maxAgeMs: Type.Optional(integer(1, 30 * day)),
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
