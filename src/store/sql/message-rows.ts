import type { EpochMs } from '../../domain/clock.ts'
import type {
  Attempt,
  AttemptSummary,
  Class,
  DeadLetter,
  DeadLetterSummary,
  Message,
  MessageSummary,
} from '../../domain/delivery.ts'
import { blockedUntil, type PendingRow, skipMark, skipped } from '../delivering.ts'
import type { RecentlyTried } from '../messages.ts'
import { among } from './dialect.ts'
import { columnsOf, type Shape, type Statement, snakeCase, statement } from './statement.ts'

const summaryFields = {
  ...snakeCase('key', 'id', 'app', 'eventType', 'eventId', 'channels', 'contentType', 'tags', 'deliverAt', 'expiresAt'),
  ...snakeCase('orderingKey', 'eraseReason'),
  expunged: 'expunged_at is not null',
}

/** All of a message but its plan. */
export const messageColumns = columnsOf<Message>({ ...summaryFields, ...snakeCase('body', 'endpoints', 'headers') })
export const messageShape: Shape<Message> = { json: ['channels', 'endpoints', 'tags', 'headers'], flags: ['expunged'] }

/** Neither database reads a body to tell its length. */
export const summaryColumns = columnsOf<MessageSummary>({ ...summaryFields, bytes: 'length(body)' })
export const summaryShape: Shape<MessageSummary> = { json: ['channels', 'tags'], flags: ['expunged'] }

const triedFields = snakeCase('id', 'message', 'endpoint', 'n', 'at', 'durationMs', 'status', 'code', 'error', 'nextAt')
export const triedColumns = columnsOf<RecentlyTried>(triedFields)
const attemptFields = { ...triedFields, ...snakeCase('trigger', 'timings') }
export const attemptColumns = columnsOf<Attempt>({ ...attemptFields, ...snakeCase('response', 'responseHeaders') })
export const attemptShape: Shape<Attempt> = { json: ['responseHeaders'] }
/** The size of an answer with its headers. */
export const answerBytes = 'coalesce(length(response), 0) + coalesce(length(cast(response_headers as text)), 0)'
export const attemptSummaryColumns = columnsOf<AttemptSummary>({ ...attemptFields, bytes: answerBytes })

/** The columns of a dead letter. */
export const letterColumns = 'endpoint, message, app, reason, attempts, died_at, since, status, code, error, response'
const deadFields = {
  app: 'dead.app',
  endpoint: 'dead.endpoint',
  message: 'dead.message',
  ...snakeCase('reason', 'attempts', 'diedAt', 'status', 'code', 'error'),
}
export const deadColumns = columnsOf<DeadLetter>({ ...deadFields, response: 'response' })
export const deadSummaryColumns = columnsOf<DeadLetterSummary>({
  ...deadFields,
  bytes: 'coalesce(length(response), 0)',
})

/**
 * A condition beside a probe of a table that Postgres keeps in a partition per day. The planner cannot know which days a list
 * of messages names, and opens the partitions of all days for each probe; a range that is a parameter leaves the others
 * closed. With 90 days, loading one message took 0.5 ms without it and takes 0.15 ms; `findQueued`, which is three statements,
 * takes 0.6 ms.
 */
export const inSpan = (column: string) => `${column} >= :first and ${column} <= :last`

/** The tables that hold rows of messages, by their column `message`, for as long as the messages are kept. */
export const messageTables = ['attempt', 'variant', 'coalesced', 'subject', 'payload_end'] as const

/** The statement that deletes the rows of messages from a table. */
export const deleteOf = Object.fromEntries(
  ([...messageTables, 'fan_out'] as const).map((table) => [
    table,
    statement(`delete-${table}-of`)`
      delete from ${table} where ${among('message', ':messages')} and ${inSpan('message')}`,
  ]),
) as Readonly<Record<(typeof messageTables)[number] | 'fan_out', Statement>>

/** The values of `inSpan`: the range of the messages in a list. */
export function spanOf(list: readonly { readonly message: number }[]): KeyRange {
  return spanOfKeys(list.map(({ message }) => message))
}

/** As `spanOf`, of the keys themselves. */
export function spanOfKeys(keys: readonly number[]): KeyRange {
  let [first, last] = [Number.MAX_SAFE_INTEGER, 0]
  for (const key of keys) {
    first = Math.min(first, key)
    last = Math.max(last, key)
  }
  return { first, last }
}

interface KeyRange {
  readonly first: number
  readonly last: number
}

/**
 * SQL for `retry_in_ms`: the rest of a wait, or one of the marks as it is. A wait that is over has no rest: 1 ms after its end,
 * the difference would be the mark of a skipped row, and the delivery would become a dead letter.
 */
export function sqlRetryInMs(heldUntil: string, now: string): string {
  const isMark = `${heldUntil} in (${skipMark}, ${blockedUntil})`
  return `case when ${isMark} then ${heldUntil} when ${heldUntil} <= ${now} then 0 else ${heldUntil} - ${now} end`
}

/** `PendingRow.retryInMs`, from the column that `sqlRetryInMs` makes. */
export function toRetryInMs(retryInMs: number | null): number {
  if (retryInMs === blockedUntil) return Number.POSITIVE_INFINITY
  return retryInMs === skipMark ? skipped : Math.max(0, retryInMs ?? 0)
}

/** A waiting delivery, as the store's clock saw it. */
export interface PendingColumns extends Omit<PendingRow, 'class' | 'lateMs' | 'retryInMs'> {
  readonly lateMs: number
  readonly retryInMs: number | null
}

/** The values of the same columns in their order. */
export type PendingValues = readonly [
  message: number,
  dueAt: EpochMs,
  attempts: number,
  priorAttempts: number,
  orderKey: number | null,
  variant: number | null,
  ageMs: number,
  lateMs: number,
  retryInMs: number | null,
  expiresInMs: number | null,
]

/** The columns of `PendingColumns` in the order of `PendingValues`, from those of `pending` under a name. */
export function pendingColumns(pending: string, now: string): string {
  return columnsOf<PendingColumns>({
    message: `${pending}.message`,
    dueAt: `${pending}.due_at`,
    attempts: `${pending}.attempts`,
    priorAttempts: `${pending}.prior_attempts`,
    orderKey: `${pending}.order_key`,
    variant: `${pending}.variant`,
    ageMs: `${now} - ${pending}.since`,
    lateMs: `${now} - ${pending}.due_at`,
    retryInMs: sqlRetryInMs(`${pending}.held_until`, now),
    expiresInMs: `${pending}.expires_at - ${now}`,
  })
}

export function toPendingRow(row: PendingColumns, rowClass: Class): PendingRow {
  const { message, dueAt, attempts, priorAttempts: prior, orderKey, variant } = row
  const { ageMs, lateMs, retryInMs, expiresInMs } = row
  return pendingRow(rowClass, message, dueAt, attempts, prior, orderKey, variant, ageMs, lateMs, retryInMs, expiresInMs)
}

/** A waiting delivery, from the values of `pendingColumns`. */
export function pendingRow(
  rowClass: Class,
  ...[message, dueAt, attempts, priorAttempts, orderKey, variant, ageMs, lateMs, retryInMs, expiresInMs]: PendingValues
): PendingRow {
  return {
    message,
    class: rowClass,
    dueAt,
    attempts,
    priorAttempts,
    ageMs: Math.max(0, ageMs),
    lateMs: Math.max(0, lateMs),
    orderKey,
    retryInMs: toRetryInMs(retryInMs),
    expiresInMs,
    variant,
  }
}
