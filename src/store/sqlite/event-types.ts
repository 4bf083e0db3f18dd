import { AppError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import type { EventType } from '../../domain/event-type.ts'
import { given } from '../../domain/given.ts'
import type { EventTypes, NewEventType } from '../event-types.ts'
import { type Page, toPage } from '../page.ts'
import * as rows from '../rows/event-type.ts'
import { toJson } from '../rows/json.ts'
import type { Connection, Synchronous } from './connection.ts'
import { fromJson, type Stored } from './rows.ts'

const upsertEventType = `
  insert into event_type
    (name, description, archived, deprecated, schemas, feature_flags, group_name, created_at, updated_at)
  values (:name, :description, :archived, :deprecated, :schemas, :feature_flags, :group_name, :now, :now)
  on conflict (name) do update set description = :description, archived = :archived, deprecated = :deprecated,
    schemas = :schemas, feature_flags = :feature_flags, group_name = :group_name, updated_at = :now
  returning *`
const selectEventType = 'select * from event_type where name = ?'
const deleteEventTypeRow = 'delete from event_type where name = ?'
const selectAny = 'select 1 from event_type limit 1'
// Ranges of the primary key; there are few event types, so that passing over archived ones costs nothing.
const selectUp = `
  select * from event_type where name > ? and (archived = 0 or ?) order by name limit ?`
const selectDown = `
  select * from event_type where (?1 is null or name < ?1) and (archived = 0 or ?2) order by name desc limit ?3`
const archiveOthers = `
  update event_type set archived = 1, updated_at = ?2
  where archived = 0 and name not in (select value from json_each(?1))`

type EventTypeRow = Stored<rows.EventTypeRow, 'schemas' | 'feature_flags', 'archived' | 'deprecated'>

/** The kinds of events that are known. */
export function eventTypes(connection: Connection): Synchronous<EventTypes> {
  const upsert = connection.prepare<EventTypeRow>(upsertEventType)
  const byName = connection.prepare<EventTypeRow>(selectEventType)
  const remove = connection.prepare(deleteEventTypeRow)
  const any = connection.prepare<unknown>(selectAny)
  const up = connection.prepare<EventTypeRow>(selectUp)
  const down = connection.prepare<EventTypeRow>(selectDown)
  const archive = connection.prepare(archiveOthers)

  function find(name: string): EventType | undefined {
    const row = byName.get(name)
    return row && toEventType(row)
  }

  function put(input: NewEventType, now: EpochMs): EventType {
    return toEventType(upsert.get({ ...columnsOf(input), now }) as EventTypeRow)
  }

  return {
    createEventType(input): EventType {
      return connection.transaction(() => {
        if (find(input.name)?.archived === false) {
          throw new AppError('event_type_exists', `The event type ${input.name} exists already.`)
        }
        return put(input, connection.now())
      })
    },

    putEventType(input) {
      return connection.transaction(() => {
        const created = find(input.name) === undefined
        return { eventType: put(input, connection.now()), created }
      })
    },

    updateEventType(name, change): EventType | undefined {
      return connection.transaction(() => {
        const before = find(name)
        if (before === undefined) return undefined
        return put({ ...before, ...given(change) }, connection.now())
      })
    },

    deleteEventType(name): boolean {
      return connection.transaction(() => remove.run(name).changes > 0)
    },

    findEventType: find,

    listEventTypes({ limit, order, after }, includeArchived): Page<EventType> {
      const archivedToo = includeArchived ? 1 : 0
      const rows =
        order === 'ascending' ? up.all(after ?? '', archivedToo, limit + 1) : down.all(after, archivedToo, limit + 1)
      return toPage(rows, limit, toEventType)
    },

    importEventTypes(inputs, replaceAll): void {
      connection.transaction(() => {
        const now = connection.now()
        for (const input of inputs) put(input, now)
        if (replaceAll) archive.run(JSON.stringify(inputs.map((input) => input.name)), now)
      })
    },

    unknownEventTypes(names): string[] {
      if (any.get() === undefined) return []
      return names.filter((name) => byName.get(name) === undefined)
    },
  }
}

function columnsOf(input: NewEventType) {
  return {
    name: input.name,
    description: input.description,
    archived: input.archived ? 1 : 0,
    deprecated: input.deprecated ? 1 : 0,
    schemas: toJson(input.schemas),
    feature_flags: toJson(input.featureFlags),
    group_name: input.groupName,
  }
}

function toEventType(row: EventTypeRow): EventType {
  return rows.toEventType({
    ...row,
    archived: row.archived === 1,
    deprecated: row.deprecated === 1,
    schemas: fromJson(row.schemas),
    feature_flags: fromJson(row.feature_flags),
  })
}
