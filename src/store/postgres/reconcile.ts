import { longestRestMs } from '../lanes.ts'
import { integers } from './arrays.ts'
import type { Database } from './database.ts'
import { withClock } from './database.ts'
import { sqlOfWork, sqlWorkDue, withWalk } from './lane-wakes.ts'
import { statement } from './sessions.ts'

/** Endpoints looked at per call, at about 20 µs each: the sweep goes on where it stopped. */
const endpointsPerCall = 1000

/**
 * How long a lane must have looked asleep. A publisher that has committed its rows and is about to wake their lanes, and
 * a release between its two statements, look the same as one that died there.
 */
const graceMs = 250

/** Until when a lane rests, bounded: `now` is an expression. */
function restEnds(now: string): string {
  return `greatest(least(not_before, ${now} + ${longestRestMs}), least(hold_until, ${now} + ${longestRestMs}))`
}

/** Whether an unowned lane sleeps past `workDue`. */
function oversleeps(workDue: string, now: string): string {
  return `owner is null and not stopped and ${workDue} is not null
      and (due_at is null or due_at > greatest(${workDue}, ${restEnds(now)}))`
}

/** One seek of pending's primary key per endpoint, however many rows it has. */
export const findOversleepers = statement(
  'find-oversleepers',
  `
    ${withWalk}, work as materialized (
      select walk.endpoint, clock.now, ${sqlWorkDue('walk.endpoint')} as work_due
        from walk, clock where walk.endpoint is not null
    )
    select max(work.endpoint) as last, count(*) as looked,
           array_agg(work.endpoint) filter (where lane.epoch is not null) as endpoints,
           array_agg(lane.epoch) filter (where lane.epoch is not null) as epochs,
           array_agg(work.endpoint) filter (where any_lane.found is null) as strays
      from work left join lateral (
        select epoch from lane where endpoint = work.endpoint and ${oversleeps('work_due', 'work.now')} limit 1
      ) as lane on true
      left join lateral (select 1 as found from lane where endpoint = work.endpoint limit 1) as any_lane on true`,
)

/**
 * Rows without a lane are those of an endpoint that was deleted and swept while a transaction that published to it was
 * still open. They are given to the sweep once more.
 */
const removeAgain = statement(
  'remove-again',
  `
    insert into removal (key, kind, since, due_at)
    select stray, 'endpoint', 0, 0 from unnest($1::bigint[]) as stray
     where (select 1 from endpoint where key = stray and deleted_at is null limit 1) is null
    on conflict do nothing`,
)

const now = '(select now from clock)'

// The same epoch means that no worker has owned the lane since it was found.
export const repairLanes = statement(
  'repair-lanes',
  `
    ${withClock}, work as materialized (
      select array_agg(${sqlWorkDue('found.endpoint')} order by found.n) as due_at
        from clock, unnest($1::bigint[]) with ordinality as found (endpoint, n)
    )
    update lane set due_at = greatest(${sqlOfWork('due_at')}, ${restEnds(now)}),
           not_before = least(not_before, ${now} + ${longestRestMs}),
           hold_until = least(hold_until, ${now} + ${longestRestMs})
     where endpoint = any ($1::bigint[]) and ${oversleeps(sqlOfWork('due_at'), now)}
       and epoch = ($2::bigint[])[array_position($1::bigint[], endpoint)]
    returning 1`,
)

interface Found {
  readonly last: number | null
  readonly looked: number
  readonly endpoints: number[] | null
  readonly epochs: number[] | null
  readonly strays: number[] | null
}

/** Makes the sweep that wakes lanes which would sleep past their work; it answers how many it had to wake. */
export function reconciler({ relaxed, context, signals }: Database): () => Promise<number> {
  let cursor = -1

  return async () => {
    const [found] = await relaxed.run<Found>(findOversleepers, [cursor, endpointsPerCall])
    const { last, looked, endpoints, epochs, strays } = found as Found
    cursor = looked < endpointsPerCall ? -1 : (last ?? -1)
    if (strays !== null) await relaxed.run(removeAgain, [integers(strays)])
    if (endpoints === null || epochs === null) return 0

    await new Promise<void>((resolve) => context.clock.after(graceMs, resolve))
    const repaired = await relaxed.run(repairLanes, [integers(endpoints), integers(epochs)])
    if (repaired.length > 0) signals.lanes()
    return repaired.length
  }
}
