import { Type } from 'typebox'
import { signatureProfiles } from '../../domain/flow.ts'
import { nullable } from '../schemas/field.ts'
import { shapeMeanings } from '../schemas/shaping.ts'

/** What an endpoint gets of a payload. */
export const ShapeOut = Type.Object({
  keep: nullable(Type.Array(Type.String(), { description: shapeMeanings.keep })),
  drop: Type.Array(Type.String(), { description: shapeMeanings.drop }),
  rename: Type.Record(Type.String(), Type.String(), { description: shapeMeanings.rename }),
  pseudonymize: Type.Array(Type.String(), { description: shapeMeanings.pseudonymize }),
})

/** Which messages an endpoint gets, in which form, and how they are signed. */
export const shapingOut = {
  filter: nullable(
    Type.String({ description: 'A condition in CEL over the message; what it is not true of is left out' }),
  ),
  shape: nullable(ShapeOut),
  region: nullable(Type.String({ description: 'The region whose secret its pseudonyms are made with' })),
  signature: Type.Enum([...signatureProfiles], { description: 'How its requests are signed' }),
}
