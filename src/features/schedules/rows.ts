import type { EpochMs } from '../../domain/clock.ts'
import { thingsOf } from '../../noun/rows.ts'
import type { Publication, Published, PublishedTogether } from '../../store/publishing.ts'
import { among } from '../../store/sql/dialect.ts'
import type { Methods, Port, Sql, Work } from '../../store/sql/port.ts'
import { fragment, type StatementPart, statement, toJson } from '../../store/sql/statement.ts'
import type { Page, PageRequest } from '../../store/store.ts'
import { defaultRegion, type Regions } from '../regions/rules.ts'
import { type DueSchedule, type NewSchedule, type Schedule, type ScheduleRun, schedule } from './noun.ts'
import { changedSchedule, dueAtOf, lookAt, newSchedule, nextTick, withRun } from './rules.ts'

/**
 * Messages that are published by a cron expression, or some time after the deliveries of the last run ended. A schedule
 * begins with the first tick after it is made, resumed or given another timing; earlier ticks are not missed.
 */
export interface Schedules {
  /** Rejects with AppError `conflict` when the uid is taken, and `quota_exceeded` when there are `atMost` already. */
  createSchedule(app: number, input: NewSchedule, atMost?: number): Promise<Schedule>
  /** By id or uid, within the application. */
  findSchedule(app: number, ref: string): Promise<Schedule | undefined>
  /** The schedules of an application, or of all with null. */
  listSchedules(app: number | null, page: PageRequest): Promise<Page<Schedule>>
  /** Changes the given fields. */
  updateSchedule(app: number, key: number, change: Partial<NewSchedule>): Promise<Schedule | undefined>
  /** Answers whether there was one. Messages that it has published stay. */
  deleteSchedule(app: number, key: number): Promise<boolean>
  /** Schedules that have something to do, of applications in these regions, the longest waiting first; null for all. */
  dueSchedules(limit: number, regions?: Regions): Promise<DueSchedules>
  /** Schedules that have something to do, without their payloads, the longest waiting first. */
  lateSchedules(limit: number): Promise<{ readonly now: EpochMs; readonly schedules: readonly LateSchedule[] }>
  /**
   * Records the outcome of a schedule's tick and moves the schedule on, together with publishing the message where there
   * is one: all or nothing, in one durable transaction. `moved` means that the schedule was changed, run or deleted since
   * it was read: nothing was done. Otherwise the answer is that of the publish; after `stale` and `mismatch` nothing was done
   * either, and a `conflict` is the tick's own message, published before: the schedule has moved on.
   */
  advanceSchedule(schedule: Pick<Schedule, 'key' | 'revision'>, step: ScheduleStep): Promise<Advanced>
}

/** The little of a schedule that shows how late it is. */
export type LateSchedule = Pick<Schedule, 'id' | 'uid' | 'app' | 'nextAt' | 'failures'>

export interface DueSchedules {
  /** The store's clock, by which ticks are due. */
  readonly now: EpochMs
  readonly schedules: readonly DueSchedule[]
  /** When the next one is due, from now; undefined when none is. */
  readonly nextInMs: number | undefined
}

export interface ScheduleStep {
  readonly publication: Publication | null
  /** Runs to remember. The store adds the instant, for a manual run also as its tick, and the message. */
  readonly runs: readonly Omit<ScheduleRun, 'ranAt' | 'message'>[]
  /** Every tick up to here is dealt with; null leaves that as it is. */
  readonly reachedAt: EpochMs | null
  /** Look at it again after this long, because it failed; null for when its next tick comes. */
  readonly retryInMs: number | null
  /** With `@after`: the next tick, now that the deliveries of the last run have ended. */
  readonly nextAt?: EpochMs
}

export type Advanced = Published | { readonly state: 'moved' } | { readonly state: 'advanced' }

/** Where a schedule stands after a step. `message` is the one that was published. */
export function advanced(
  before: Schedule,
  step: ScheduleStep,
  message: string | null,
  now: EpochMs,
): Pick<Schedule, 'reachedAt' | 'nextAt' | 'failures' | 'runs'> & { readonly dueAt: EpochMs | null } {
  const reachedAt = Math.max(before.reachedAt, step.reachedAt ?? before.reachedAt)
  const nextAt = step.nextAt ?? (step.reachedAt === null ? before.nextAt : nextTick(before, reachedAt))
  const failed = step.retryInMs !== null
  const runs = step.runs.map((run) => ({
    ...run,
    at: run.trigger === 'manual' ? now : run.at,
    ranAt: now,
    message: run.state === 'published' ? message : null,
  }))
  return {
    reachedAt,
    nextAt,
    failures: failed ? before.failures + 1 : step.reachedAt === null ? before.failures : 0,
    runs: runs.reduce<readonly ScheduleRun[]>(withRun, before.runs),
    dueAt: before.paused
      ? null
      : step.retryInMs === null
        ? lookAt(before, nextAt, now)
        : now + Math.ceil(step.retryInMs),
  }
}

const rows = thingsOf<typeof schedule, Schedule>(schedule, {
  derived: { due_at: dueAtOf },
  effect: (id) => `nothing can be published by ${id}`,
})
// Both lean on schedule_due.
const ofApplication = 'from application where application.key = schedule.app limit 1'
const selectDue = (name: string, condition: StatementPart) => statement<Schedule & Pick<DueSchedule, 'appId'>>(
  name,
  rows.shape,
)`
  select ${rows.columns}, (select id ${ofApplication}) as "appId"
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
  const stored = rows.on(port)

  function* move(
    sql: Sql,
    { key, revision }: Pick<Schedule, 'key' | 'revision'>,
    step: ScheduleStep,
    message: string | null,
  ): Work<void> {
    const row = yield* sql.first(rows.table.locked, { key })
    if (row?.revision !== revision) throw new Moved()
    const next = advanced(stored.opened(row), step, message, yield* sql.now())
    const { reachedAt, nextAt, dueAt, failures, runs } = next
    const values = { reached_at: reachedAt, next_at: nextAt, due_at: dueAt, failures, runs: toJson(runs) }
    yield* sql.run(advanceRow, { key, ...values })
  }

  return {
    createSchedule: (app, input, atMost) => stored.create(app, atMost, (_key, now) => newSchedule(input, now)),
    findSchedule: stored.find,
    listSchedules: stored.list,
    updateSchedule: (app, key, change) => stored.update(app, key, () => change, changedSchedule),
    deleteSchedule: (app, key) => port.transaction((sql) => stored.remove(sql, app, key)),

    *dueSchedules(limit, regions = null) {
      const { now, next } = (yield* port.first(selectNext)) as { now: EpochMs; next: EpochMs | null }
      return {
        now,
        schedules: (regions === null
          ? yield* port.all(selectAllDue, { at: now, limit })
          : yield* port.all(selectDueOf, { at: now, limit, regions })
        ).map(stored.opened),
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
