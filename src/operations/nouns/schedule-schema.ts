import { type Static, Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { defined } from '../../domain/defined.ts'
import {
  missedPolicies,
  nextTicks,
  type Schedule,
  type ScheduleRun,
  type Timing,
  timingProblem,
} from '../../domain/schedule.ts'
import { withField } from '../../json/bytes.ts'
import type { NewSchedule } from '../../store/schedules.ts'
import {
  createdAt,
  described,
  flag,
  Instant,
  idOf,
  instant,
  integer,
  iso,
  Labels,
  Metadata,
  maybe,
  nullable,
  optional,
  text,
  uid,
  updatedAt,
  whole,
} from '../fields.ts'
import { PageQuery } from '../page.ts'
import { Channels, EventType, Payload, shownPayload, Tags } from './message-schema.ts'

/** How many ticks to come are shown of one schedule, and of each in a list, unless told. */
const nextShown = 5
const nextListed = 1

const payload = Type.Object(
  {},
  { additionalProperties: true, description: 'Payload of every message, stored and delivered byte for byte.' },
)

const head = {
  uid: optional(uid('sch'), 'Your own name for it, unique among its kind; accepted wherever the id is.'),
  cron: Type.String({
    maxLength: 256,
    description: 'Five fields: minute, hour, day of the month, month, day of the week; such as `30 7 * * MON-FRI`.',
  }),
  timezone: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      description: 'IANA time zone of the expression, such as `Europe/Berlin`; `UTC` by default.',
    }),
  ),
  eventType: described(EventType, 'Event type, such as `video.trending`.'),
  channels: maybe(Channels, 'Channels of a message. An endpoint with channels gets only messages that share one.'),
  tags: maybe(Tags, 'Labels to find messages by.'),
  missed: Type.Optional(
    Type.Enum([...missedPolicies], {
      description:
        'Policy for runs that were missed by more than five minutes: `skip` drops them, `once` runs the newest, `all` runs each, up to `missedLimit`.',
    }),
  ),
  missedLimit: optional(integer(1, 100), 'Largest number of missed runs to make up for, the newest; 10 by default.'),
  paused: optional(Type.Boolean(), 'Whether the schedule is paused.'),
  metadata: optional(Metadata, 'Your own labels, up to 4096 bytes as JSON.'),
}

export const ScheduleIn = Type.Object({ ...head, payload })
export type ScheduleHead = Omit<Static<typeof ScheduleIn>, 'payload'>

/** Changes a schedule: a field that is absent stays. */
export const SchedulePatch = Type.Partial(ScheduleIn)
export type SchedulePatchHead = Omit<Static<typeof SchedulePatch>, 'payload'>

const nextRuns = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: 10,
    description: 'Number of future runs to show; 5 by default, 1 in a list.',
  }),
)
export const ScheduleQuery = Type.Object({
  next_runs: nextRuns,
})
export type ScheduleQuery = Static<typeof ScheduleQuery>
export const ScheduleListQuery = Type.Object({
  ...PageQuery.properties,
  next_runs: nextRuns,
})
export type ScheduleListQuery = Static<typeof ScheduleListQuery>

const ScheduleRunOut = Type.Object({
  at: instant('Scheduled time; for several skipped runs, the last.'),
  ranAt: instant('Time at which it ran, was skipped, or was last tried.'),
  state: Type.Enum(['published', 'failed', 'skipped'], { description: 'Result of the run.' }),
  trigger: Type.Enum(['cron', 'manual'], {
    description: 'Whether its time had come (`cron`) or it was requested (`manual`).',
  }),
  msgId: nullable(text('The message it published')),
  error: nullable(text('Why it failed')),
  count: whole('Number of skipped runs, up to 100, or of failures.'),
})

/** A schedule as callers see it. */
export const ScheduleOut = Type.Object({
  id: described(idOf('sch'), 'Unique id, assigned by the server.'),
  uid: nullable(text('Your own name for it, unique among its kind; accepted wherever the id is.')),
  cron: text('Five fields: minute, hour, day of the month, month, day of the week; such as `30 7 * * MON-FRI`.'),
  timezone: text('IANA time zone of the expression, such as `Europe/Berlin`; `UTC` by default.'),
  eventType: text('Event type, such as `video.trending`.'),
  channels: nullable(
    Type.Array(Type.String(), {
      description: 'Channels of a message. An endpoint with channels gets only messages that share one.',
    }),
  ),
  tags: nullable(Type.Array(Type.String(), { description: 'Labels to find messages by.' })),
  missed: Type.Enum([...missedPolicies], {
    description:
      'Policy for runs that were missed by more than five minutes: `skip` drops them, `once` runs the newest, `all` runs each, up to `missedLimit`.',
  }),
  missedLimit: whole('Largest number of missed runs to make up for, the newest; 10 by default.'),
  paused: flag('Whether the schedule is paused.'),
  metadata: described(Labels, 'Your own labels, up to 4096 bytes as JSON.'),
  failures: whole('Tries in a row that failed; it is tried again until it succeeds'),
  nextRuns: Type.Array(Instant, { description: 'Next runs; none while the schedule is paused.' }),
  lastRuns: Type.Array(ScheduleRunOut, { description: 'The last twenty, the newest first' }),
  createdAt,
  updatedAt,
  payload: Payload,
})

/** The message that a run by hand published. */
export const ScheduleRanOut = Type.Object({
  msgId: described(idOf('msg'), 'Message, by id; where it is a filter, also by eventId.'),
})

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

/** The fields that replacing sets; without them, `uid` and `paused` stay. */
export function toScheduleReplacement(input: ScheduleHead, body: Uint8Array): Partial<NewSchedule> {
  const { uid, paused, ...rest } = toNewSchedule(input, body)
  return {
    ...rest,
    ...(input.uid === undefined ? {} : { uid }),
    ...(input.paused === undefined ? {} : { paused }),
  }
}

/** The fields that a request sets. */
export function toScheduleChange(input: SchedulePatchHead, body: Uint8Array | undefined): Partial<NewSchedule> {
  const { uid, cron, timezone, eventType, channels, tags, missed, missedLimit, paused, metadata } = input
  return defined({ uid, cron, timezone, eventType, body, channels, tags, missed, missedLimit, paused, metadata })
}

/** A schedule as callers see it, as bytes: the payload is the caller's own. */
export function scheduleBytes(schedule: Schedule, now: EpochMs, count: number): Buffer {
  const { key: _key, app: _app, body, contentType, reachedAt, nextAt: _next, revision: _revision, ...shown } = schedule
  const ticks = schedule.paused ? [] : nextTicks(schedule, Math.max(now, reachedAt), count)
  const out = {
    ...shown,
    nextRuns: ticks.map(iso),
    lastRuns: schedule.runs.map(toRunOut),
    runs: undefined,
    createdAt: iso(schedule.createdAt),
    updatedAt: iso(schedule.updatedAt),
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
  return { at: iso(at), ranAt: iso(ranAt), state, trigger, msgId: message, error, count }
}
