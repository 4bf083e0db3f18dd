import type { EpochMs } from '../../domain/clock.ts'
import type { NoticeType } from '../../domain/notice.ts'
import { endpointsPerRemoval, type Removals, rowsPerRemoval, type Swept } from '../maintenance.ts'
import { bumpVersion } from '../sql/applications.ts'
import { writeChangeNotices } from '../sql/notices.ts'
import { finishNow } from '../sql/port.ts'
import type { Connection, Synchronous } from './connection.ts'
import { laneWakes } from './lane-wakes.ts'
import { sqlitePort } from './port.ts'

const deleteApplicationRow = `
  update application set deleted_at = ?2, updated_at = ?2, version = version + 1
  where key = ?1 and key > 0 and deleted_at is null`
// Disabled as well, so that no owner that still reads the row by its lane sends anything. Its secrets go at once.
const deleteEndpointRow = `
  update endpoint set deleted_at = ?3, updated_at = max(?3, updated_at + 1), disabled = 1, disabled_reason = 'operator',
    secrets = '[]', headers = '{}'
  where key = ?2 and app = ?1 and deleted_at is null`
// At once: one that is due would publish into what is gone. An application has a thousand at most.
const deleteSchedules = 'delete from schedule where app = ?'
// Leans on endpoint_app.
const selectEndpoints = `
  select key from endpoint where app = ? and key > ? and deleted_at is null order by key limit ?`

const deleteRegions = 'delete from region where app = ?'
const insertRemoval = 'insert into removal (key, kind, since, due_at) values (?1, ?2, ?3, ?3)'
// Leans on removal_due.
const selectDueRemoval = 'select key, kind, reached from removal where due_at <= ? order by due_at limit 1'
const moveRemoval = 'update removal set reached = ?2 where key = ?1'
const postponeRemoval = 'update removal set due_at = ?2 where key = ?1'
const deleteRemoval = 'delete from removal where key = ?'

// The row that ends a chunk of an endpoint's queue; both are ranges of pending's primary key.
const selectChunkEnd = `
  select class, due_at, message from pending where endpoint = ? order by class, due_at, message limit 1 offset ?`
const deleteChunk = 'delete from pending where endpoint = ? and (class, due_at, message) <= (?, ?, ?)'
const deleteRest = 'delete from pending where endpoint = ?'
const deleteLane = 'delete from lane where endpoint = ? and owner is null'
const selectLane = 'select 1 from lane where endpoint = ?'

/** An owner has this long to notice that its endpoint is gone before its lane is looked at again. */
const ownerMs = 1000
/** The cost of looking at one removal, in rows, however few it has. */
const visitRows = 20

interface RemovalRow {
  readonly key: number
  readonly kind: 'application' | 'endpoint'
  readonly reached: number
}

/** Deletes applications and endpoints, and what they leave behind. */
export function removals(connection: Connection): Synchronous<Removals> {
  const endApplication = connection.prepare(deleteApplicationRow)
  const endEndpoint = connection.prepare(deleteEndpointRow)
  const bump = connection.prepare(bumpVersion.in('sqlite').text)
  const removeSchedules = connection.prepare(deleteSchedules)
  const endpointsAfter = connection.prepare<{ key: number }>(selectEndpoints)
  const forgetRegions = connection.prepare(deleteRegions)
  const add = connection.prepare(insertRemoval)
  const nextDue = connection.prepare<RemovalRow>(selectDueRemoval)
  const move = connection.prepare(moveRemoval)
  const postpone = connection.prepare(postponeRemoval)
  const finish = connection.prepare(deleteRemoval)
  const chunkEnd = connection.prepare<{ class: number; due_at: number; message: number }>(selectChunkEnd)
  const removeChunk = connection.prepare(deleteChunk)
  const removeRest = connection.prepare(deleteRest)
  const removeLane = connection.prepare(deleteLane)
  const lane = connection.prepare<unknown>(selectLane)
  const wakes = laneWakes(connection)
  const port = sqlitePort(connection)
  const notify = (types: readonly NoticeType[], app: number, endpoint: number) =>
    finishNow(writeChangeNotices(port, connection.context, types, app, [endpoint]))

  function remove(app: number, endpoint: number, now: EpochMs): boolean {
    if (endEndpoint.run(app, endpoint, now).changes === 0) return false
    wakes.stop(endpoint)
    add.run(endpoint, 'endpoint', now)
    notify(['endpoint.deleted'], app, endpoint)
    return true
  }

  /** Removes the next endpoints of a deleted application; answers which. */
  function removeSome(app: number, reached: number, now: EpochMs): number[] {
    const keys = endpointsAfter.all(app, reached, endpointsPerRemoval).map((row) => row.key)
    for (const key of keys) remove(app, key, now)
    if (keys.length < endpointsPerRemoval) finish.run(app)
    else move.run(app, keys.at(-1) as number)
    return keys
  }

  /** Removes up to a chunk of an endpoint's waiting deliveries; answers how many. */
  function cancelSome(endpoint: number, now: EpochMs): number {
    const end = chunkEnd.get(endpoint, rowsPerRemoval - 1)
    if (end) return removeChunk.run(endpoint, end.class, end.due_at, end.message).changes
    const { changes } = removeRest.run(endpoint)
    removeLane.run(endpoint)
    if (lane.get(endpoint)) postpone.run(endpoint, now + ownerMs)
    else finish.run(endpoint)
    return changes
  }

  return {
    deleteApplication(app): boolean {
      let stopped: number[] = []
      const existed = connection.transaction(() => {
        const now = connection.now()
        if (endApplication.run(app, now).changes === 0) return false
        forgetRegions.run(app)
        add.run(app, 'application', now)
        removeSchedules.run(app)
        stopped = removeSome(app, 0, now)
        return true
      })
      if (stopped.length > 0) connection.watcher?.settings(stopped)
      return existed
    },

    deleteEndpoint(app, endpoint): boolean {
      const existed = connection.transaction(() => {
        const removed = remove(app, endpoint, connection.now())
        if (removed) bump.run({ app })
        return removed
      })
      if (existed) connection.watcher?.settings([endpoint])
      return existed
    },

    sweepRemoved(): Swept {
      // Asking comes first, because the usual answer is "nothing" and needs no write lock.
      if (nextDue.get(connection.now()) === undefined) return { cancelled: 0, more: false }
      const stopped: number[] = []
      const swept = connection.transaction(() => {
        const now = connection.now()
        let cancelled = 0
        for (let rows = 0; rows < rowsPerRemoval; rows += visitRows) {
          const next = nextDue.get(now)
          if (next === undefined) return { cancelled, more: false }
          if (next.kind === 'application') {
            stopped.push(...removeSome(next.key, next.reached, now))
            rows += endpointsPerRemoval
          } else {
            const removed = cancelSome(next.key, now)
            cancelled += removed
            rows += removed
          }
        }
        return { cancelled, more: true }
      })
      if (stopped.length > 0) connection.watcher?.settings(stopped)
      return swept
    },
  }
}
