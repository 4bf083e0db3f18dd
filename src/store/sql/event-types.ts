import { AppError } from '../../domain/app-error.ts'
import { type EventType, isShownTo } from '../../domain/event-type.ts'
import { defined, isSame } from '../../domain/field.ts'
import type { EventTypeSummary, EventTypes, NewEventType } from '../configuration.ts'
import { among, forUpdate, greatest } from './dialect.ts'
import type { Methods, Port, Transaction, Work } from './port.ts'
import {
  beyond,
  columnsOf,
  direction,
  inBothOrders,
  parameters,
  replacements,
  type Shape,
  snakeCase,
  statement,
  toPage,
  type Values,
  valuesOf,
} from './statement.ts'

const settable = snakeCase('description', 'archived', 'deprecated', 'schemas', 'featureFlags', 'groupName')
const settableColumns = Object.values(settable)
const insertInto = `(name, ${settableColumns.join(', ')}, created_at, updated_at)`
const columns = columnsOf<EventType>({ ...snakeCase('name'), ...settable, ...snakeCase('createdAt', 'updatedAt') })
const shape: Shape<EventType> = { json: ['schemas', 'featureFlags'], flags: ['archived', 'deprecated'] }

const values = `values (:name, ${parameters(settableColumns)}, :now, :now)`
const insertEventType = statement<EventType>('insert-event-type', shape)`
  insert into event_type ${insertInto} ${values} on conflict (name) do nothing returning ${columns}`
// A row that is left alone is not returned.
const upsertEventType = statement<EventType>('upsert-event-type', shape)`
  insert into event_type as known ${insertInto} ${values}
  on conflict (name) do update
    set ${replacements(settableColumns)},
        updated_at = ${greatest('excluded.updated_at', 'known.updated_at')}
    where known.archived or not :only_archived
  returning ${columns}`
const selectEventType = statement<EventType>('event-type', shape)`select ${columns} from event_type where name = :name`
const lockEventType = statement<EventType>('lock-event-type', shape)`
  select ${columns} from event_type where name = :name ${forUpdate}`
const deleteEventTypeRow = statement('delete-event-type')`delete from event_type where name = :name returning name`
// Ranges of the primary key; there are few event types, so that passing over archived ones costs nothing.
const selectEventTypes = inBothOrders<EventType>('event-types', shape)`
  select ${columns} from event_type
   where (cast(:after as text) is null or name ${beyond} :after) and (not archived or :archived_too)
   order by name ${direction} limit :limit`
const archiveOthers = statement('archive-event-types')`
  update event_type set archived = true, updated_at = ${greatest(':now', 'updated_at')}
   where not archived and not ${among('name', ':names', 'text')}`
const selectAny = statement('any-event-type')`select 1 from event_type limit 1`
const selectAmong = statement<EventTypeSummary>('event-types-among', { json: ['featureFlags'], flags: ['archived'] })`
  select name, archived, feature_flags as "featureFlags" from event_type where ${among('name', ':names', 'text')}`

// The primary key in its order.
const selectNames = statement<Omit<EventTypeSummary, 'archived'>>('event-type-names', { json: ['featureFlags'] })`
  select name, feature_flags as "featureFlags" from event_type where not archived order by name limit :limit`

/** The kinds of events that are known. */
export function eventTypes(port: Port): Methods<EventTypes> {
  function* put(sql: Transaction, input: NewEventType, onlyArchived = false): Work<EventType | undefined> {
    return yield* sql.first(upsertEventType, { ...valuesFor(input), only_archived: onlyArchived })
  }

  return {
    *createEventType(input) {
      const made = yield* port.transaction((sql) => put(sql, input, true))
      if (made) return made
      throw new AppError('event_type_exists', `The event type ${input.name} exists already.`)
    },

    *putEventType(input) {
      return yield* port.transaction(function* (sql) {
        const made = yield* sql.first(insertEventType, valuesFor(input))
        if (made) return { eventType: made, created: true }
        return { eventType: (yield* put(sql, input)) as EventType, created: false }
      })
    },

    *updateEventType(name, change) {
      return yield* port.transaction(function* (sql) {
        // A change of nothing locks and writes nothing, so that it leaves no audit row either.
        const known = yield* sql.first(selectEventType, { name })
        if (known === undefined || isSame({ ...known, ...defined(change) }, known)) return known
        const row = yield* sql.first(lockEventType, { name })
        return row && (yield* put(sql, { ...row, ...defined(change) }))
      })
    },

    deleteEventType: (name) => port.transaction((sql) => sql.any(deleteEventTypeRow, { name })),

    findEventType: (name) => port.first(selectEventType, { name }),

    *listEventTypes({ limit, order, after }, includeArchived, flags = null) {
      const shown: EventType[] = []
      for (let from = after; ; ) {
        const rows = yield* port.all(selectEventTypes[order], {
          after: from,
          archived_too: includeArchived,
          limit: limit + 1,
        })
        shown.push(...rows.filter((row) => isShownTo(flags, row)))
        if (shown.length > limit || rows.length <= limit) return toPage(shown.slice(0, limit + 1), limit)
        from = rows.at(-1)?.name ?? from
      }
    },

    *importEventTypes(inputs, replaceAll) {
      yield* port.transaction(function* (sql) {
        // In one order by every caller, so that no two imports deadlock.
        const ordered = inputs.toSorted((a, b) => (a.name < b.name ? -1 : 1))
        for (const input of ordered) yield* put(sql, input)
        if (replaceAll) yield* sql.run(archiveOthers, { names: inputs.map((input) => input.name) })
      })
    },

    *eventTypesAmong(names, always = false) {
      if (!always && !(yield* port.any(selectAny))) return undefined
      return yield* port.all(selectAmong, { names })
    },

    *eventTypeNames(limit, flags = null) {
      const rows = yield* port.all(selectNames, { limit })
      return rows.filter((row) => isShownTo(flags, row)).map(({ name }) => name)
    },
  }
}

function valuesFor(input: NewEventType): Values {
  return valuesOf(input, { name: 'name', ...settable })
}
