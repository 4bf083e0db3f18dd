import { type Static, Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'
import { defined } from '../../domain/defined.ts'
import { type CircuitPolicy, type Coalesce, defaultFlow, type Flow } from '../../domain/flow.ts'
import { defaultCircuitPolicy } from '../../domain/health.ts'
import { closed, described, integer, nullable, pointerPattern } from '../fields.ts'
import { shapingFields, shapingOut, toShaping } from './endpoint-shaping.ts'

const second = 1000
const day = 24 * 3600 * second
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

/** The fields that a request sets, as the domain names them; the others are undefined. */
export function toBounds({ maxWaiting, overflow, maxAgeSeconds, whileDisabled }: Static<typeof BoundsIn>) {
  return {
    maxWaiting,
    overflow: overflow === null ? defaultFlow.overflow : overflow,
    maxAgeMs: maxAgeSeconds && maxAgeSeconds * 1000,
    whileDisabled: whileDisabled === null ? defaultFlow.whileDisabled : whileDisabled,
  }
}

/** The fields as an answer shows them. */
export function toBoundsOut({ maxWaiting, overflow, maxAgeMs, whileDisabled }: Flow) {
  return { maxWaiting, overflow, maxAgeSeconds: maxAgeMs === null ? null : maxAgeMs / 1000, whileDisabled }
}

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

export const orders: readonly Flow['order'][] = ['none', 'fifo', 'key']
export const deadHeads: readonly Flow['deadHead'][] = ['skip', 'block']

/** In which order an endpoint wants its messages. */
export const orderFields = {
  order: Type.Optional(
    nullable(
      Type.Enum([...orders], {
        description:
          'Ordering: `none` (default), `fifo` for one at a time as accepted, `key` for the same per `orderingKey`.',
      }),
    ),
  ),
  deadHead: Type.Optional(
    nullable(
      Type.Enum([...deadHeads], {
        description:
          'In an ordered lane, a delivery that used up its attempts becomes a dead letter (`skip`, the default) or blocks the others until an operator acts (`block`).',
      }),
    ),
  ),
}

const OrderIn = Type.Object(orderFields)

/** The fields that a request sets, as the domain names them; the others are undefined. */
export function toOrder({ order, deadHead }: Static<typeof OrderIn>) {
  return {
    order: order === null ? defaultFlow.order : order,
    deadHead: deadHead === null ? defaultFlow.deadHead : deadHead,
  }
}

export const windowMeaning = 'Time that the first delivery of a kind waits; each later one replaces it.'
export const keyMeaning =
  'JSON pointer into the payload: deliveries with the same value there are of one kind. Null: all deliveries of an event type are.'

/** Deliveries of one event type with the same value at `key` become one. Shorter windows could take nothing in. */
export const CoalesceIn = Type.Object(
  {
    windowMs: Type.Integer({ minimum: 2 * second, maximum: day, description: windowMeaning }),
    key: Type.Optional(nullable(Type.String({ maxLength: 512, pattern: pointerPattern, description: keyMeaning }))),
  },
  closed,
)

/** How an endpoint wants to be treated beyond its rate, as its own fields. Null goes back to the default. */
export const flowFields = {
  ...healthFields,
  ...boundFields,
  ...orderFields,
  coalesce: Type.Optional(
    nullable(described(CoalesceIn, 'Replaces waiting deliveries of the same kind by the newest; null to deliver all.')),
  ),
  ...shapingFields,
}

const FlowIn = Type.Object(flowFields)
export type FlowIn = Static<typeof FlowIn>

/** The fields that a request sets, as the domain names them. */
export function toFlowChange(input: FlowIn): Partial<Flow> {
  return defined({
    circuit: input.circuit && toCircuitPolicy(input.circuit),
    adaptive: input.adaptive === null ? defaultFlow.adaptive : input.adaptive,
    disableAfterMs: input.disableAfterMs,
    ...toBounds(input),
    ...toOrder(input),
    coalesce: input.coalesce && toCoalesce(input.coalesce),
    ...toShaping(input),
  })
}

/**
 * The fields that replacing sets: an absent field goes back to its default. Commands of operators are no settings and stay; so do
 * shape and region, which a subscriber may not see.
 */
export function toFlowReplacement(input: FlowIn): Partial<Flow> {
  const { circuitOrder: _circuitOrder, shape: _shape, region: _region, ...settings } = defaultFlow
  return { ...settings, ...toFlowChange(input) }
}

/** Problems of settings that are valid one by one and not together. */
export function flowProblems({ coalesce, order }: Flow): FieldError[] {
  if (coalesce === null || order === 'none') return []
  const message = 'cannot be had together with an order: what waits would overtake and be overtaken'
  return [{ at: ['body', 'coalesce'], message, type: 'coalesce' }]
}

/** The fields as an answer shows them. */
export function toFlowOut(flow: Flow) {
  return {
    circuit: flow.circuit,
    adaptive: flow.adaptive,
    disableAfterMs: flow.disableAfterMs,
    ...toBoundsOut(flow),
    order: flow.order,
    deadHead: flow.deadHead,
    coalesce: flow.coalesce,
    filter: flow.filter,
    shape: flow.shape,
    region: flow.region,
    signature: flow.signature,
  }
}

function toCoalesce({ windowMs, key }: Static<typeof CoalesceIn>): Coalesce {
  return { windowMs, key: key ?? null }
}

export const overflowMeaning =
  'Policy when too many deliveries wait: `refuse` answers 429 to the publish, `drop_oldest` and `drop_new` make dead letters.'

export const orderMeaning =
  'Ordering: `none`, `fifo` for one at a time as accepted, `key` for the same per `orderingKey`.'
export const deadHeadMeaning =
  'In an ordered lane, a delivery that used up its attempts becomes a dead letter (`skip`) or blocks the others until an operator acts (`block`).'

/** Deliveries that become one. */
export const CoalesceOut = Type.Object({
  windowMs: Type.Integer({ description: windowMeaning }),
  key: nullable(Type.String({ description: keyMeaning })),
})

/** When a circuit opens and how it closes again. */
export const CircuitOut = Type.Object({
  failures: Type.Integer({ description: 'Opens after this many failed attempts in a row.' }),
  ratio: Type.Number({ description: "Opens when this share of a window's attempts failed." }),
  windowMs: Type.Integer({ description: 'Length of that window.' }),
  minimum: Type.Integer({ description: 'Attempts that a window must have before its share counts.' }),
  openMs: Type.Integer({ description: 'Time that the circuit stays open, doubled each time a probe fails.' }),
  maxOpenMs: Type.Integer({ description: 'The longest it stays open between two probes' }),
  rampMs: Type.Integer({ description: 'Time in which the rate returns to normal after the circuit closed.' }),
})

/** How an endpoint wants to be treated beyond its rate, as its own fields. */
export const flowOut = {
  circuit: nullable(
    Type.Union([Type.Literal('off'), CircuitOut], {
      description: "When the circuit opens; deliveries wait while it is open. Null for the server's policy.",
    }),
  ),
  adaptive: Type.Boolean({ description: 'Whether a 429 without Retry-After slows the endpoint down for a while' }),
  disableAfterMs: nullable(
    Type.Integer({
      description:
        "Disables the endpoint after failing this long without one success; 0 = never, null for the server's setting.",
    }),
  ),
  maxWaiting: nullable(Type.Integer({ description: "Deliveries that may wait; null for the server's limit." })),
  overflow: Type.Enum([...overflows], { description: overflowMeaning }),
  maxAgeSeconds: nullable(
    Type.Integer({
      description: 'Longest time a delivery may wait, tried or not; null for the limit of the retry policy.',
    }),
  ),
  whileDisabled: Type.Enum([...disabledPolicies], {
    description: 'How messages published while it is disabled are treated: `hold`, or `drop` with a dead letter.',
  }),
  order: Type.Enum([...orders], { description: orderMeaning }),
  deadHead: Type.Enum([...deadHeads], { description: deadHeadMeaning }),
  coalesce: nullable(
    described(CoalesceOut, 'Replaces waiting deliveries of the same kind by the newest; null to deliver all.'),
  ),
  ...shapingOut,
}
