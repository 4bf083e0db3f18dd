import { replay } from '../../domain/delivery.ts'
import { counts } from '../../domain/outcome.ts'
import { managementApplication } from '../../features/endpoints/rules.ts'
import { type Settlement, untried } from '../delivering.ts'
import { letterColumns } from '../sql/message-rows.ts'
import { isAmong, withClock } from './database.ts'
import { booleans, integers, type PostgresStatement, packed, postgresStatement, texts } from './sessions.ts'
import { stateOf, violatedKey } from './trouble.ts'

/** A part of a statement that stores dead letters, each in the place of an earlier one. */
export function withDead(columns: string, from: string): string {
  const changed = letterColumns.split(', ').filter((column) => column !== 'endpoint' && column !== 'message')
  return `dead as (
      insert into dead (${letterColumns})
      select distinct on (endpoint, message) ${columns} from ${from} order by endpoint, message
      on conflict (endpoint, message) do update
        set ${changed.map((column) => `${column} = excluded.${column}`).join(', ')}
    )`
}

/**
 * Opens a statement with the worker's own row, locked: `for key share` lets the worker's other batches and its renewals pass,
 * but not being declared dead. Everything else is fed by that row, so without it nothing is written.
 */
const withFence = `${withClock}, fence as materialized (
      select id from worker where id = $1 and ended_at is null for key share
    )`

const isTaken = isAmong('place', 'select place from taken')
const whereSettled = 'endpoint = s.endpoint and class = s.class and due_at = s.due_at and message = s.message limit 1'

/**
 * A batch of settlements in one statement. Nothing is written when the subscriptions to notices are no longer at the version
 * $22: the caller reads them and settles again.
 *
 * Pending rows are found by their whole primary key, one probe each, and deleted by their place: a delete that joins may
 * be driven from the other side, through all of pending. (A row's place is sure: pending is updated only where an order is
 * kept, and see lockRows.) Only rows that were really deleted are queued again or dead: a missing row was settled before, by
 * a call whose answer got lost, or its message was expunged meanwhile. Its attempt is then recorded without the receiver's
 * words, which may echo the message.
 *
 * `offset 0` keeps the hash table of `isTaken` from being made for each use of `is_queued`. Joined instead, the rows took 153 of
 * the 158 ms of a batch of 1,024.
 */
const settleBatch = postgresStatement('settle')`
    ${withFence}, known as materialized (
      select from application where key = ${managementApplication} and version = $22
    ), settled as materialized (
      select s.*, clock.now, substring($18::bytea from s.start for s.length) as response,
             p.place, p.since, p.attempts + case when s.counts then 1 else 0 end as attempts,
             p.prior_attempts + case when s.id is not null and not s.counts then 1 else 0 end as prior_attempts,
             p.order_key, p.expires_at, p.variant
        from (select from fence where $22::bigint is null or exists (select from known)) as gate, clock, unnest(
               $2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::integer[], $8::text[],
               $9::bigint[], $10::bigint[], $11::integer[], $12::text[], $13::text[], $14::text[], $15::bigint[],
               $16::integer[], $17::integer[], $19::boolean[], $20::text[], $21::text[], $23::boolean[]
             ) as s (endpoint, class, due_at, message, app, n, id,
                     started_ago_ms, duration_ms, status, code, error, dead_reason, wait_ms, start, length, stays,
                     response_headers, timings, counts)
        left join lateral (
               select ctid as place, since, attempts, prior_attempts, order_key, expires_at, variant
                 from pending where ${whereSettled}
             ) as p on true
    ), taken as (
      delete from pending where ctid = any (array (select place from settled where not stays))
      returning ctid as place
    ), unfinished as materialized (
      select * from settled
       where not stays and (wait_ms is not null or dead_reason is not null) and ${isTaken}
    ), recorded as (
      insert into attempt (message, endpoint, n, id, at, duration_ms, status, code, error, response, next_at, trigger,
                           response_headers, timings)
      select message, endpoint, n, id, now - started_ago_ms, duration_ms, status, code,
             case when is_queued then error end, case when is_queued then response end, now + wait_ms,
             case when class = ${replay} then 'manual' else 'scheduled' end,
             case when is_queued then response_headers::json end, timings
        from (
               select *, case when stays then place is not null else ${isTaken} end as is_queued
                 from settled where id is not null offset 0
             ) as tried
      on conflict do nothing
    ), waiting as (
      insert into pending
             (endpoint, class, due_at, message, since, attempts, prior_attempts, order_key, expires_at, variant)
      select endpoint, 1, now + wait_ms, message, since, attempts, prior_attempts, order_key, expires_at, variant
        from unfinished where wait_ms is not null
      on conflict do nothing
    ), ${withDead(
      'endpoint, message, app, dead_reason, attempts, now, since, status, code, error, response',
      'unfinished where dead_reason is not null',
    )}
    select exists (select from fence) as alive, $22::bigint is null or exists (select from known) as known`

const allFound = '(select count(*) from found) = cardinality($5::bigint[])'

/**
 * The usual batch: every delivery in it was delivered and is still queued. Where a row is missing nothing is written, and
 * `found` says so. Where a row goes between being found and being deleted, the statement divides by zero, which undoes it. In
 * both cases the whole batch is settled by `settleBatch`. Without a question for each row, and without `on conflict`, which
 * inserts in two steps, the server takes 8.7 µs of processor time per row for this and 10.5 for the other (with 1,024).
 */
const settleDelivered = postgresStatement('settle-delivered')`
    ${withFence}, found as materialized (
      select s.*, clock.now, p.place
        from fence, clock, unnest(
               $2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::integer[], $7::text[], $8::bigint[],
               $9::bigint[], $10::integer[], $11::text[], $12::text[], $13::integer[], $14::integer[], $16::text[],
               $17::text[]
             ) as s (endpoint, class, due_at, message, n, id, started_ago_ms, duration_ms, status, code, error, start,
                     length, response_headers, timings)
       cross join lateral (select ctid as place from pending where ${whereSettled}) as p
    ), taken as (
      delete from pending where ctid = any (array (select place from found where ${allFound}))
      returning 1
    ), recorded as (
      insert into attempt (message, endpoint, n, id, at, duration_ms, status, code, error, response, trigger,
                           response_headers, timings)
      select message, endpoint, n, id, now - started_ago_ms, duration_ms, status, code, error,
             substring($15::bytea from start for length),
             case when class = ${replay} then 'manual' else 'scheduled' end, response_headers::json, timings
        from found where ${allFound}
    )
    select exists (select from fence) as alive, ${allFound} as found,
           1 / (case when (select count(*) from taken) = case when ${allFound} then cardinality($5::bigint[]) else 0 end
                     then 1 else 0 end) as all_taken`

/** The answer of a settle statement. Without `known` or `found` nothing was recorded. */
export interface SettleAnswer {
  readonly alive: boolean
  readonly known?: boolean
  readonly found?: boolean
}

/** A statement and its parameters, made when there is a connection: the age of an attempt grows while it waits for one. */
type Settling = readonly [PostgresStatement, () => unknown[]]

/** The statement that settles any batch, and its parameters. */
export function settlingAny(worker: number, settlements: readonly Settlement[], version: number | null): Settling {
  const responses = packed(settlements.map((s) => s.attempt?.response ?? null))
  const values = () => [
    worker,
    ...valuesOfRows(settlements),
    integers(settlements.map((s) => s.app)),
    integers(settlements.map(numberOf)),
    texts(settlements.map((s) => s.attempt?.id ?? null)),
    integers(settlements.map((s) => s.attempt?.startedAgoMs() ?? 0)),
    integers(settlements.map((s) => s.attempt?.durationMs ?? 0)),
    integers(settlements.map(({ attempt }) => (attempt ?? untried).status)),
    texts(settlements.map(({ attempt }) => (attempt ?? untried).code)),
    texts(settlements.map((s) => storable(s.attempt?.error ?? null))),
    texts(settlements.map((s) => (s.verdict.state === 'dead' ? s.verdict.reason : null))),
    // Rounded up, so that a wait is never undercut.
    integers(settlements.map(({ verdict }) => ('waitMs' in verdict ? Math.ceil(verdict.waitMs) : null))),
    responses.starts,
    responses.lengths,
    responses.bytes,
    booleans(settlements.map(stays)),
    texts(settlements.map((s) => s.attempt?.responseHeaders ?? null)),
    texts(settlements.map((s) => s.attempt?.timings ?? null)),
    version,
    booleans(settlements.map(isCounted)),
  ]
  return [settleBatch, values]
}

/** The statement for a batch in which all were delivered, and its parameters; undefined for any other batch. */
export function settlingDelivered(worker: number, settlements: readonly Settlement[]): Settling | undefined {
  const attempts = settlements.flatMap(({ attempt, verdict }) => {
    return attempt !== null && verdict.state === 'delivered' ? [attempt] : []
  })
  if (attempts.length < settlements.length) return undefined
  const responses = packed(attempts.map(({ response }) => response))
  const values = () => [
    worker,
    ...valuesOfRows(settlements),
    integers(settlements.map(numberOf)),
    texts(attempts.map(({ id }) => id)),
    integers(attempts.map((attempt) => attempt.startedAgoMs())),
    integers(attempts.map(({ durationMs }) => durationMs)),
    integers(attempts.map(({ status }) => status)),
    texts(attempts.map(({ code }) => code)),
    texts(attempts.map(({ error }) => storable(error))),
    responses.starts,
    responses.lengths,
    responses.bytes,
    texts(attempts.map(({ responseHeaders }) => responseHeaders ?? null)),
    texts(attempts.map(({ timings }) => timings ?? null)),
  ]
  return [settleDelivered, values]
}

/** Whether the error says that not all deliveries of the batch were queued, or that an attempt was recorded before. */
export function wasOvertaken(error: unknown): boolean {
  return stateOf(error) === '22012' || violatedKey(error) !== undefined
}

/** Whether it is an attempt that counts. */
export function isCounted({ attempt }: Settlement): boolean {
  return attempt !== null && counts(attempt.code)
}

/** Whether its row stays where it is. */
export function stays({ verdict }: Settlement): boolean {
  return verdict.state === 'delayed' || verdict.state === 'blocked'
}

/** The primary keys of the rows, one parameter for each column. */
export function valuesOfRows(settlements: readonly Settlement[]): string[] {
  return [
    integers(settlements.map((s) => s.endpoint)),
    integers(settlements.map((s) => s.row.class)),
    integers(settlements.map((s) => s.row.dueAt)),
    integers(settlements.map((s) => s.row.message)),
  ]
}

/** The number of the attempt among all of its delivery. */
function numberOf({ row }: Settlement): number {
  return row.priorAttempts + row.attempts + 1
}

/** An error text may quote what a receiver sent; Postgres takes every character but one. */
function storable(text: string | null): string | null {
  return text === null ? null : text.replaceAll('\0', '\ufffd')
}
