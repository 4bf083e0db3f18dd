import { AppError } from '../../domain/app-error.ts'
import type { EventType } from '../../domain/event-type.ts'
import { given } from '../../domain/given.ts'
import type { EventTypes, NewEventType } from '../event-types.ts'
import { toPage } from '../page.ts'
import { type EventTypeRow, toEventType } from '../rows/event-type.ts'
import { toJson } from '../rows/json.ts'
import { texts } from './arrays.ts'
import type { Database } from './database.ts'
import { sqlNow } from './server-time.ts'
import type { Run, Statement } from './sessions.ts'

const settable = 'name, description, archived, deprecated, schemas, feature_flags, group_name'
const columns = `${settable}, created_at, updated_at`

// A row that was just inserted was written by nobody before (xmax is 0). `$8` says whether only an archived one may be
// replaced; a row that is left alone is not returned.
const upsertEventType: Statement = {
  name: 'upsert-event-type',
  text: `
    insert into event_type as known (${columns})
    select $1, $2, $3, $4, $5, $6, $7, now, now from (select ${sqlNow} as now) as clock
    on conflict (name) do update
      set (description, archived, deprecated, schemas, feature_flags, group_name) =
            row (excluded.description, excluded.archived, excluded.deprecated, excluded.schemas, excluded.feature_flags,
                 excluded.group_name),
          updated_at = greatest(excluded.updated_at, known.updated_at)
      where known.archived or not $8::boolean
    returning ${columns}, xmax = 0 as created`,
}
const selectEventType: Statement = { name: 'event-type', text: `select ${columns} from event_type where name = $1` }
const lockEventType: Statement = { name: 'lock-event-type', text: `${selectEventType.text} for update` }
const deleteEventTypeRow: Statement = {
  name: 'delete-event-type',
  text: 'delete from event_type where name = $1 returning name',
}
const selectUp: Statement = {
  name: 'event-types-up',
  text: `select ${columns} from event_type where name > $1 and (not archived or $2) order by name limit $3`,
}
const selectDown: Statement = {
  name: 'event-types-down',
  text: `
    select ${columns} from event_type where ($1::text is null or name < $1) and (not archived or $2)
     order by name desc limit $3`,
}
const archiveOthers: Statement = {
  name: 'archive-event-types',
  text: `
    update event_type set archived = true, updated_at = greatest(${sqlNow}, updated_at)
     where not archived and name <> all ($1::text[])`,
}
const selectUnknown: Statement = {
  name: 'unknown-event-types',
  text: `
    select wanted.name from unnest($1::text[]) with ordinality as wanted (name, n)
     where exists (select from event_type) and not exists (select from event_type where name = wanted.name)
     order by wanted.n`,
}

/** The kinds of events that are known. */
export function eventTypes({ durable }: Database): EventTypes {
  async function put(run: Run, input: NewEventType, onlyArchived = false) {
    const [row] = await run<EventTypeRow & { created: boolean }>(upsertEventType, [...valuesOf(input), onlyArchived])
    return row && { eventType: toEventType(row), created: row.created }
  }

  return {
    async createEventType(input) {
      const made = await durable.transaction((run) => put(run, input, true))
      if (made) return made.eventType
      throw new AppError('event_type_exists', `The event type ${input.name} exists already.`)
    },

    async putEventType(input) {
      return (await durable.transaction((run) => put(run, input))) as { eventType: EventType; created: boolean }
    },

    updateEventType(name, change) {
      return durable.transaction(async (run) => {
        const [row] = await run<EventTypeRow>(lockEventType, [name])
        if (row === undefined) return undefined
        return (await put(run, { ...toEventType(row), ...given(change) }))?.eventType
      })
    },

    async deleteEventType(name) {
      return (await durable.transaction((run) => run(deleteEventTypeRow, [name]))).length > 0
    },

    async findEventType(name) {
      const [row] = await durable.run<EventTypeRow>(selectEventType, [name])
      return row && toEventType(row)
    },

    async listEventTypes({ limit, order, after }, includeArchived) {
      const rows =
        order === 'ascending'
          ? await durable.run<EventTypeRow>(selectUp, [after ?? '', includeArchived, limit + 1])
          : await durable.run<EventTypeRow>(selectDown, [after, includeArchived, limit + 1])
      return toPage(rows, limit, toEventType)
    },

    async importEventTypes(inputs, replaceAll) {
      await durable.transaction(async (run) => {
        // In one order by everyone, so that no two imports deadlock.
        const ordered = inputs.toSorted((a, b) => (a.name < b.name ? -1 : 1))
        for (const input of ordered) await put(run, input)
        if (replaceAll) await run(archiveOthers, [texts(inputs.map((input) => input.name))])
      })
    },

    async unknownEventTypes(names) {
      const rows = await durable.run<{ name: string }>(selectUnknown, [texts(names)])
      return rows.map((row) => row.name)
    },
  }
}

function valuesOf(input: NewEventType): unknown[] {
  return [
    input.name,
    input.description,
    input.archived,
    input.deprecated,
    toJson(input.schemas),
    toJson(input.featureFlags),
    input.groupName,
  ]
}
