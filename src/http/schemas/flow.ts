import { type Static, Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'
import { type Coalesce, defaultFlow, type Flow } from '../../domain/flow.ts'
import { given } from '../../domain/given.ts'
import { described } from '../fields.ts'
import { boundFields, toBounds, toBoundsOut } from './bounds.ts'
import { healthFields, toCircuitPolicy } from './circuit.ts'
import { closed, nullable } from './field.ts'
import { orderFields, toOrder } from './order.ts'
import { pointerPattern } from './pattern.ts'
import { shapingFields, toShaping } from './shaping.ts'

const second = 1000
const day = 24 * 3600 * second

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

/** The fields that were given, in the domain's words. */
export function toFlowChange(input: FlowIn): Partial<Flow> {
  return given({
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
 * All that replacing sets: what is not given goes back to its default. What operators ordered is no setting, and stays; so
 * does what the subscriber is not to see.
 */
export function toFlowReplacement(input: FlowIn): Partial<Flow> {
  const { circuitOrder: _circuitOrder, shape: _shape, region: _region, ...settings } = defaultFlow
  return { ...settings, ...toFlowChange(input) }
}

/** What is wrong with settings that are each right by themselves. */
export function flowProblems({ coalesce, order }: Flow): FieldError[] {
  if (coalesce === null || order === 'none') return []
  const message = 'cannot be had together with an order: what waits would overtake and be overtaken'
  return [{ at: ['body', 'coalesce'], message, type: 'coalesce' }]
}

/** The same as callers see it. */
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
