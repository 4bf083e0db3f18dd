import { type Static, Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { nextTicks, type Timing, timingProblem } from '../../domain/cron.ts'
import { given } from '../../domain/given.ts'
import { missedPolicies, type Schedule, type ScheduleRun } from '../../domain/schedule.ts'
import type { NewSchedule } from '../../store/schedules.ts'
import { Instant, idOf, Labels } from '../answers/field.ts'
import { withField } from '../json-bytes.ts'
import { PageQuery } from '../page.ts'
import { integer, Metadata, nullable, uid } from '../schemas/field.ts'
import { Channels, EventType, Payload, shownPayload, Tags } from './message-schema.ts'

/** How many ticks to come are shown of one schedule, and of each in a list, unless told. */
const nextShown = 5
const nextListed = 1

const payload = Type.Object(
  {},
  { additionalProperties: true, description: 'What every message says; kept and delivered byte for byte.' },
)

const head = {
  uid: Type.Optional(uid('sch')),
  cron: Type.String({ maxLength: 256 }),
  timezone: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  eventType: EventType,
  channels: Type.Optional(nullable(Channels)),
  tags: Type.Optional(nullable(Tags)),
  missed: Type.Optional(Type.Enum([...missedPolicies])),
  missedLimit: Type.Optional(integer(1, 100)),
  paused: Type.Optional(Type.Boolean()),
  metadata: Type.Optional(Metadata),
}

export const ScheduleIn = Type.Object({ ...head, payload })
export type ScheduleHead = Omit<Static<typeof ScheduleIn>, 'payload'>

/** Changes a schedule: a field that is absent stays. */
export const SchedulePatch = Type.Partial(ScheduleIn)
export type SchedulePatchHead = Omit<Static<typeof SchedulePatch>, 'payload'>

const nextRuns = Type.Optional(Type.Integer({ minimum: 0, maximum: 10 }))
export const ScheduleQuery = Type.Object({ next_runs: nextRuns })
export type ScheduleQuery = Static<typeof ScheduleQuery>
export const ScheduleListQuery = Type.Object({ ...PageQuery.properties, next_runs: nextRuns })
export type ScheduleListQuery = Static<typeof ScheduleListQuery>

const ScheduleRunOut = Type.Object({
  at: Type.String({ format: 'date-time', description: 'When it was to run; of those skipped, the last' }),
  ranAt: Type.String({ format: 'date-time', description: 'When it ran, was skipped, or was last tried' }),
  state: Type.Enum(['published', 'failed', 'skipped'], { description: 'What became of it' }),
  trigger: Type.Enum(['cron', 'manual'], { description: 'Whether its time had come, or somebody asked for it' }),
  msgId: nullable(Type.String({ description: 'The message it published' })),
  error: nullable(Type.String({ description: 'Why it failed' })),
  count: Type.Integer({ description: 'How many were skipped, up to a hundred, or how often it failed' }),
})

/** A schedule as callers see it. */
export const ScheduleOut = Type.Object({
  id: idOf('sch'),
  uid: nullable(Type.String()),
  cron: Type.String(),
  timezone: Type.String(),
  eventType: Type.String(),
  channels: nullable(Type.Array(Type.String())),
  tags: nullable(Type.Array(Type.String())),
  missed: Type.Enum([...missedPolicies]),
  missedLimit: Type.Integer(),
  paused: Type.Boolean(),
  metadata: Labels,
  failures: Type.Integer({ description: 'Tries in a row that failed; it is tried again until it succeeds' }),
  nextRuns: Type.Array(Instant, { description: 'When it runs next; none while it is paused' }),
  lastRuns: Type.Array(ScheduleRunOut, { description: 'The last twenty, the newest first' }),
  createdAt: Instant,
  updatedAt: Instant,
  payload: Payload,
})

/** The message that a run by hand published. */
export const ScheduleRanOut = Type.Object({ msgId: idOf('msg') })

/** What is wrong with when a schedule is to run. */
export function timingProblems(timing: Timing, now: EpochMs): FieldError[] {
  const problem = timingProblem(timing, now)
  return problem === undefined ? [] : [{ at: ['body', problem.field], message: problem.message, type: problem.field }]
}

export function toNewSchedule(input: ScheduleHead, body: Uint8Array): NewSchedule {
  return {
    uid: input.uid ?? null,
    cron: input.cron.trim(),
    timezone: input.timezone ?? 'UTC',
    eventType: input.eventType,
    body,
    contentType: 'application/json',
    channels: input.channels ?? null,
    tags: input.tags ?? null,
    missed: input.missed ?? 'once',
    missedLimit: input.missedLimit ?? 10,
    paused: input.paused ?? false,
    metadata: input.metadata ?? {},
  }
}

/** All that replacing sets; without a uid the one it has stays, and without `paused` whether it is paused. */
export function toScheduleReplacement(input: ScheduleHead, body: Uint8Array): Partial<NewSchedule> {
  const { uid, paused, ...rest } = toNewSchedule(input, body)
  return {
    ...rest,
    ...(input.uid === undefined ? {} : { uid }),
    ...(input.paused === undefined ? {} : { paused }),
  }
}

/** The fields that were given. */
export function toScheduleChange(input: SchedulePatchHead, body: Uint8Array | undefined): Partial<NewSchedule> {
  const { uid, cron, timezone, eventType, channels, tags, missed, missedLimit, paused, metadata } = input
  return given({ uid, cron, timezone, eventType, body, channels, tags, missed, missedLimit, paused, metadata })
}

/** A schedule as callers see it, as bytes: the payload is the caller's own. */
export function scheduleBytes(schedule: Schedule, now: EpochMs, count: number): Buffer {
  const { key: _key, app: _app, body, contentType, reachedAt, nextAt: _next, revision: _revision, ...shown } = schedule
  const ticks = schedule.paused ? [] : nextTicks(schedule, Math.max(now, reachedAt), count)
  const out = {
    ...shown,
    nextRuns: ticks.map(instant),
    lastRuns: schedule.runs.map(toRunOut),
    runs: undefined,
    createdAt: instant(schedule.createdAt),
    updatedAt: instant(schedule.updatedAt),
  }
  return withField(Buffer.from(JSON.stringify(out)), 'payload', Buffer.from(shownPayload(body, contentType)))
}

export function shownOf({ next_runs: asked }: ScheduleQuery): number {
  return asked ?? nextShown
}

export function listedOf({ next_runs: asked }: ScheduleQuery): number {
  return asked ?? nextListed
}

function toRunOut({ at, ranAt, state, trigger, message, error, count }: ScheduleRun) {
  return { at: instant(at), ranAt: instant(ranAt), state, trigger, msgId: message, error, count }
}

function instant(at: EpochMs): string {
  return new Date(at).toISOString()
}
