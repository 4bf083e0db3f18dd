import type { EpochMs } from '../../domain/clock.ts'
import { type Class, classes, replay, timed } from '../../domain/delivery.ts'
import { keyTime } from '../../domain/ids.ts'
import { bringForwardMs, nearMs, type Replaying } from '../dead-letters.ts'
import { countLimit } from '../lanes.ts'
import { type DeliveryKey, expungedResponse } from '../messages.ts'
import { type Plan, plainly } from '../plan.ts'
import { selectAttempted } from '../sql/messages.ts'
import { finishLater } from '../sql/port.ts'
import { integers } from './arrays.ts'
import type { Database } from './database.ts'
import { sqlNow, withClock } from './database.ts'
import { sqlOver } from './port.ts'
import { type Run, statement } from './sessions.ts'

/**
 * Finds a delivery's row. Rows are not indexed by message, since every delivery would pay for it; but a replay's instant
 * is its message's, a retry's is in the last attempt, and a fresh row's is its message's but for a moment. Only a
 * row that must exist (a dead letter's does not) and is none of these is looked for among all of its class. Each is a
 * range of pending's primary key, and none is read once an earlier one has found the row. `w` has endpoint, message,
 * made_at, next_at, may_wait; and may_block, since what blocks a lane that keeps an order waits where it was queued, with
 * no next attempt.
 */
const sqlQueued = `
  (select ctid as place, class, due_at, attempts from pending
    where endpoint = w.endpoint and class = ${replay} and due_at = w.made_at and message = w.message limit 1)
  union all
  (select ctid, class, due_at, attempts from pending
    where endpoint = w.endpoint and class = ${timed} and due_at = w.next_at and message = w.message limit 1)
  union all
  (select ctid, class, due_at, attempts from pending
    where w.may_block and endpoint = w.endpoint and class = 0 and message = w.message
      and due_at >= w.made_at - ${nearMs} and due_at <= w.made_at + ${nearMs} limit 1)
  union all
  (select ctid, class, due_at, attempts from pending
    where w.may_wait and endpoint = w.endpoint and class = ${timed} and message = w.message limit 1)
  union all
  (select ctid, class, due_at, attempts from pending
    where w.may_wait and endpoint = w.endpoint and class = 0 and message = w.message limit 1)
  limit 1`

/** The deliveries asked about, $1 to $3, with what is known of them; those of messages that no longer exist fall out. */
const sqlWanted = `
  select w.endpoint, w.message, w.made_at, latest.n, latest.next_at, m.expunged_at,
         case when latest.n is null then w.endpoint = any (m.endpoints) else latest.next_at is not null end
           and (select 1 from dead where endpoint = w.endpoint and message = w.message limit 1) is null as may_wait,
         (latest.n is not null or w.endpoint = any (m.endpoints))
           and (select 1 from dead where endpoint = w.endpoint and message = w.message limit 1) is null as may_block
    from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as w (endpoint, message, made_at)
   cross join lateral (select endpoints, expunged_at from message where key = w.message limit 1) as m
    left join lateral (
           select n, next_at from attempt where message = w.message and endpoint = w.endpoint order by n desc limit 1
         ) as latest on true`

/**
 * A replayed row is due when its message was made. So it is found without an index by message, replays run in the order
 * their messages came, and replaying twice finds the row taken. It does not expire: an operator wants it. The plans of
 * the deliveries, $4 and $5, were read before. A dead letter of a deleted endpoint stays: it can still be exported, and
 * imported for another endpoint.
 */
export const replayDeliveries = statement(
  'replay',
  `
    ${withClock}, wanted as materialized (
      select * from (${sqlWanted}) as w
       where w.expunged_at is null and (select deleted_at is null from endpoint where key = w.endpoint limit 1)
    ), found as materialized (
      select w.endpoint, w.message, q.place, q.class = ${timed} and q.due_at > clock.now + ${bringForwardMs} as is_early
        from clock, wanted w cross join lateral (${sqlQueued}) as q
    ), taken as (
      delete from pending where ctid = any (array (select place from found where is_early))
      returning ctid as place
    ), free as materialized (
      select w.endpoint, w.message, w.made_at, coalesce(w.n, 0) as n
        from wanted w left join found f on f.endpoint = w.endpoint and f.message = w.message
       where f.place is null or f.place in (select place from taken)
    ), queued as (
      insert into pending (endpoint, class, due_at, message, since, attempts, prior_attempts, order_key, variant)
      select free.endpoint, ${replay}, free.made_at, free.message, clock.now, 0, free.n, p.order_key, p.variant
        from clock, free
        join unnest($1::bigint[], $2::bigint[], $4::bigint[], $5::smallint[]) as p (endpoint, message, order_key, variant)
          on p.endpoint = free.endpoint and p.message = free.message
      on conflict do nothing
      returning endpoint, message
    ), revived as (
      delete from dead where ctid = any (array (
        select d.place from queued cross join lateral (
          select ctid as place from dead where endpoint = queued.endpoint and message = queued.message limit 1
        ) as d))
    )
    select endpoint, message from queued`,
)

// By itself: looking each delivery up in its message's plan would parse it, which may be megabytes, once per delivery.
export const selectPlans = statement(
  'plans',
  'select key, plan from message where key = any ($1::bigint[]) and plan is not null',
)

export const findQueuedRow = statement(
  'find-queued',
  `
    with wanted as materialized (${sqlWanted})
    select q.class, q.due_at, q.attempts,
           (select count(*) from (
              select from pending
               where endpoint = w.endpoint and class = q.class and (due_at, message) < (q.due_at, w.message)
               limit ${countLimit}) as ahead) as ahead
      from wanted w cross join lateral (${sqlQueued}) as q`,
)

export const findReplayed = statement(
  'find-replayed',
  `
    select w.endpoint, w.message
      from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as w (endpoint, message, made_at)
     cross join lateral (
             select from pending
              where endpoint = w.endpoint and class = ${replay} and due_at = w.made_at and message = w.message limit 1
           ) as q`,
)

// The message is marked first, so that a replay waits and then finds it erased.
const eraseMessage = statement(
  'erase-message',
  `
    update message set body = '', headers = null, ordering_key = null, channels = null, tags = null, plan = null,
           expunged_at = coalesce(expunged_at, ${sqlNow})
     where key = $1
    returning endpoints`,
)
// A receiver may have echoed what it got, in its answer or in a location that the error quotes.
const eraseAttempts = statement(
  'erase-attempts',
  `
    update attempt set error = null, response = case when response is null then null else $2::bytea end
     where message = $1`,
)
const eraseDead = statement(
  'erase-dead',
  `
    update dead set error = null, response = case when response is null then null else $3::bytea end
     where endpoint = any ($1::bigint[]) and message = $2`,
)
const deleteVariants = statement('delete-variants', 'delete from variant where message = $1')
const deleteFanOut = statement('stop-fan-out', 'delete from fan_out where message = $1')
export const cancelQueued = statement(
  'cancel-queued',
  `
    with wanted as materialized (${sqlWanted}), found as materialized (
      select q.place from wanted w cross join lateral (${sqlQueued}) as q
    )
    delete from pending where ctid = any (array (select place from found))`,
)

const sqlCounted = (itsClass: Class) => `
  (select ${itsClass} as class, count(*) as count, min(since) as oldest from (
     select since from pending where endpoint = l.endpoint and class = ${itsClass} limit ${countLimit}) as c)`
export const selectLane = statement(
  'lane',
  `
    ${withClock}
    select clock.now, l.due_at, l.owner, l.stopped, l.bucket_full_at, l.hold_until, l.not_before,
           l.health, l.health_at, w.description, w.lease_until, counted.waiting, counted.oldest_since,
           (select due_at from pending where endpoint = l.endpoint and class = ${timed} order by due_at limit 1) as next_timed_at,
           (select count(*) from worker where ended_at is null and lease_until >= clock.now) as workers_alive
      from clock, lane l
      join endpoint e on e.key = l.endpoint and e.deleted_at is null
      left join worker w on w.id = l.owner
     cross join lateral (
             select array_agg(count order by class) as waiting, min(oldest) as oldest_since
               from (${classes.map(sqlCounted).join(' union all ')}) as each
           ) as counted
     where l.endpoint = $1`,
)

interface LaneRow {
  readonly now: EpochMs
  readonly due_at: EpochMs | null
  readonly owner: number | null
  readonly stopped: boolean
  readonly bucket_full_at: EpochMs
  readonly hold_until: EpochMs
  readonly not_before: EpochMs
  readonly description: string | null
  readonly lease_until: EpochMs | null
  readonly waiting: [number, number, number]
  readonly next_timed_at: EpochMs | null
  readonly oldest_since: EpochMs | null
  readonly health: string | null
  readonly health_at: EpochMs
  readonly workers_alive: number
}

interface QueuedColumns {
  readonly class: Class
  readonly due_at: EpochMs
  readonly attempts: number
  readonly ahead: number
}

/** Sending again, never again, and finding out where a delivery stands. */
export function replaying(database: Database): Replaying {
  const { durable, signals } = database
  return {
    async replay(deliveries) {
      const queued = await requeue(durable.run, deliveries)
      tell(database, queued)
      return queued
    },

    async expungeMessage(message) {
      await durable.transaction(async (run) => {
        const [row] = await run<{ endpoints: number[] }>(eraseMessage, [message])
        if (row === undefined) return
        const attempted = await finishLater(sqlOver(run).all(selectAttempted, { message }))
        const endpoints = new Set([...row.endpoints, ...attempted.map(({ endpoint }) => endpoint)])
        await run(deleteVariants, [message])
        await run(deleteFanOut, [message])
        await run(cancelQueued, valuesOf([...endpoints].map((endpoint) => ({ endpoint, message }))))
        // A settlement holds the row that was just waited for, and committed its attempt before letting go of it.
        await run(eraseAttempts, [message, Buffer.from(expungedResponse)])
        await run(eraseDead, [integers([...endpoints]), message, Buffer.from(expungedResponse)])
        await signals.notify(run, 'x', [message])
      })
      signals.expunged([message])
    },

    async findQueued(delivery) {
      const row = await findRow(durable.run, delivery)
      return row && { class: row.class, dueAt: row.due_at, attempts: row.attempts, ahead: row.ahead }
    },

    async findReplaying(deliveries) {
      if (deliveries.length === 0) return []
      return durable.run<DeliveryKey>(findReplayed, valuesOf(deliveries))
    },

    async findLane(endpoint) {
      const [row] = await durable.run<LaneRow>(selectLane, [endpoint])
      if (row === undefined) return undefined
      const { owner, description, lease_until: leaseUntil } = row
      return {
        now: row.now,
        stopped: row.stopped,
        owner: owner === null ? null : { worker: owner, description: description ?? '', leaseUntil: leaseUntil ?? 0 },
        dueAt: row.due_at,
        holdUntil: row.hold_until,
        bucketFullAt: row.bucket_full_at,
        notBefore: row.not_before,
        waiting: row.waiting,
        nextTimedAt: row.next_timed_at,
        oldestSince: row.oldest_since,
        health: row.health,
        healthAgeMs: row.health === null ? 0 : Math.max(0, row.now - row.health_at),
        workersAlive: row.workers_alive,
      }
    },
  }
}

/** The row of a delivery, wherever it waits. */
export async function findRow(run: Run, delivery: DeliveryKey): Promise<QueuedColumns | undefined> {
  const [row] = await run<QueuedColumns>(findQueuedRow, valuesOf([delivery]))
  return row
}

/** Queues deliveries again, as part of the caller's transaction where there is one. */
export async function requeue(run: Run, deliveries: readonly DeliveryKey[]): Promise<DeliveryKey[]> {
  if (deliveries.length === 0) return []
  const messages = integers([...new Set(deliveries.map(({ message }) => message))])
  const rows = await run<{ key: number; plan: Plan }>(selectPlans, [messages])
  const plans = new Map(rows.map(({ key, plan }) => [key, plan]))
  const planned = deliveries.map(({ endpoint, message }) => plans.get(message)?.[endpoint] ?? plainly)
  return run<DeliveryKey>(replayDeliveries, [
    ...valuesOf(deliveries),
    integers(planned.map(({ orderKey }) => orderKey ?? null)),
    integers(planned.map(({ variant }) => variant ?? null)),
  ])
}

/** Signals the deliveries that a replay queued, once that is committed, and has unowned lanes woken. */
export function tell({ signals, wakes }: Database, queued: readonly DeliveryKey[]): void {
  if (queued.length === 0) return
  const endpoints = [...new Set(queued.map(({ endpoint }) => endpoint))]
  wakes.request(endpoints, 0, false)
  signals.rows(endpoints, replay)
}

function valuesOf(deliveries: readonly DeliveryKey[]): unknown[] {
  return [
    integers(deliveries.map((d) => d.endpoint)),
    integers(deliveries.map((d) => d.message)),
    integers(deliveries.map((d) => keyTime(d.message))),
  ]
}
