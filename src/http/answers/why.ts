import { Type } from 'typebox'
import { nullable } from '../schemas/field.ts'
import { Instant, listOf, MaybeInstant } from './field.ts'
import { Waiting } from './lane.ts'
import { MessageAttemptOut } from './message.ts'

/** One thing that keeps something from moving on. */
export const BlockerOut = Type.Object({
  reason: Type.String({ description: 'By name, such as `held`, `rate_limited` or `paused`' }),
  detail: Type.String({ description: 'The same as a sentence' }),
  until: nullable(
    Type.String({
      format: 'date-time',
      description: 'When it ends by itself; nothing moves before. Null when that is not known or takes somebody',
    }),
  ),
})

const reason = Type.String({
  description: 'By name, such as `held`, `rate_limited`, `waiting_for_retry` or `delivered`; of blockers, the first',
})
const detail = Type.String({ description: 'The same as a sentence' })
const nextAt = nullable(
  Type.String({ format: 'date-time', description: 'When it will next move by itself, and not before' }),
)
const blockers = Type.Array(BlockerOut, { description: 'All that keeps it from moving on, the most decisive first' })
const isLive = Type.Boolean({
  description: 'Whether the worker that has the lane was asked and answered; else it is told from what is stored',
})

/** Why a message has not been delivered to an endpoint yet, or what became of it. */
export const WhyOut = Type.Object({
  msgId: Type.String(),
  endpointId: Type.String(),
  reason,
  detail,
  nextAt,
  expectedAt: nullable(
    Type.String({ format: 'date-time', description: 'About when its turn comes, at the pace of late' }),
  ),
  blockers,
  endsAt: nullable(
    Type.String({
      format: 'date-time',
      description: 'When its time is up, its message’s or what it may wait: it is a dead letter then',
    }),
  ),
  ahead: Type.Integer({ description: 'Deliveries of the endpoint in front of it' }),
  isAheadExact: Type.Boolean(),
  attempts: Type.Integer(),
  lastAttempt: nullable(MessageAttemptOut),
  isLive,
  asOf: Instant,
})

/** What stands in the way of all that waits for an endpoint. */
export const EndpointWhyOut = Type.Object({
  endpointId: Type.String(),
  uid: nullable(Type.String()),
  url: Type.String(),
  reason,
  detail,
  nextAt,
  emptyAt: nullable(
    Type.String({ format: 'date-time', description: 'About when all of it will have been sent, at the pace of late' }),
  ),
  blockers,
  waiting: Waiting,
  oldestSince: MaybeInstant,
  isLive,
  asOf: Instant,
})

/** What an application's endpoints wait for: those of them that something waits for, the worst of the page first. */
export const ApplicationWhyOut = Type.Object({
  appId: Type.String(),
  detail: Type.String({ description: 'A sentence on the whole page' }),
  blockers: Type.Array(BlockerOut, { description: 'What keeps the whole application from moving on' }),
  ...listOf(EndpointWhyOut).properties,
  asOf: Instant,
})
