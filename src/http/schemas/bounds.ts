import { type Static, Type } from 'typebox'
import type { Flow } from '../../domain/flow.ts'
import { defaultFlow } from '../../domain/flow.ts'
import { described } from '../fields.ts'
import { integer, nullable } from './field.ts'

const daySeconds = 24 * 3600

export const overflows: readonly Flow['overflow'][] = ['refuse', 'drop_oldest', 'drop_new']
export const disabledPolicies: readonly Flow['whileDisabled'][] = ['hold', 'drop']

/** How much may wait at an endpoint and for how long, and what becomes of the rest. */
export const boundFields = {
  maxWaiting: Type.Optional(
    nullable(described(integer(1, 1_000_000_000), "Deliveries that may wait; null for the server's limit.")),
  ),
  overflow: Type.Optional(
    nullable(
      Type.Enum([...overflows], {
        description:
          'Policy when too many deliveries wait: `refuse` answers 429 to the publish, `drop_oldest` and `drop_new` make dead letters; `refuse` by default.',
      }),
    ),
  ),
  maxAgeSeconds: Type.Optional(
    nullable(
      described(
        integer(1, 365 * daySeconds),
        'Longest time a delivery may wait, tried or not; null for the limit of the retry policy.',
      ),
    ),
  ),
  whileDisabled: Type.Optional(
    nullable(
      Type.Enum([...disabledPolicies], {
        description:
          'Policy for messages published while the endpoint is disabled: `hold` (default), or `drop` with a dead letter.',
      }),
    ),
  ),
}

const BoundsIn = Type.Object(boundFields)

/** The fields that were given, in the domain's words; the others are undefined. */
export function toBounds({ maxWaiting, overflow, maxAgeSeconds, whileDisabled }: Static<typeof BoundsIn>) {
  return {
    maxWaiting,
    overflow: overflow === null ? defaultFlow.overflow : overflow,
    maxAgeMs: maxAgeSeconds && maxAgeSeconds * 1000,
    whileDisabled: whileDisabled === null ? defaultFlow.whileDisabled : whileDisabled,
  }
}

/** The same as callers see it. */
export function toBoundsOut({ maxWaiting, overflow, maxAgeMs, whileDisabled }: Flow) {
  return { maxWaiting, overflow, maxAgeSeconds: maxAgeMs === null ? null : maxAgeMs / 1000, whileDisabled }
}
