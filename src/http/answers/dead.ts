import { Type } from 'typebox'
import { deadReasons } from '../../domain/judge.ts'
import { nullable } from '../schemas/field.ts'
import { Instant, Labels, MaybeInstant } from './field.ts'
import { MessageAttemptOut, Payload } from './message.ts'

const letter = {
  appId: Type.String(),
  msgId: Type.String(),
  endpointId: Type.String(),
  url: Type.String(),
  eventType: Type.String(),
  eventId: nullable(Type.String()),
  channels: nullable(Type.Array(Type.String())),
  reason: Type.Enum([...deadReasons]),
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

/** The same, with what was to be delivered and all it takes to bring it back. */
export const DeadLetterLine = Type.Object({
  ...letter,
  responseBase64: nullable(Type.String({ description: 'What was answered, where that is no text' })),
  endpointUid: nullable(Type.String()),
  contentType: nullable(Type.String()),
  tags: nullable(Type.Array(Type.String())),
  headers: nullable(Labels),
  deliverAt: MaybeInstant,
  expiresAt: MaybeInstant,
  orderingKey: nullable(Type.String()),
  orderKey: nullable(Type.Integer({ description: 'What it goes one after the other with, at this endpoint' })),
  variant: nullable(
    Type.Object(
      { bodyBase64: nullable(Type.String()), signature: nullable(Type.String()) },
      { description: 'What this endpoint gets instead of the payload, or with it' },
    ),
  ),
  bodyBase64: nullable(Type.String({ description: 'The body, where the payload is missing or not exactly its bytes' })),
  payload: Type.Optional(Payload),
})

/** What became of lines that were to be imported. */
export const DeadImportOut = Type.Object({
  checked: Type.Integer({ description: 'How many lines could be read' }),
  imported: Type.Integer({ description: 'How many are dead letters now' }),
  unchanged: Type.Integer({ description: 'How many were dead letters already, or have gone on since' }),
  skipped: Type.Array(
    Type.Object({ line: Type.Integer(), problem: Type.String() }, { description: 'A line that was left out, and why' }),
  ),
})
