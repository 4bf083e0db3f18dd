import { type Static, Type } from 'typebox'
import type { Attempt, Message } from '../../domain/delivery.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import { PageQuery } from '../pagination.ts'
import { integer } from './field.ts'

const dateTime = Type.String({
  pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d(:\\d\\d(\\.\\d+)?)?(Z|[+-]\\d\\d:\\d\\d)$',
})

/** The filters of a list of attempts. */
export const AttemptQuery = Type.Object({
  ...PageQuery.properties,
  status: Type.Optional(integer(0, 3)),
  status_code_class: Type.Optional(integer(0, 599)),
  channel: Type.Optional(Type.String()),
  event_types: Type.Optional(Type.String()),
  endpoint_id: Type.Optional(Type.String()),
  before: Type.Optional(dateTime),
  after: Type.Optional(dateTime),
  with_content: Type.Optional(Type.Boolean()),
})
export type AttemptQuery = Static<typeof AttemptQuery>

/** Where a delivery stands, by Svix's numbers. */
export const statusTexts = ['success', 'pending', 'fail', 'sending'] as const
export const success = 0
export const pending = 1
export const fail = 2

/** An attempt as callers see it. Without a reply, `response` says what went wrong. */
export function toAttemptOut(attempt: Attempt, message: Message, endpoint: Endpoint | undefined, withContent: boolean) {
  const status = attempt.code === 'delivered' ? success : fail
  const reply = attempt.response === null ? (attempt.error ?? '') : Buffer.from(attempt.response).toString('utf8')
  return {
    id: attempt.id,
    msgId: message.id,
    endpointId: endpoint?.id ?? '',
    url: endpoint?.url ?? '',
    response: withContent ? reply : '',
    responseStatusCode: attempt.status,
    responseDurationMs: attempt.durationMs,
    status,
    statusText: statusTexts[status],
    triggerType: attempt.trigger === 'manual' ? 1 : 0,
    timestamp: new Date(attempt.at).toISOString(),
    /** Sluice's own: the named outcome, and the ordinal of the attempt at this endpoint. */
    code: attempt.code,
    error: attempt.error,
    attempt: attempt.n,
  }
}

/** Where one message stands at one endpoint, by its latest attempt there; undefined before the first. */
export function destinationStatus(latest: Attempt | undefined) {
  const status = latest === undefined || latest.nextAt !== null ? pending : latest.code === 'delivered' ? success : fail
  const nextAttempt = latest?.nextAt == null ? null : new Date(latest.nextAt).toISOString()
  return { status, statusText: statusTexts[status], nextAttempt }
}
