import { AppError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { decodeKey } from '../../domain/ids.ts'
import type { Schedule } from '../../domain/schedule.ts'
import type { Page } from '../page.ts'
import * as rows from '../rows/schedule.ts'
import {
  type Advanced,
  advanced,
  changedSchedule,
  type DueSchedules,
  newSchedule,
  type ScheduleStep,
  type Schedules,
  schedulesPerApp,
  tooManySchedules,
} from '../schedules.ts'
import type { Connection, Synchronous } from './connection.ts'
import type { SqliteIntake } from './intake.ts'
import { pageOf } from './paging.ts'
import { fromJson, type Stored } from './rows.ts'
import { conflictOnUid } from './trouble.ts'

const insertSchedule = `
  insert into schedule (key, id, app, ${rows.scheduleColumns.join(', ')}, created_at, updated_at)
  values (:key, :id, :app, ${rows.scheduleColumns.map((column) => `:${column}`).join(', ')}, :now, :now)
  on conflict (key) do nothing`
const updateScheduleRow = `
  update schedule set ${rows.scheduleColumns.map((column) => `${column} = :${column}`).join(', ')}, updated_at = :now
  where key = :key`
const selectSchedule = 'select * from schedule where key = ?'
const selectByUid = 'select * from schedule where app = ? and uid = ?'
// Both lean on schedule_app.
const selectUp = 'select * from schedule where app = ? and key > ? order by key limit ?'
const selectDown = 'select * from schedule where app = ? and key < ? order by key desc limit ?'
const selectApplication = 'select 1 from application where key = ? and deleted_at is null'
const countSchedules = 'select count(*) as count from schedule where app = ?'
const deleteRow = 'delete from schedule where app = ? and key = ?'
// Both lean on schedule_due.
const selectDue = `
  select schedule.*, application.id as app_id from schedule join application on application.key = schedule.app
  where due_at <= ? order by due_at limit ?`
const selectNextDue = 'select due_at from schedule where due_at > ? order by due_at limit 1'
const advanceRow = `
  update schedule set reached_at = ?3, next_at = ?4, due_at = ?5, failures = ?6, runs = ?7, revision = revision + 1
  where key = ?1 and revision = ?2`

type ScheduleRow = Stored<rows.ScheduleRow, 'channels' | 'tags' | 'metadata' | 'runs', 'paused'>

/** Somebody else moved the schedule on: undoes what was to be done with it. */
class Moved extends Error {}

/** Messages by the clock. */
export function schedules(
  connection: Connection,
  { publishAlong }: Pick<SqliteIntake, 'publishAlong'>,
): Synchronous<Schedules> {
  const insert = connection.prepare(insertSchedule)
  const update = connection.prepare(updateScheduleRow)
  const byKey = connection.prepare<ScheduleRow>(selectSchedule)
  const byUid = connection.prepare<ScheduleRow>(selectByUid)
  const up = connection.prepare<ScheduleRow>(selectUp)
  const down = connection.prepare<ScheduleRow>(selectDown)
  const application = connection.prepare<unknown>(selectApplication)
  const count = connection.prepare<{ count: number }>(countSchedules)
  const remove = connection.prepare(deleteRow)
  const due = connection.prepare<ScheduleRow & { app_id: string }>(selectDue)
  const nextDue = connection.prepare<{ due_at: EpochMs }>(selectNextDue)
  const advance = connection.prepare(advanceRow)

  function move(key: number, revision: number, step: ScheduleStep, message: string | null, now: EpochMs): void {
    const row = byKey.get(key)
    if (row?.revision !== revision) throw new Moved()
    const { reachedAt, nextAt, dueAt, failures, runs } = advanced(toSchedule(row), step, message, now)
    advance.run(key, revision, reachedAt, nextAt, dueAt, failures, JSON.stringify(runs))
  }

  function moveAlone(key: number, revision: number, step: ScheduleStep, message: string | null): void {
    connection.transaction(() => move(key, revision, step, message, connection.now()))
  }

  return {
    createSchedule(app, input): Schedule {
      const made = conflictOnUid(input.uid, () =>
        connection.transaction(() => {
          const now = connection.now()
          if (application.get(app) === undefined) throw new AppError('not_found', 'There is no such application.')
          if ((count.get(app)?.count ?? 0) >= schedulesPerApp) throw tooManySchedules()
          const schedule = newSchedule(input, now)
          const identity = connection.insertNew('sch', now, ({ key, id }) => {
            return insert.run({ ...columnsOf(schedule), key, id, app, now }).changes
          })
          return { ...schedule, ...identity, app }
        }),
      )
      return made
    },

    findSchedule(app, ref): Schedule | undefined {
      const key = decodeKey('sch', ref)
      const named = key === undefined ? undefined : byKey.get(key)
      const row = named?.id === ref && named.app === app ? named : byUid.get(app, ref)
      return row && toSchedule(row)
    },

    listSchedules(app, page): Page<Schedule> {
      return pageOf(page, page.order === 'ascending' ? up : down, [app], toSchedule)
    },

    updateSchedule(app, key, change): Schedule | undefined {
      return conflictOnUid(change.uid ?? null, () =>
        connection.transaction(() => {
          const row = byKey.get(key)
          if (row?.app !== app) return undefined
          const after = changedSchedule(toSchedule(row), change, connection.now())
          update.run({ ...columnsOf(after), key, now: after.updatedAt })
          return after
        }),
      )
    },

    deleteSchedule(app, key): boolean {
      return connection.transaction(() => remove.run(app, key).changes > 0)
    },

    dueSchedules(limit): DueSchedules {
      const now = connection.now()
      const rows = due.all(now, limit)
      const next = nextDue.get(now)?.due_at
      return {
        now,
        schedules: rows.map((row) => ({ ...toSchedule(row), appId: row.app_id })),
        nextInMs: next === undefined ? undefined : next - now,
      }
    },

    advanceSchedule({ key, revision }, step): Advanced {
      try {
        if (step.publication === null) {
          moveAlone(key, revision, step, null)
          return { state: 'advanced' }
        }
        const answer = publishAlong([step.publication], ([message], now) =>
          move(key, revision, step, message?.id ?? null, now),
        )
        if (answer.state === 'conflict') {
          moveAlone(key, revision, step, answer.id)
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

function columnsOf(schedule: Omit<Schedule, 'key' | 'id' | 'app'>) {
  return { ...rows.scheduleValues(schedule), paused: schedule.paused ? 1 : 0 }
}

function toSchedule(row: ScheduleRow): Schedule {
  return rows.toSchedule({
    ...row,
    channels: fromJson(row.channels),
    tags: fromJson(row.tags),
    paused: row.paused === 1,
    metadata: JSON.parse(row.metadata),
    runs: JSON.parse(row.runs),
  })
}
