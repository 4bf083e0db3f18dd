import type { EpochMs } from '../../domain/clock.ts'
import type { EventType } from '../../domain/event-type.ts'

export interface EventTypeRow {
  readonly name: string
  readonly description: string
  readonly archived: boolean
  readonly deprecated: boolean
  readonly schemas: EventType['schemas']
  readonly feature_flags: EventType['featureFlags']
  readonly group_name: string | null
  readonly created_at: EpochMs
  readonly updated_at: EpochMs
}

export function toEventType(row: EventTypeRow): EventType {
  return {
    name: row.name,
    description: row.description,
    archived: row.archived,
    deprecated: row.deprecated,
    schemas: row.schemas,
    featureFlags: row.feature_flags,
    groupName: row.group_name,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}
