import { type ClaimedLane, type LaneRest, longestRestMs, type Ownership, type Renewal } from '../lanes.ts'
import { type SendableRow, sendableColumns, toSendable } from '../sql/endpoint-rows.ts'
import type { StoreContext } from '../store.ts'
import { booleans, integers, texts } from './arrays.ts'
import type { Database } from './database.ts'
import { sqlNow, withClock } from './database.ts'
import { lanesPerStatement } from './lane-wakes.ts'
import type { PartitionKeeper } from './partitions.ts'
import { reconciler } from './reconcile.ts'
import { statement } from './sessions.ts'
import { workerEnding } from './worker-ending.ts'

const insertWorker = statement(
  'insert-worker',
  `
    ${withClock}
    insert into worker (description, joined_at, lease_ms, lease_until)
    select $1, now, $2::bigint, now + $2::bigint from clock
    returning id`,
)

// Leans on lane_owner and lane_due to count lanes. A lease that reaches further than it is long was written before
// the clock was set back.
export const renewLease = statement(
  'renew',
  `
    ${withClock}, mine as (
      update worker set lease_ms = $2::bigint, lease_until = clock.now + $2::bigint
        from clock where id = $1 and ended_at is null
      returning 1
    )
    select clock.now, exists (select from mine) as alive,
           (select count(*) from worker where ended_at is null) as workers,
           (select count(*) from worker
             where ended_at is null and id <> $1 and lease_until not between clock.now and clock.now + lease_ms) as odd,
           (select count(*) from lane where owner is not null)
           + (select count(*) from lane where owner is null and due_at <= clock.now) as lanes,
           (select coalesce(min(owned), 0)
              from (select (select count(*) from lane where owner = worker.id) as owned
                      from worker where ended_at is null) as shares) as fewest
      from clock`,
)

const laneColumns = 'endpoint, clean, bucket_full_at, hold_until, health, health_at'

/**
 * The worker's own row is locked against being declared dead meanwhile: a lane it took behind that would be freed by
 * nobody. Lanes are locked, then taken by key. Leans on lane_due: unowned lanes that have an instant, in its order.
 */
export const claimLanes = statement(
  'claim',
  `
    ${withClock}, alive as materialized (
      select from worker where id = $1 and ended_at is null for key share
    ), mine as materialized (
      select ${laneColumns} from lane where $3 and owner = $1 and exists (select from alive)
    ), picked as materialized (
      select ${laneColumns} from lane
       where owner is null and due_at <= (select now from clock) and not stopped and exists (select from alive)
       order by due_at limit $2
         for update skip locked
    ), taken as (
      update lane set owner = $1, epoch = epoch + 1, due_at = null,
             hold_until = least(hold_until, (select now from clock) + ${longestRestMs})
       where endpoint = any (array (select endpoint from picked))
    ), claimed as (
      select lane.clean, lane.bucket_full_at, lane.hold_until, lane.health, lane.health_at, e.*
        from (select * from mine union all select * from picked) as lane
       cross join lateral (select ${sendableColumns} from endpoint where key = lane.endpoint limit 1) as e
    )
    select claimed.*, clock.now, (
             select due_at from lane
              where owner is null and due_at is not null and endpoint <> all (array (select endpoint from picked))
              order by due_at limit 1
           ) as next_due_at
      from clock left join claimed on true`,
)

// `is not distinct from` instead of `=` keeps the planner off lane_owner, which holds everything else the worker owns.
export const releaseLanes = statement(
  'release',
  `
    ${withClock}
    update lane set owner = null, clean = true, due_at = null,
           bucket_full_at = (select now from clock) + ($3::bigint[])[array_position($2::bigint[], endpoint)],
           not_before = case when not_before < 0 then 0
             else (select now from clock) + ($4::bigint[])[array_position($2::bigint[], endpoint)] end,
           health = case when ($5::boolean[])[array_position($2::bigint[], endpoint)]
             then ($6::text[])[array_position($2::bigint[], endpoint)] else health end,
           health_at = case when ($5::boolean[])[array_position($2::bigint[], endpoint)]
             then (select now from clock) else health_at end
     where endpoint = any ($2::bigint[]) and owner is not distinct from $1`,
)

// Ended workers are kept for a week, for operators.
const sweepWorkers = statement(
  'sweep-workers',
  `delete from worker where ended_at < ${sqlNow} - ${7 * 24 * 60 * 60 * 1000}`,
)

interface RenewalRow {
  readonly now: number
  readonly alive: boolean
  readonly workers: number
  readonly odd: number
  readonly lanes: number
  readonly fewest: number
}

type ClaimRow = { readonly now: number; readonly next_due_at: number | null } & (
  | { readonly key: null }
  | (SendableRow & { readonly clean: boolean; readonly bucket_full_at: number; readonly hold_until: number } & {
      readonly health: string | null
      readonly health_at: number
    })
)

/**
 * Workers and the lanes that they own. All of it is durable: a claim or a release that a crash of the server undid would leave a lane with
 * two owners or with none.
 */
export function ownership(database: Database, partitions: PartitionKeeper): Ownership {
  const { durable, time, signals, wakes } = database
  const ending = workerEnding(database)

  async function standing(worker: number, leaseMs: number): Promise<RenewalRow> {
    const [row] = await durable.run<RenewalRow>(renewLease, [worker, Math.round(leaseMs)])
    time.learn((row as RenewalRow).now)
    return row as RenewalRow
  }

  async function claim(worker: number, limit: number, ownedToo: boolean) {
    const rows = await durable.run<ClaimRow>(claimLanes, [worker, limit, ownedToo])
    const { now, next_due_at: nextDueAt } = rows[0] as ClaimRow
    const lanes = rows.flatMap((row) => (row.key === null ? [] : [toClaimed(row, database.context)]))
    wakes.owned(
      worker,
      lanes.map((lane) => lane.endpoint.key),
    )
    return { lanes, nextInMs: nextDueAt === null ? undefined : Math.max(0, nextDueAt - now) }
  }

  async function release(worker: number, rests: readonly LaneRest[]): Promise<void> {
    const endpoints = rests.map((rest) => rest.endpoint)
    wakes.disowned(worker, endpoints)
    await durable.run(releaseLanes, [worker, integers(endpoints), ...restsOf(rests)])
    // All of them, also those not owned any more: an earlier call may have come this far before its answer got lost.
    await wakes.rouse(endpoints)
  }

  return {
    async join({ description, leaseMs }) {
      await ending.endLapsed()
      await durable.run(sweepWorkers)
      const [row] = await durable.run<{ id: number }>(insertWorker, [description, Math.round(leaseMs)])
      return row?.id as number
    },

    async renew(worker, leaseMs): Promise<Renewal> {
      let row = await standing(worker, leaseMs)
      if (row.alive && row.odd > 0 && (await ending.endLapsed()) > 0) row = await standing(worker, leaseMs)
      if (!row.alive) wakes.disowned(worker)
      partitions.keep(row.now)
      return { alive: row.alive, workers: row.workers, activeLanes: row.lanes, fewestLanes: row.fewest }
    },

    async leave(worker) {
      wakes.disowned(worker)
      await ending.end(worker)
    },

    claim(worker, limit, ownedToo = false) {
      return signals.repeatingSettings(
        () => claim(worker, limit, ownedToo),
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

function restsOf(rests: readonly LaneRest[]): string[] {
  return [
    integers(rests.map((rest) => restMs(rest.bucketDebtMs))),
    integers(rests.map((rest) => restMs(rest.notBeforeMs))),
    booleans(rests.map((rest) => rest.health !== undefined)),
    texts(rests.map((rest) => rest.health ?? null)),
  ]
}

/** A rest in whole milliseconds, rounded up so that it is never undercut, and bounded. */
function restMs(ms: number): number {
  return Math.min(longestRestMs, Math.max(0, Math.ceil(ms)))
}

function toClaimed(row: Exclude<ClaimRow, { key: null }>, { vault, log }: StoreContext): ClaimedLane {
  return {
    endpoint: toSendable(row, vault, log),
    clean: row.clean,
    bucketDebtMs: restMs(row.bucket_full_at - row.now),
    holdMs: restMs(row.hold_until - row.now),
    health: row.health,
    healthAgeMs: row.health === null ? 0 : Math.max(0, row.now - row.health_at),
  }
}
