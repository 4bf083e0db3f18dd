import { fresh, timed } from '../../domain/delivery.ts'
import type { Database } from './database.ts'
import { withClock } from './server-time.ts'
import type { Statement } from './sessions.ts'

/**
 * Queues the next deliveries of the oldest wide message that nobody else is at. The rows and the cursor behind them are
 * one statement, so that a crash between two chunks leaves neither a gap nor a row twice. Which endpoints get the message
 * was decided when it was accepted; those deleted since then are left out. An expunged message is
 * expanded no further.
 */
export const expandOldest: Statement = {
  name: 'expand',
  text: `
    ${withClock}, wide as materialized (
      select message, since, next from fan_out order by message limit 1 for update skip locked
    ), listed as materialized (
      select wide.*, m.endpoints
        from wide left join lateral (
               select endpoints from message where key = wide.message and expunged_at is null limit 1
             ) as m on true
    ), queued as (
      insert into pending (endpoint, class, due_at, message, since, attempts, prior_attempts)
      select c.endpoint, case when since > now then ${timed} else ${fresh} end, greatest(since, now), message, since, 0, 0
        from clock, listed
       cross join lateral unnest(endpoints[next + 1 : next + $1::integer]) as c (endpoint)
       cross join lateral (select from endpoint where key = c.endpoint and deleted_at is null limit 1) as live
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
           (select count(*) from done) as done, (select count(*) from fan_out) as left_over
      from clock`,
}

interface Expanded {
  readonly now: number
  /** Null when there was nothing to expand, or others are at all of it. */
  readonly since: number | null
  readonly endpoints: number[] | null
  readonly done: number
  /** Those there were, this one included. */
  readonly left_over: number
}

/** Makes what queues the deliveries of wide messages. Not waiting for the disk is safe: what is lost is queued anew. */
export function fanOut({ relaxed, signals, wakes }: Database): (limit: number) => Promise<boolean> {
  return async (limit) => {
    const [row] = await relaxed.run<Expanded>(expandOldest, [limit])
    const { now, since, endpoints, done, left_over: leftOver } = row as Expanded
    if (since === null) return false
    if (endpoints !== null) {
      const isFresh = since <= now
      wakes.wish(endpoints, isFresh ? 0 : since, isFresh)
      signals.rows(endpoints, isFresh ? fresh : undefined)
    }
    return leftOver > done
  }
}
