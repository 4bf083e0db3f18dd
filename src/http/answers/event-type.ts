import { Type } from 'typebox'
import { nullable } from '../schemas/field.ts'
import { Instant } from './field.ts'

const described = {
  name: Type.String(),
  description: Type.String(),
  deprecated: Type.Boolean(),
  schemas: nullable(
    Type.Object({}, { additionalProperties: true, description: 'JSON Schemas of the payload, by version' }),
  ),
  groupName: nullable(Type.String()),
  featureFlags: nullable(Type.Array(Type.String())),
}

/** An event type as callers see it. */
export const EventTypeOut = Type.Object({
  ...described,
  archived: Type.Boolean(),
  featureFlag: nullable(Type.String({ description: "Svix's older field for the first of featureFlags." })),
  createdAt: Instant,
  updatedAt: Instant,
})

/** An event type as an import found it. */
export const EventTypeFromOpenApi = Type.Object(described)

export const EventTypeImportOpenApiOutData = Type.Object({
  modified: Type.Array(Type.String()),
  to_modify: nullable(Type.Array(EventTypeFromOpenApi, { description: 'What a dry run would have changed' })),
})

/** What an import changed. */
export const EventTypeImportOpenApiOut = Type.Object({ data: EventTypeImportOpenApiOutData })
