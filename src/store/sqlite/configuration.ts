import { AppError } from '../../domain/app-error.ts'
import { type Application, type Endpoint, isStopped, sameRateLimit } from '../../domain/endpoint.ts'
import { toFlow } from '../../domain/flow.ts'
import { decodeKey } from '../../domain/ids.ts'
import { changeNotices } from '../../domain/notice.ts'
import { changedEndpoint, given, isEnabled, restsAnew, uidIn } from '../changing.ts'
import type { Configuration } from '../configuration.ts'
import type { Page, PageRequest } from '../page.ts'
import { unknownRegion } from '../regions.ts'
import { settableColumns } from '../rows.ts'
import type { Connection, Query, Synchronous } from './connection.ts'
import { type LaneWakes, laneWakes } from './lane-wakes.ts'
import { changeTeller } from './notices.ts'
import {
  type ApplicationRow,
  type EndpointRow,
  endpointColumns,
  type SendableRow,
  sendableColumns,
  toApplication,
  toEndpoint,
  toSendable,
} from './rows.ts'
import { isUniqueViolation } from './trouble.ts'

const insertApplication = `
  insert into application (key, id, uid, name, throttle_rate, metadata, dedupe_s, settings, created_at, updated_at)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (key) do nothing`
const selectApplication = 'select * from application where key = ? and deleted_at is null'
const selectApplicationByUid = 'select * from application where uid = ? and deleted_at is null'
const selectApplicationsUp = 'select * from application where key > ? and deleted_at is null order by key limit ?'
const selectApplicationsDown =
  'select * from application where key < ? and key > 0 and deleted_at is null order by key desc limit ?'
const updateApplicationRow = `
  update application set uid = ?2, name = ?3, throttle_rate = ?4, metadata = ?5, dedupe_s = ?6,
    settings = ?7, version = version + 1, updated_at = ?8
  where key = ?1`
const bumpVersion = 'update application set version = version + 1 where key = ? and deleted_at is null'

const insertEndpoint = `
  insert into endpoint (key, id, app, disabled_reason, ${settableColumns.join(', ')}, created_at, updated_at)
  values (:key, :id, :app, :disabled_reason, ${settableColumns.map((column) => `:${column}`).join(', ')}, :now, :now)
  on conflict (key) do nothing`
const updateEndpointRow = `
  update endpoint set ${settableColumns.map((column) => `${column} = :${column}`).join(', ')},
    disabled_reason = :disabled_reason, updated_at = :now
  where key = :key`
const selectEndpoint = 'select * from endpoint where key = ? and deleted_at is null'
const selectSendable = `select ${sendableColumns} from endpoint where key = ? and deleted_at is null`
const selectRegion = 'select 1 from region where app = ? and name = ?'
const selectEndpointByUid = 'select * from endpoint where app = ? and uid = ? and deleted_at is null'
const selectEndpointsUp = 'select * from endpoint where app = ? and key > ? and deleted_at is null order by key limit ?'
const selectEndpointsDown =
  'select * from endpoint where app = ? and key < ? and deleted_at is null order by key desc limit ?'
// The bucket of a resting lane is kept in milliseconds of the old limit; its next owner must not read them by the new one.
const doubtBucket = 'update lane set clean = 0 where endpoint = ?'
// What a lane rests for is not known; one whose receiver was always well does so for want of tokens, and enabling makes none.
// Below zero it also tells an owner who is just giving the lane back that its word on how long to rest is outdated.
const restAnew =
  'update lane set not_before = -1, health = case when ?2 then null else health end where endpoint = ?1 and (health is not null or not ?2)'
const insertLane = 'insert into lane (endpoint, app, stopped) values (?, ?, ?)'

/** Applications and endpoints. */
export function configuration(connection: Connection): Synchronous<Configuration> {
  return {
    ...applications(connection),
    ...endpoints(connection),
  }
}

type Applications = 'createApplication' | 'findApplication' | 'listApplications' | 'updateApplication'

function applications(connection: Connection): Synchronous<Pick<Configuration, Applications>> {
  const insert = connection.prepare(insertApplication)
  const byKey = connection.prepare<ApplicationRow>(selectApplication)
  const byUid = connection.prepare<ApplicationRow>(selectApplicationByUid)
  const up = connection.prepare<ApplicationRow>(selectApplicationsUp)
  const down = connection.prepare<ApplicationRow>(selectApplicationsDown)
  const update = connection.prepare(updateApplicationRow)

  return {
    createApplication(input): Application {
      const now = connection.now()
      const metadata = JSON.stringify(input.metadata)
      const { dedupeSeconds = null, settings = {} } = input
      const identity = conflictOnUid(input.uid, () =>
        connection.transaction(() =>
          connection.insertNew('app', now, ({ key, id }) => {
            const head = [key, id, input.uid, input.name, input.throttleRate, metadata, dedupeSeconds] as const
            return insert.run(...head, JSON.stringify(settings), now, now).changes
          }),
        ),
      )
      return { ...input, ...identity, dedupeSeconds, settings, createdAt: now, updatedAt: now }
    },

    findApplication(ref): Application | undefined {
      const key = decodeKey('app', ref)
      const named = key === undefined ? undefined : byKey.get(key)
      const row = named?.id === ref ? named : byUid.get(ref)
      return row && toApplication(row)
    },

    listApplications(page): Page<Application> {
      return pageOf(page, page.order === 'ascending' ? up : down, [], toApplication)
    },

    updateApplication(key, change): Application | undefined {
      let changed = false
      const updated = conflictOnUid(change.uid ?? null, () =>
        connection.transaction(() => {
          const row = byKey.get(key)
          if (row === undefined) return undefined
          const now = connection.now()
          const after = { ...toApplication(row), ...given(change), updatedAt: now }
          const { uid, name, throttleRate, dedupeSeconds } = after
          const [metadata, settings] = [JSON.stringify(after.metadata), JSON.stringify(after.settings)]
          update.run(key, uid, name, throttleRate, metadata, dedupeSeconds, settings, now)
          const before = toApplication(row)
          changed = settings !== JSON.stringify(before.settings) || throttleRate !== before.throttleRate
          return after
        }),
      )
      if (changed) connection.watcher?.settings()
      return updated
    },
  }
}

function endpoints(connection: Connection): Synchronous<Omit<Configuration, Applications>> {
  const bump = connection.prepare(bumpVersion)
  const insert = connection.prepare(insertEndpoint)
  const insertItsLane = connection.prepare(insertLane)
  const update = connection.prepare(updateEndpointRow)
  const doubt = connection.prepare(doubtBucket)
  const disturb = connection.prepare(restAnew)
  const byKey = connection.prepare<EndpointRow>(selectEndpoint)
  const byUid = connection.prepare<EndpointRow>(selectEndpointByUid)
  const sendable = connection.prepare<SendableRow>(selectSendable)
  const region = connection.prepare<unknown>(selectRegion)
  const up = connection.prepare<EndpointRow>(selectEndpointsUp)
  const down = connection.prepare<EndpointRow>(selectEndpointsDown)
  const tell = changeTeller(connection)
  const wakes: LaneWakes = laneWakes(connection)
  const { vault, log } = connection.context

  function load(key: number): Endpoint | undefined {
    const row = byKey.get(key)
    return row && toEndpoint(row, vault)
  }

  function assertRegion(app: number, name: string | null | undefined): void {
    if (name != null && region.get(app, name) === undefined) throw unknownRegion(name)
  }

  return {
    createEndpoint(app, input): Endpoint {
      const now = connection.now()
      const disabledReason = input.disabled ? 'operator' : null
      const identity = conflictOnUid(input.uid, () =>
        connection.transaction(() => {
          if (bump.run(app).changes === 0) throw new AppError('not_found', 'the application does not exist')
          assertRegion(app, input.flow?.region)
          const made = connection.insertNew('ep', now, ({ key, id }) => {
            return insert.run({
              ...endpointColumns(input, { app, key }, vault),
              key,
              id,
              app,
              disabled_reason: disabledReason,
              now,
            }).changes
          })
          insertItsLane.run(made.key, app, isStopped(input) ? 1 : 0)
          tell(['endpoint.created'], app, made.key, now)
          return made
        }),
      )
      connection.watcher?.settings([identity.key])
      const flow = toFlow(input.flow ?? null)
      return { ...input, ...identity, app, disabledReason, flow, createdAt: now, updatedAt: now }
    },

    findEndpoint(app, ref): Endpoint | undefined {
      const key = decodeKey('ep', ref)
      const named = key === undefined ? undefined : byKey.get(key)
      const row = named?.id === ref && named.app === app ? named : byUid.get(app, ref)
      return row && toEndpoint(row, vault)
    },

    listEndpoints(app, page): Page<Endpoint> {
      return pageOf(page, page.order === 'ascending' ? up : down, [app], (row) => toEndpoint(row, vault))
    },

    updateEndpoint(app, key, change): Endpoint | undefined {
      let woke = false
      const changed = conflictOnUid(uidIn(change), () =>
        connection.transaction(() => {
          const before = load(key)
          if (before?.app !== app) return undefined
          const now = connection.now()
          const after = changedEndpoint(before, change, now)
          if (after.flow.region !== before.flow.region) assertRegion(app, after.flow.region)
          // Later than the change before it, however the clock is set: whoever reads two versions keeps the newer.
          const updatedAt = Math.max(now, before.updatedAt + 1)
          update.run({
            ...endpointColumns(after, before, vault),
            key,
            disabled_reason: after.disabledReason,
            now: updatedAt,
          })
          bump.run(app)
          if (!sameRateLimit(before, after)) doubt.run(key)
          if (isStopped(after) && !isStopped(before)) wakes.stop(key)
          if (restsAnew(before, after)) disturb.run(key, isEnabled(before, after) ? 1 : 0)
          if (!isStopped(after) && (isStopped(before) || restsAnew(before, after))) woke = wakes.resume(key, now)
          tell(changeNotices(before, after), app, key, now)
          return { ...after, updatedAt }
        }),
      )
      if (changed === undefined) return undefined
      connection.watcher?.settings([key])
      if (woke) connection.watcher?.lanes()
      return changed
    },

    loadEndpoints(keys): Endpoint[] {
      return keys.flatMap((key) => {
        const row = sendable.get(key)
        return row ? [toSendable(row, vault, log)] : []
      })
    },
  }
}

export function pageOf<Row, Item>(
  page: PageRequest,
  query: Query<Row>,
  within: readonly number[],
  toItem: (row: Row) => Item,
): Page<Item> {
  const start = page.after ?? (page.order === 'ascending' ? 0 : Number.MAX_SAFE_INTEGER)
  // One more than asked tells whether anything lies beyond.
  const rows = query.all(...within, start, page.limit + 1)
  return { items: rows.slice(0, page.limit).map(toItem), done: rows.length <= page.limit }
}

/** The only unique value a caller chooses here is the uid, so that is what a violation is about. */
export function conflictOnUid<T>(uid: string | null, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (uid === null || !isUniqueViolation(error)) throw error
    throw new AppError('conflict', `the uid ${JSON.stringify(uid)} is already in use`)
  }
}
