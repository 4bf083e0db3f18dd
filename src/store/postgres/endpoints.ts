import { AppError } from '../../domain/app-error.ts'
import { type Endpoint, isStopped, sameRateLimit } from '../../domain/endpoint.ts'
import { decodeKey } from '../../domain/ids.ts'
import { changeNotices } from '../../domain/notice.ts'
import { changedEndpoint, isEnabled, restsAnew, uidIn } from '../changing.ts'
import type { Endpoints } from '../configuration.ts'
import { unknownRegion } from '../regions.ts'
import { type EndpointRow, type SendableRow, settableColumns, toEndpoint, toSendable } from '../rows/endpoint.ts'
import { writeChangeNotices } from '../sql/notices.ts'
import { finishLater } from '../sql/port.ts'
import { integers } from './arrays.ts'
import { type Database, withNewIdentity } from './database.ts'
import { paged, pageOf } from './paging.ts'
import { sqlOver } from './port.ts'
import { endpointColumns, endpointValues, parametersFor, sendableColumns } from './rows.ts'
import { sqlNow } from './server-time.ts'
import { type Run, statement } from './sessions.ts'
import { conflictOnUid } from './trouble.ts'
import { bumpVersion } from './version.ts'

const insertEndpoint = statement(
  'insert-endpoint',
  `
    insert into endpoint (key, id, app, disabled_reason, ${settableColumns.join(', ')}, created_at, updated_at)
    select $1, $2, $3, $4, ${parametersFor(settableColumns, 5)}, now, now
      from (select ${sqlNow} as now) as clock
    returning ${endpointColumns}`,
)
const insertLane = statement('insert-lane', 'insert into lane (endpoint, app, stopped) values ($1, $2, $3)')
// Each change is later than the one before it, however the clock is set: whoever reads two versions keeps the newer.
const updateEndpointRow = statement(
  'update-endpoint',
  `
    update endpoint set (${settableColumns.join(', ')}) = row (${parametersFor(settableColumns, 3)}), disabled_reason = $2,
           updated_at = greatest(${sqlNow}, updated_at + 1)
     where key = $1
    returning ${endpointColumns}`,
)
const setStopped = statement('set-stopped', 'update lane set stopped = $2, due_at = null where endpoint = $1')
// The bucket of a resting lane is kept in milliseconds of the old limit; its next owner must not read it by the new one.
const doubtBucket = statement('doubt-bucket', 'update lane set clean = false where endpoint = $1')
// What a lane rests for is not known; one whose receiver was always well rests for want of tokens; enabling makes none.
// Below zero it also tells an owner who is just giving the lane back that its word on how long to rest is outdated.
const restAnew = statement(
  'rest-anew',
  'update lane set not_before = -1, health = case when $2 then null else health end where endpoint = $1 and (health is not null or not $2)',
)
const selectEndpoint = statement(
  'endpoint',
  `select ${endpointColumns} from endpoint where key = $1 and deleted_at is null`,
)
const selectEndpointByUid = statement(
  'endpoint-by-uid',
  `select ${endpointColumns} from endpoint where app = $1 and uid = $2 and deleted_at is null`,
)
const selectEndpoints = paged('endpoints', `select ${endpointColumns} from endpoint`, 'app = $3 and')
const selectRegion = statement('region', 'select name from region where app = $1 and name = $2')
const loadEndpointRows = statement(
  'load-endpoints',
  `select ${sendableColumns} from endpoint where key = any($1::bigint[]) and deleted_at is null order by key`,
)

/** Endpoints, and with each its lane. */
export function endpoints(database: Database): Endpoints {
  const { durable, signals, wakes } = database
  const { vault, log } = database.context

  return {
    async createEndpoint(app, input) {
      const reason = input.disabled ? 'operator' : null
      const made = await conflictOnUid(input.uid, () =>
        withNewIdentity(database, 'ep', ({ key, id }) =>
          durable.transaction(async (run) => {
            if ((await run(bumpVersion, [app])).length === 0) {
              throw new AppError('not_found', 'the application does not exist')
            }
            await assertRegion(run, app, input.flow?.region)
            const [row] = await run<EndpointRow>(insertEndpoint, [
              key,
              id,
              app,
              reason,
              ...endpointValues(input, { app, key }, vault),
            ])
            await run(insertLane, [key, app, isStopped(input)])
            await signals.notify(run, 's', [key])
            await finishLater(writeChangeNotices(sqlOver(run), database.context, ['endpoint.created'], app, [key]))
            return toEndpoint(row as EndpointRow, vault)
          }),
        ),
      )
      signals.settings([made.key])
      return made
    },

    async findEndpoint(app, ref) {
      const key = decodeKey('ep', ref)
      const [named] = key === undefined ? [] : await durable.run<EndpointRow>(selectEndpoint, [key])
      const isNamed = named?.id === ref && named.app === app
      const [row] = isNamed ? [named] : await durable.run<EndpointRow>(selectEndpointByUid, [app, ref])
      return row && toEndpoint(row, vault)
    },

    listEndpoints: (app, page) =>
      pageOf<EndpointRow, Endpoint>(durable, selectEndpoints, page, [app], (row) => toEndpoint(row, vault)),

    async updateEndpoint(app, key, change) {
      let resumed = false
      const changed = await conflictOnUid(uidIn(change), () =>
        durable.transaction(async (run) => {
          const [found] = await run<EndpointRow>(selectEndpoint, [key])
          if (found?.app !== app || (await run(bumpVersion, [app])).length === 0) return undefined
          // Read again behind the lock, so that what somebody else changed meanwhile is not undone.
          const [row] = await run<EndpointRow>(selectEndpoint, [key])
          if (row === undefined) return undefined
          const before = toEndpoint(row, vault)
          const after = changedEndpoint(before, change, database.time.now())
          if (after.flow.region !== before.flow.region) await assertRegion(run, app, after.flow.region)
          const [updated] = await run<EndpointRow>(updateEndpointRow, [
            key,
            after.disabledReason,
            ...endpointValues(after, before, vault, row),
          ])
          if (!sameRateLimit(before, after)) await run(doubtBucket, [key])
          if (isStopped(after) !== isStopped(before)) await run(setStopped, [key, isStopped(after)])
          if (restsAnew(before, after)) await run(restAnew, [key, isEnabled(before, after)])
          resumed = !isStopped(after) && (isStopped(before) || restsAnew(before, after))
          await signals.notify(run, 's', [key])
          await finishLater(
            writeChangeNotices(sqlOver(run), database.context, changeNotices(before, after), app, [key]),
          )
          return toEndpoint(updated as EndpointRow, vault)
        }),
      )
      if (changed === undefined) return undefined
      signals.settings([key])
      // After the commit and by itself, for the reason given at rouseLanes: what was published meanwhile saw it stopped.
      if (resumed) await wakes.rouse([key])
      return changed
    },

    async loadEndpoints(keys) {
      const rows = await durable.run<SendableRow>(loadEndpointRows, [integers(keys)])
      return rows.map((row) => toSendable(row, vault, log))
    },
  }
}

/** Behind the lock of the application, so that the region is not deleted meanwhile. */
async function assertRegion(run: Run, app: number, name: string | null | undefined): Promise<void> {
  if (name != null && (await run(selectRegion, [app, name])).length === 0) throw unknownRegion(name)
}
