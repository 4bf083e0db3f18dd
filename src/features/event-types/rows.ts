import { AppError } from '../../domain/app-error.ts'
import { defined, isSame } from '../../domain/field.ts'
import type { Change } from '../../noun/noun.ts'
import { rowOf } from '../../noun/rows.ts'
import { among, forUpdate, greatest } from '../../store/sql/dialect.ts'
import type { Methods, Port, Transaction, Work } from '../../store/sql/port.ts'
import {
  beyond,
  direction,
  inBothOrders,
  parameters,
  replacements,
  statement,
  toPage,
} from '../../store/sql/statement.ts'
import type { Page, PageRequest } from '../../store/store.ts'
import { type EventType, eventType, isShownTo, type NewEventType } from './noun.ts'

/** The kinds of events that are known. Publishing does not ask for them; subscribing does, once there are any. */
export interface EventTypes {
  /** Rejects with AppError `event_type_exists` unless the name is new or archived; an archived one is replaced. */
  createEventType(input: NewEventType): Promise<EventType>
  /** Replaces the event type of that name, or makes it. */
  putEventType(input: NewEventType): Promise<{ readonly eventType: EventType; readonly created: boolean }>
  updateEventType(name: string, change: Change<typeof eventType>): Promise<EventType | undefined>
  /** Answers whether there was one. */
  deleteEventType(name: string): Promise<boolean>
  findEventType(name: string): Promise<EventType | undefined>
  /** By name, in the order of its bytes; those that a caller with these feature flags sees, null for all. */
  listEventTypes(
    page: PageRequest<string>,
    includeArchived: boolean,
    flags?: ReadonlySet<string> | null,
  ): Promise<Page<EventType>>
  /** Replaces or makes all of these at once; with `replaceAll` every other one is archived. */
  importEventTypes(inputs: readonly NewEventType[], replaceAll: boolean): Promise<void>
  /**
   * The event types among these names. Undefined as long as there is no event type at all, unless `always` is set.
   */
  eventTypesAmong(names: readonly string[], always?: boolean): Promise<readonly EventTypeSummary[] | undefined>
  /** The first names of event types that are not archived, in the order of their bytes, as by `listEventTypes`. */
  eventTypeNames(limit: number, flags?: ReadonlySet<string> | null): Promise<string[]>
}

type EventTypeSummary = Pick<EventType, 'name' | 'archived' | 'featureFlags'>

const { settable, columns, shape, valuesOf } = rowOf<typeof eventType, EventType>(eventType, 'createdAt', 'updatedAt')
const changeable = settable.filter((column) => column !== 'name')
const insertInto = `(${settable.join(', ')}, created_at, updated_at)`
const values = `values (${parameters(settable)}, :now, :now)`
const insertEventType = statement<EventType>('insert-event-type', shape)`
  insert into event_type ${insertInto} ${values} on conflict (name) do nothing returning ${columns}`
// A row that is left alone is not returned.
const upsertEventType = statement<EventType>('upsert-event-type', shape)`
  insert into event_type as known ${insertInto} ${values}
  on conflict (name) do update
    set ${replacements(changeable)},
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
    return yield* sql.first(upsertEventType, { ...valuesOf(input), only_archived: onlyArchived })
  }

  return {
    *createEventType(input) {
      const made = yield* port.transaction((sql) => put(sql, input, true))
      if (made) return made
      throw new AppError('event_type_exists', `The event type ${input.name} exists already.`)
    },

    *putEventType(input) {
      return yield* port.transaction(function* (sql) {
        const made = yield* sql.first(insertEventType, valuesOf(input))
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
