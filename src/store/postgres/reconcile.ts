import { integers } from './arrays.ts'
import type { Database } from './database.ts'
import { longestRestMs, sqlWorkDue } from './lane-wakes.ts'
import { withClock } from './server-time.ts'
import type { Statement } from './sessions.ts'

/** Endpoints looked at per call, at about 20 µs each: the sweep goes on where it stopped. */
const endpointsPerCall = 1000

/**
 * How long a lane must have looked asleep. A publisher that has committed its rows and is about to wake their lanes, and
 * a release between its two statements, look the same as one that died there.
 */
const graceMs = 250

const restEnds = `greatest(
  least(lane.not_before, work.now + ${longestRestMs}), least(lane.hold_until, work.now + ${longestRestMs}))`
const oversleeps = `
  lane.endpoint = work.endpoint and lane.owner is null and not lane.stopped and work.due_at is not null
  and (lane.due_at is null or lane.due_at > greatest(work.due_at, ${restEnds}))`

/** One seek of pending's primary key per endpoint, however many rows it has. */
const findOversleepers: Statement = {
  name: 'find-oversleepers',
  text: `
    with recursive clock as materialized (
      select (extract(epoch from clock_timestamp()) * 1000)::bigint as now
    ), walk (endpoint, n) as (
      (select endpoint, 1 from pending where endpoint > $1 order by endpoint limit 1)
      union all
      select (select p.endpoint from pending p where p.endpoint > walk.endpoint order by p.endpoint limit 1), n + 1
        from walk where endpoint is not null and n < $2
    ), work as materialized (
      select walk.endpoint, clock.now, ${sqlWorkDue('walk.endpoint')} as due_at
        from walk, clock where walk.endpoint is not null
    )
    select max(work.endpoint) as last, count(*) as looked,
           array_agg(lane.endpoint) filter (where ${oversleeps}) as endpoints,
           array_agg(lane.epoch) filter (where ${oversleeps}) as epochs
      from work left join lane on lane.endpoint = work.endpoint`,
}

// The epoch says that nobody has owned the lane since it was found.
const repairLanes: Statement = {
  name: 'repair-lanes',
  text: `
    ${withClock}, work as materialized (
      select found.endpoint, found.epoch, clock.now, ${sqlWorkDue('found.endpoint')} as due_at
        from clock, unnest($1::bigint[], $2::bigint[]) as found (endpoint, epoch)
    )
    update lane set due_at = greatest(work.due_at, ${restEnds}),
           not_before = least(lane.not_before, work.now + ${longestRestMs}),
           hold_until = least(lane.hold_until, work.now + ${longestRestMs})
      from work where ${oversleeps} and lane.epoch = work.epoch
    returning 1`,
}

interface Found {
  readonly last: number | null
  readonly looked: number
  readonly endpoints: number[] | null
  readonly epochs: number[] | null
}

/** Makes the sweep that wakes lanes which would sleep past their work; it answers how many it had to wake. */
export function reconciler({ relaxed, context, signals }: Database): () => Promise<number> {
  let cursor = -1

  return async () => {
    const [found] = await relaxed.run<Found>(findOversleepers, [cursor, endpointsPerCall])
    const { last, looked, endpoints, epochs } = found as Found
    cursor = looked < endpointsPerCall ? -1 : (last ?? -1)
    if (endpoints === null || epochs === null) return 0

    await new Promise<void>((resolve) => context.clock.after(graceMs, resolve))
    const repaired = await relaxed.run(repairLanes, [integers(endpoints), integers(epochs)])
    if (repaired.length > 0) signals.lanes()
    return repaired.length
  }
}
