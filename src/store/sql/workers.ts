import type { EpochMs } from '../../domain/clock.ts'
import { defaultRegion, type RegionShare, type Regions, regionShares } from '../../features/regions/rules.ts'
import {
  type ClaimedLane,
  type LaneCounts,
  type ListedWorker,
  longestRestMs,
  type Ownership,
  type Renewal,
  restMs,
  storedDebtMs,
} from '../lanes.ts'
import type { Leader, Leading } from '../maintenance.ts'
import type { StoreContext } from '../store.ts'
import { among, forUpdate, forUpdateSkipLocked, greatest, hasSessionEnded, json, least } from './dialect.ts'
import type { Methods, Port, Transaction, Work } from './port.ts'
import { type SendableRow, toSendable } from './receiver-rows.ts'
import { statement } from './statement.ts'

// Leases of processes: each worker has one, and the leader has one.

/** Ended workers are kept this long, for operators. */
const keepWorkersMs = 7 * 24 * 60 * 60 * 1000

const insertWorker = statement<{ id: number }>('insert-worker')`
  insert into worker (description, regions, joined_at, lease_ms, lease_until)
  values (:description, :regions, :now, cast(:lease_ms as bigint), :now + cast(:lease_ms as bigint))
  returning id`
const sweepWorkers = statement('sweep-workers')`delete from worker where ended_at < :now - ${keepWorkersMs}`
const extendLease = statement('renew')`
  update worker set lease_ms = cast(:lease_ms as bigint), lease_until = :now + cast(:lease_ms as bigint),
         report = coalesce(${json(':report')}, report)
   where id = :worker and ended_at is null
  returning id`
/** Unowned lanes that are due, in the two ranges that have indexes of their own: lane_due and lane_due_elsewhere. */
const dueNear = `owner is null and due_at <= :now and region = '${defaultRegion}'`
const dueElsewhere = `owner is null and due_at <= :now and region <> '${defaultRegion}'`
const countLiving = statement<Living>('living')`
  select :now as now, count(*) as workers,
         count(*) filter (where id <> :worker and lease_until not between :now and :now + lease_ms) as odd,
         count(*) filter (where regions is not null) as regional, count(*) filter (where not leaving) as sharers
    from worker where ended_at is null`
// Leans on lane_owner, lane_due and lane_due_elsewhere. On Postgres a million lanes take 0.1 s.
const countLanes = statement<LaneCounts>('count-shares')`
  select (select count(*) from lane where owner is not null)
         + (select count(*) from lane where ${dueNear}) + (select count(*) from lane where ${dueElsewhere}) as "activeLanes",
         (select coalesce(min(owned), 0)
            from (select (select count(*) from lane where owner = worker.id) as owned
                    from worker where ended_at is null and not leaving) as shares) as "fewestLanes"`

// Leans on lane_owner: all lanes that are owned. Only workers of a fleet with regions ask.
const countByRegion = statement<{ owner: number; region: string; lanes: number }>('owned-by-region')`
  select owner, region, count(*) as lanes from lane where owner is not null group by owner, region`
// Leans on lane_due and lane_due_elsewhere.
const countDueByRegion = statement<{ region: string; lanes: number }>('due-by-region')`
  select '${defaultRegion}' as region, count(*) as lanes from lane where ${dueNear}
  union all
  select region, count(*) as lanes from lane where ${dueElsewhere} group by region`
const selectRegions = statement<{ id: number; regions: Regions; leaving: boolean }>('worker-regions', {
  json: ['regions'],
  flags: ['leaving'],
})`
  select id, regions, leaving from worker where ended_at is null`

// A lease that reaches further than it is long was written before the clock was set back.
const shortenLeases = statement('shorten-leases')`
  update worker set lease_until = :now + lease_ms where ended_at is null and lease_until > :now + lease_ms`
// Does not wait: a worker that is settling or claiming at this moment has locked its row, and is declared dead by the
// next renewal if it still needs to be.
const selectLapsed = statement<EndingWorker>('lapsed-workers')`
  select id, description from worker where ended_at is null and lease_until < :now ${forUpdateSkipLocked}`
const markLeaving = statement('start-leaving')`
  update worker set leaving = true where id = :worker and ended_at is null`
// On SQLite the process that owns the file has all workers.
const selectGone = statement<EndingWorker>('gone-workers')`
  select id, description from worker
   where ${among('id', ':workers')} and ended_at is null and ${hasSessionEnded}
   ${forUpdateSkipLocked}`
const lapseGone = statement('lapse-gone')`
  update worker set lease_until = ${least('lease_until', ':now - 1')} where ${among('id', ':workers')}`
// Its candidate is of the same process, and bears its description.
const endLeadOf = statement('end-lead-of')`
  update leader set lease_until = 0, lease_ms = 0
   where one = 1 and description in (select description from worker where ${among('id', ':workers')})`
// Waits until the leaving worker has settled.
const selectLeaving = statement<EndingWorker>('leaving-worker')`
  select id, description from worker where id = :worker and ended_at is null ${forUpdate}`
const selectLive = statement<EndingWorker>('live-workers')`select id, description from worker where ended_at is null`
// A lease in the past tells a worker that was declared dead from one that left.
const lapseLeases = statement('lapse-leases')`
  update worker set lease_until = :now - 1 where ended_at is null and lease_until >= :now`
// Leans on lane_owner.
const countOwned = statement<{ owner: number; lanes: number }>('count-owned')`
  select owner, count(*) as lanes from lane where ${among('owner', ':workers')} group by owner`
const markEnded = statement('end-workers')`
  update worker set ended_at = :now where ${among('id', ':workers')} and ended_at is null`
// Leans on lane_owner.
const orphanLanes = statement('orphan-lanes')`
  update lane set owner = null, clean = false,
         due_at = case when not stopped then ${greatest(':now', least('hold_until', `:now + ${longestRestMs}`))} end
   where ${among('owner', ':workers')}`

// Leans on app_share_worker.
const dropSharesOf = statement('drop-shares-of')`delete from app_share where ${among('worker', ':workers')}`

interface EndingWorker {
  readonly id: number
  readonly description: string
}

interface Living {
  readonly now: EpochMs
  readonly workers: number
  /** Workers that are not leaving. */
  readonly sharers: number
  /** Other workers whose lease has lapsed, or reaches further than it is long. */
  readonly odd: number
  /** Living workers that do not serve all regions. */
  readonly regional: number
}

/** Ends workers whose session has ended, and answers them. */
interface GoneWorkers {
  endGone(workers: readonly number[]): Promise<EndedWorkers>
}

/** Workers join, renew their leases and leave. `learnTime` is called with the store's clock at each renewal. */
export function workers(
  port: Port,
  learnTime: (now: EpochMs) => void = () => {},
): Methods<Pick<Ownership, 'join' | 'renew' | 'startLeaving' | 'leave'> & GoneWorkers> {
  function* living(worker: number): Work<Living> {
    const row = (yield* port.first(countLiving, { worker })) as Living
    learnTime(row.now)
    return row
  }

  /** The shares of the regions that a worker serves; undefined when it is not alive. */
  function* byRegion(worker: number): Work<Map<string, RegionShare> | undefined> {
    const living = yield* port.all(selectRegions)
    const own = living.find(({ id }) => id === worker)
    if (own === undefined) return undefined
    const owned = Map.groupBy(yield* port.all(countByRegion), ({ owner }) => owner)
    const due = new Map((yield* port.all(countDueByRegion)).map(({ region, lanes }) => [region, lanes]))
    const workers = living.map(({ id, regions, leaving }) => ({
      regions: leaving ? [] : regions,
      owned: new Map(owned.get(id)?.map(({ region, lanes }) => [region, lanes])),
    }))
    return regionShares(own.regions, workers, due)
  }

  return {
    *join({ description, leaseMs, regions = null }) {
      yield* port.transaction(endLapsed)
      const row = yield* port.transaction(function* (sql) {
        yield* sql.run(sweepWorkers)
        yield* sql.workersChanged()
        return yield* sql.first(insertWorker, { description, regions, lease_ms: Math.round(leaseMs) })
      })
      return row?.id as number
    },

    *renew(worker, leaseMs, report, counted = true, looks = true) {
      const values = { worker, lease_ms: Math.round(leaseMs), report: report ? JSON.stringify(report) : null }
      const alive = yield* port.transaction((sql) => sql.any(extendLease, values))
      if (!looks) return { alive }
      let found = yield* living(worker)
      const died = alive && found.odd > 0 ? yield* port.transaction(endLapsed) : []
      if (died.length > 0) found = yield* living(worker)
      const { workers } = found
      const sharers = Math.max(1, found.sharers)
      const renewal = { alive, workers, sharers, died }
      if (!counted || workers === 1) return renewal
      const lanes = yield* port.first(countLanes)
      const regions = found.regional === 0 ? undefined : yield* byRegion(worker)
      return { ...renewal, lanes, ...(regions !== undefined && { regions }) }
    },

    *startLeaving(worker) {
      yield* port.transaction(function* (sql) {
        yield* sql.run(markLeaving, { worker })
        yield* sql.workersChanged()
      })
    },

    *endGone(ids) {
      return yield* port.transaction(function* (sql) {
        const gone = yield* sql.all(selectGone, { workers: ids })
        if (gone.length === 0) return []
        const workers = gone.map(({ id }) => id)
        yield* sql.run(lapseGone, { workers })
        yield* sql.run(endLeadOf, { workers })
        return yield* endWorkers(sql, gone)
      })
    },

    *leave(worker) {
      yield* port.transaction(function* (sql) {
        yield* endWorkers(sql, yield* sql.all(selectLeaving, { worker }))
      })
    },
  }
}

/** Ends workers whose lease has lapsed, and answers them. */
function* endLapsed(sql: Transaction): Work<EndedWorkers> {
  yield* sql.run(shortenLeases)
  return yield* endWorkers(sql, yield* sql.all(selectLapsed))
}

/**
 * Ends workers whose rows are locked. The store refuses all that they report afterwards, and any worker may claim their
 * lanes. A statement of its own frees the lanes, so that it sees lanes that the workers took until the last moment.
 */
function* endWorkers(sql: Transaction, rows: readonly EndingWorker[]): Work<EndedWorkers> {
  if (rows.length === 0) return []
  const workers = rows.map(({ id }) => id)
  yield* sql.run(markEnded, { workers })
  const owned = new Map((yield* sql.all(countOwned, { workers })).map(({ owner, lanes }) => [owner, lanes]))
  yield* sql.run(orphanLanes, { workers })
  yield* sql.run(dropSharesOf, { workers })
  yield* sql.lanesFreed()
  yield* sql.workersChanged()
  return rows.map(({ id, description }) => ({ worker: id, description, lanes: owned.get(id) ?? 0 }))
}

type EndedWorkers = NonNullable<Renewal['died']>

/** Ends every lease: for the process that has just proved that it alone owns the file. */
export function* endAllLeases(port: Port): Work<void> {
  yield* port.transaction(function* (sql) {
    yield* sql.run(lapseLeases)
    yield* endWorkers(sql, yield* sql.all(selectLive))
    yield* sql.run(endAnyLead)
  })
}

/** A lane as it was stored, with its endpoint. */
export interface LaneRow extends SendableRow {
  readonly clean: boolean
  readonly bucket_full_at: EpochMs
  readonly bucket_limit: string | null
  readonly hold_until: EpochMs
  readonly health: string | null
  readonly health_at: EpochMs
  readonly region: string
}

export function toClaimed(row: LaneRow, now: EpochMs, { vault, log }: StoreContext): ClaimedLane {
  return {
    endpoint: { ...toSendable(row, vault, log), region: row.region },
    // A row of an older version says nothing of the limit that its debt was counted by.
    clean: row.clean && (row.bucket_limit !== null || row.bucket_full_at === 0),
    bucketDebtMs: storedDebtMs(row.bucket_full_at - now),
    bucketLimit: row.bucket_limit === null ? undefined : JSON.parse(row.bucket_limit),
    holdMs: restMs(row.hold_until - now),
    health: row.health,
    healthAgeMs: row.health === null ? 0 : Math.max(0, now - row.health_at),
  }
}

// One statement and one row: a second candidate waits for the row, sees the lease of the first and changes nothing. A
// lease that reaches further than it is long was written before the clock was set back, and counts as ended.
const takeLead = statement<{ epoch: number; leftMs: number }>('lead')`
  insert into leader (one, candidate, description, epoch, since, lease_ms, lease_until)
  values (1, :id, :description, 1, :now, cast(:lease_ms as bigint), :now + cast(:lease_ms as bigint))
  on conflict (one) do update
     set candidate = excluded.candidate, description = excluded.description, lease_ms = excluded.lease_ms,
         epoch = case when leader.candidate = excluded.candidate and leader.lease_until > excluded.since
                      then leader.epoch else leader.epoch + 1 end,
         since = case when leader.candidate = excluded.candidate and leader.lease_until > excluded.since
                      then leader.since else excluded.since end,
         lease_until = excluded.lease_until
   where leader.candidate = excluded.candidate or leader.lease_until <= excluded.since
      or leader.lease_until > excluded.since + leader.lease_ms
  returning epoch, lease_ms as "leftMs"`
const selectLeader = statement<Leader & { readonly leftMs: number }>('leader')`
  select description, epoch, ${greatest('0', ':now - since')} as "sinceMs",
         case when lease_until - :now > lease_ms then 0 else ${greatest('0', 'lease_until - :now')} end as "leftMs"
    from leader where one = 1`
// The row stays, so that the next leader's epoch is higher.
const endLead = statement('end-lead')`update leader set lease_until = 0, lease_ms = 0 where one = 1 and candidate = :id`
const endAnyLead = statement('end-any-lead')`update leader set lease_until = 0, lease_ms = 0 where one = 1`

// The newest first. Leans on lane_owner.
const selectWorkers = statement<ListedWorker>('list-workers', {
  json: ['report', 'regions'],
  flags: ['died', 'leads'],
})`
  select id as worker, description, report, regions, joined_at as "joinedAt", lease_until - lease_ms as "seenAt",
         lease_until as "leaseUntil", ended_at as "endedAt", coalesce(ended_at > lease_until, false) as died,
         (select count(*) from lane where owner = worker.id) as lanes,
         coalesce(ended_at is null and description = (
           select leader.description from leader
            where one = 1 and leader.lease_until > :now and leader.lease_until <= :now + leader.lease_ms), false) as leads
    from worker order by id desc limit :limit`

/** The process that does the work that is done once for the whole store, and all workers. */
export function leading(port: Port): Methods<Leading> {
  return {
    *lead({ id, description }, leaseMs) {
      const taken = yield* port.first(takeLead, { id, description, lease_ms: Math.round(leaseMs) })
      if (taken) return { leads: true, ...taken }
      const row = yield* port.first(selectLeader)
      return { leads: false, epoch: row?.epoch ?? 0, leftMs: row?.leftMs ?? 0 }
    },

    listWorkers: (limit) => port.all(selectWorkers, { limit }),

    resign: ({ id }) => port.run(endLead, { id }),

    *leader() {
      const row = yield* port.first(selectLeader)
      if (row === undefined || row.leftMs <= 0) return undefined
      const { leftMs: _leftMs, ...leader } = row
      return leader
    },
  }
}
