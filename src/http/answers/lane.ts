import { Type } from 'typebox'
import { nullable } from '../schemas/field.ts'
import { EndpointOut } from './endpoint.ts'
import { Instant, MaybeInstant } from './field.ts'
import { MessageAttemptOut } from './message.ts'

/** What is stored of an endpoint's lane. What is in flight only its owner knows. */
export const LaneOut = Type.Object({
  endpointId: Type.String(),
  disabled: EndpointOut.properties.disabled,
  disabledReason: EndpointOut.properties.disabledReason,
  paused: EndpointOut.properties.paused,
  owner: nullable(
    Type.Object(
      { worker: Type.Integer(), description: Type.String(), leaseUntil: Instant },
      { description: 'The worker that delivers it now' },
    ),
  ),
  workersAlive: Type.Integer(),
  waiting: Type.Object({
    fresh: Type.Integer(),
    timed: Type.Integer({ description: 'Retries, and messages published for later' }),
    replay: Type.Integer(),
    total: Type.Integer(),
    isExact: Type.Boolean({ description: 'Each is counted up to a limit, so that asking costs little' }),
  }),
  dueAt: MaybeInstant,
  heldUntil: nullable(Type.String({ format: 'date-time', description: 'The receiver asked for silence until then' })),
  rateLimitedUntil: MaybeInstant,
  bucketFullAt: MaybeInstant,
  nextTimedAt: MaybeInstant,
  limits: Type.Object({
    throttleRate: EndpointOut.properties.throttleRate,
    throttlePeriodSeconds: EndpointOut.properties.throttlePeriodSeconds,
    burst: EndpointOut.properties.burst,
    concurrency: EndpointOut.properties.concurrency,
  }),
  asOf: Instant,
})

/** Why a message has not been delivered to an endpoint yet, or what became of it. */
export const WhyOut = Type.Object({
  msgId: Type.String(),
  endpointId: Type.String(),
  reason: Type.String({ description: 'By name, such as `held`, `rate_limited`, `waiting_for_retry` or `delivered`' }),
  detail: Type.String({ description: 'The same as a sentence' }),
  nextAt: nullable(Type.String({ format: 'date-time', description: 'When it will next move by itself' })),
  ahead: Type.Integer({ description: 'Deliveries of the endpoint in front of it' }),
  isAheadExact: Type.Boolean(),
  attempts: Type.Integer(),
  lastAttempt: nullable(MessageAttemptOut),
  asOf: Instant,
})
