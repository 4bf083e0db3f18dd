import type { EpochMs } from '../../domain/clock.ts'
import { defaultRegion, type Regions, serves } from '../../features/regions/rules.ts'
import { type Claim, type LaneRest, longestRestMs, type Ownership, restMs, storedDebtMs, type Taken } from '../lanes.ts'
import { sendableColumns, sendableShape } from '../sql/receiver-rows.ts'
import type { Shape } from '../sql/statement.ts'
import { type LaneRow, toClaimed } from '../sql/workers.ts'
import type { Connection, MaybeSynchronous } from './connection.ts'
import { dueLanes } from './due-lanes.ts'
import { shaped } from './port.ts'
import { laneWakes, sqlWorkDue } from './queueing.ts'
import { shortQueues } from './short-queues.ts'

const laneColumns = `
  lane.clean, lane.bucket_full_at, lane.bucket_limit, lane.hold_until, lane.health, lane.health_at,
  lane.region, ${sendableColumns}`
// Unowned lanes that have an instant, in its order, of each of these sets. They lean on lane_due, on lane_due_elsewhere, which
// is empty while no endpoint has a region, and on lane_region_due. SQLite plans a statement again at each use that compares
// a bare parameter with a column of an index's condition.
const laneSets = {
  near: `lane.region = '${defaultRegion}'`,
  elsewhere: `lane.region <> '${defaultRegion}'`,
  region: `lane.region <> '${defaultRegion}' and lane.region = +:region`,
} as const
const dueLanesIn = (set: string) => `
  select ${laneColumns} from lane join endpoint on endpoint.key = lane.endpoint
  where lane.owner is null and lane.due_at <= :now and ${set} order by lane.due_at limit +:limit`
const nextDueIn = (set: string) =>
  `select min(due_at) as due_at from lane where owner is null and due_at is not null and ${set}`

// Each join is a probe of a primary key for each lane that is named.
const namedLanes = `
  select ${laneColumns} from json_each(:endpoints) as named
   cross join lane on lane.endpoint = named.value
   cross join endpoint on endpoint.key = lane.endpoint
   where lane.owner is null and lane.due_at <= :now`
/** A row of a lane with its endpoint, before it has the form of `LaneRow`. */
type LaneRecord = Record<string, unknown> & { readonly key: number; readonly region: string }
const laneShape: Shape<LaneRow> = { ...sendableShape, flags: [...(sendableShape.flags ?? []), 'clean'] }

function keysOf(lanes: readonly LaneRecord[]): string {
  return JSON.stringify(lanes.map(({ key }) => key))
}

const noLanes: Taken = { lanes: [], messages: [] }

/** Claims and releases lanes, and wakes those that would sleep past their work. */
export function ownership(
  connection: Connection,
): MaybeSynchronous<Pick<Ownership, 'claim' | 'findDue' | 'claimNamed' | 'release' | 'reconcile'>> {
  const live = connection.prepare<unknown>('select 1 from worker where id = ? and ended_at is null')
  const due = (set: string) => ({
    lanes: connection.prepareAlike<LaneRecord>(dueLanesIn(set)),
    next: connection.prepare<{ due_at: EpochMs | null }>(nextDueIn(set)),
  })
  const sets = { near: due(laneSets.near), elsewhere: due(laneSets.elsewhere), region: due(laneSets.region) }
  const ownedLanes = connection.prepareAlike<LaneRecord>(`
    select ${laneColumns} from lane join endpoint on endpoint.key = lane.endpoint where lane.owner = ?`)
  const take = connection.prepare(`
    update lane set owner = ?2, epoch = epoch + 1, due_at = null, hold_until = min(hold_until, ?3)
    where endpoint in (select value from json_each(?1)) and owner is null`)
  const rest = connection.prepare<{ due_at: EpochMs | null }>(`
    update lane set owner = null, clean = 1, bucket_full_at = :fullAt, bucket_limit = :bucketLimit,
      not_before = case when not_before < 0 then 0 else :notBefore end,
      due_at = case when stopped = 0 then (
        select max(work.due_at, :now, case when not_before < 0 then 0 else :notBefore end, hold_until)
          from (select ${sqlWorkDue('lane.endpoint')} as due_at) as work where work.due_at is not null
      ) end,
      health = case when :healthGiven then :health else health end,
      health_at = case when :healthGiven then :now else health_at end
    where endpoint = :endpoint and owner = :worker
    returning due_at`)
  const named = connection.prepareAlike<LaneRecord>(namedLanes)
  const shortQueue = shortQueues(connection)

  /** The sets of lanes that a worker with these regions may claim, each with the values that it needs. */
  function claimable(regions: Regions) {
    if (regions === null)
      return [
        { ...sets.near, values: {} },
        { ...sets.elsewhere, values: {} },
      ]
    return regions.map((region) =>
      region === defaultRegion ? { ...sets.near, values: {} } : { ...sets.region, values: { region } },
    )
  }

  function nextInMs(now: EpochMs, regions: Regions): number | undefined {
    const dues = claimable(regions).flatMap(({ next, values }) => next.get(values)?.due_at ?? [])
    return dues.length === 0 ? undefined : Math.max(0, Math.min(...dues) - now)
  }

  /** Lanes that were just taken, with their first rows. A message takes no round trip here, and is read when it is sent. */
  function taken(lanes: readonly LaneRecord[], now: EpochMs): Taken {
    const { context } = connection
    const claimed = lanes.map((lane) => {
      return { ...toClaimed(shaped(lane, laneShape), now, context), front: shortQueue(lane.key, now) }
    })
    return { lanes: claimed, messages: [] }
  }

  /**
   * Nothing is sent before a claim is on the disk: a power cut that undid it would give a lane the tokens back that were used
   * since. Meanwhile, others have their turn.
   */
  async function durably<T>(work: () => T): Promise<T> {
    const answer = connection.relaxedTransaction(work)
    await connection.onDisk()
    return answer
  }

  return {
    async claim(worker, limit, ownedToo = false, regions = null): Promise<Claim> {
      // Asking comes first, because the usual answer is "nothing yet" and needs no write lock.
      const waitMs = nextInMs(connection.now(), regions)
      if (waitMs !== 0 && !ownedToo) return { ...noLanes, nextInMs: waitMs }
      return durably(() => {
        const now = connection.now()
        if (live.get(worker) === undefined) return { ...noLanes, nextInMs: nextInMs(now, regions) }
        const found = ownedToo ? ownedLanes.all(worker) : []
        for (const { lanes, values } of claimable(regions)) {
          for (const lane of lanes.all({ ...values, now, limit })) found.push(lane)
        }
        take.run(keysOf(found), worker, now + longestRestMs)
        return { ...taken(found, now), nextInMs: nextInMs(now, regions) }
      })
    },

    findDue: dueLanes(connection),

    async claimNamed(worker, endpoints, regions = null) {
      if (endpoints.length === 0) return noLanes
      return durably(() => {
        const now = connection.now()
        if (live.get(worker) === undefined) return noLanes
        const due = named.all({ endpoints: JSON.stringify(endpoints), now })
        const found = due.filter(({ region }) => serves(regions, region))
        take.run(keysOf(found), worker, now + longestRestMs)
        return taken(found, now)
      })
    },

    release(worker, lanes: readonly LaneRest[]): void {
      if (lanes.length === 0) return
      let due = false
      // A power cut that undoes it leaves a lane of a worker that is gone, which starts with an empty bucket.
      connection.relaxedTransaction(() => {
        const now = connection.now()
        for (const lane of lanes) {
          const rested = rest.get({
            endpoint: lane.endpoint,
            worker,
            fullAt: now + storedDebtMs(lane.bucketDebtMs),
            bucketLimit: JSON.stringify(lane.bucketLimit),
            notBefore: now + restMs(lane.notBeforeMs),
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

/** Endpoints looked at per call, at about 10 µs each: the sweep goes on where it stopped. */
const endpointsPerCall = 1000

// ?2 is when there is something to do, ?3 the latest instant that any rest may reach to.
const oversleeps = `
  owner is null and stopped = 0
  and (due_at is null or due_at > max(?2, min(not_before, ?3), min(hold_until, ?3)))`

/** Makes the sweep that wakes lanes which would sleep past their work; it answers how many it had to wake. */
function reconciler(connection: Connection): () => number {
  // One seek of pending's primary key, however many rows an endpoint has.
  const nextEndpoint = connection.prepare<{ endpoint: number | null }>(
    'select min(endpoint) as endpoint from pending where endpoint > ?',
  )
  const oversleeping = connection.prepare<unknown>(`select 1 from lane where endpoint = ?1 and ${oversleeps}`)
  const repair = connection.prepare(`
    update lane set not_before = min(not_before, ?3), hold_until = min(hold_until, ?3),
      due_at = max(?2, min(not_before, ?3), min(hold_until, ?3))
    where endpoint = ?1 and ${oversleeps}`)
  const wakes = laneWakes(connection)
  let cursor = -1

  return () => {
    const now = connection.now()
    const latest = now + longestRestMs
    const found: { readonly endpoint: number; readonly due: number }[] = []
    for (let looked = 0; looked < endpointsPerCall; looked++) {
      const endpoint = nextEndpoint.get(cursor)?.endpoint ?? null
      cursor = endpoint ?? -1
      if (endpoint === null) break
      const due = wakes.workDue(endpoint, now)
      if (due !== null && oversleeping.get(endpoint, due, latest)) found.push({ endpoint, due })
    }
    if (found.length === 0) return 0
    const repaired = connection.transaction(() => {
      return found.reduce((sum, { endpoint, due }) => sum + repair.run(endpoint, due, latest).changes, 0)
    })
    if (repaired > 0) connection.watcher?.lanes()
    return repaired
  }
}

/** Smaller steps are left alone: the two clocks are read one after the other, and the process may be held up between. */
const leastJumpMs = 100

/**
 * Makes a check, to be run before anything is decided by the clock, that moves leases and lanes' rests along when the
 * world's clock was set: a jump forward must not end a Retry-After or the rest of an empty bucket early, and a jump back
 * must not prolong it. The steady clock tells a jump from time that passed.
 *
 * Only for a process that has the file to itself: two would move the same rows twice. A row that is due at a stated instant
 * (a retry, a delayed message) stays there, and a lane only ever becomes due earlier, which costs one look.
 */
export function followClock(connection: Connection): () => void {
  const { clock, log } = connection.context
  // Rests are durations that had to be written down as instants. Those that end after the earlier of the two readings of
  // the clock are moved; an older one is over by either.
  const lanes = connection.prepare(`
    update lane set bucket_full_at = bucket_full_at + iif(bucket_full_at > 0, :by, 0),
      not_before = not_before + iif(not_before > 0, :by, 0), hold_until = hold_until + :by,
      due_at = min(due_at, due_at + :by)
    where max(bucket_full_at, not_before, hold_until, coalesce(due_at, 0)) > :since`)
  // How long ago that was is counted on.
  const healths = connection.prepare('update lane set health_at = health_at + ? where health is not null')
  const leases = connection.prepare('update worker set lease_until = lease_until + ? where ended_at is null')
  let offset = clock.now() - clock.steady()

  return () => {
    const now = clock.now()
    const found = now - clock.steady()
    const by = Math.round(found - offset)
    // Slow drift is followed without a trace.
    if (Math.abs(by) >= leastJumpMs) {
      connection.transaction(() => {
        lanes.run({ by, since: Math.floor(Math.min(now, now - by)) })
        healths.run(by)
        leases.run(by)
      })
      log?.(`the clock was set ${by > 0 ? 'forward' : 'back'} by ${Math.abs(by)} ms; leases and rests were moved along`)
    }
    offset = found
  }
}
