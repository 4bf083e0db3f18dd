import { type Static, Type } from 'typebox'
import { defaultFlow, type Flow } from '../../domain/flow.ts'
import { nullable } from './field.ts'

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

/** The fields that were given, in the domain's words; the others are undefined. */
export function toOrder({ order, deadHead }: Static<typeof OrderIn>) {
  return {
    order: order === null ? defaultFlow.order : order,
    deadHead: deadHead === null ? defaultFlow.deadHead : deadHead,
  }
}
