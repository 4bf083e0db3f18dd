import { Type } from 'typebox'
import { signatureProfiles } from '../../domain/flow.ts'
import { described } from '../fields.ts'
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
    Type.String({ description: 'CEL condition over the message; a message is delivered only if it is true.' }),
  ),
  shape: nullable(
    described(
      ShapeOut,
      'Fields of the payload that the endpoint gets; null for all. It stays when the endpoint is replaced without it.',
    ),
  ),
  region: nullable(Type.String({ description: 'The region whose secret its pseudonyms are made with' })),
  signature: Type.Enum([...signatureProfiles], { description: 'Signature profile of the requests.' }),
}
