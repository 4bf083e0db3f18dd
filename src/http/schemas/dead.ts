import { type Static, Type } from 'typebox'
import type { DeadLetter, MessageHead } from '../../domain/delivery.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import { keyTime } from '../../domain/ids.ts'
import { deadReasons } from '../../domain/judge.ts'
import { PageQuery } from '../pagination.ts'
import { nullable } from './field.ts'
import { dateTime, timeProperties } from './instant.ts'

const reason = Type.Enum([...deadReasons])

/** Which dead letters are meant, in a query. */
const filters = {
  endpoint_id: Type.Optional(Type.String({ maxLength: 256 })),
  event_types: Type.Optional(Type.String({ description: 'Names, separated by commas' })),
  reason: Type.Optional(reason),
  ...timeProperties,
}

export const DeadListQuery = Type.Object({ ...PageQuery.properties, ...filters })
export type DeadListQuery = Static<typeof DeadListQuery>

export const DeadFilterQuery = Type.Object({ ...filters, msg_id: Type.Optional(Type.String({ maxLength: 256 })) })
export type DeadFilterQuery = Static<typeof DeadFilterQuery>

/** Which dead letters to replay: all that meet every field given; without any, all of the application. */
export const DeadReplayIn = Type.Object({
  msgId: Type.Optional(nullable(Type.String({ maxLength: 256 }))),
  endpointId: Type.Optional(nullable(Type.String({ maxLength: 256 }))),
  eventTypes: Type.Optional(nullable(Type.Array(Type.String({ maxLength: 256 }), { minItems: 1, maxItems: 1000 }))),
  reason: Type.Optional(Type.Unsafe<string | null>({ enum: [...deadReasons, null] })),
  before: Type.Optional(nullable(dateTime)),
  after: Type.Optional(nullable(dateTime)),
})
export type DeadReplayIn = Static<typeof DeadReplayIn>

/** A dead letter as callers see it. */
export function toDeadOut(letter: DeadLetter, message: MessageHead | undefined, endpoint: Endpoint | undefined) {
  return {
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
