import { defaultRegion, type Regions } from '../../features/regions/rules.ts'
import { type LaneRest, longestRestMs, type Ownership, restMs, storedDebtMs, type Taken } from '../lanes.ts'
import { sendableColumns } from '../sql/receiver-rows.ts'
import { type LaneRow, toClaimed, workers } from '../sql/workers.ts'
import { type Database, withClock } from './database.ts'
import { dueLanes } from './due-lanes.ts'
import { lanesPerStatement, sqlOfWork, sqlWorkDue, withWalk } from './lane-wakes.ts'
import type { PartitionKeeper } from './partitions.ts'
import { onPostgres, postgresPort } from './port.ts'
import { readFronts } from './queue-fronts.ts'
import { booleans, integers, postgresStatement, texts } from './sessions.ts'

const laneColumns = 'endpoint, clean, bucket_full_at, bucket_limit, hold_until, health, health_at, region'

const isDefault = `region = '${defaultRegion}'`
const isElsewhere = `region <> '${defaultRegion}'`
/** Unowned lanes that have an instant, in its order. */
const unowned = 'owner is null and due_at is not null'

/** Picks lanes that are due and meet a condition, and locks them. */
function picking(condition: string): string {
  return `
      select ${laneColumns} from lane
       where owner is null and due_at <= (select now from clock) and not stopped and ${condition}
         and exists (select from alive)
       order by due_at limit $2
         for update skip locked`
}

/** When the first unowned lane that meets a condition and was not picked is due. */
function nextDue(condition: string): string {
  return `
      select due_at from lane
       where ${unowned} and ${condition} and endpoint <> all (array (select endpoint from picked))
       order by due_at limit 1`
}

/**
 * The worker's own row is locked against being declared dead meanwhile: no process would free
 * a lane that it took behind that. Lanes are locked, then taken by key.
 */
function claiming(picks: string, nextDueAt: string): string {
  return `
    ${withClock}, alive as materialized (
      select from worker where id = $1 and ended_at is null for key share
    ), mine as materialized (
      select ${laneColumns} from lane where $3 and owner = $1 and exists (select from alive)
    ), ${picks}, taken as (
      update lane set owner = $1, epoch = epoch + 1, due_at = null,
             hold_until = least(hold_until, (select now from clock) + ${longestRestMs})
       where endpoint = any (array (select endpoint from picked))
    ), claimed as (
      select lane.clean, lane.bucket_full_at, lane.bucket_limit, lane.hold_until, lane.health, lane.health_at,
             lane.region, e.*
        from (select * from mine union all select * from picked) as lane
       cross join lateral (select ${sendableColumns} from endpoint where key = lane.endpoint limit 1) as e
    )
    select claimed.*, clock.now, ${nextDueAt} as next_due_at
      from clock left join claimed on true`
}

// Leans on lane_due, and on lane_due_elsewhere, which is empty while no endpoint has a region.
const claimLanes = postgresStatement('claim')`${claiming(
  `near as materialized (${picking(isDefault)}
    ), elsewhere as materialized (${picking(isElsewhere)}
    ), picked as materialized (
      select * from near union all select * from elsewhere
    )`,
  `least((${nextDue(isDefault)}), (${nextDue(isElsewhere)}))`,
)}`

// Leans on lane_due if $4 says so, and on lane_region_due with one seek per region of $5: lanes of regions that no worker
// serves may be due by the thousand, and are never looked at.
const claimRegions = postgresStatement('claim-regions')`${claiming(
  `near as materialized (${picking(`${isDefault} and $4`)}
    ), elsewhere as materialized (
      select found.* from unnest($5::text[]) as served (region)
       cross join lateral (${picking(`${isElsewhere} and region = served.region`)}) as found
    ), picked as materialized (
      select * from near union all select * from elsewhere
    )`,
  `least((${nextDue(`${isDefault} and $4`)}), (
      select min(found.due_at) from unnest($5::text[]) as served (region)
       cross join lateral (${nextDue(`${isElsewhere} and region = served.region`)}) as found
    ))`,
)}`

/** Takes lanes by name. They are found by their key; what else they must be is looked at behind that. */
const claimThese = postgresStatement('claim-named')`${claiming(
  `picked as materialized (
      select ${laneColumns} from lane
       where endpoint = any ($2::bigint[]) and owner is null and due_at <= (select now from clock) and not stopped
         and ($4::text[] is null or region = any ($4::text[])) and exists (select from alive)
       order by endpoint
         for update skip locked
    )`,
  'null::bigint',
)}`

// `is not distinct from` instead of `=` keeps the planner off lane_owner, which holds everything else the worker owns.
const releaseLanes = postgresStatement('release')`
  ${withClock}
  update lane set owner = null, clean = true, due_at = null,
         bucket_full_at = (select now from clock) + ($3::bigint[])[array_position($2::bigint[], endpoint)],
         bucket_limit = ($7::text[])[array_position($2::bigint[], endpoint)],
         not_before = case when not_before < 0 then 0
           else (select now from clock) + ($4::bigint[])[array_position($2::bigint[], endpoint)] end,
         health = case when ($5::boolean[])[array_position($2::bigint[], endpoint)]
           then ($6::text[])[array_position($2::bigint[], endpoint)] else health end,
         health_at = case when ($5::boolean[])[array_position($2::bigint[], endpoint)]
           then (select now from clock) else health_at end
   where endpoint = any ($2::bigint[]) and owner is not distinct from $1`

type ClaimRow = { readonly now: number; readonly next_due_at: number | null } & ({ readonly key: null } | LaneRow)

/**
 * Workers and the lanes that they own. All of it is durable: a claim or a release that a crash of the server undid would
 * leave a lane with two owners or with none.
 */
export function ownership(database: Database, partitions: PartitionKeeper): Ownership {
  const { durable, time, signals, wakes, presence } = database
  const leases = onPostgres(
    workers(postgresPort(database), (now) => {
      time.learn(now)
      partitions.keep(now)
    }),
  )

  async function claim(worker: number, limit: number, ownedToo: boolean, regions: Regions) {
    const rows =
      regions === null
        ? await durable.run<ClaimRow>(claimLanes, [worker, limit, ownedToo])
        : await durable.run<ClaimRow>(claimRegions, [worker, limit, ownedToo, ...servedBy(regions)])
    const { now, next_due_at: nextDueAt } = rows[0] as ClaimRow
    return { ...(await taken(worker, rows)), nextInMs: nextDueAt === null ? undefined : Math.max(0, nextDueAt - now) }
  }

  async function claimNamed(worker: number, endpoints: readonly number[], regions: Regions) {
    const served = regions === null ? null : texts(regions)
    return taken(worker, await durable.run<ClaimRow>(claimThese, [worker, integers(endpoints), false, served]))
  }

  /** The lanes that a claim has taken, with their first rows. */
  async function taken(worker: number, rows: readonly ClaimRow[]): Promise<Taken> {
    const { context } = database
    const lanes = rows.flatMap((row) => (row.key === null ? [] : [toClaimed(row, row.now, context)]))
    const keys = lanes.map(({ endpoint }) => endpoint.key)
    wakes.owned(worker, keys)
    const { fronts, messages } = await readFronts(database, keys)
    return { lanes: lanes.map((lane, i) => ({ ...lane, front: fronts[i] })), messages }
  }

  async function release(worker: number, rests: readonly LaneRest[]): Promise<void> {
    const endpoints = rests.map((rest) => rest.endpoint)
    wakes.disowned(worker, endpoints)
    await durable.run(releaseLanes, [worker, integers(endpoints), ...restsOf(rests)])
    // All of them, also those not owned any more: an earlier call may have come this far before its answer got lost.
    await wakes.rouse(endpoints)
  }

  presence.endGone = async (workers) => {
    const died = await leases.endGone(workers)
    signals.workersDied(died)
  }

  return {
    async join(worker) {
      const id = await leases.join(worker)
      await presence.enter(id)
      return id
    },

    async renew(worker, leaseMs, report, countLanes, looks) {
      const renewal = await leases.renew(worker, leaseMs, report, countLanes, looks)
      if (!renewal.alive) {
        wakes.disowned(worker)
        await presence.exit(worker)
      }
      return renewal
    },

    startLeaving: (worker) => leases.startLeaving(worker),

    async leave(worker) {
      wakes.disowned(worker)
      await leases.leave(worker)
      await presence.exit(worker)
    },

    claim(worker, limit, ownedToo = false, regions = null) {
      return signals.repeatingSettings(
        () => claim(worker, limit, ownedToo, regions),
        ({ lanes }) => lanes.map((lane) => lane.endpoint.key),
      )
    },

    findDue: dueLanes(database),

    claimNamed(worker, endpoints, regions = null) {
      if (endpoints.length === 0) return Promise.resolve({ lanes: [], messages: [] })
      return signals.repeatingSettings(
        () => claimNamed(worker, endpoints, regions),
        ({ lanes }) => lanes.map((lane) => lane.endpoint.key),
      )
    },

    async release(worker, lanes) {
      for (let at = 0; at < lanes.length; at += lanesPerStatement) {
        await release(worker, lanes.slice(at, at + lanesPerStatement))
      }
    },

    reconcile: reconciler(database),
  }
}

/** Whether the default region is among the regions, and the others. */
function servedBy(regions: readonly string[]): [boolean, string] {
  return [regions.includes(defaultRegion), texts(regions.filter((region) => region !== defaultRegion))]
}

function restsOf(rests: readonly LaneRest[]): string[] {
  return [
    integers(rests.map((rest) => storedDebtMs(rest.bucketDebtMs))),
    integers(rests.map((rest) => restMs(rest.notBeforeMs))),
    booleans(rests.map((rest) => rest.health !== undefined)),
    texts(rests.map((rest) => rest.health ?? null)),
    texts(rests.map((rest) => JSON.stringify(rest.bucketLimit))),
  ]
}

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
const findOversleepers = postgresStatement('find-oversleepers')`
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
    left join lateral (select 1 as found from lane where endpoint = work.endpoint limit 1) as any_lane on true`

/**
 * Rows without a lane are those of an endpoint that was deleted and swept while a transaction that published to it was
 * still open. The sweep removes them once more.
 */
const removeStrays = postgresStatement('remove-strays')`
  insert into removal (key, kind, since, due_at)
  select stray, 'endpoint', 0, 0 from unnest($1::bigint[]) as stray
   where (select 1 from endpoint where key = stray and deleted_at is null limit 1) is null
  on conflict do nothing`

const clockNow = '(select now from clock)'

// The same epoch means that no worker has owned the lane since it was found.
const repairLanes = postgresStatement('repair-lanes')`
  ${withClock}, work as materialized (
    select array_agg(${sqlWorkDue('found.endpoint')} order by found.n) as due_at
      from clock, unnest($1::bigint[]) with ordinality as found (endpoint, n)
  )
  update lane set due_at = greatest(${sqlOfWork('due_at')}, ${restEnds(clockNow)}),
         not_before = least(not_before, ${clockNow} + ${longestRestMs}),
         hold_until = least(hold_until, ${clockNow} + ${longestRestMs})
   where endpoint = any ($1::bigint[]) and ${oversleeps(sqlOfWork('due_at'), clockNow)}
     and epoch = ($2::bigint[])[array_position($1::bigint[], endpoint)]
  returning 1`

interface SleepersPage {
  readonly last: number | null
  readonly looked: number
  readonly endpoints: number[] | null
  readonly epochs: number[] | null
  readonly strays: number[] | null
}

/** Makes the sweep that wakes lanes which would sleep past their work; it answers how many it had to wake. */
function reconciler({ relaxed, context, signals }: Database): () => Promise<number> {
  let cursor = -1

  return async () => {
    const [found] = await relaxed.run<SleepersPage>(findOversleepers, [cursor, endpointsPerCall])
    const { last, looked, endpoints, epochs, strays } = found as SleepersPage
    cursor = looked < endpointsPerCall ? -1 : (last ?? -1)
    if (strays !== null) await relaxed.run(removeStrays, [integers(strays)])
    if (endpoints === null || epochs === null) return 0

    await new Promise<void>((resolve) => context.clock.after(graceMs, resolve))
    const repaired = await relaxed.run(repairLanes, [integers(endpoints), integers(epochs)])
    if (repaired.length > 0) signals.lanes()
    return repaired.length
  }
}
