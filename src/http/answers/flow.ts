import { Type } from 'typebox'
import { described } from '../fields.ts'
import { disabledPolicies, overflows } from '../schemas/bounds.ts'
import { nullable } from '../schemas/field.ts'
import { keyMeaning, windowMeaning } from '../schemas/flow.ts'
import { deadHeads, orders } from '../schemas/order.ts'
import { shapingOut } from './shaping.ts'

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
