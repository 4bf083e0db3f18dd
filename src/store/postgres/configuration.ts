import { AppError } from '../../domain/app-error.ts'
import { type Application, type Endpoint, isStopped, sameRateLimit } from '../../domain/endpoint.ts'
import { decodeKey } from '../../domain/ids.ts'
import { changeNotices } from '../../domain/notice.ts'
import { changedEndpoint, given, isEnabled, restsAnew, uidIn } from '../changing.ts'
import type { Configuration } from '../configuration.ts'
import type { Page, PageRequest } from '../page.ts'
import { unknownRegion } from '../regions.ts'
import {
  type ApplicationRow,
  type EndpointRow,
  type SendableRow,
  settableColumns,
  toApplication,
  toEndpoint,
  toJson,
  toSendable,
} from '../rows.ts'
import { integers } from './arrays.ts'
import { type Database, withNewIdentity } from './database.ts'
import { changeTeller } from './notices.ts'
import { endpointColumns, endpointValues, sendableColumns } from './rows.ts'
import { sqlNow } from './server-time.ts'
import type { Run, Sessions, Statement } from './sessions.ts'
import { channel } from './signals.ts'
import { violatedKey } from './trouble.ts'

const applicationColumns =
  'key, id, uid, name, throttle_rate, metadata, dedupe_s, settings, version, created_at, updated_at'
const insertApplication: Statement = {
  name: 'insert-application',
  text: `
    insert into application (key, id, uid, name, throttle_rate, metadata, dedupe_s, settings, created_at, updated_at)
    select $1, $2, $3, $4, $5, $6, $7, $8, now, now from (select ${sqlNow} as now) as clock
    returning ${applicationColumns}`,
}
const selectApplication: Statement = {
  name: 'application',
  text: `select ${applicationColumns} from application where key = $1 and deleted_at is null`,
}
const selectApplicationByUid: Statement = {
  name: 'application-by-uid',
  text: `select ${applicationColumns} from application where uid = $1 and deleted_at is null`,
}
const selectApplications = paged('applications', `select ${applicationColumns} from application`)
const updateApplicationRow: Statement = {
  name: 'update-application',
  text: `
    update application set uid = $2, name = $3, throttle_rate = $4, metadata = $5, dedupe_s = $6, settings = $7,
           version = version + 1, updated_at = greatest(${sqlNow}, updated_at)
     where key = $1
    returning ${applicationColumns}`,
}
// Also the lock that makes changes of one application's endpoints take turns.
const bumpVersion: Statement = {
  name: 'bump-version',
  text: 'update application set version = version + 1 where key = $1 and deleted_at is null returning key',
}

const insertEndpoint: Statement = {
  name: 'insert-endpoint',
  text: `
    insert into endpoint (key, id, app, disabled_reason, ${settableColumns.join(', ')}, created_at, updated_at)
    select $1, $2, $3, $4, ${settableFrom(5)}, now, now
      from (select ${sqlNow} as now) as clock
    returning ${endpointColumns}`,
}
const insertLane: Statement = {
  name: 'insert-lane',
  text: 'insert into lane (endpoint, app, stopped) values ($1, $2, $3)',
}
// Each change is later than the one before it, however the clock is set: whoever reads two versions keeps the newer.
const updateEndpointRow: Statement = {
  name: 'update-endpoint',
  text: `
    update endpoint set (${settableColumns.join(', ')}) = row (${settableFrom(3)}), disabled_reason = $2,
           updated_at = greatest(${sqlNow}, updated_at + 1)
     where key = $1
    returning ${endpointColumns}`,
}
const setStopped: Statement = {
  name: 'set-stopped',
  text: 'update lane set stopped = $2, due_at = null where endpoint = $1',
}
// The bucket of a resting lane is kept in milliseconds of the old limit; its next owner must not read them by the new one.
const doubtBucket: Statement = { name: 'doubt-bucket', text: 'update lane set clean = false where endpoint = $1' }
// What a lane rests for is not known; one whose receiver was always well does so for want of tokens, and enabling makes none.
// Below zero it also tells an owner who is just giving the lane back that its word on how long to rest is outdated.
const restAnew: Statement = {
  name: 'rest-anew',
  text: 'update lane set not_before = -1, health = case when $2 then null else health end where endpoint = $1 and (health is not null or not $2)',
}
const notifySettings: Statement = { name: 'notify-settings', text: `select pg_notify('${channel}', $1)` }
const selectEndpoint: Statement = {
  name: 'endpoint',
  text: `select ${endpointColumns} from endpoint where key = $1 and deleted_at is null`,
}
const selectEndpointByUid: Statement = {
  name: 'endpoint-by-uid',
  text: `select ${endpointColumns} from endpoint where app = $1 and uid = $2 and deleted_at is null`,
}
const selectEndpoints = paged('endpoints', `select ${endpointColumns} from endpoint`, 'app = $3 and')
const selectRegion: Statement = { name: 'region', text: 'select name from region where app = $1 and name = $2' }
const loadEndpointRows: Statement = {
  name: 'load-endpoints',
  text: `select ${sendableColumns} from endpoint where key = any($1::bigint[]) and deleted_at is null order by key`,
}

/** Applications and endpoints. */
export function configuration(database: Database): Configuration {
  return { ...applications(database), ...endpoints(database) }
}

type Applications = 'createApplication' | 'findApplication' | 'listApplications' | 'updateApplication'

function applications(database: Database): Pick<Configuration, Applications> {
  const { durable, signals } = database
  return {
    async createApplication({ uid, name, throttleRate, metadata, dedupeSeconds = null, settings = {} }) {
      const fields = [uid, name, throttleRate, toJson(metadata), dedupeSeconds, toJson(settings)]
      const rows = await conflictOnUid(uid, () =>
        withNewIdentity(database, 'app', ({ key, id }) =>
          durable.transaction((run) => run<ApplicationRow>(insertApplication, [key, id, ...fields])),
        ),
      )
      return toApplication(rows[0] as ApplicationRow)
    },

    async findApplication(ref) {
      const key = decodeKey('app', ref)
      const [named] = key === undefined ? [] : await durable.run<ApplicationRow>(selectApplication, [key])
      const [row] = named?.id === ref ? [named] : await durable.run<ApplicationRow>(selectApplicationByUid, [ref])
      return row && toApplication(row)
    },

    listApplications: (page) =>
      pageOf<ApplicationRow, Application>(durable, selectApplications, page, [], toApplication),

    async updateApplication(key, change) {
      let changed = false
      const application = await conflictOnUid(change.uid ?? null, () =>
        durable.transaction(async (run) => {
          // The lock comes first, so that what somebody else changed meanwhile is not undone.
          if ((await run(bumpVersion, [key])).length === 0) return undefined
          const [row] = await run<ApplicationRow>(selectApplication, [key])
          const before = toApplication(row as ApplicationRow)
          const { uid, name, throttleRate, metadata, dedupeSeconds, settings } = { ...before, ...given(change) }
          changed = toJson(settings) !== toJson(before.settings) || throttleRate !== before.throttleRate
          if (changed) await run(notifySettings, [`s${signals.payload([])}`])
          const values = [key, uid, name, throttleRate, toJson(metadata), dedupeSeconds, toJson(settings)]
          const [updated] = await run<ApplicationRow>(updateApplicationRow, values)
          return toApplication(updated as ApplicationRow)
        }),
      )
      if (changed) signals.settings()
      return application
    },
  }
}

function endpoints(database: Database): Omit<Configuration, Applications> {
  const { durable, signals, wakes } = database
  const { vault, log } = database.context
  const tell = changeTeller(database)

  /** In the change's own transaction: such changes are rare, and this way nobody misses one. */
  const notify = (run: Run, endpoint: number) => run(notifySettings, [`s${signals.payload([endpoint])}`])

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
            await notify(run, key)
            await tell(run, ['endpoint.created'], app, [key])
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
            ...endpointValues(after, before, vault),
          ])
          if (!sameRateLimit(before, after)) await run(doubtBucket, [key])
          if (isStopped(after) !== isStopped(before)) await run(setStopped, [key, isStopped(after)])
          if (restsAnew(before, after)) await run(restAnew, [key, isEnabled(before, after)])
          resumed = !isStopped(after) && (isStopped(before) || restsAnew(before, after))
          await notify(run, key)
          await tell(run, changeNotices(before, after), app, [key])
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

/** The parameters of `endpointValues`, of which the first is `$first`. */
function settableFrom(first: number): string {
  return settableColumns.map((_, i) => `$${first + i}`).join(', ')
}

/** Behind the lock of the application, so that the region is not deleted meanwhile. */
async function assertRegion(run: Run, app: number, name: string | null | undefined): Promise<void> {
  if (name != null && (await run(selectRegion, [app, name])).length === 0) throw unknownRegion(name)
}

interface Paged {
  readonly ascending: Statement
  readonly descending: Statement
}

/** Both orders of a listing by key: `$1` is where to start, `$2` how many. */
function paged(name: string, select: string, within = ''): Paged {
  return {
    ascending: {
      name: `${name}-up`,
      text: `${select} where ${within} key > $1 and deleted_at is null order by key limit $2`,
    },
    descending: {
      name: `${name}-down`,
      text: `${select} where ${within} key < $1 and key > 0 and deleted_at is null order by key desc limit $2`,
    },
  }
}

export async function pageOf<Row, Item>(
  sessions: Sessions,
  statements: Paged,
  page: PageRequest,
  within: readonly number[],
  toItem: (row: Row) => Item,
): Promise<Page<Item>> {
  const start = page.after ?? (page.order === 'ascending' ? 0 : Number.MAX_SAFE_INTEGER)
  // One more than asked tells whether anything lies beyond.
  const rows = await sessions.run<Row>(statements[page.order], [start, page.limit + 1, ...within])
  return { items: rows.slice(0, page.limit).map(toItem), done: rows.length <= page.limit }
}

/** The only unique value a caller chooses here is the uid. */
export async function conflictOnUid<T>(uid: string | null, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!violatedKey(error)?.endsWith('_uid')) throw error
    throw new AppError('conflict', `the uid ${JSON.stringify(uid)} is already in use`)
  }
}
