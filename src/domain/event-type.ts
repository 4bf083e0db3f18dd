import type { EpochMs } from './clock.ts'

/** What is known of a kind of event: for people who subscribe, and to make examples from. */
export interface EventType {
  readonly name: string
  readonly description: string
  /** No longer offered. Endpoints that subscribe to it still get what is published. */
  readonly archived: boolean
  readonly deprecated: boolean
  /** JSON Schemas of the payload by version; the first version is `1`. */
  readonly schemas: Readonly<Record<string, JsonObject>> | null
  readonly featureFlags: readonly string[] | null
  readonly groupName: string | null
  readonly createdAt: EpochMs
  readonly updatedAt: EpochMs
}

export type JsonObject = Readonly<Record<string, unknown>>

/** The schema of the newest version, by number. */
export function newestSchema(schemas: EventType['schemas']): JsonObject | undefined {
  const versions = Object.keys(schemas ?? {}).sort((a, b) => Number(a) - Number(b) || (a < b ? -1 : 1))
  const newest = versions.at(-1)
  return newest === undefined ? undefined : schemas?.[newest]
}
