import type { EpochMs } from '../../domain/clock.ts'
import type { MissedPolicy, Schedule, ScheduleRun } from '../../domain/schedule.ts'
import { dueAtOf } from '../schedules.ts'
import { toJson } from '../sql/json.ts'

export interface ScheduleRow {
  readonly key: number
  readonly id: string
  readonly app: number
  readonly uid: string | null
  readonly cron: string
  readonly timezone: string
  readonly event_type: string
  readonly body: Uint8Array
  readonly content_type: string
  readonly channels: string[] | null
  readonly tags: string[] | null
  readonly missed: MissedPolicy
  readonly missed_limit: number
  readonly paused: boolean
  readonly metadata: Readonly<Record<string, string>>
  readonly reached_at: EpochMs
  readonly next_at: EpochMs | null
  readonly due_at: EpochMs | null
  readonly failures: number
  readonly runs: ScheduleRun[]
  readonly revision: number
  readonly created_at: EpochMs
  readonly updated_at: EpochMs
}

export function toSchedule(row: ScheduleRow): Schedule {
  return {
    key: row.key,
    id: row.id,
    app: row.app,
    uid: row.uid,
    cron: row.cron,
    timezone: row.timezone,
    eventType: row.event_type,
    body: row.body,
    contentType: row.content_type,
    channels: row.channels,
    tags: row.tags,
    missed: row.missed,
    missedLimit: row.missed_limit,
    paused: row.paused,
    metadata: row.metadata,
    reachedAt: row.reached_at,
    nextAt: row.next_at,
    failures: row.failures,
    runs: row.runs,
    revision: row.revision,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

/** The columns that making and changing a schedule sets. */
export const scheduleColumns = [
  'uid',
  'cron',
  'timezone',
  'event_type',
  'body',
  'content_type',
  'channels',
  'tags',
  'missed',
  'missed_limit',
  'paused',
  'metadata',
  'reached_at',
  'next_at',
  'due_at',
  'failures',
  'revision',
] as const

/** What they are set to, with JSON as text. */
export function scheduleValues(schedule: Omit<Schedule, 'key' | 'id' | 'app'>) {
  return {
    uid: schedule.uid,
    cron: schedule.cron,
    timezone: schedule.timezone,
    event_type: schedule.eventType,
    body: schedule.body,
    content_type: schedule.contentType,
    channels: toJson(schedule.channels),
    tags: toJson(schedule.tags),
    missed: schedule.missed,
    missed_limit: schedule.missedLimit,
    paused: schedule.paused,
    metadata: toJson(schedule.metadata),
    reached_at: schedule.reachedAt,
    next_at: schedule.nextAt,
    due_at: dueAtOf(schedule),
    failures: schedule.failures,
    revision: schedule.revision,
  } satisfies Record<(typeof scheduleColumns)[number], unknown>
}
