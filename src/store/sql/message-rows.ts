import type {
  Attempt,
  AttemptSummary,
  DeadLetter,
  DeadLetterSummary,
  Message,
  MessageSummary,
} from '../../domain/delivery.ts'
import { columnsOf, type Shape } from './statement.ts'

const summaryFields = {
  key: 'key',
  id: 'id',
  app: 'app',
  eventType: 'event_type',
  eventId: 'event_id',
  channels: 'channels',
  contentType: 'content_type',
  tags: 'tags',
  deliverAt: 'deliver_at',
  expiresAt: 'expires_at',
  orderingKey: 'ordering_key',
  expunged: 'expunged_at is not null',
  eraseReason: 'erase_reason',
}

/** All of a message but its plan. */
export const messageColumns = columnsOf<Message>({
  ...summaryFields,
  body: 'body',
  endpoints: 'endpoints',
  headers: 'headers',
})
export const messageShape: Shape<Message> = { json: ['channels', 'endpoints', 'tags', 'headers'], flags: ['expunged'] }

/** Neither database reads a body to tell its length. */
export const summaryColumns = columnsOf<MessageSummary>({ ...summaryFields, bytes: 'length(body)' })
export const summaryShape: Shape<MessageSummary> = { json: ['channels', 'tags'], flags: ['expunged'] }

const attemptFields = {
  id: 'id',
  message: 'message',
  endpoint: 'endpoint',
  n: 'n',
  at: 'at',
  durationMs: 'duration_ms',
  status: 'status',
  code: 'code',
  error: 'error',
  nextAt: 'next_at',
  trigger: 'trigger',
  timings: 'timings',
}
export const attemptColumns = columnsOf<Attempt>({
  ...attemptFields,
  response: 'response',
  responseHeaders: 'response_headers',
})
export const attemptShape: Shape<Attempt> = { json: ['responseHeaders'] }
/** The size of an answer with its headers. */
export const answerBytes = 'coalesce(length(response), 0) + coalesce(length(cast(response_headers as text)), 0)'
export const attemptSummaryColumns = columnsOf<AttemptSummary>({
  ...attemptFields,
  bytes: answerBytes,
})

const deadFields = {
  app: 'dead.app',
  endpoint: 'dead.endpoint',
  message: 'dead.message',
  reason: 'reason',
  attempts: 'attempts',
  diedAt: 'died_at',
  status: 'status',
  code: 'code',
  error: 'error',
}
export const deadColumns = columnsOf<DeadLetter>({ ...deadFields, response: 'response' })
export const deadSummaryColumns = columnsOf<DeadLetterSummary>({
  ...deadFields,
  bytes: 'coalesce(length(response), 0)',
})

/**
 * A condition beside a probe of a table that Postgres keeps in a partition per day. The planner cannot know which days a list
 * of messages names, and opens the partitions of all days for each probe; a range that is a parameter leaves the others
 * closed. With 90 days, the latest attempt of one delivery took 1.3 ms without it and takes 0.1 ms.
 */
export const inSpan = (column: string) => `${column} >= :first and ${column} <= :last`

/** The values of `inSpan`: the range of the messages in a list. */
export function spanOf(list: readonly { readonly message: number }[]): {
  readonly first: number
  readonly last: number
} {
  let [first, last] = [Number.MAX_SAFE_INTEGER, 0]
  for (const { message } of list) {
    first = Math.min(first, message)
    last = Math.max(last, message)
  }
  return { first, last }
}
