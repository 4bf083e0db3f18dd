import { AppError } from '../../domain/app-error.ts'
import { type Endpoint, isStopped, sameRateLimit } from '../../domain/endpoint.ts'
import { toFlow } from '../../domain/flow.ts'
import { decodeKey } from '../../domain/ids.ts'
import { changeNotices, type NoticeType } from '../../domain/notice.ts'
import { changedEndpoint, isEnabled, restsAnew, uidIn } from '../changing.ts'
import type { Endpoints } from '../configuration.ts'
import type { Page } from '../page.ts'
import { unknownRegion } from '../regions.ts'
import { settableColumns } from '../rows/endpoint.ts'
import { writeChangeNotices } from '../sql/notices.ts'
import { finishNow } from '../sql/port.ts'
import type { Connection, Synchronous } from './connection.ts'
import { type LaneWakes, laneWakes } from './lane-wakes.ts'
import { pageOf } from './paging.ts'
import { sqlitePort } from './port.ts'
import { type EndpointRow, endpointColumns, type SendableRow, sendableColumns, toEndpoint, toSendable } from './rows.ts'
import { conflictOnUid } from './trouble.ts'

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
// The bucket of a resting lane is kept in milliseconds of the old limit; its next owner must not read it by the new one.
const doubtBucket = 'update lane set clean = 0 where endpoint = ?'
// What a lane rests for is not known; one whose receiver was always well rests for want of tokens; enabling makes none.
// Below zero it also tells an owner who is just giving the lane back that its word on how long to rest is outdated.
const restAnew =
  'update lane set not_before = -1, health = case when ?2 then null else health end where endpoint = ?1 and (health is not null or not ?2)'
const insertLane = 'insert into lane (endpoint, app, stopped) values (?, ?, ?)'

/** Endpoints, and with each its lane. */
export function endpoints(connection: Connection): Synchronous<Endpoints> {
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
  const port = sqlitePort(connection)
  const notify = (types: readonly NoticeType[], app: number, endpoint: number) =>
    finishNow(writeChangeNotices(port, connection.context, types, app, [endpoint]))
  const wakes: LaneWakes = laneWakes(connection)
  const { vault, log } = connection.context

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
          notify(['endpoint.created'], app, made.key)
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
          const row = byKey.get(key)
          if (row?.app !== app) return undefined
          const before = toEndpoint(row, vault)
          const now = connection.now()
          const after = changedEndpoint(before, change, now)
          if (after.flow.region !== before.flow.region) assertRegion(app, after.flow.region)
          // Later than the change before it, however the clock is set: whoever reads two versions keeps the newer.
          const updatedAt = Math.max(now, before.updatedAt + 1)
          update.run({
            ...endpointColumns(after, before, vault, row),
            key,
            disabled_reason: after.disabledReason,
            now: updatedAt,
          })
          bump.run(app)
          if (!sameRateLimit(before, after)) doubt.run(key)
          if (isStopped(after) && !isStopped(before)) wakes.stop(key)
          if (restsAnew(before, after)) disturb.run(key, isEnabled(before, after) ? 1 : 0)
          if (!isStopped(after) && (isStopped(before) || restsAnew(before, after))) woke = wakes.resume(key, now)
          notify(changeNotices(before, after), app, key)
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
