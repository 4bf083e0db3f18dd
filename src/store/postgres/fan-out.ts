import { fresh, timed } from '../../domain/delivery.ts'
import { type Plan, plainly } from '../plan.ts'
import { type Expansion, nothingExpanded } from '../publishing.ts'
import { type Database, withClock } from './database.ts'
import { enqueuePlanned } from './planned.ts'
import { postgresStatement, type Run } from './sessions.ts'

/**
 * Queues the next deliveries of the oldest wide message that no other transaction expands. The rows and the cursor behind
 * them are one statement, so that a crash between two chunks leaves neither a gap nor a row twice. The endpoints of the
 * message were chosen when it was accepted; those deleted since then are left out. An expunged message is expanded no
 * further. A message with a plan is left alone unless $2 is true: then the chunk is answered with its plan, and the same
 * transaction queues it. (The plan may be megabytes, and looking up each endpoint here would parse it every time.)
 */
const expandOldest = postgresStatement(
  'expand',
  `
    ${withClock}, wide as materialized (
      select message, since, next from fan_out order by message limit 1 for update skip locked
    ), listed as materialized (
      select wide.*, m.app, m.endpoints, m.expires_at, m.plan
        from wide left join lateral (
               select app, endpoints, expires_at, plan from message
                where key = wide.message and expunged_at is null limit 1
             ) as m on true
       where m.plan is null or $2
    ), chunk as materialized (
      select c.endpoint
        from listed
       cross join lateral unnest(endpoints[next + 1 : next + $1::integer]) as c (endpoint)
       cross join lateral (select from endpoint where key = c.endpoint and deleted_at is null limit 1) as live
    ), queued as (
      insert into pending (endpoint, class, due_at, message, since, attempts, prior_attempts, expires_at)
      select endpoint, case when since > now then ${timed} else ${fresh} end, greatest(since, now), message, since, 0, 0,
             expires_at
        from clock, listed, chunk
       where plan is null
      returning endpoint
    ), done as (
      delete from fan_out
       where message = (select message from listed where next + $1::integer >= coalesce(cardinality(endpoints), 0))
      returning 1
    ), moved as (
      update fan_out set next = next + $1::integer
       where message = (select message from listed where next + $1::integer < coalesce(cardinality(endpoints), 0))
      returning 1
    )
    select now, (select since from wide) as since, (select array_agg(endpoint) from queued) as endpoints,
           (select count(*) from done) as done, (select count(*) from fan_out) as left_over, listed.message, listed.app,
           listed.expires_at, listed.message is null as left_alone, listed.plan,
           case when listed.plan is not null then (select array_agg(endpoint) from chunk) end as chunk
      from clock left join listed on true`,
)

interface Expanded {
  readonly now: number
  /** Null when there was nothing to expand, or other transactions expand all of it. */
  readonly since: number | null
  readonly endpoints: number[] | null
  readonly done: number
  /** Wide messages that were not expanded yet, this one included. */
  readonly left_over: number
  readonly left_alone: boolean
  readonly message: number
  readonly app: number
  readonly expires_at: number | null
  readonly plan: Plan | null
  /** The next endpoints, when there is a plan for them. */
  readonly chunk: number[] | null
  /** Endpoints at which a delivery replaced a waiting one, or was replaced. */
  readonly merged?: readonly number[]
}

/** Makes the function that expands wide messages. Not waiting for the disk is safe: lost rows are queued again. */
export function fanOut({ relaxed, signals, wakes }: Database): (limit: number) => Promise<Expansion> {
  async function expandPlanned(run: Run, limit: number): Promise<Expanded> {
    const [row] = await run<Expanded>(expandOldest, [limit, true])
    const expanded = row as Expanded
    const { now, since, message, app, expires_at: expiresAt, plan, chunk } = expanded
    if (since === null || plan === null || chunk === null) return expanded
    const { waiting, merged } = await enqueuePlanned(
      run,
      now,
      chunk
        .map((endpoint) => ({ message, app, endpoint, since, expiresAt, planned: plan[endpoint] ?? plainly }))
        .filter(({ planned }) => planned.orderKey === undefined),
      true,
    )
    const endpoints = [...(expanded.endpoints ?? []), ...waiting.map(({ endpoint }) => endpoint)]
    return { ...expanded, endpoints, merged: merged.map(({ endpoint }) => endpoint) }
  }

  return async (limit) => {
    let [row] = await relaxed.run<Expanded>(expandOldest, [limit, false])
    if (row?.since === null) return nothingExpanded
    if (row?.left_alone) row = await relaxed.transaction((run) => expandPlanned(run, limit))
    const { now, since, endpoints, done, left_over: leftOver, app, merged = [] } = row as Expanded
    if (since === null) return nothingExpanded
    if (endpoints !== null) {
      const isFresh = since <= now
      wakes.request(endpoints, isFresh ? 0 : since, isFresh)
      signals.rows(endpoints, isFresh ? fresh : undefined)
    }
    return { more: leftOver > done, app, merged }
  }
}
