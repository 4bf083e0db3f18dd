import { replay } from '../../domain/delivery.ts'
import { managementApplication } from '../../domain/endpoint.ts'
import { disabledNotice, type Notice } from '../../domain/notice.ts'
import { blockedUntil, type Delivering, type LaneEffects, type Settlement, skipMark, untried } from '../delivering.ts'
import { longestRestMs } from '../lanes.ts'
import { keepForFile, letterColumns } from '../sql/dead-filing.ts'
import { NoticeInterest, writeNotices } from '../sql/notices.ts'
import { finishLater } from '../sql/port.ts'
import { type Database, sqlNow, withClock } from './database.ts'
import { sqlOver } from './port.ts'
import { booleans, integers, packed, postgresStatement, type Run, texts } from './sessions.ts'

/** Parts of a statement that store dead letters, each in the place of an earlier one, and keep them for a dead-letter file. */
export function withDead(columns: string, from: string): string {
  const changed = letterColumns.split(', ').filter((column) => column !== 'endpoint' && column !== 'message')
  return `dead as (
      insert into dead (${letterColumns})
      select distinct on (endpoint, message) ${columns} from ${from} order by endpoint, message
      on conflict (endpoint, message) do update
        set ${changed.map((column) => `${column} = excluded.${column}`).join(', ')}
      returning ${letterColumns}
    ), kept as (
      ${keepForFile('dead where true')}
    )`
}

/**
 * A batch of settlements in one statement. The worker's own row is locked first (`for key share` lets the worker's other
 * batches and its renewals pass, but not being declared dead), and everything else is fed by that row: without it there is
 * no input and nothing is written. Likewise nothing is written when the subscriptions to notices are no longer at the version
 * $22: the caller reads them and settles again.
 *
 * Pending rows are found by their whole primary key, one probe each, and deleted by their place: a delete that joins may
 * be driven from the other side, through all of pending. (A row's place is sure: pending is updated only where an order is
 * kept, and see lockRows.) Only rows that were really deleted are queued again or dead: a missing row was settled before, by
 * a call whose answer got lost, or its message was expunged meanwhile. Its attempt is then recorded without the receiver's
 * words, which may echo the message.
 */
const settleBatch = postgresStatement('settle')`
    ${withClock}, fence as materialized (
      select id from worker where id = $1 and ended_at is null for key share
    ), known as materialized (
      select from application where key = ${managementApplication} and version = $22
    ), settled as materialized (
      select s.*, clock.now, substring($18::bytea from s.start for s.length) as response
        from (select from fence where $22::bigint is null or exists (select from known)) as gate, clock, unnest(
               $2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::integer[], $8::text[],
               $9::bigint[], $10::bigint[], $11::integer[], $12::text[], $13::text[], $14::text[], $15::bigint[],
               $16::integer[], $17::integer[], $19::boolean[], $20::text[], $21::text[]
             ) as s (endpoint, class, due_at, message, app, n, id,
                     started_ago_ms, duration_ms, status, code, error, dead_reason, wait_ms, start, length, stays,
                     response_headers, timings)
    ), found as materialized (
      select s.*, p.*
        from settled s cross join lateral (
               select ctid as place, since, attempts + case when s.id is null then 0 else 1 end as attempts,
                      prior_attempts, order_key, expires_at, variant
                 from pending
                where endpoint = s.endpoint and class = s.class and due_at = s.due_at and message = s.message
                limit 1
             ) as p
       where not s.stays
    ), taken as (
      delete from pending where ctid = any (array (select place from found))
      returning ctid as place
    ), unfinished as materialized (
      select * from found
       where case when wait_ms is not null or dead_reason is not null then place in (select place from taken) end
    ), queued as materialized (
      select s.*,
             case when s.stays then exists (
                    select from pending
                     where endpoint = s.endpoint and class = s.class and due_at = s.due_at and message = s.message)
                  else exists (
                    select from found f
                     where f.endpoint = s.endpoint and f.class = s.class and f.due_at = s.due_at and f.message = s.message
                       and f.place in (select place from taken))
             end as is_queued
        from settled s where s.id is not null
    ), recorded as (
      insert into attempt (message, endpoint, n, id, at, duration_ms, status, code, error, response, next_at, trigger,
                           response_headers, timings)
      select message, endpoint, n, id, now - started_ago_ms, duration_ms, status, code,
             case when is_queued then error end, case when is_queued then response end, now + wait_ms,
             case when class = ${replay} then 'manual' else 'scheduled' end,
             case when is_queued then response_headers::json end, timings
        from queued
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

/**
 * An operator's command changes a row, and a row that is changed while it is being settled has another place by then. The
 * lock is taken before settling reads the rows, so that they stay where it finds them.
 */
const lockRows = postgresStatement('lock-rows')`
    select l.message
      from unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) as l (endpoint, class, due_at, message)
     cross join lateral (
             select from pending
              where endpoint = l.endpoint and class = l.class and due_at = l.due_at and message = l.message
              limit 1 for update
           ) as p`

// Settled twice, it would be counted twice, but for the count of all attempts that it must have. When an operator had it retried
// while it was being sent, that attempt counts as one before the retry.
const holdRows = postgresStatement('hold-rows')`
    ${withClock}, found as materialized (
      select p.place, p.attempts = h.attempts as is_same, coalesce(clock.now + h.wait_ms, ${blockedUntil}) as until
        from clock, unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::integer[], $6::integer[],
                           $7::bigint[])
               as h (endpoint, class, due_at, message, attempts, prior_attempts, wait_ms)
       cross join lateral (
               select ctid as place, attempts from pending
                where endpoint = h.endpoint and class = h.class and due_at = h.due_at and message = h.message
                  and prior_attempts + attempts = h.prior_attempts + h.attempts
                limit 1
             ) as p
    )
    update pending set
           attempts = attempts + (select is_same::integer from found where place = pending.ctid),
           prior_attempts = prior_attempts + (select (not is_same)::integer from found where place = pending.ctid),
           held_until = case
             when held_until = ${skipMark} then held_until
             else (select case when is_same then until else held_until end from found where place = pending.ctid) end
     where ctid = any (array (select place from found))`

const saveHealth = postgresStatement('save-health')`
    ${withClock}
    update lane set health = ($2::text[])[array_position($1::bigint[], endpoint)], health_at = (select now from clock)
     where endpoint = any ($1::bigint[])`

const holdLanes = postgresStatement('hold-lanes')`
    ${withClock}
    update lane set hold_until = greatest(
             least(hold_until, (select now from clock) + ${longestRestMs}),
             (select now from clock) + ($2::bigint[])[array_position($1::bigint[], endpoint)])
     where endpoint = any ($1::bigint[])`

// In the order of every change of endpoints: application, endpoint, lane.
const bumpVersions = postgresStatement('bump-versions-of-disabled')`
    update application set version = version + 1
     where key = any (array (select app from endpoint where key = any ($1::bigint[]) and not disabled))`
const disableEndpoints = postgresStatement('disable-endpoints')`
    update endpoint set disabled = true, disabled_reason = ($2::text[])[array_position($1::bigint[], key)],
           updated_at = greatest(${sqlNow}, updated_at + 1)
     where key = any ($1::bigint[]) and not disabled
    returning key, ${sqlNow} as now`
const stopLanes = postgresStatement('stop-lanes')`
  update lane set stopped = true, due_at = null where endpoint = any ($1::bigint[])`

/**
 * Records attempts and their verdicts. Not waiting for the disk is safe here: a settlement lost in a crash of
 * the server is a delivery made once more. Where an order is kept it is not: the delivery would come once more, behind
 * later ones.
 */
export function settling(database: Database): Delivering['settle'] {
  const { durable, relaxed, signals, wakes } = database

  const interest = new NoticeInterest()

  async function settle(
    run: Run,
    worker: number,
    settlements: readonly Settlement[],
    version: number | null,
  ): Promise<Answer> {
    const values = [worker, ...valuesOf(settlements), version]
    const [row] = await run<{ alive: boolean; known: boolean }>(settleBatch, values)
    if (row?.alive !== true) return 'fenced'
    return row.known ? 'settled' : 'outdated'
  }

  /** Records the effects on whole endpoints; answers which of them it disabled. */
  async function applyEffects(run: Run, effects: LaneEffects): Promise<number[]> {
    const { holds, disable, health, notices = [] } = effects
    // Lanes are locked last, as by changes of endpoints.
    const disabled = disable.length > 0 ? await disableAll(run, disable) : []
    if (holds.length > 0) await run(holdLanes, valuesOfHolds(holds))
    if (health.length > 0) await run(saveHealth, valuesOfHealth(health))
    if (notices.length + disabled.length > 0) {
      await finishLater(writeNotices(sqlOver(run), database.context, [...notices, ...disabled]))
    }
    return disabled.map((notice) => notice.endpoint)
  }

  async function disableAll(run: Run, disable: LaneEffects['disable']): Promise<Notice[]> {
    const keys = integers(disable.map(({ endpoint }) => endpoint))
    await run(bumpVersions, [keys])
    const reasons = texts(disable.map(({ reason }) => reason))
    const rows = await run<{ key: number; now: number }>(disableEndpoints, [keys, reasons])
    if (rows.length === 0) return []
    const disabled = rows.map((row) => row.key)
    await run(stopLanes, [integers(disabled)])
    await signals.notify(run, 's', disabled)
    return rows.map(({ key, now }) => {
      const { reason, failingMs = 0 } = disable.find(
        ({ endpoint }) => endpoint === key,
      ) as LaneEffects['disable'][number]
      return disabledNotice(key, reason, now - failingMs)
    })
  }

  async function settleOnce(worker: number, settlements: readonly Settlement[], given: LaneEffects): Promise<Answer> {
    let disabled: number[] = []
    const effects = { ...given, notices: interest.keep(given.notices ?? []) }
    const version = interest.versionFor(given.notices ?? [])
    const staying = settlements.filter(stays)
    const ordered = settlements.filter(({ inOrder }) => inOrder)
    const sessions = settlements.some(({ inOrder }) => inOrder) ? durable : relaxed
    const { holds, disable, health, notices } = effects
    const hasEffects =
      ordered.length + staying.length + holds.length + disable.length + health.length + notices.length > 0
    const answer = hasEffects
      ? await sessions.transaction(async (run) => {
          if (ordered.length > 0) await run(lockRows, valuesOfRows(ordered))
          const answer = await settle(run, worker, settlements, version)
          if (answer === 'settled' && staying.length > 0) await run(holdRows, valuesOfStaying(staying))
          if (answer === 'settled') disabled = await applyEffects(run, effects)
          return answer
        })
      : await settle(sessions.run, worker, settlements, version)
    if (disabled.length > 0) signals.settings(disabled)
    return answer
  }

  return async (worker, settlements, effects) => {
    let answer = await settleOnce(worker, settlements, effects)
    while (answer === 'outdated') {
      await finishLater(interest.read(sqlOver(relaxed.run)))
      answer = await settleOnce(worker, settlements, effects)
    }
    if (answer === 'fenced') wakes.disowned(worker)
    return answer
  }
}

/** `outdated`: the subscriptions to notices changed, and nothing was recorded. */
type Answer = 'settled' | 'fenced' | 'outdated'

/** Parameters 2 to 21. */
function valuesOf(settlements: readonly Settlement[]): unknown[] {
  const responses = packed(settlements.map((s) => s.attempt?.response ?? null))
  return [
    integers(settlements.map((s) => s.endpoint)),
    integers(settlements.map((s) => s.row.class)),
    integers(settlements.map((s) => s.row.dueAt)),
    integers(settlements.map((s) => s.row.message)),
    integers(settlements.map((s) => s.app)),
    integers(settlements.map((s) => s.row.priorAttempts + s.row.attempts + 1)),
    texts(settlements.map((s) => s.attempt?.id ?? null)),
    integers(settlements.map((s) => s.attempt?.startedAgoMs ?? 0)),
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
  ]
}

/** Whether its row stays where it is. */
function stays({ verdict }: Settlement): boolean {
  return verdict.state === 'delayed' || verdict.state === 'blocked'
}

function valuesOfRows(settlements: readonly Settlement[]): string[] {
  return [
    integers(settlements.map((s) => s.endpoint)),
    integers(settlements.map((s) => s.row.class)),
    integers(settlements.map((s) => s.row.dueAt)),
    integers(settlements.map((s) => s.row.message)),
  ]
}

function valuesOfStaying(staying: readonly Settlement[]): unknown[] {
  return [
    ...valuesOfRows(staying),
    integers(staying.map((s) => s.row.attempts)),
    integers(staying.map((s) => s.row.priorAttempts)),
    integers(staying.map(({ verdict }) => ('waitMs' in verdict ? Math.ceil(verdict.waitMs) : null))),
  ]
}

/** The latest health of each endpoint, once: a row can be updated only once per statement. */
function valuesOfHealth(health: LaneEffects['health']): [string, string] {
  const last = new Map(health.map((saved) => [saved.endpoint, saved.health]))
  return [integers([...last.keys()]), texts([...last.values()])]
}

/** The longest hold of each endpoint, once: a row can be updated only once per statement. */
function valuesOfHolds(holds: LaneEffects['holds']): [string, string] {
  const longest = new Map<number, number>()
  for (const { endpoint, holdMs } of holds) {
    longest.set(endpoint, Math.max(longest.get(endpoint) ?? 0, Math.ceil(holdMs)))
  }
  return [integers([...longest.keys()]), integers([...longest.values()])]
}

/** An error text may quote what a receiver sent; Postgres takes every character but one. */
function storable(text: string | null): string | null {
  return text === null ? null : text.replaceAll('\0', '\ufffd')
}
