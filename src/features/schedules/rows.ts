import type { EpochMs } from '../../domain/clock.ts'
import { defined, isSame } from '../../domain/field.ts'
import { decodeKey, type Identity } from '../../domain/ids.ts'
import type { Publication, PublishedTogether } from '../../store/publishing.ts'
import { among } from '../../store/sql/dialect.ts'
import { conflictOnUid, findNamed, listNamed, namedTable } from '../../store/sql/named-rows.ts'
import { insertNew, type Methods, type Port, type Sql, type Work } from '../../store/sql/port.ts'
import {
  columnsOf,
  fragment,
  type Shape,
  type StatementPart,
  snakeCase,
  statement,
  toJson,
  type Values,
  valuesOf,
} from '../../store/sql/statement.ts'
import type { StoreContext } from '../../store/store.ts'
import { openValue, type SealedPlace, sealValue, unlessDamaged, type Vault } from '../../store/vault.ts'
import { lockForOneMore } from '../applications/rows.ts'
import { defaultRegion } from '../regions/rules.ts'
import type { Schedule } from './rules.ts'
import {
  type Advanced,
  advanced,
  changedSchedule,
  type DueSchedule,
  dueAtOf,
  type LateSchedule,
  newSchedule,
  type ScheduleStep,
  type Schedules,
  schedulesPerApp,
} from './store.ts'

/** The fields that making and changing a schedule sets, and their columns. */
const settable = {
  ...snakeCase('uid', 'cron', 'timezone', 'eventType', 'body', 'contentType', 'headers', 'channels', 'tags', 'missed'),
  ...snakeCase('missedLimit', 'paused', 'metadata', 'reachedAt', 'nextAt', 'failures', 'revision'),
}
const others = snakeCase('key', 'id', 'app', 'runs', 'createdAt', 'updatedAt')
const columns = columnsOf<Omit<Schedule, 'damaged'>>({ ...settable, ...others })
/** A schedule as it is stored: its headers are sealed, unless they are empty. */
type ScheduleRow = Omit<Schedule, 'headers'> & { readonly headers: unknown }
const shape: Shape<ScheduleRow> = {
  json: ['channels', 'tags', 'metadata', 'runs'],
  flags: ['paused'],
  sealed: ['headers'],
}

const table = namedTable<ScheduleRow>('schedule', columns, [...Object.values(settable), 'due_at'], shape)
// Both lean on schedule_due.
const ofApplication = 'from application where application.key = schedule.app limit 1'
const selectDue = (name: string, condition: StatementPart) => statement<ScheduleRow & Pick<DueSchedule, 'appId'>>(
  name,
  shape,
)`
  select ${columns}, (select id ${ofApplication}) as "appId"
    from schedule where due_at <= :at ${condition} order by due_at limit :limit`
const selectAllDue = selectDue('due-schedules', '')
const regionOf = `coalesce((select settings ->> 'region' ${ofApplication}), '${defaultRegion}')`
const selectDueOf = selectDue('due-schedules-of-regions', fragment`and ${among(regionOf, ':regions', 'text')}`)
const selectLate = statement<LateSchedule>('late-schedules')`
  select id, uid, app, next_at as "nextAt", failures from schedule where due_at <= :at order by due_at limit :limit`
const selectNext = statement<{ now: EpochMs; next: EpochMs | null }>('next-schedule')`
  select :now as now, (select due_at from schedule where due_at > :now order by due_at limit 1) as next`
const advanceRow = statement('advance-schedule')`
  update schedule set reached_at = :reached_at, next_at = :next_at, due_at = :due_at, failures = :failures, runs = :runs,
         revision = revision + 1
   where key = :key`

/**
 * Publishes a message, and runs `along` in the transaction that stores it; an error that `along` throws undoes both.
 * `along` is given the id of the message.
 */
export type PublishAlong = (
  publication: Publication,
  along: (sql: Sql, message: string) => Work<void>,
) => Work<PublishedTogether>

/** Another process moved the schedule on. Thrown to undo the transaction. */
class Moved extends Error {}

/** Messages that are published by the clock. */
export function schedules(port: Port, publishAlong: PublishAlong): Methods<Schedules> {
  const { vault, log } = port.context
  const opened = <Row extends ScheduleRow>(row: Row) => toSchedule(row, vault, log)

  function* move(
    sql: Sql,
    { key, revision }: Pick<Schedule, 'key' | 'revision'>,
    step: ScheduleStep,
    message: string | null,
  ): Work<void> {
    const row = yield* sql.first(table.locked, { key })
    if (row?.revision !== revision) throw new Moved()
    const next = advanced(opened(row), step, message, yield* sql.now())
    const { reachedAt, nextAt, dueAt, failures, runs } = next
    const values = { reached_at: reachedAt, next_at: nextAt, due_at: dueAt, failures, runs: toJson(runs) }
    yield* sql.run(advanceRow, { key, ...values })
  }

  return {
    *createSchedule(app, input, atMost = schedulesPerApp) {
      return yield* conflictOnUid(port, input, () =>
        port.transaction(function* (sql) {
          yield* lockForOneMore(sql, app, table.count, atMost, 'schedules', 'maxSchedulesPerApp')
          const schedule = newSchedule(input, yield* sql.now())
          const valuesFor = ({ key }: Identity) => {
            return { ...settableValues({ ...schedule, app, key }, vault), app, at: schedule.createdAt }
          }
          return { ...schedule, ...(yield* insertNew(sql, 'sch', table.insert, valuesFor)), app }
        }),
      )
    },

    *findSchedule(app, ref) {
      const row = yield* findNamed(port, table, decodeKey('sch', ref), app, ref)
      return row && opened(row)
    },

    listSchedules: (app, page) => listNamed(port, table, app, page, opened),

    *updateSchedule(app, key, change) {
      return yield* conflictOnUid(port, change, () =>
        port.transaction(function* (sql) {
          // A change of nothing locks and writes nothing, so that it leaves no audit row either.
          const stored = yield* sql.first(table.byKey, { key })
          const known = stored?.app === app ? opened(stored) : undefined
          if (known !== undefined && isSame({ ...known, ...defined(change) }, known)) return known
          const row = yield* sql.first(table.locked, { key })
          if (row?.app !== app) return undefined
          const after = changedSchedule(opened(row), change, yield* sql.now())
          yield* sql.run(table.update, { ...settableValues(after, vault, row), key, at: after.updatedAt })
          return after
        }),
      )
    },

    deleteSchedule: (app, key) => port.transaction((sql) => sql.any(table.remove, { app, key })),

    *dueSchedules(limit, regions = null) {
      const { now, next } = (yield* port.first(selectNext)) as { now: EpochMs; next: EpochMs | null }
      return {
        now,
        schedules: (regions === null
          ? yield* port.all(selectAllDue, { at: now, limit })
          : yield* port.all(selectDueOf, { at: now, limit, regions })
        ).map(opened),
        nextInMs: next === null ? undefined : next - now,
      }
    },

    *lateSchedules(limit) {
      const now = yield* port.now()
      return { now, schedules: yield* port.all(selectLate, { at: now, limit }) }
    },

    *advanceSchedule(schedule, step): Work<Advanced> {
      const moveAlone = (message: string | null) => port.transaction((sql) => move(sql, schedule, step, message))
      try {
        if (step.publication === null) {
          yield* moveAlone(null)
          return { state: 'advanced' }
        }
        const answer = yield* publishAlong(step.publication, (sql, message) => move(sql, schedule, step, message))
        if (answer.state === 'conflict') {
          yield* moveAlone(answer.id)
          return { state: 'conflict', id: answer.id }
        }
        if (answer.state === 'stale' || answer.state === 'mismatch') return answer
        const [message] = answer.messages
        return { state: 'accepted', ...(message as { key: number; id: string }) }
      } catch (error) {
        if (error instanceof Moved) return { state: 'moved' }
        throw error
      }
    },
  }
}

type Sealable = Omit<Schedule, 'id'>

/** The values of the settable columns. A damaged record that is not replaced stays as it is `stored`. */
function settableValues(schedule: Sealable, vault: Vault, stored?: Pick<ScheduleRow, 'headers'>): Values {
  const { headers, damaged } = schedule
  const sealed =
    stored !== undefined && damaged
      ? stored.headers
      : headers && sealValue(vault, headers, scheduleHeadersPlace(schedule))
  const values = valuesOf({ ...schedule, headers: null }, settable)
  return { ...values, headers: sealed === null ? null : { sealed }, due_at: dueAtOf(schedule) }
}

/** The schedule of a row. Headers that do not open read as none; the log has a line, and the schedule is damaged. */
function toSchedule<Row extends ScheduleRow>(row: Row, vault: Vault, log: StoreContext['log']) {
  const open = () => openValue<Schedule['headers']>(vault, row.headers, scheduleHeadersPlace(row))
  const headers = unlessDamaged(open, log, `nothing can be published by ${row.id}`)
  return headers === undefined ? { ...row, headers: null, damaged: true as const } : { ...row, headers }
}

/** The place of a schedule's headers. Its key is no endpoint's, and neither is the name of the field. */
export function scheduleHeadersPlace({ app, key }: Pick<Schedule, 'app' | 'key'>): SealedPlace {
  return { app, endpoint: key, field: 'headers of a schedule' }
}
