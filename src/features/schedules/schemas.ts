import { type Static, Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { defined } from '../../domain/field.ts'
import { withField } from '../../json/exact.ts'
import {
  appId,
  closed,
  createdAt,
  described,
  distinct,
  flag,
  Instant,
  id,
  idOf,
  instant,
  integer,
  iso,
  Labels,
  metadata,
  metadataIn,
  metadataProblems,
  msgId,
  nullable,
  optional,
  shortText,
  text,
  uid,
  uidOut,
  updatedAt,
  whole,
} from '../../operations/fields.ts'
import { PageQuery } from '../../operations/page.ts'
import { headerProblems } from '../../operations/problems.ts'
import { refuseIf } from '../../operations/validate.ts'
import { isSensitiveHeader } from '../../wire/headers.ts'
import { isContentType } from '../messages/reading-service.ts'
import { EnvelopeIn, MessageOut, Payload, shownPayload } from '../messages/schemas.ts'
import {
  knownTicks,
  missedPolicies,
  nextTicks,
  type Schedule,
  type ScheduleRun,
  type Timing,
  timingProblem,
} from './rules.ts'
import type { NewSchedule } from './store.ts'

/** Future runs that are shown of one schedule, and of each in a list, by default. */
const nextShown = 5
export const nextListed = 1

const payload = Type.Object(
  {},
  {
    additionalProperties: true,
    description: 'Payload of every message, stored and delivered byte for byte; or give `bodyBase64`.',
  },
)

const about = {
  cron: 'Five fields: minute, hour, day of the month, month, day of the week; such as `30 7 * * MON-FRI`. Six fields begin with seconds. `@after 5m` runs five minutes after the last delivery of the run before has ended.',
  timezone: 'IANA time zone of the expression, such as `Europe/Berlin`; `UTC` by default.',
  contentType:
    'Content type of every message. A body without one gets `application/json`, or `application/octet-stream` with `bodyBase64`.',
  missedLimit: 'Largest number of missed runs to make up for, the newest; 10 by default.',
}
const missed = Type.Enum([...missedPolicies], {
  description:
    'Policy for runs that were missed by more than five minutes: `skip` drops them, `once` runs the newest, `all` runs each, up to `missedLimit`.',
})
const { eventType, channels, tags, headers } = EnvelopeIn.properties

const fields = {
  uid: Type.Optional(uid('sch')),
  cron: described(Type.String({ maxLength: 256 }), about.cron),
  timezone: optional(shortText(64), about.timezone),
  eventType,
  channels,
  tags,
  headers,
  contentType: optional(Type.String({ maxLength: 255 }), about.contentType),
  bodyBase64: optional(
    Type.String(),
    'Body of every message as base64, instead of `payload`: any bytes, delivered as they are.',
  ),
  missed: Type.Optional(missed),
  missedLimit: optional(integer(1, 100), about.missedLimit),
  paused: optional(Type.Boolean(), 'Whether the schedule is paused.'),
  metadata: metadataIn,
}

export const ScheduleIn = Type.Object({ ...fields, payload: Type.Optional(payload) }, closed)
export type ScheduleFields = Omit<Static<typeof ScheduleIn>, 'payload'>

/** Changes a schedule: a field that is absent stays. */
export const SchedulePatch = Type.Partial(ScheduleIn, closed)
export type SchedulePatchFields = Omit<Static<typeof SchedulePatch>, 'payload'>

export const ScheduleQuery = Type.Object(
  {
    next_runs: optional(integer(0, 10), 'Number of future runs to show; 5 by default, 1 in a list.'),
  },
  closed,
)
export const ScheduleListQuery = Type.Object({ ...PageQuery.properties, ...ScheduleQuery.properties })

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

export const ScheduleOut = Type.Object({
  id: described(idOf('sch'), id),
  uid: uidOut,
  cron: text(about.cron),
  timezone: text(about.timezone),
  eventType: MessageOut.properties.eventType,
  channels: MessageOut.properties.channels,
  tags: MessageOut.properties.tags,
  contentType: text(about.contentType),
  headers: described(Labels, 'Headers of every message, without those whose names mark them as secrets.'),
  sensitiveHeaders: Type.Array(Type.String(), { description: 'Names of the headers whose values are not shown.' }),
  missed,
  missedLimit: whole(about.missedLimit),
  paused: flag('Whether the schedule is paused.'),
  metadata,
  failures: whole('Tries in a row that failed; it is tried again until it succeeds'),
  nextRuns: Type.Array(Instant, { description: 'Next runs; none while the schedule is paused.' }),
  lastRuns: Type.Array(ScheduleRunOut, { description: 'The last twenty, the newest first' }),
  createdAt,
  updatedAt,
  payload: Payload,
})

/** A schedule without its message, among those of all applications. */
export const ScheduleSummaryOut = Type.Object({
  id: described(idOf('sch'), id),
  appId,
  appUid: uidOut,
  ...Type.Pick(ScheduleOut, [
    'uid',
    'cron',
    'timezone',
    'eventType',
    'paused',
    'failures',
    'nextRuns',
    'lastRuns',
    'createdAt',
    'updatedAt',
  ]).properties,
})

export const SchedulePreviewQuery = Type.Object({
  cron: Type.String({ minLength: 1, maxLength: 256, description: about.cron }),
  timezone: optional(Type.String({ maxLength: 64 }), about.timezone),
})

export const SchedulePreviewOut = Type.Object({
  nextRuns: Type.Array(Instant, { description: 'The next ten runs; none for `@after`, which follows deliveries.' }),
})

export const ScheduleRanOut = Type.Object({
  msgId: described(idOf('msg'), msgId),
})

/** Problems of the expression or the time zone of a schedule. */
function timingProblems(timing: Timing, now: EpochMs): FieldError[] {
  const problem = timingProblem(timing, now)
  return problem === undefined ? [] : [{ at: ['body', problem.field], message: problem.message, type: problem.field }]
}

/** All problems of a request to create or change a schedule, beyond the shape of its fields. */
export function scheduleProblems(
  input: SchedulePatchFields,
  payload: Uint8Array | undefined,
  timing: Timing,
  now: EpochMs,
): FieldError[] {
  const { contentType, bodyBase64, headers, metadata } = input
  const problems = [...metadataProblems(metadata), ...headerProblems(headers), ...timingProblems(timing, now)]
  const problem = (field: string, message: string) => problems.push({ at: ['body', field], message, type: field })
  if (contentType !== undefined && !isContentType(contentType)) problem('contentType', 'is not a content type')
  if (bodyBase64 === undefined) return problems
  if (payload !== undefined) problem('bodyBase64', 'cannot be combined with payload')
  if (Buffer.from(bodyBase64, 'base64').toString('base64') !== bodyBase64) problem('bodyBase64', 'is not base64')
  return problems
}

/** The same for a request that sets every field: it must have a body, too. */
export function newProblems(input: ScheduleFields, payload: Uint8Array | undefined, now: EpochMs): FieldError[] {
  const { cron, timezone = 'UTC', bodyBase64 } = input
  const problems = scheduleProblems(input, payload, { cron, timezone }, now)
  if (payload !== undefined || bodyBase64 !== undefined) return problems
  return [...problems, { at: ['body', 'payload'], message: 'is required, or bodyBase64', type: 'required' }]
}

/** The body that a request sets, and its content type; nothing when it sets none. */
function bodyOf({ bodyBase64, contentType }: SchedulePatchFields, payload: Uint8Array | undefined) {
  if (bodyBase64 !== undefined) {
    return { body: Buffer.from(bodyBase64, 'base64'), contentType: contentType ?? 'application/octet-stream' }
  }
  return { body: payload, contentType: contentType ?? (payload === undefined ? undefined : 'application/json') }
}

export function toNewSchedule(input: ScheduleFields, payload: Uint8Array | undefined): NewSchedule {
  const { body = new Uint8Array(), contentType = 'application/json' } = bodyOf(input, payload)
  return {
    uid: input.uid ?? null,
    cron: input.cron.trim(),
    timezone: input.timezone ?? 'UTC',
    eventType: input.eventType,
    body,
    contentType,
    headers: input.headers ?? null,
    channels: distinct(input.channels),
    tags: distinct(input.tags),
    missed: input.missed ?? 'once',
    missedLimit: input.missedLimit ?? 10,
    paused: input.paused ?? false,
    metadata: input.metadata ?? {},
  }
}

/** The fields that replacing sets; without them, `uid` and `paused` stay. */
export function toScheduleReplacement(input: ScheduleFields, payload: Uint8Array | undefined): Partial<NewSchedule> {
  const { uid, paused, ...rest } = toNewSchedule(input, payload)
  return {
    ...rest,
    ...(input.uid === undefined ? {} : { uid }),
    ...(input.paused === undefined ? {} : { paused }),
  }
}

export function toScheduleChange(input: SchedulePatchFields, payload: Uint8Array | undefined): Partial<NewSchedule> {
  const { uid, cron, timezone, eventType, headers, missed, missedLimit, paused, metadata } = input
  const [channels, tags] = [input.channels, input.tags].map((names) => names && distinct(names))
  const { body, contentType } = bodyOf(input, payload)
  const fields = { uid, cron, timezone, eventType, channels, tags, headers, missed, missedLimit, paused, metadata }
  return defined({ ...fields, body, contentType })
}

/** A schedule as callers see it, as bytes: the payload is the caller's own. */
export function scheduleBytes(schedule: Schedule, now: EpochMs, count = nextShown): Buffer {
  const { key: _key, app: _app, body, reachedAt: _reached, nextAt: _next, revision: _revision, ...rest } = schedule
  const { damaged: _damaged, ...shown } = rest
  const ticks = schedule.paused ? [] : knownTicks(schedule, now, count)
  const headers = Object.entries(schedule.headers ?? {})
  const out = {
    ...shown,
    headers: Object.fromEntries(headers.filter(([name]) => !isSensitiveHeader(name))),
    sensitiveHeaders: headers.map(([name]) => name).filter(isSensitiveHeader),
    nextRuns: ticks.map(iso),
    lastRuns: schedule.runs.map(toRunOut),
    runs: undefined,
    createdAt: iso(schedule.createdAt),
    updatedAt: iso(schedule.updatedAt),
  }
  return withField(Buffer.from(JSON.stringify(out)), 'payload', Buffer.from(shownPayload(body, schedule.contentType)))
}

/** A schedule without its message and its application, as callers see it. */
export function toScheduleSummary(schedule: Schedule, now: EpochMs, count: number) {
  const { id, uid, cron, timezone, eventType, paused, failures, runs, createdAt, updatedAt } = schedule
  return {
    ...{ id, uid, cron, timezone, eventType, paused, failures },
    nextRuns: paused ? [] : knownTicks(schedule, now, count).map(iso),
    lastRuns: runs.map(toRunOut),
    createdAt: iso(createdAt),
    updatedAt: iso(updatedAt),
  }
}

/** The next runs of a timing that is being written; refused while it is none. */
export function previewRuns({ cron, timezone = 'UTC' }: Static<typeof SchedulePreviewQuery>, now: EpochMs): EpochMs[] {
  refuseIf(
    timingProblems({ cron, timezone }, now).map((problem) => ({ ...problem, at: ['query', ...problem.at.slice(1)] })),
  )
  return nextTicks({ cron, timezone }, now, 10)
}

function toRunOut({ at, ranAt, state, trigger, message, error, count }: ScheduleRun) {
  return { at: iso(at), ranAt: iso(ranAt), state, trigger, msgId: message, error, count }
}
