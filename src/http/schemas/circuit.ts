import { type Static, Type } from 'typebox'
import type { CircuitPolicy } from '../../domain/flow.ts'
import { defaultCircuitPolicy } from '../../domain/health.ts'
import { described } from '../fields.ts'
import { closed, integer, nullable } from './field.ts'

const day = 24 * 3_600_000

/** When the circuit opens and how it closes again. What is absent is as by default. */
export const CircuitIn = Type.Object(
  {
    failures: Type.Optional(
      described(integer(1, 1_000_000), 'Opens after this many failed attempts in a row; 20 by default.'),
    ),
    ratio: Type.Optional(
      Type.Number({
        minimum: 0.01,
        maximum: 1,
        description: "Opens when this share of a window's attempts failed; 0.6 by default.",
      }),
    ),
    windowMs: Type.Optional(described(integer(1000, day), 'Length of that window; a minute by default.')),
    minimum: Type.Optional(
      described(integer(1, 1_000_000), 'Attempts that a window must have before its share counts; 50 by default.'),
    ),
    openMs: Type.Optional(
      described(
        integer(100, day),
        'Time that the circuit stays open, doubled each time a probe fails; 10 seconds by default.',
      ),
    ),
    maxOpenMs: Type.Optional(described(integer(100, day), 'Longest time between two probes; 10 minutes by default.')),
    rampMs: Type.Optional(
      described(
        integer(0, day),
        'Time in which the rate returns to normal after the circuit closed; 30 seconds by default.',
      ),
    ),
  },
  closed,
)

/** How an endpoint wants its receiver's health to be judged. */
export const healthFields = {
  circuit: Type.Optional(
    nullable(
      Type.Union([Type.Literal('off'), CircuitIn], {
        description:
          "When the circuit opens; deliveries wait while it is open. `off` for never; null for the server's policy.",
      }),
    ),
  ),
  adaptive: Type.Optional(
    nullable(
      Type.Boolean({
        description: 'Whether a 429 without Retry-After slows the endpoint down for a while; true by default.',
      }),
    ),
  ),
  disableAfterMs: Type.Optional(
    nullable(
      described(
        integer(0, 365 * day),
        "Disables the endpoint after failing this long without one success; 0 = never, null for the server's setting.",
      ),
    ),
  ),
}

/** The policy, with nothing but what a policy has, whatever else the caller sent. */
export function toCircuitPolicy(input: 'off' | Static<typeof CircuitIn>): CircuitPolicy | 'off' {
  if (input === 'off') return 'off'
  const { failures, ratio, windowMs, minimum, openMs, maxOpenMs, rampMs } = { ...defaultCircuitPolicy, ...input }
  return { failures, ratio, windowMs, minimum, openMs, maxOpenMs: Math.max(openMs, maxOpenMs), rampMs }
}
