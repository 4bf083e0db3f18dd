import { Type } from 'typebox'
import { disabledPolicies, overflows } from '../schemas/bounds.ts'
import { nullable } from '../schemas/field.ts'
import { keyMeaning, windowMeaning } from '../schemas/flow.ts'
import { deadHeads, orders } from '../schemas/order.ts'
import { shapingOut } from './shaping.ts'

export const overflowMeaning =
  'What gives way when too many wait: `refuse` answers 429 to the publish, `drop_oldest` and `drop_new` make dead letters'

export const orderMeaning =
  'In which order: `none`, `fifo` one at a time as accepted, `key` so for messages with the same `orderingKey`'
export const deadHeadMeaning =
  'In order, what used up its attempts becomes a dead letter (`skip`), or keeps the others back until somebody acts (`block`)'

/** Deliveries that become one. */
export const CoalesceOut = Type.Object({
  windowMs: Type.Integer({ description: windowMeaning }),
  key: nullable(Type.String({ description: keyMeaning })),
})

/** When a circuit opens and how it closes again. */
export const CircuitOut = Type.Object({
  failures: Type.Integer({ description: 'It opens after so many failed attempts in a row' }),
  ratio: Type.Number({ description: "It opens when this share of a window's attempts failed" }),
  windowMs: Type.Integer({ description: 'How long that window is' }),
  minimum: Type.Integer({ description: 'Fewer attempts than this within the window say nothing' }),
  openMs: Type.Integer({ description: 'How long it stays open; doubled each time the probe fails' }),
  maxOpenMs: Type.Integer({ description: 'The longest it stays open between two probes' }),
  rampMs: Type.Integer({ description: 'How long the rate takes to come back to the full after it closed' }),
})

/** How an endpoint wants to be treated beyond its rate, as its own fields. */
export const flowOut = {
  circuit: nullable(
    Type.Union([Type.Literal('off'), CircuitOut], {
      description: "When the circuit opens: nothing is sent while it is open. Null for the server's policy",
    }),
  ),
  adaptive: Type.Boolean({ description: 'Whether a 429 without Retry-After slows the endpoint down for a while' }),
  disableAfterMs: nullable(
    Type.Integer({
      description: "Disabled after failing for so long without one success; 0 for never, null for the server's",
    }),
  ),
  maxWaiting: nullable(Type.Integer({ description: "How many deliveries may wait; the server's limit when null" })),
  overflow: Type.Enum([...overflows], { description: overflowMeaning }),
  maxAgeSeconds: nullable(
    Type.Integer({ description: 'How long a delivery may wait, tried or not; as the retry policy says when null' }),
  ),
  whileDisabled: Type.Enum([...disabledPolicies], {
    description: 'What becomes of messages published while it is disabled: `hold`, or `drop` with a dead letter',
  }),
  order: Type.Enum([...orders], { description: orderMeaning }),
  deadHead: Type.Enum([...deadHeads], { description: deadHeadMeaning }),
  coalesce: nullable(CoalesceOut),
  ...shapingOut,
}
