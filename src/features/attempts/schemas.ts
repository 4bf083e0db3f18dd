import { type Static, Type } from 'typebox'
import type { EpochMs } from '../../domain/clock.ts'
import type { Attempt, AttemptSummary, MessageSummary } from '../../domain/delivery.ts'
import { readTimings } from '../../domain/outcome.ts'
import {
  endpointId,
  flag,
  id,
  instant,
  integer,
  isoOrNull,
  msgId,
  nullable,
  optional,
  text,
  uidOut,
  url,
  whole,
} from '../../operations/fields.ts'
import { PageQuery } from '../../operations/page.ts'
import type { Out } from '../../operations/route.ts'
import type { Coalesced } from '../../store/messages.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import { EndpointOut } from '../endpoints/schemas.ts'
import { ContentQuery, MessageOut, messageFilterProperties } from '../messages/schemas.ts'

export const AttemptQuery = Type.Object({
  ...PageQuery.properties,
  ...messageFilterProperties,
  status: optional(integer(0, 4), '0 success, 1 pending, 2 fail, 3 sending, 4 canceled.'),
  status_code_class: optional(
    integer(0, 599),
    'Only attempts with this class of answer: 0 for no answer, 200, 300, 400 or 500.',
  ),
  endpoint_id: optional(Type.String(), 'Only this endpoint, by id or uid.'),
  ...ContentQuery.properties,
  with_msg: optional(Type.Boolean(), 'Whether each attempt includes its message.'),
  expanded_statuses: optional(Type.Boolean(), 'Whether `canceled` is distinguished from `fail`.'),
})
export type AttemptQuery = Static<typeof AttemptQuery>

/** The same where the path names the endpoint: another one in the query would be ignored, or replace it. */
export const AttemptsAtQuery = Type.Omit(AttemptQuery, ['endpoint_id'])

export const OneAttemptQuery = Type.Pick(AttemptQuery, ['expanded_statuses'])

export const AttemptedQuery = Type.Omit(AttemptQuery, ['status_code_class', 'endpoint_id', 'with_msg'])
export type AttemptedQuery = Static<typeof AttemptedQuery>

/** The status of a delivery, by Svix's numbers. `canceled` is shown only with `expanded_statuses`. */
export const statusTexts = ['success', 'pending', 'fail', 'sending', 'canceled'] as const
export const success = 0
const pending = 1
export const fail = 2
const sending = 3
const canceled = 4
export type Status = 0 | 1 | 2 | 3 | 4

const status = {
  status: Type.Enum([0, 1, 2, 3, 4], { description: '0 success, 1 pending, 2 fail, 3 sending, 4 canceled' }),
  statusText: Type.Enum([...statusTexts], { description: 'Status by name.' }),
}

const statusFields = {
  ...status,
  nextAttempt: nullable(
    instant(
      'Time of the next attempt, not before the circuit, a Retry-After and the schedule allow it; null when that is now, unknown, or an operator must act.',
    ),
  ),
  coalescedInto: nullable(text('The message of the same kind that took its place unsent')),
}

const Timings = Type.Object(
  {
    reused: flag('Whether the attempt used a connection that was open already.'),
    dnsMs: nullable(whole('Time to look up the addresses of the host.')),
    connectMs: nullable(whole('Time to open the connection.')),
    tlsMs: nullable(whole('Time of the TLS handshake.')),
    firstByteMs: nullable(whole('Time from the open connection to the first byte of the answer.')),
  },
  {
    description:
      'The split of the duration, in milliseconds. A part is null when it did not take place; a failed part counts up to its failure. Null for an attempt that sent nothing.',
  },
)

export const MessageAttemptOut = Type.Object({
  id,
  msgId,
  endpointId,
  endpointUid: uidOut,
  url,
  response: text('Answer of the receiver, cut short; without an answer, the error.'),
  responseHeaders: nullable(
    Type.Record(Type.String(), Type.String(), {
      description:
        'Headers of the answer, names in lower case. Values of secret headers such as `set-cookie` are `(hidden)`; `…` counts the headers beyond the limit.',
    }),
  ),
  responseStatusCode: whole('0 when there was no answer'),
  responseDurationMs: whole('Duration of the attempt.'),
  timings: nullable(Timings),
  ...status,
  triggerType: Type.Enum([0, 1], { description: '0 scheduled, 1 manual' }),
  timestamp: instant('Time of the event.'),
  code: text('The outcome by name, such as `delivered`, `timeout` or `tls_failed`.'),
  error: nullable(Type.String()),
  attempt: whole('1 for the first try of this message at this endpoint'),
  msg: Type.Optional(MessageOut),
})

/** An endpoint that a message was accepted for, and the status of the message there. */
export const MessageEndpointOut = Type.Object({
  ...EndpointOut.properties,
  ...statusFields,
  deleted: flag('Whether the endpoint was deleted.'),
})

export const EndpointMessageOut = Type.Object({ ...MessageOut.properties, ...statusFields })

/** An attempt as callers see it. Without a reply, `response` says what went wrong. */
export function toAttemptOut(
  attempt: Attempt,
  message: Pick<MessageSummary, 'id'>,
  endpoint: Endpoint | undefined,
  withContent: boolean,
): Out<typeof MessageAttemptOut> {
  const status = attemptStatus(attempt)
  const reply = attempt.response === null ? (attempt.error ?? '') : Buffer.from(attempt.response).toString('utf8')
  return {
    id: attempt.id,
    msgId: message.id,
    endpointId: endpoint?.id ?? '',
    endpointUid: endpoint?.uid ?? null,
    url: endpoint?.url ?? '',
    response: withContent ? reply : '',
    responseHeaders: withContent ? attempt.responseHeaders : null,
    responseStatusCode: attempt.status,
    responseDurationMs: attempt.durationMs,
    timings: readTimings(attempt.timings),
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

export function attemptStatus(attempt: Pick<Attempt, 'code'>): typeof success | typeof fail {
  return attempt.code === 'delivered' ? success : fail
}

/** The facts that decide the status of a message at an endpoint. */
export interface StatusFacts {
  readonly message: Pick<MessageSummary, 'expunged'>
  /** Undefined before the first. */
  readonly latest: AttemptSummary | undefined
  /** Whether it waits to be sent once more on request. */
  readonly replaying: boolean
  /** Whether it is a dead letter, tried or not. */
  readonly dead: boolean
  /** Whether the endpoint was deleted. */
  readonly deleted?: boolean
  /** The message that replaced it. */
  readonly coalesced?: Coalesced | undefined
}

/**
 * The status of a message at an endpoint: `pending` before the first attempt, `sending` between two, as Svix has it. An
 * expunged or coalesced delivery, or one to a deleted endpoint, waits for nothing.
 */
function destinationStatus({ message, latest, replaying, dead, deleted = false, coalesced }: StatusFacts): Status {
  if (replaying && !deleted) return pending
  if (dead) return fail
  if (latest?.code === 'delivered') return success
  // An attempt since then is a replay.
  if (coalesced !== undefined && (latest === undefined || latest.at <= coalesced.at)) return canceled
  const waits = latest === undefined || latest.nextAt !== null
  if (!waits) return fail
  if (message.expunged || deleted) return canceled
  return latest === undefined ? pending : sending
}

/** Whether a delivery with this status has an attempt left. */
export function isWaiting(status: Status): boolean {
  return status === pending || status === sending
}

export function shownStatus(facts: StatusFacts, expanded: boolean): Status {
  const exact = destinationStatus(facts)
  return exact === canceled && !expanded ? fail : exact
}

/** The fields as an answer shows them. `nextAt` is the next instant of a delivery that waits. */
export function toStatusOut(facts: StatusFacts, expanded: boolean, nextAt: EpochMs | null) {
  const status = shownStatus(facts, expanded)
  return {
    status,
    statusText: statusTexts[status],
    nextAttempt: isWaiting(status) ? isoOrNull(nextAt) : null,
    coalescedInto: destinationStatus(facts) === canceled ? (facts.coalesced?.into ?? null) : null,
  }
}
