import { Type } from 'typebox'
import { missedPolicies } from '../../domain/schedule.ts'
import { nullable } from '../schemas/field.ts'
import { Instant, idOf, Labels } from './field.ts'
import { Payload } from './message.ts'

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
