import { type Static, Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { withField } from '../../json/exact.ts'
import { toChange, toNew, toReplacement } from '../../noun/noun.ts'
import { schemasOf, toShown } from '../../noun/schemas.ts'
import {
  appId,
  closed,
  described,
  Instant,
  id,
  idOf,
  instant,
  integer,
  iso,
  Labels,
  metadataProblems,
  msgId,
  nullable,
  optional,
  text,
  uidOut,
  whole,
} from '../../operations/fields.ts'
import { PageQuery } from '../../operations/page.ts'
import { payloadIn } from '../../operations/payload.ts'
import { headerProblems } from '../../operations/problems.ts'
import { refuseIf } from '../../operations/validate.ts'
import { isContentType, isSensitiveHeader } from '../../wire/headers.ts'
import { Payload, shownPayload } from '../messages/schemas.ts'
import { type NewSchedule, schedule as noun, type Schedule, type ScheduleRun } from './noun.ts'
import { knownTicks, nextTicks, type Timing, timingProblem } from './rules.ts'

/** Future runs that are shown of one schedule, and of each in a list, by default. */
const nextShown = 5
export const nextListed = 1

const { made, changed, shown } = schemasOf(noun)
/** The body in either of its forms. It is stored as its bytes. */
const body = {
  bodyBase64: optional(
    Type.String(),
    'Body of every message as base64, instead of `payload`: any bytes, delivered as they are.',
  ),
  payload: Type.Optional(
    payloadIn('Payload of every message, stored and delivered byte for byte; or give `bodyBase64`.'),
  ),
}

export const ScheduleIn = Type.Object({ ...made, ...body }, closed)
export type ScheduleFields = Omit<Static<typeof ScheduleIn>, 'payload'>

/** Changes a schedule: a field that is absent stays. */
export const SchedulePatch = Type.Object({ ...changed, ...body }, closed)
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
  ...shown,
  headers: described(Labels, 'Headers of every message, without those whose names mark them as secrets.'),
  sensitiveHeaders: Type.Array(Type.String(), { description: 'Names of the headers whose values are not shown.' }),
  failures: whole('Tries in a row that failed; it is tried again until it succeeds'),
  nextRuns: Type.Array(Instant, { description: 'Next runs; none while the schedule is paused.' }),
  lastRuns: Type.Array(ScheduleRunOut, { description: 'The last twenty, the newest first' }),
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

const { cron, timezone } = noun.fields
export const SchedulePreviewQuery = Type.Object({
  cron: Type.String({ minLength: 1, maxLength: 256, description: cron.description }),
  timezone: optional(Type.String({ maxLength: 64 }), timezone.description),
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
  return payload === undefined ? {} : { body: payload, contentType: contentType ?? 'application/json' }
}

function trimmed(input: ScheduleFields): ScheduleFields {
  return { ...input, cron: input.cron.trim() }
}

export function toNewSchedule(input: ScheduleFields, payload: Uint8Array | undefined): NewSchedule {
  return { body: new Uint8Array(), ...toNew(noun, trimmed(input)), ...bodyOf(input, payload) }
}

/** The fields that replacing sets; without them, `uid` and `paused` stay. */
export function toScheduleReplacement(input: ScheduleFields, payload: Uint8Array | undefined): Partial<NewSchedule> {
  return { ...toReplacement(noun, trimmed(input)), ...bodyOf(input, payload) }
}

export function toScheduleChange(input: SchedulePatchFields, payload: Uint8Array | undefined): Partial<NewSchedule> {
  return { ...toChange(noun, input), ...bodyOf(input, payload) }
}

/** A schedule as callers see it, as bytes: the payload is the caller's own. */
export function scheduleBytes(schedule: Schedule, now: EpochMs, count = nextShown): Buffer {
  const { id, body, contentType, failures } = schedule
  const ticks = schedule.paused ? [] : knownTicks(schedule, now, count)
  const headers = Object.entries(schedule.headers ?? {})
  const out = {
    id,
    ...toShown(noun, schedule),
    headers: Object.fromEntries(headers.filter(([name]) => !isSensitiveHeader(name))),
    sensitiveHeaders: headers.map(([name]) => name).filter(isSensitiveHeader),
    failures,
    nextRuns: ticks.map(iso),
    lastRuns: schedule.runs.map(toRunOut),
  }
  return withField(Buffer.from(JSON.stringify(out)), 'payload', Buffer.from(shownPayload(body, contentType)))
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
