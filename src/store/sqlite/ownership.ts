import type { EpochMs } from '../../domain/clock.ts'
import {
  type Claim,
  type ClaimedLane,
  type LaneRest,
  longestRestMs,
  type NewWorker,
  type Ownership,
  type Renewal,
} from '../lanes.ts'
import { sendableColumns, sendableShape, toSendable } from '../sql/endpoint-rows.ts'
import type { Connection, Synchronous } from './connection.ts'
import { laneWakes } from './lane-wakes.ts'
import { fromStored } from './port.ts'
import { reconciler } from './reconcile.ts'

const insertWorker = `
  insert into worker (description, joined_at, lease_ms, lease_until) values (?, ?, ?, ?) returning id`
const selectLive = 'select 1 from worker where id = ? and ended_at is null'
const extendLease = 'update worker set lease_ms = ?2, lease_until = ?3 + ?2 where id = ?1 and ended_at is null'
// A lease that reaches further than it is long was written before the clock was set back.
const shortenLeases =
  'update worker set lease_until = ?1 + lease_ms where ended_at is null and lease_until > ?1 + lease_ms'
const selectLapsed = 'select id from worker where ended_at is null and lease_until < ?'
const selectAll = 'select id from worker where ended_at is null'
const endWorker = 'update worker set ended_at = ?2 where id = ?1 and ended_at is null'
const sweepWorkers = 'delete from worker where ended_at < ?'
const countWorkers = 'select count(*) as count from worker where ended_at is null'
const countActive = `
  select (select count(*) from lane where owner is not null)
    + (select count(*) from lane where owner is null and due_at <= ?) as count`
// Leans on lane_owner.
const countFewest = `
  select coalesce(min(owned), 0) as count
  from (select (select count(*) from lane where owner = worker.id) as owned from worker where ended_at is null)`

const laneColumns = `
  lane.clean, lane.bucket_full_at, lane.hold_until, lane.health, lane.health_at, ${sendableColumns}`
// Leans on lane_due, as selectNextDue does: unowned lanes that have an instant, in its order.
const selectDueLanes = `
  select ${laneColumns} from lane join endpoint on endpoint.key = lane.endpoint
  where lane.owner is null and lane.due_at <= ? order by lane.due_at limit ?`
const selectOwnedLanes = `
  select ${laneColumns} from lane join endpoint on endpoint.key = lane.endpoint where lane.owner = ?`
const selectNextDue = 'select min(due_at) as due_at from lane where owner is null and due_at is not null'
const takeLane = `
  update lane set owner = ?2, epoch = epoch + 1, due_at = null, hold_until = min(hold_until, ?3)
  where endpoint = ?1 and owner is null`
const restLane = `
  update lane set owner = null, clean = 1, bucket_full_at = :fullAt,
    not_before = case when not_before < 0 then 0 else :notBefore end,
    due_at = case
      when stopped = 1 or :workDue is null then null
      else max(:workDue, case when not_before < 0 then 0 else :notBefore end, hold_until)
    end,
    health = case when :healthGiven then :health else health end,
    health_at = case when :healthGiven then :now else health_at end
  where endpoint = :endpoint and owner = :worker
  returning due_at`
// Leans on lane_owner.
const orphanLanes = `
  update lane set owner = null, clean = 0, due_at = case when stopped = 1 then null else max(?2, min(hold_until, ?3)) end
  where owner = ?1`

/** Ended workers are kept this long, for operators. */
const keepWorkersMs = 7 * 24 * 60 * 60 * 1000

/** A lane, together with the columns of its endpoint as they are stored. */
interface LaneRow {
  readonly key: number
  readonly clean: number
  readonly bucket_full_at: EpochMs
  readonly hold_until: EpochMs
  readonly health: string | null
  readonly health_at: EpochMs
}

/** Workers and the lanes that they own. `reconcile` is in its own file. */
export function ownership(connection: Connection): Synchronous<Ownership> {
  const live = connection.prepare<unknown>(selectLive)
  const insert = connection.prepare<{ id: number }>(insertWorker)
  const extend = connection.prepare(extendLease)
  const workers = connection.prepare<{ count: number }>(countWorkers)
  const active = connection.prepare<{ count: number }>(countActive)
  const fewest = connection.prepare<{ count: number }>(countFewest)
  const sweep = connection.prepare(sweepWorkers)
  const dueLanes = connection.prepare<LaneRow>(selectDueLanes)
  const ownedLanes = connection.prepare<LaneRow>(selectOwnedLanes)
  const nextDue = connection.prepare<{ due_at: EpochMs | null }>(selectNextDue)
  const take = connection.prepare(takeLane)
  const rest = connection.prepare<{ due_at: EpochMs | null }>(restLane)
  const wakes = laneWakes(connection)
  const ending = workerEnding(connection)
  const { vault, log } = connection.context

  function toClaimed(lane: LaneRow, now: EpochMs): ClaimedLane {
    return {
      endpoint: toSendable(fromStored(lane, sendableShape), vault, log),
      clean: lane.clean === 1,
      bucketDebtMs: restMs(lane.bucket_full_at - now),
      holdMs: restMs(lane.hold_until - now),
      health: lane.health,
      healthAgeMs: lane.health === null ? 0 : Math.max(0, now - lane.health_at),
    }
  }

  function nextInMs(now: EpochMs): number | undefined {
    const due = nextDue.get()?.due_at
    return typeof due === 'number' ? Math.max(0, due - now) : undefined
  }

  return {
    join(worker: NewWorker): number {
      return connection.transaction(() => {
        const now = connection.now()
        ending.endLapsed(now)
        sweep.run(now - keepWorkersMs)
        const leaseMs = Math.round(worker.leaseMs)
        return insert.get(worker.description, now, leaseMs, now + leaseMs)?.id as number
      })
    },

    renew(worker, leaseMs): Renewal {
      let ended = 0
      const renewal = connection.transaction(() => {
        const now = connection.now()
        const alive = extend.run(worker, Math.round(leaseMs), now).changes > 0
        if (alive) ended = ending.endLapsed(now)
        return {
          alive,
          workers: workers.get()?.count ?? 0,
          activeLanes: active.get(now)?.count ?? 0,
          fewestLanes: fewest.get()?.count ?? 0,
        }
      })
      if (ended > 0) connection.watcher?.lanes()
      return renewal
    },

    leave(worker): void {
      connection.transaction(() => ending.end(worker, connection.now()))
      connection.watcher?.lanes()
    },

    claim(worker, limit, ownedToo = false): Claim {
      // Asking comes first, because the usual answer is "nothing yet" and needs no write lock.
      const waitMs = nextInMs(connection.now())
      if (waitMs !== 0 && !ownedToo) return { lanes: [], nextInMs: waitMs }
      return connection.transaction(() => {
        const now = connection.now()
        if (live.get(worker) === undefined) return { lanes: [], nextInMs: nextInMs(now) }
        const lanes = ownedToo ? ownedLanes.all(worker) : []
        for (const lane of dueLanes.all(now, limit)) {
          take.run(lane.key, worker, now + longestRestMs)
          lanes.push(lane)
        }
        return { lanes: lanes.map((lane) => toClaimed(lane, now)), nextInMs: nextInMs(now) }
      })
    },

    release(worker, lanes: readonly LaneRest[]): void {
      if (lanes.length === 0) return
      let due = false
      connection.transaction(() => {
        const now = connection.now()
        for (const lane of lanes) {
          const rested = rest.get({
            endpoint: lane.endpoint,
            worker,
            fullAt: now + restMs(lane.bucketDebtMs),
            notBefore: now + restMs(lane.notBeforeMs),
            workDue: wakes.workDue(lane.endpoint, now),
            now,
            healthGiven: lane.health === undefined ? 0 : 1,
            health: lane.health ?? null,
          })
          if (typeof rested?.due_at === 'number') due = true
        }
      })
      if (due) connection.watcher?.lanes()
    },

    reconcile: reconciler(connection),
  }
}

/** Declares workers dead. Whatever such a worker says afterwards is refused, and its lanes are anybody's. */
function workerEnding(connection: Connection) {
  const shorten = connection.prepare(shortenLeases)
  const lapsed = connection.prepare<{ id: number }>(selectLapsed)
  const markEnded = connection.prepare(endWorker)
  const orphan = connection.prepare(orphanLanes)

  function end(worker: number, now: EpochMs): void {
    markEnded.run(worker, now)
    orphan.run(worker, now, now + longestRestMs)
  }

  return {
    end,
    /** Ends those whose lease has lapsed; answers how many. */
    endLapsed(now: EpochMs): number {
      shorten.run(now)
      const ids = lapsed.all(now)
      for (const { id } of ids) end(id, now)
      return ids.length
    },
  }
}

/** Declares every worker of the file dead: for the process that has just proved that it alone owns the file. */
export function endAllWorkers(connection: Connection): void {
  const ending = workerEnding(connection)
  connection.transaction(() => {
    const now = connection.now()
    for (const { id } of connection.prepare<{ id: number }>(selectAll).all()) ending.end(id, now)
  })
}

/** A rest in whole milliseconds, rounded up so that it is never undercut, and bounded. */
function restMs(ms: number): number {
  return Math.min(longestRestMs, Math.max(0, Math.ceil(ms)))
}
