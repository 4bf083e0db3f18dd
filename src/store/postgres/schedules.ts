import { AppError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { decodeKey } from '../../domain/ids.ts'
import type { Schedule } from '../../domain/schedule.ts'
import { type ScheduleRow, scheduleColumns, scheduleValues, toSchedule } from '../rows/schedule.ts'
import {
  type Advanced,
  advanced,
  changedSchedule,
  newSchedule,
  type ScheduleStep,
  type Schedules,
  schedulesPerApp,
  tooManySchedules,
} from '../schedules.ts'
import { type Database, withNewIdentity } from './database.ts'
import type { IntakeAlong } from './intake.ts'
import { pageOf } from './paging.ts'
import { parametersFor } from './rows.ts'
import { sqlNow, withClock } from './server-time.ts'
import { type Run, statement } from './sessions.ts'
import { conflictOnUid } from './trouble.ts'

const columns = scheduleColumns.join(', ')
const allColumns = `key, id, app, ${columns}, runs, created_at, updated_at`

const insertSchedule = statement(
  'insert-schedule',
  `
    insert into schedule (key, id, app, ${columns}, created_at, updated_at)
    values ($1, $2, $3, ${parametersFor(scheduleColumns, 5)}, $4, $4)`,
)
const updateScheduleRow = statement(
  'update-schedule',
  `
    update schedule set (${columns}) = row (${parametersFor(scheduleColumns, 3)}), updated_at = $2 where key = $1`,
)
const selectSchedule = statement('schedule', `select ${allColumns} from schedule where key = $1`)
const lockSchedule = statement('lock-schedule', `${selectSchedule.text} for update`)
const selectByUid = statement('schedule-by-uid', `select ${allColumns} from schedule where app = $1 and uid = $2`)
// Both lean on schedule_app.
const selectSchedules = {
  ascending: statement(
    'schedules-up',
    `select ${allColumns} from schedule where app = $3 and key > $1 order by key limit $2`,
  ),
  descending: statement(
    'schedules-down',
    `select ${allColumns} from schedule where app = $3 and key < $1 order by key desc limit $2`,
  ),
}
// Behind the application's row lock, so that no two count at once; and none is made for one that was deleted meanwhile.
const lockApplication = statement(
  'lock-application',
  `
    select ${sqlNow} as now, (select count(*) from schedule where app = $1) as count
      from application where key = $1 and deleted_at is null for update`,
)
const deleteRow = statement('delete-schedule', 'delete from schedule where app = $1 and key = $2 returning key')
// Both lean on schedule_due.
export const selectDueSchedules = statement(
  'due-schedules',
  `
    select ${allColumns}, (select id from application where key = schedule.app) as app_id
      from schedule where due_at <= $1 order by due_at limit $2`,
)
export const selectNextSchedule = statement(
  'next-schedule',
  `${withClock} select now, (select min(due_at) from schedule where due_at > now) as next from clock`,
)
const advanceRow = statement(
  'advance-schedule',
  `
    update schedule set reached_at = $2, next_at = $3, due_at = $4, failures = $5, runs = $6, revision = revision + 1
     where key = $1`,
)
const readClock = statement('schedule-clock', `select ${sqlNow} as now`)

/** Somebody else moved the schedule on: undoes what was to be done with it. */
class Moved extends Error {}

/** Messages by the clock. */
export function schedules(database: Database, { publishTogether }: IntakeAlong): Schedules {
  const { durable } = database

  async function move(
    run: Run,
    { key, revision }: Pick<Schedule, 'key' | 'revision'>,
    step: ScheduleStep,
    message: string | null,
  ): Promise<void> {
    const [row] = await run<ScheduleRow>(lockSchedule, [key])
    if (row?.revision !== revision) throw new Moved()
    const next = advanced(toSchedule(row), step, message, await clockOf(run))
    const { reachedAt, nextAt, dueAt, failures, runs } = next
    await run(advanceRow, [key, reachedAt, nextAt, dueAt, failures, JSON.stringify(runs)])
  }

  return {
    createSchedule(app, input) {
      return conflictOnUid(input.uid, () =>
        withNewIdentity(database, 'sch', ({ key, id }) =>
          durable.transaction(async (run) => {
            const [found] = await run<{ now: EpochMs; count: number }>(lockApplication, [app])
            if (found === undefined) throw new AppError('not_found', 'There is no such application.')
            if (found.count >= schedulesPerApp) throw tooManySchedules()
            const { now } = found
            const schedule = newSchedule(input, now)
            await run(insertSchedule, [key, id, app, now, ...valuesOf(schedule)])
            return { ...schedule, key, id, app }
          }),
        ),
      )
    },

    async findSchedule(app, ref) {
      const key = decodeKey('sch', ref)
      const [named] = key === undefined ? [] : await durable.run<ScheduleRow>(selectSchedule, [key])
      if (named?.id === ref && named.app === app) return toSchedule(named)
      const [row] = await durable.run<ScheduleRow>(selectByUid, [app, ref])
      return row && toSchedule(row)
    },

    listSchedules: (app, page) => pageOf<ScheduleRow, Schedule>(durable, selectSchedules, page, [app], toSchedule),

    updateSchedule(app, key, change) {
      return conflictOnUid(change.uid ?? null, () =>
        durable.transaction(async (run) => {
          const [row] = await run<ScheduleRow>(lockSchedule, [key])
          if (row?.app !== app) return undefined
          const after = changedSchedule(toSchedule(row), change, await clockOf(run))
          await run(updateScheduleRow, [key, after.updatedAt, ...valuesOf(after)])
          return after
        }),
      )
    },

    async deleteSchedule(app, key) {
      return (await durable.transaction((run) => run(deleteRow, [app, key]))).length > 0
    },

    async dueSchedules(limit) {
      const [clock] = await durable.run<{ now: EpochMs; next: EpochMs | null }>(selectNextSchedule)
      const { now, next } = clock as { now: EpochMs; next: EpochMs | null }
      const rows = await durable.run<ScheduleRow & { app_id: string }>(selectDueSchedules, [now, limit])
      return {
        now,
        schedules: rows.map((row) => ({ ...toSchedule(row), appId: row.app_id })),
        nextInMs: next === null ? undefined : next - now,
      }
    },

    async advanceSchedule(schedule, step): Promise<Advanced> {
      const moveAlone = (message: string | null) => durable.transaction((run) => move(run, schedule, step, message))
      try {
        if (step.publication === null) {
          await moveAlone(null)
          return { state: 'advanced' }
        }
        const answer = await publishTogether([step.publication], null, (run, [message]) =>
          move(run, schedule, step, message?.id ?? null),
        )
        if (answer.state === 'conflict') {
          await moveAlone(answer.id)
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

async function clockOf(run: Run): Promise<EpochMs> {
  const [row] = await run<{ now: EpochMs }>(readClock)
  return row?.now as EpochMs
}

function valuesOf(schedule: Omit<Schedule, 'key' | 'id' | 'app'>): unknown[] {
  const values = scheduleValues(schedule)
  return scheduleColumns.map((column) => values[column])
}
