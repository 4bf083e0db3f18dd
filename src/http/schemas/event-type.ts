import { type Static, Type } from 'typebox'
import type { EventType } from '../../domain/event-type.ts'
import { given } from '../../domain/given.ts'
import type { NewEventType } from '../../store/event-types.ts'
import { PageQuery } from '../pagination.ts'
import { integer, nullable } from './field.ts'
import { namePattern } from './pattern.ts'

export const eventTypeName = Type.String({ minLength: 1, maxLength: 256, pattern: namePattern })

const flag = Type.String({ minLength: 1, maxLength: 256, pattern: namePattern })

const fields = {
  archived: Type.Optional(Type.Boolean()),
  deprecated: Type.Optional(Type.Boolean()),
  /** JSON Schemas of the payload by version, such as `{"1": {"type": "object"}}`. */
  schemas: Type.Optional(
    nullable(Type.Record(Type.String(), Type.Record(Type.String(), Type.Unknown()), { maxProperties: 100 })),
  ),
  featureFlags: Type.Optional(nullable(Type.Array(flag, { maxItems: 100, uniqueItems: true }))),
  /** Svix's older field, for one of them. */
  featureFlag: Type.Optional(nullable(flag)),
  groupName: Type.Optional(nullable(flag)),
}

const description = Type.String({ maxLength: 65_536 })

/** What creates an event type. */
export const EventTypeIn = Type.Object({ name: eventTypeName, description, ...fields })
export type EventTypeIn = Static<typeof EventTypeIn>

/** What replaces an event type: what is absent goes back to its default. */
export const EventTypePut = Type.Object({ description, ...fields })
export type EventTypePut = Static<typeof EventTypePut>

/** What changes an event type: what is absent stays, null unsets. */
export const EventTypePatch = Type.Object({ description: Type.Optional(description), ...fields })
export type EventTypePatch = Static<typeof EventTypePatch>

/** The filters of a list of event types. */
export const EventTypeQuery = Type.Object({
  ...PageQuery.properties,
  include_archived: Type.Optional(Type.Boolean()),
  with_content: Type.Optional(Type.Boolean()),
})
export type EventTypeQuery = Static<typeof EventTypeQuery>

/** How an event type is deleted: archived, or for good. */
export const EventTypeDeleteQuery = Type.Object({ expunge: Type.Optional(Type.Boolean()) })
export type EventTypeDeleteQuery = Static<typeof EventTypeDeleteQuery>

/** What imports the webhooks of an OpenAPI document: one of `spec` and `specRaw`. */
export const EventTypeImportIn = Type.Object({
  spec: Type.Optional(nullable(Type.Record(Type.String(), Type.Unknown()))),
  /** The document as text, JSON or YAML. */
  specRaw: Type.Optional(nullable(Type.String())),
  /** Says what would change, and changes nothing. */
  dryRun: Type.Optional(Type.Boolean()),
  /** Archives every event type that is not in the document. */
  replaceAll: Type.Optional(Type.Boolean()),
})
export type EventTypeImportIn = Static<typeof EventTypeImportIn>

/** What sends an example of an event type. */
export const EventExampleIn = Type.Object({
  eventType: eventTypeName,
  /** Which of the schema's own examples, the first when it is missing. */
  exampleIndex: Type.Optional(integer(0, 10_000)),
})
export type EventExampleIn = Static<typeof EventExampleIn>

export function toNewEventType(name: string, input: EventTypePut): NewEventType {
  return {
    name,
    archived: false,
    deprecated: false,
    schemas: null,
    featureFlags: null,
    groupName: null,
    ...toEventTypeChange(input),
    description: input.description,
  }
}

/** The fields that were given, in the store's words. */
export function toEventTypeChange(input: EventTypePatch): Partial<Omit<NewEventType, 'name'>> {
  const { description, archived, deprecated, schemas, groupName, featureFlag } = input
  const oneFlag = featureFlag == null ? featureFlag : [featureFlag]
  const featureFlags = input.featureFlags === undefined ? oneFlag : input.featureFlags
  return given({ description, archived, deprecated, schemas, groupName, featureFlags })
}

/** An event type as callers see it. */
export function toEventTypeOut(eventType: EventType, withContent = true) {
  return {
    name: eventType.name,
    description: eventType.description,
    archived: eventType.archived,
    deprecated: eventType.deprecated,
    schemas: withContent ? eventType.schemas : null,
    featureFlag: eventType.featureFlags?.[0] ?? null,
    featureFlags: eventType.featureFlags,
    groupName: eventType.groupName,
    createdAt: new Date(eventType.createdAt).toISOString(),
    updatedAt: new Date(eventType.updatedAt).toISOString(),
  }
}

/** An event type as an import shows it before there is one. */
export function toImportedOut({ name, description, schemas, deprecated, groupName, featureFlags }: NewEventType) {
  return { name, description, schemas, deprecated, groupName, featureFlags }
}
