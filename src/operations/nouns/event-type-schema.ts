import { Type } from 'typebox'
import { described, maybe, nullable } from '../fields.ts'
import { namePattern } from '../pattern.ts'

export const eventTypeName = Type.String({ minLength: 1, maxLength: 256, pattern: namePattern })

const flag = Type.String({ minLength: 1, maxLength: 256, pattern: namePattern })
export const description = Type.String({ maxLength: 65_536, description: 'Free text.' })

/** The fields that creating, replacing and changing an event type have in common. */
export const fields = {
  archived: Type.Optional(Type.Boolean({ description: 'Whether the event type is hidden.' })),
  deprecated: Type.Optional(Type.Boolean({ description: 'Whether the event type should no longer be used.' })),
  schemas: maybe(
    Type.Record(Type.String(), Type.Record(Type.String(), Type.Unknown()), {
      maxProperties: 100,
      description: 'JSON Schemas of the payload by version, such as `{"1": {"type": "object"}}`.',
    }),
  ),
  featureFlags: maybe(Type.Array(flag, { maxItems: 100, uniqueItems: true, description: "Kept for Svix's clients." })),
  featureFlag: maybe(described(flag, "Svix's older field for the first of `featureFlags`.")),
  groupName: maybe(described(flag, "Kept for Svix's clients.")),
}

export const EventTypeIn = Type.Object({
  name: described(eventTypeName, 'Dotted name such as `video.trending`.'),
  description,
  ...fields,
})

/** An event type as an import found it. */
export const EventTypeFromOpenApi = Type.Object({
  name: Type.String({ description: 'Dotted name such as `video.trending`.' }),
  description: Type.String({ description: 'Free text.' }),
  deprecated: Type.Boolean({ description: 'Whether the event type should no longer be used.' }),
  schemas: nullable(
    Type.Object({}, { additionalProperties: true, description: 'JSON Schemas of the payload, by version' }),
  ),
  groupName: nullable(Type.String({ description: "Kept for Svix's clients." })),
  featureFlags: nullable(Type.Array(Type.String(), { description: "Kept for Svix's clients." })),
})
