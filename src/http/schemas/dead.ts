import { type Static, Type } from 'typebox'
import type { DeadLetter, MessageHead } from '../../domain/delivery.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import { keyTime } from '../../domain/ids.ts'
import { deadReasons } from '../../domain/judge.ts'
import { perSecond } from '../api/replay.ts'
import { PageQuery } from '../page.ts'
import { Headers } from './endpoint-headers.ts'
import { closed, integer, nullable } from './field.ts'
import { dateTime, timeProperties } from './instant.ts'
import { Channels, EventId, EventType, Tags } from './message.ts'

const reason = Type.Enum([...deadReasons])

/** Which dead letters are meant, in a query, whatever their application. */
const anyFilters = {
  event_types: Type.Optional(Type.String({ description: 'Names, separated by commas' })),
  reason: Type.Optional(reason),
  ...timeProperties,
}

/** The same, of one application. */
const filters = { endpoint_id: Type.Optional(Type.String({ maxLength: 256 })), ...anyFilters }

export const AnyDeadListQuery = Type.Object({ ...PageQuery.properties, ...anyFilters })
export const AnyDeadFilterQuery = Type.Object(anyFilters, closed)

export const DeadListQuery = Type.Object({ ...PageQuery.properties, ...filters })
export type DeadListQuery = Static<typeof DeadListQuery>

export const DeadFilterQuery = Type.Object(
  { ...filters, msg_id: Type.Optional(Type.String({ maxLength: 256 })) },
  closed,
)
export type DeadFilterQuery = Static<typeof DeadFilterQuery>

/** Which dead letters to replay, whatever their application: all that meet every field given; without any, all. */
export const AnyDeadReplayIn = Type.Object(
  {
    eventTypes: Type.Optional(nullable(Type.Array(Type.String({ maxLength: 256 }), { minItems: 1, maxItems: 1000 }))),
    reason: Type.Optional(Type.Unsafe<string | null>({ enum: [...deadReasons, null] })),
    before: Type.Optional(nullable(dateTime)),
    after: Type.Optional(nullable(dateTime)),
    perSecond,
  },
  closed,
)

/** The same, of one application. */
export const DeadReplayIn = Type.Object(
  {
    msgId: Type.Optional(nullable(Type.String({ maxLength: 256 }))),
    endpointId: Type.Optional(nullable(Type.String({ maxLength: 256 }))),
    ...AnyDeadReplayIn.properties,
  },
  closed,
)
export type DeadReplayIn = Static<typeof DeadReplayIn>

/** A dead letter as callers see it. */
export function toDeadOut(
  letter: DeadLetter,
  message: Omit<MessageHead, 'bytes'> | undefined,
  endpoint: Endpoint | undefined,
  appId: string,
) {
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
    publishedAt: new Date(keyTime(letter.message)).toISOString(),
    diedAt: new Date(letter.diedAt).toISOString(),
    responseStatusCode: letter.status,
    code: letter.code,
    error: letter.error,
    response: letter.response === null ? null : Buffer.from(letter.response).toString('utf8'),
  }
}

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

/** What a line must hold beside the payload to become a dead letter. What else it holds is for people. */
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
