import { Type } from 'typebox'
import { nullable } from '../schemas/field.ts'
import { Instant } from './field.ts'
import { MessageAttemptOut, Payload } from './message.ts'

const letter = {
  msgId: Type.String(),
  endpointId: Type.String(),
  url: Type.String(),
  eventType: Type.String(),
  eventId: nullable(Type.String()),
  channels: nullable(Type.Array(Type.String())),
  reason: Type.String({ description: 'Why it died: `exhausted`, `aged` or `gone`' }),
  attempts: Type.Integer(),
  publishedAt: Instant,
  diedAt: Instant,
  responseStatusCode: Type.Integer(),
  code: Type.String(),
  error: nullable(Type.String()),
  response: nullable(Type.String()),
}

/** A delivery that used up its attempts or its time. */
export const DeadLetterOut = Type.Object(letter)

/** The same, with every attempt that was made. */
export const DeadLetterTrailOut = Type.Object({ ...letter, trail: Type.Array(MessageAttemptOut) })

/** The same, with what was to be delivered. */
export const DeadLetterLine = Type.Object({ ...letter, payload: Type.Optional(Payload) })
