import { type Static, Type } from 'typebox'
import type { CircuitPolicy } from '../../domain/flow.ts'
import { defaultCircuitPolicy } from '../../domain/health.ts'
import { closed, integer, nullable } from './field.ts'

const day = 24 * 3_600_000

/** When the circuit opens and how it closes again. What is absent is as by default. */
export const CircuitIn = Type.Object(
  {
    failures: Type.Optional(integer(1, 1_000_000)),
    ratio: Type.Optional(Type.Number({ minimum: 0.01, maximum: 1 })),
    windowMs: Type.Optional(integer(1000, day)),
    minimum: Type.Optional(integer(1, 1_000_000)),
    openMs: Type.Optional(integer(100, day)),
    maxOpenMs: Type.Optional(integer(100, day)),
    rampMs: Type.Optional(integer(0, day)),
  },
  closed,
)

/** How an endpoint wants its receiver's health to be judged. */
export const healthFields = {
  circuit: Type.Optional(nullable(Type.Union([Type.Literal('off'), CircuitIn]))),
  adaptive: Type.Optional(nullable(Type.Boolean())),
  disableAfterMs: Type.Optional(nullable(integer(0, 365 * day))),
}

/** The policy, with nothing but what a policy has, whatever else the caller sent. */
export function toCircuitPolicy(input: 'off' | Static<typeof CircuitIn>): CircuitPolicy | 'off' {
  if (input === 'off') return 'off'
  const { failures, ratio, windowMs, minimum, openMs, maxOpenMs, rampMs } = { ...defaultCircuitPolicy, ...input }
  return { failures, ratio, windowMs, minimum, openMs, maxOpenMs: Math.max(openMs, maxOpenMs), rampMs }
}
