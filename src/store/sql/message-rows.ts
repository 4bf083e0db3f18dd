import type { EpochMs } from '../../domain/clock.ts'
import type { Attempt, AttemptHead, DeadHead, DeadLetter, Message, MessageHead } from '../../domain/delivery.ts'
import type { Shape } from './statement.ts'

export interface MessageRow {
  readonly key: number
  readonly id: string
  readonly app: number
  readonly event_type: string
  readonly event_id: string | null
  readonly channels: string[] | null
  readonly content_type: string
  readonly endpoints: number[]
  readonly body: Uint8Array
  readonly tags: string[] | null
  readonly headers: Readonly<Record<string, string>> | null
  readonly deliver_at: EpochMs | null
  readonly expires_at: EpochMs | null
  readonly ordering_key: string | null
  readonly expunged_at: EpochMs | null
}

export function toMessage(row: MessageRow): Message {
  return {
    key: row.key,
    id: row.id,
    app: row.app,
    eventType: row.event_type,
    eventId: row.event_id,
    channels: row.channels,
    body: row.body,
    contentType: row.content_type,
    endpoints: row.endpoints,
    tags: row.tags,
    headers: row.headers,
    deliverAt: row.deliver_at,
    expiresAt: row.expires_at,
    orderingKey: row.ordering_key,
    expunged: row.expunged_at !== null,
  }
}

export interface HeadRow extends Omit<MessageRow, 'body' | 'endpoints' | 'headers'> {
  readonly bytes: number
}

/** All of a message's columns but its plan. */
export const messageColumns =
  'key, id, app, event_type, event_id, channels, content_type, endpoints, body, tags, headers, deliver_at, expires_at, ' +
  'ordering_key, expunged_at'

export const messageShape: Shape<MessageRow> = { json: ['channels', 'endpoints', 'tags', 'headers'] }
export const headShape: Shape<HeadRow> = { json: ['channels', 'tags'] }

/** A list of columns, each with the name of its table. */
export function qualified(table: string, columns: string): string {
  return columns.replaceAll(/\w+/g, `${table}.$&`)
}

/** A message's columns without those that may be large. Neither database reads a body to tell its length. */
export const headColumns =
  'key, id, app, event_type, event_id, channels, content_type, tags, deliver_at, expires_at, ordering_key, ' +
  'expunged_at, length(body) as bytes'

export function toHead(row: HeadRow): MessageHead {
  const whole = toMessage({ ...row, body: noBody, endpoints: [], headers: null })
  const { body: _, endpoints: __, headers: ___, ...head } = whole
  return { ...head, bytes: row.bytes }
}

const noBody = new Uint8Array(0)

export interface AttemptRow {
  readonly message: number
  readonly endpoint: number
  readonly n: number
  readonly id: string
  readonly at: EpochMs
  readonly duration_ms: number
  readonly status: number
  readonly code: Attempt['code']
  readonly error: string | null
  readonly response: Uint8Array | null
  readonly next_at: EpochMs | null
  readonly trigger: Attempt['trigger']
}

export function toAttempt(row: AttemptRow): Attempt {
  return {
    id: row.id,
    message: row.message,
    endpoint: row.endpoint,
    n: row.n,
    at: row.at,
    durationMs: row.duration_ms,
    status: row.status,
    code: row.code,
    error: row.error,
    response: row.response,
    nextAt: row.next_at,
    trigger: row.trigger,
  }
}

const attemptNames = 'message, endpoint, n, id, at, duration_ms, status, code, error, next_at, trigger'
/** An attempt's columns. */
export const attemptColumns = `${attemptNames}, response`
/** An attempt's columns without the answer. */
export const attemptHeadColumns = `${attemptNames}, coalesce(length(response), 0) as bytes`

export type AttemptHeadRow = Omit<AttemptRow, 'response'> & { readonly bytes: number }

export function toAttemptHead(row: AttemptHeadRow): AttemptHead {
  const { response: _, ...head } = toAttempt({ ...row, response: null })
  return { ...head, bytes: row.bytes }
}

export interface DeadRow {
  readonly app: number
  readonly endpoint: number
  readonly message: number
  readonly reason: DeadLetter['reason']
  readonly attempts: number
  readonly died_at: EpochMs
  readonly status: number
  readonly code: DeadLetter['code']
  readonly error: string | null
  readonly response: Uint8Array | null
}

export function toDeadLetter(row: DeadRow): DeadLetter {
  return {
    app: row.app,
    endpoint: row.endpoint,
    message: row.message,
    reason: row.reason,
    attempts: row.attempts,
    diedAt: row.died_at,
    status: row.status,
    code: row.code,
    error: row.error,
    response: row.response,
  }
}

const deadNames = 'app, endpoint, message, reason, attempts, died_at, status, code, error'
/** A dead letter's columns. */
export const deadColumns = `${deadNames}, response`
/** A dead letter's columns without the answer. */
export const deadHeadColumns = `${deadNames}, coalesce(length(response), 0) as bytes`

export type DeadHeadRow = Omit<DeadRow, 'response'> & { readonly bytes: number }

export function toDeadHead(row: DeadHeadRow): DeadHead {
  const { response: _, ...head } = toDeadLetter({ ...row, response: null })
  return { ...head, bytes: row.bytes }
}
