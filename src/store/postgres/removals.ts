import { endpointsPerRemoval, type Removals, rowsPerRemoval, type Swept } from '../maintenance.ts'
import { writeChangeNotices } from '../sql/notices.ts'
import { finishLater } from '../sql/port.ts'
import { integers } from './arrays.ts'
import type { Database } from './database.ts'
import { sqlNow, withClock } from './database.ts'
import { sqlOver } from './port.ts'
import { type Run, statement } from './sessions.ts'
import { bumpVersion } from './version.ts'

const deleteApplicationRow = statement(
  'delete-application',
  `
    update application set deleted_at = ${sqlNow}, updated_at = greatest(${sqlNow}, updated_at), version = version + 1
     where key = $1 and key > 0 and deleted_at is null
    returning key`,
)
// At once: one that is due would publish into what is gone. An application has a thousand at most.
const deleteSchedules = statement('delete-schedules', 'delete from schedule where app = $1')
const deleteRegions = statement('delete-regions', 'delete from region where app = $1')
const selectEndpoint = statement(
  'endpoint-exists',
  'select key from endpoint where key = $2 and app = $1 and deleted_at is null',
)
// Leans on endpoint_app.
const selectEndpoints = statement(
  'endpoints-to-remove',
  'select key from endpoint where app = $1 and key > $2 and deleted_at is null order by key limit $3',
)
// Disabled as well, so that no owner that still reads the row by its lane sends anything. Its secrets go at once.
const deleteEndpointRows = statement(
  'delete-endpoints',
  `
    update endpoint set deleted_at = ${sqlNow}, updated_at = greatest(${sqlNow}, updated_at + 1), disabled = true,
           disabled_reason = 'operator', secrets = '[]', headers = '{}'
     where key = any ($1::bigint[]) and deleted_at is null
    returning key`,
)
const stopLanes = statement(
  'stop-removed-lanes',
  'update lane set stopped = true, due_at = null where endpoint = any ($1::bigint[])',
)
const insertRemovals = statement(
  'insert-removals',
  `
    insert into removal (key, kind, since, due_at)
    select key, $2, ${sqlNow}, ${sqlNow} from unnest($1::bigint[]) as key`,
)

// Leans on removal_due.
export const selectDueRemoval = statement(
  'due-removal',
  `
    ${withClock}
    select key, kind, reached, since, (select now from clock) as now from removal
     where due_at <= (select now from clock) order by due_at limit 1 for update skip locked`,
)
const moveRemoval = statement('move-removal', 'update removal set reached = $2 where key = $1')
const postponeRemoval = statement('postpone-removal', 'update removal set due_at = $2 where key = $1')
const deleteRemoval = statement('delete-removal', 'delete from removal where key = $1')

// By place, because the rows are never updated, and a delete that joins may be driven from all of pending.
export const cancelPending = statement(
  'cancel-pending',
  `
    delete from pending where ctid = any (array (
      select ctid from pending where endpoint = $1 order by class, due_at, message limit $2
    ))
    returning 1`,
)
const deleteLane = statement('delete-lane', 'delete from lane where endpoint = $1 and owner is null')
const selectLane = statement('lane-exists', 'select 1 from lane where endpoint = $1')

/**
 * A publish that read its application before the deletion may commit its rows behind it. No statement runs this long, so
 * a queue that is empty after it stays empty.
 */
const graceMs = 30_000
/** An owner has this long to notice that its endpoint is gone before its lane is looked at again. */
const ownerMs = 1000

interface RemovalRow {
  readonly key: number
  readonly kind: 'application' | 'endpoint'
  readonly reached: number
  readonly since: number
  readonly now: number
}

/** Deletes applications and endpoints, and what they leave behind. */
export function removals(database: Database): Removals {
  const { durable, relaxed, signals } = database

  /** In the order of every change of endpoints: application (the caller's), endpoint, lane. */
  async function remove(run: Run, app: number, endpoints: readonly number[]): Promise<number[]> {
    const keys = (await run<{ key: number }>(deleteEndpointRows, [integers(endpoints)])).map((row) => row.key)
    if (keys.length === 0) return []
    await run(stopLanes, [integers(keys)])
    await run(insertRemovals, [integers(keys), 'endpoint'])
    await signals.notify(run, 's', keys)
    await finishLater(writeChangeNotices(sqlOver(run), database.context, ['endpoint.deleted'], app, keys))
    return keys
  }

  /** Removes the next endpoints of a deleted application; answers which. */
  async function removeSome(run: Run, app: number, reached: number): Promise<number[]> {
    const rows = await run<{ key: number }>(selectEndpoints, [app, reached, endpointsPerRemoval])
    const keys = rows.map((row) => row.key)
    const removed = await remove(run, app, keys)
    if (keys.length < endpointsPerRemoval) await run(deleteRemoval, [app])
    else await run(moveRemoval, [app, keys.at(-1)])
    return removed
  }

  /** Removes up to a chunk of an endpoint's waiting deliveries; answers how many. */
  async function cancelSome(run: Run, { key, since, now }: RemovalRow): Promise<number> {
    const { length } = await run(cancelPending, [key, rowsPerRemoval])
    if (length === rowsPerRemoval) return length
    if (now < since + graceMs) {
      await run(postponeRemoval, [key, since + graceMs])
      return length
    }
    await run(deleteLane, [key])
    if ((await run(selectLane, [key])).length > 0) await run(postponeRemoval, [key, now + ownerMs])
    else await run(deleteRemoval, [key])
    return length
  }

  return {
    async deleteApplication(app) {
      let stopped: number[] = []
      const existed = await durable.transaction(async (run) => {
        if ((await run(deleteApplicationRow, [app])).length === 0) return false
        await run(insertRemovals, [integers([app]), 'application'])
        await run(deleteSchedules, [app])
        await run(deleteRegions, [app])
        stopped = await removeSome(run, app, 0)
        return true
      })
      if (stopped.length > 0) signals.settings(stopped)
      return existed
    },

    async deleteEndpoint(app, endpoint) {
      const existed = await durable.transaction(async (run) => {
        if ((await run(selectEndpoint, [app, endpoint])).length === 0) return false
        if ((await run(bumpVersion, [app])).length === 0) return false
        return (await remove(run, app, [endpoint])).length > 0
      })
      if (existed) signals.settings([endpoint])
      return existed
    },

    async sweepRemoved(): Promise<Swept> {
      let stopped: number[] = []
      const swept = await relaxed.transaction(async (run) => {
        const [next] = await run<RemovalRow>(selectDueRemoval)
        if (next === undefined) return { cancelled: 0, more: false }
        if (next.kind === 'endpoint') return { cancelled: await cancelSome(run, next), more: true }
        stopped = await removeSome(run, next.key, next.reached)
        return { cancelled: 0, more: true }
      })
      if (stopped.length > 0) signals.settings(stopped)
      return swept
    },
  }
}
