import { Type } from 'typebox'
import { maybe } from '../fields.ts'
import { nullable } from '../schemas/field.ts'
import { namePattern } from '../schemas/pattern.ts'

export const eventTypeName = Type.String({ minLength: 1, maxLength: 256, pattern: namePattern })

const flag = Type.String({ minLength: 1, maxLength: 256, pattern: namePattern })
export const description = Type.String({ maxLength: 65_536 })

/** The fields that creating, replacing and changing an event type have in common. */
export const fields = {
  archived: Type.Optional(Type.Boolean()),
  deprecated: Type.Optional(Type.Boolean()),
  schemas: maybe(Type.Record(Type.String(), Type.Record(Type.String(), Type.Unknown()), { maxProperties: 100 })),
  featureFlags: maybe(Type.Array(flag, { maxItems: 100, uniqueItems: true })),
  featureFlag: maybe(flag),
  groupName: maybe(flag),
}

export const EventTypeIn = Type.Object({ name: eventTypeName, description, ...fields })

/** An event type as an import found it. */
export const EventTypeFromOpenApi = Type.Object({
  name: Type.String(),
  description: Type.String(),
  deprecated: Type.Boolean(),
  schemas: nullable(
    Type.Object({}, { additionalProperties: true, description: 'JSON Schemas of the payload, by version' }),
  ),
  groupName: nullable(Type.String()),
  featureFlags: nullable(Type.Array(Type.String())),
})
