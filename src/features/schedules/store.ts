import type { EpochMs } from '../../domain/clock.ts'
import { defined } from '../../domain/field.ts'
import type { Publication, Published } from '../../store/publishing.ts'
import type { Page, PageRequest } from '../../store/store.ts'
import type { Regions } from '../regions/rules.ts'
import { afterMs, firstTick, lookAgainMs, nextTick, type Schedule, type ScheduleRun, withRun } from './rules.ts'

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

/** The fields that callers set. */
export type NewSchedule = Omit<
  Schedule,
  | 'key'
  | 'id'
  | 'app'
  | 'damaged'
  | 'reachedAt'
  | 'nextAt'
  | 'failures'
  | 'runs'
  | 'revision'
  | 'createdAt'
  | 'updatedAt'
>

/** The little of a schedule that shows how late it is. */
export type LateSchedule = Pick<Schedule, 'id' | 'uid' | 'app' | 'nextAt' | 'failures'>

export interface DueSchedules {
  /** The store's clock, by which ticks are due. */
  readonly now: EpochMs
  readonly schedules: readonly DueSchedule[]
  /** When the next one is due, from now; undefined when none is. */
  readonly nextInMs: number | undefined
}

export interface DueSchedule extends Schedule {
  /** Its application's id. */
  readonly appId: string
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

/** How many schedules an application may have by default, so that none of them waits for the others. */
export const schedulesPerApp = 1000

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

/** A new schedule, as of now. */
export function newSchedule(input: NewSchedule, now: EpochMs) {
  const nextAt = firstTick(input, now)
  const clean = { reachedAt: now, nextAt, failures: 0, runs: [] as readonly ScheduleRun[] }
  return { ...input, ...clean, revision: 0, createdAt: now, updatedAt: now }
}

/** The schedule with the given fields changed. Another timing and the end of a pause start from now. */
export function changedSchedule(before: Schedule, change: Partial<NewSchedule>, now: EpochMs): Schedule {
  const { damaged, ...whole } = before
  // Headers that are set replace their damaged record.
  const after = { ...whole, ...(damaged && change.headers === undefined && { damaged }), ...defined(change) }
  const revision = before.revision + 1
  const updatedAt = Math.max(now, before.updatedAt)
  const resumed = before.paused && !after.paused
  const retimed = after.cron !== before.cron || after.timezone !== before.timezone
  if (!resumed && !retimed) return { ...after, revision, updatedAt }
  const reachedAt = Math.max(now, before.reachedAt)
  return { ...after, reachedAt, nextAt: firstTick(after, reachedAt), failures: 0, revision, updatedAt }
}

/** When a schedule that was made or changed is to be looked at. */
export function dueAtOf(schedule: Pick<Schedule, 'cron' | 'paused' | 'nextAt' | 'updatedAt'>): EpochMs | null {
  return schedule.paused ? null : lookAt(schedule, schedule.nextAt, schedule.updatedAt)
}

/** When to look at a schedule: at its next tick, or in a while whether the deliveries of its last run have ended. */
function lookAt({ cron }: Pick<Schedule, 'cron'>, nextAt: EpochMs | null, now: EpochMs): EpochMs | null {
  const wait = afterMs({ cron })
  return nextAt ?? (wait === undefined ? null : now + lookAgainMs(wait))
}
