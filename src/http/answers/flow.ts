import { Type } from 'typebox'
import { nullable } from '../schemas/field.ts'
import { keyMeaning, windowMeaning } from '../schemas/flow.ts'

/** Deliveries that become one. */
export const CoalesceOut = Type.Object({
  windowMs: Type.Integer({ description: windowMeaning }),
  key: nullable(Type.String({ description: keyMeaning })),
})

/** How an endpoint wants to be treated beyond its rate, as its own fields. */
export const flowOut = {
  coalesce: nullable(CoalesceOut),
}
