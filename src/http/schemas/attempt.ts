import { type Static, Type } from 'typebox'
import type { Attempt, AttemptHead, MessageHead } from '../../domain/delivery.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import type { Coalesced } from '../../store/coalescing.ts'
import { PageQuery } from '../page.ts'
import { integer } from './field.ts'
import { timeProperties } from './instant.ts'

/** What a list of messages is filtered by. */
export const messageFilterProperties = {
  channel: Type.Optional(Type.String()),
  tag: Type.Optional(Type.String()),
  event_types: Type.Optional(Type.String({ description: 'Names, separated by commas' })),
  ...timeProperties,
}

/** The filters of a list of attempts. */
export const AttemptQuery = Type.Object({
  ...PageQuery.properties,
  ...messageFilterProperties,
  status: Type.Optional(integer(0, 4)),
  status_code_class: Type.Optional(integer(0, 599)),
  endpoint_id: Type.Optional(Type.String()),
  with_content: Type.Optional(Type.Boolean()),
  with_msg: Type.Optional(Type.Boolean()),
  expanded_statuses: Type.Optional(Type.Boolean()),
})
export type AttemptQuery = Static<typeof AttemptQuery>

/** What asking for one attempt takes. */
export const OneAttemptQuery = Type.Object({ expanded_statuses: Type.Optional(Type.Boolean()) })

/** The filters of the list of messages that were tried at an endpoint. */
export const AttemptedQuery = Type.Object({
  ...PageQuery.properties,
  ...messageFilterProperties,
  status: Type.Optional(integer(0, 4)),
  with_content: Type.Optional(Type.Boolean()),
  expanded_statuses: Type.Optional(Type.Boolean()),
})
export type AttemptedQuery = Static<typeof AttemptedQuery>

/** Where a delivery stands, by Svix's numbers. The last one is told only to those who ask for expanded statuses. */
export const statusTexts = ['success', 'pending', 'fail', 'sending', 'canceled'] as const
export const success = 0
export const pending = 1
export const fail = 2
export const canceled = 4
export type Status = 0 | 1 | 2 | 3 | 4

/** An attempt as callers see it. Without a reply, `response` says what went wrong. */
export function toAttemptOut(
  attempt: Attempt,
  message: Pick<MessageHead, 'id'>,
  endpoint: Endpoint | undefined,
  withContent: boolean,
) {
  const status = attemptStatus(attempt)
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
    triggerType: attempt.trigger === 'manual' ? (1 as const) : (0 as const),
    timestamp: new Date(attempt.at).toISOString(),
    /** Sluice's own: the named outcome, and the ordinal of the attempt at this endpoint. */
    code: attempt.code,
    error: attempt.error,
    attempt: attempt.n,
  }
}

export function attemptStatus(attempt: Pick<Attempt, 'code'>): typeof success | typeof fail {
  return attempt.code === 'delivered' ? success : fail
}

/** What decides where one message stands at one endpoint. */
export interface Standing {
  readonly message: Pick<MessageHead, 'expunged'>
  /** Undefined before the first. */
  readonly latest: AttemptHead | undefined
  /** Whether it waits to be sent once more on request. */
  readonly replaying: boolean
  /** Whether it is a dead letter, be it that it was never tried or that it died waiting for its retry. */
  readonly dead: boolean
  /** What it gave way to. */
  readonly coalesced?: Coalesced | undefined
}

/** Where one message stands at one endpoint. What was expunged, or gave way to another, waits for nothing. */
function destinationStatus({ message, latest, replaying, dead, coalesced }: Standing): Status {
  if (replaying) return pending
  if (dead) return fail
  if (latest?.code === 'delivered') return success
  // What was tried since then was replayed.
  if (coalesced !== undefined && (latest === undefined || latest.at <= coalesced.at)) return canceled
  const waits = latest === undefined || latest.nextAt !== null
  if (!waits) return fail
  return message.expunged ? canceled : pending
}

/** The same as callers see it. */
export function toStandingOut(standing: Standing, expanded: boolean) {
  const exact = destinationStatus(standing)
  const status = exact === canceled && !expanded ? fail : exact
  const { latest } = standing
  const isRetry = status === pending && !standing.replaying && latest?.nextAt != null
  return {
    status,
    statusText: statusTexts[status],
    nextAttempt: isRetry ? new Date(latest.nextAt).toISOString() : null,
    coalescedInto: exact === canceled ? (standing.coalesced?.into ?? null) : null,
  }
}
