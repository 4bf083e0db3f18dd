import { bumpVersion } from '../../features/applications/rows.ts'
import { removeHistory } from '../../features/history/rows.ts'
import { writeChangeNotices } from '../../features/notices/rows.ts'
import { nouns } from '../../features/nouns.ts'
import { deleteSourcesOf } from '../../features/sources/rows.ts'
import type { Declaration } from '../../noun/noun.ts'
import { endpointsPerRemoval, rowsPerRemoval } from '../maintenance.ts'
import type { Store } from '../store.ts'
import { among, deleteFound, forUpdateSkipLocked, greatest, rowsOf } from './dialect.ts'
import type { Methods, Port, Transaction, Work } from './port.ts'
import { statement } from './statement.ts'

const deleteApplicationRow = statement('delete-application')`
  update application set deleted_at = :now, updated_at = ${greatest(':now', 'updated_at')}, version = version + 1
   where key = :app and key > 0 and deleted_at is null
  returning key`
// They go at once: a schedule that is due would publish into a deleted application. There are a thousand at most. Sources go
// with their arrivals: see `deleteSourcesOf`.
const ownedTables = Object.values<Declaration>(nouns).flatMap(({ owner, table }) =>
  owner === 'application' && table !== 'source' ? [table] : [],
)
const deletesOfApp = [...ownedTables, 'region', 'portal_look', 'subject_key'].map(
  (table) => statement(`delete-${table}-of-app`)`delete from ${table} where app = :app`,
)
const selectEndpoint = statement('endpoint-exists')`
  select key from endpoint where key = :endpoint and app = :app and deleted_at is null`
// Leans on endpoint_app.
const selectEndpoints = statement<{ key: number }>('endpoints-to-remove')`
  select key from endpoint where app = :app and key > :reached and deleted_at is null order by key limit :limit`
// Also disabled, so that an owner that still reads the row by its lane sends nothing. The secrets go at once.
const deleteEndpointRows = statement<{ key: number }>('delete-endpoints')`
  update endpoint set deleted_at = :now, updated_at = ${greatest(':now', 'updated_at + 1')}, disabled = true,
         disabled_reason = 'operator', secrets = '[]', headers = '{}',
         auth = null, client_certificate = null, certificate_expires_at = null
   where ${among('key', ':endpoints')} and deleted_at is null
  returning key`
const stopLanes = statement('stop-removed-lanes')`
  update lane set stopped = true, due_at = null where ${among('endpoint', ':endpoints')}`

const insertRemovals = statement('insert-removals')`
  insert into removal (key, kind, since, due_at)
  select key, :kind, :now, :now from ${rowsOf(':removed', 'removed', { key: 'bigint' })}`
// Leans on removal_due.
const lockDueRemoval = statement<RemovalRow>('due-removal')`
  select key, kind, reached, since, :now as now from removal
   where due_at <= :now order by due_at limit 1 ${forUpdateSkipLocked}`
const moveRemoval = statement('move-removal')`update removal set reached = :reached where key = :key`
const postponeRemoval = statement('postpone-removal')`update removal set due_at = :due_at where key = :key`
const deleteRemoval = statement('delete-removal')`delete from removal where key = :key`

// A range of pending's primary key. A row that a settle has locked is waited for: passed over, it would be left behind.
const cancelPending = statement('cancel-pending')`
  ${deleteFound(
    'pending',
    'endpoint, class, due_at, message',
    'where endpoint = :endpoint order by class, due_at, message limit :limit',
  )}`
const deleteLane = statement('delete-lane')`delete from lane where endpoint = :endpoint and owner is null`
const selectLane = statement('lane-exists')`select 1 from lane where endpoint = :endpoint`

/**
 * Where transactions run side by side, a publish that read its application before the deletion may commit its rows behind
 * it. No statement runs this long, so a queue that is empty after it stays empty.
 */
const graceMs = 30_000
/** An owner has this long to notice that its endpoint is deleted before the sweep looks at its lane again. */
const ownerMs = 1000
/** The cost of looking at one removal, in rows, however few it has. */
const visitRows = 20

interface RemovalRow {
  readonly key: number
  readonly kind: 'application' | 'endpoint'
  /** The last endpoint of the application that was removed. */
  readonly reached: number
  readonly since: number
  readonly now: number
}

/** Deletes applications and endpoints, and the rows that they leave behind. */
export function removals(port: Port): Methods<Pick<Store, 'deleteApplication' | 'deleteEndpoint' | 'sweepRemoved'>> {
  /** Locks in the order of every change of endpoints: application (by the caller), endpoint, lane. */
  function* remove(sql: Transaction, app: number, wanted: readonly number[]): Work<boolean> {
    const endpoints = (yield* sql.all(deleteEndpointRows, { endpoints: wanted })).map(({ key }) => key)
    if (endpoints.length === 0) return false
    yield* sql.run(stopLanes, { endpoints })
    yield* sql.run(insertRemovals, { removed: endpoints.map((key) => ({ key })), kind: 'endpoint' })
    yield* sql.settingsChanged(endpoints)
    yield* writeChangeNotices(sql, port.context, ['endpoint.deleted'], app, endpoints)
    return true
  }

  /** Removes the next endpoints of a deleted application. */
  function* removeSome(sql: Transaction, app: number, reached: number): Work<void> {
    const rows = yield* sql.all(selectEndpoints, { app, reached, limit: endpointsPerRemoval })
    const last = rows.at(-1)
    const isLast =
      rows.length < endpointsPerRemoval && (yield* removeHistory(sql, app, rowsPerRemoval)) < rowsPerRemoval
    if (isLast) yield* sql.run(deleteRemoval, { key: app })
    else if (last !== undefined) yield* sql.run(moveRemoval, { key: app, reached: last.key })
    yield* remove(
      sql,
      app,
      rows.map(({ key }) => key),
    )
  }

  /**
   * Removes up to a chunk of an endpoint's waiting deliveries, then of its history, and its lane behind the last. Answers
   * how many deliveries, and how many rows in all.
   */
  function* cancelSome(
    sql: Transaction,
    { key, since, now }: RemovalRow,
  ): Work<{ cancelled: number; removed: number }> {
    const { length: cancelled } = yield* sql.all(cancelPending, { endpoint: key, limit: rowsPerRemoval })
    if (cancelled === rowsPerRemoval) return { cancelled, removed: cancelled }
    const sums = yield* removeHistory(sql, key, rowsPerRemoval)
    const done = { cancelled, removed: cancelled + sums }
    if (sums === rowsPerRemoval) return done
    if (!port.hasOneWriter && now < since + graceMs) {
      yield* sql.run(postponeRemoval, { key, due_at: since + graceMs })
      return done
    }
    yield* sql.run(deleteLane, { endpoint: key })
    const isOwned = yield* sql.any(selectLane, { endpoint: key })
    if (isOwned) yield* sql.run(postponeRemoval, { key, due_at: now + ownerMs })
    else yield* sql.run(deleteRemoval, { key })
    return done
  }

  return {
    *deleteApplication(app) {
      return yield* port.transaction(function* (sql) {
        if (!(yield* sql.any(deleteApplicationRow, { app }))) return false
        yield* sql.run(insertRemovals, { removed: [{ key: app }], kind: 'application' })
        for (const each of deletesOfApp) yield* sql.run(each, { app })
        yield* deleteSourcesOf(sql, app)
        yield* removeSome(sql, app, 0)
        return true
      })
    },

    *deleteEndpoint(app, endpoint) {
      return yield* port.transaction(function* (sql) {
        if (!(yield* sql.any(selectEndpoint, { app, endpoint }))) return false
        if (!(yield* sql.any(bumpVersion, { app }))) return false
        return yield* remove(sql, app, [endpoint])
      })
    },

    *sweepRemoved() {
      // Outside of a transaction first: usually nothing is due, and then no write lock is needed.
      if (!(yield* port.relaxed.any(lockDueRemoval))) return { cancelled: 0, more: false }
      return yield* port.relaxed.transaction(function* (sql) {
        let cancelled = 0
        for (let rows = 0; rows < rowsPerRemoval; rows += visitRows) {
          const next = yield* sql.first(lockDueRemoval)
          if (next === undefined) return { cancelled, more: false }
          if (next.kind === 'application') {
            yield* removeSome(sql, next.key, next.reached)
            rows += endpointsPerRemoval
          } else {
            const done = yield* cancelSome(sql, next)
            cancelled += done.cancelled
            rows += done.removed
          }
          // A second removal would lock lanes out of the order in which other transactions lock them.
          if (!port.hasOneWriter) break
        }
        return { cancelled, more: true }
      })
    },
  }
}
