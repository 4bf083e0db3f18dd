import { type Static, Type } from 'typebox'
import type { DeadLetter, MessageHead } from '../../domain/delivery.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import { keyTime } from '../../domain/ids.ts'
import { deadReasons } from '../../domain/judge.ts'
import { Instant, Labels, MaybeInstant } from '../answers/field.ts'
import { iso } from '../fields.ts'
import type { Out } from '../route.ts'
import { Headers } from '../schemas/endpoint-headers.ts'
import { integer, nullable } from '../schemas/field.ts'
import { dateTime } from '../schemas/instant.ts'
import { MessageAttemptOut } from './attempt-schema.ts'
import { Channels, EventId, EventType, Payload, Tags } from './message-schema.ts'

const reason = Type.Enum([...deadReasons])

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

/** How lines are imported. */
export const DeadImportQuery = Type.Object({
  endpoint_id: Type.Optional(Type.String({ maxLength: 256, description: 'Bring all of them to this endpoint' })),
  skip_bad: Type.Optional(Type.Boolean({ description: 'Whether lines that cannot be imported are left out' })),
  dry_run: Type.Optional(Type.Boolean({ description: 'Whether the lines are only checked' })),
  first_line: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1e12,
      description: 'The number of the first line, for saying which ones are bad',
    }),
  ),
})
export type DeadImportQuery = Static<typeof DeadImportQuery>

const base64 = Type.Optional(nullable(Type.String()))
const text = (maxLength: number) => Type.String({ maxLength })

/** What a line must hold beside the payload to become a dead letter. Other fields are ignored. */
export const DeadLineIn = Type.Object({
  msgId: text(64),
  endpointId: text(256),
  endpointUid: Type.Optional(nullable(text(256))),
  eventType: EventType,
  eventId: Type.Optional(nullable(EventId)),
  channels: Type.Optional(nullable(Channels)),
  tags: Type.Optional(nullable(Tags)),
  headers: Type.Optional(nullable(Headers)),
  contentType: Type.Optional(nullable(text(256))),
  deliverAt: Type.Optional(nullable(dateTime)),
  expiresAt: Type.Optional(nullable(dateTime)),
  orderingKey: Type.Optional(nullable(text(256))),
  orderKey: Type.Optional(nullable(integer(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER))),
  reason,
  attempts: integer(0, 1_000_000_000),
  diedAt: dateTime,
  responseStatusCode: integer(0, 999),
  code: Type.String({ pattern: '^[a-z_]{1,40}$' }),
  error: Type.Optional(nullable(text(10_000))),
  response: Type.Optional(nullable(Type.String())),
  responseBase64: base64,
  bodyBase64: base64,
  variant: Type.Optional(nullable(Type.Object({ bodyBase64: base64, signature: Type.Optional(nullable(text(1000))) }))),
})
export type DeadLineIn = Static<typeof DeadLineIn>

export function toDeadOut(
  letter: DeadLetter,
  message: Omit<MessageHead, 'bytes'> | undefined,
  endpoint: Endpoint | undefined,
  appId: string,
): Out<typeof DeadLetterOut> {
  return {
    appId,
    msgId: message?.id ?? '',
    endpointId: endpoint?.id ?? '',
    url: endpoint?.url ?? '',
    eventType: message?.eventType ?? '',
    eventId: message?.eventId ?? null,
    channels: message?.channels ?? null,
    reason: letter.reason,
    attempts: letter.attempts,
    publishedAt: iso(keyTime(letter.message)),
    diedAt: iso(letter.diedAt),
    responseStatusCode: letter.status,
    code: letter.code,
    error: letter.error,
    response: letter.response === null ? null : Buffer.from(letter.response).toString('utf8'),
  }
}
