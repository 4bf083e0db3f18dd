import { boolean, name, object, set, text } from '../../domain/field.ts'
import type { JsonObject } from '../../domain/json-object.ts'
import { type New, noun, type Thing } from '../../noun/noun.ts'

/** The description of an event type, for subscribers and for examples. */
export const eventType = noun({
  name: 'event type',
  table: 'event_type',
  fields: {
    name: {
      kind: name(256),
      required: true,
      fixed: true,
      description: 'Dotted name such as `video.trending`.',
    },
    description: {
      kind: text(undefined, 65_536),
      required: true,
      flag: '--description <TEXT>',
      description: 'Free text.',
      help: 'description',
    },
    // Endpoints that subscribe to it still get its messages.
    archived: {
      kind: boolean,
      fallback: false,
      noNull: true,
      flag: '--archived',
      description: 'Whether the event type is hidden.',
      help: 'archive it: hide it from lists',
      negated: 'unarchive it',
    },
    deprecated: {
      kind: boolean,
      fallback: false,
      noNull: true,
      flag: '--deprecated',
      description: 'Whether the event type should no longer be used.',
      help: 'mark it as deprecated',
      negated: 'remove the deprecated mark',
    },
    schemas: {
      kind: object<Readonly<Record<string, JsonObject>>>(),
      flag: '--schemas <JSON>',
      description: 'JSON Schemas of the payload by version, such as `{"1": {"type": "object"}}`.',
      shown: 'JSON Schemas of the payload, by version',
      help: 'JSON Schemas of its payload by version',
    },
    featureFlags: {
      kind: set(name(256), 100),
      description: 'Feature flags: only portal tokens with one of them see the event type; null for all.',
      shown: "Kept for Svix's clients.",
    },
    groupName: {
      kind: name(256),
      flag: '--group <NAME>',
      description: "Kept for Svix's clients.",
      help: 'the group it is shown in',
    },
  },
})

export type EventType = Thing<typeof eventType>
export type NewEventType = New<typeof eventType>

/** Whether a caller sees the event type: one without feature flags, or with one of the caller's. Null sees all. */
export function isShownTo(
  flags: ReadonlySet<string> | null,
  { featureFlags }: Pick<EventType, 'featureFlags'>,
): boolean {
  if (flags === null || featureFlags === null || featureFlags.length === 0) return true
  return featureFlags.some((flag) => flags.has(flag))
}

/** The schema of the newest version, by number. */
export function newestSchema(schemas: EventType['schemas']): JsonObject | undefined {
  const versions = Object.keys(schemas ?? {}).sort((a, b) => Number(a) - Number(b) || (a < b ? -1 : 1))
  const newest = versions.at(-1)
  return newest === undefined ? undefined : schemas?.[newest]
}
