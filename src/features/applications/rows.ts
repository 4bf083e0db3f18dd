import { AppError } from '../../domain/app-error.ts'
import { defined, isSame } from '../../domain/field.ts'
import { decodeKey } from '../../domain/ids.ts'
import { rowOf } from '../../noun/rows.ts'
import type { Applications, NewApplication, Region } from '../../store/configuration.ts'
import { among, forUpdate, greatest } from '../../store/sql/dialect.ts'
import { conflictOnUid, readPage } from '../../store/sql/named-rows.ts'
import { noApplication } from '../../store/sql/owners.ts'
import { insertNew, type Methods, type Port } from '../../store/sql/port.ts'
import {
  assignments,
  beyond,
  columnsOf,
  direction,
  inBothOrders,
  parameters,
  snakeCase,
  statement,
  toJson,
  toPage,
  type Values,
  valuesOf,
} from '../../store/sql/statement.ts'
import type { StoreContext } from '../../store/store.ts'
import { openValue, type SealedPlace, sealValue, unlessDamaged, type Vault } from '../../store/vault.ts'
import type { AppRef } from '../access/store.ts'
import { followPointers } from '../erasure/rows.ts'
import { regionOf } from '../regions/rules.ts'
import { type Application, application, changedSettings } from './noun.ts'

const { settable, named, shape } = rowOf<typeof application, Application>(application)
const columns = columnsOf<Application>({
  ...snakeCase('key', 'id', 'createdAt', 'updatedAt'),
  ...named,
  settings: `coalesce(settings, '{}')`,
})

const insertApplication = statement<Application>('insert-application', shape)`
  insert into application (key, id, ${settable.join(', ')}, created_at, updated_at)
  values (:key, :id, ${parameters(settable)}, :now, :now)
  on conflict (key) do nothing returning ${columns}`
const selectApplication = statement<Application>('application', shape)`
  select ${columns} from application where key = :key and deleted_at is null`
// Leans on application_uid.
const selectByUid = statement<Application>('application-by-uid', shape)`
  select ${columns} from application where uid = :uid and deleted_at is null`
const selectRefs = statement<AppRef>('application-refs')`
  select key, id, uid from application where ${among('key', ':apps')} and deleted_at is null`
// Ranges of the primary key. The management application has the key 0 and is not listed.
const selectApplications = inBothOrders<Application>('applications', shape)`
  select ${columns} from application where key ${beyond} :after and key > 0 and deleted_at is null
   order by key ${direction} limit :limit`
const updateApplicationRow = statement<Application>('update-application', shape)`
  update application set ${assignments(settable)}, updated_at = ${greatest(':now', 'updated_at')}
   where key = :key
  returning ${columns}`
/**
 * Makes publishers read the application's subscriptions again. It is also the lock by which changes of one
 * application's endpoints and regions take turns. No row means that there is no such application.
 */
export const bumpVersion = statement<{ key: number; region: string | null }>('bump-version')`
  update application set version = version + 1 where key = :app and deleted_at is null
  returning key, settings ->> 'region' as region`

// The lanes of its endpoints follow a few at a time: `moveLanes`.
const beginMove = statement('begin-region-move')`
  insert into region_move (app) values (:app) on conflict (app) do update set reached = 0`

const insertRegion = statement<Region>('insert-region')`
  insert into region (app, name, secret, created_at) values (:app, :name, :secret, :now)
  on conflict (app, name) do nothing returning name, created_at as "createdAt"`
// Ranges of the primary key.
const selectRegions = inBothOrders<Region>('regions')`
  select name, created_at as "createdAt" from region
   where app = :app and (cast(:after as text) is null or name ${beyond} :after) order by name ${direction} limit :limit`
// Leans on endpoint_app. Endpoints without pseudonyms do not need the secret.
const selectMember = statement<{ id: string }>('region-member')`
  select id from endpoint
   where app = :app and deleted_at is null and flow ->> 'region' = :name
     and coalesce(flow -> 'shape' ->> 'pseudonymize', '[]') <> '[]' limit 1`
const deleteRegionRow = statement('delete-region')`delete from region where app = :app and name = :name returning name`

// Applications whose lanes follow a change of their region.
const selectMove = statement<{ app: number }>('region-move')`select app from region_move where app >= 0 limit 1`
const lockMoving = statement<{ region: string | null }>('lock-moving-application')`
  select settings ->> 'region' as region from application where key = :app and deleted_at is null ${forUpdate}`
const selectReached = statement<{ reached: number }>('region-move-reached')`
  select reached from region_move where app = :app`
// A range of endpoint_app.
const selectEndpoints = statement<{ key: number; region: string | null }>('endpoints-to-move')`
  select key, flow ->> 'region' as region from endpoint
   where app = :app and key > :reached and deleted_at is null order by key limit :limit`
const moveLanes = statement<{ endpoint: number }>('move-lanes')`
  update lane set region = :region where ${among('endpoint', ':endpoints')} and region <> :region
  returning endpoint`
const saveReached = statement('save-region-move')`update region_move set reached = :reached where app = :app`
const endMove = statement('end-region-move')`delete from region_move where app = :app`

/**
 * Applications, the secrets that their pseudonyms are made with, and the lanes that follow their application into another
 * region.
 */
export function applications(port: Port): Methods<Omit<Applications, 'deleteApplication'>> {
  return {
    *createApplication(input) {
      return yield* conflictOnUid(port, input, () =>
        port.transaction(function* (sql) {
          const made = yield* insertNew(sql, 'app', insertApplication, () => settableValues(input))
          yield* followPointers(sql, port.context, made)
          return made
        }),
      )
    },

    *findApplication(ref) {
      const key = decodeKey('app', ref)
      const named = key === undefined ? undefined : yield* port.first(selectApplication, { key })
      return named?.id === ref ? named : yield* port.first(selectByUid, { uid: ref })
    },

    *applicationRefs(apps) {
      const rows = apps.length === 0 ? [] : yield* port.all(selectRefs, { apps: [...new Set(apps)] })
      return new Map(rows.map((row) => [row.key, row]))
    },

    listApplications: (page) => readPage(port, selectApplications, {}, page, (row) => row),

    *updateApplication(key, change) {
      return yield* conflictOnUid(port, change, () =>
        port.transaction(function* (sql) {
          // A change of nothing locks and writes nothing, so that it leaves no audit row either.
          const stored = yield* sql.first(selectApplication, { key })
          if (stored !== undefined && isSame(changed(stored, change), stored)) return stored
          // The lock comes first, so that a change made meanwhile by another caller is not undone.
          if (!(yield* sql.any(bumpVersion, { app: key }))) return undefined
          const before = (yield* sql.first(selectApplication, { key })) as Application
          const values = settableValues(changed(before, change))
          const updated = (yield* sql.first(updateApplicationRow, { ...values, key })) as Application
          const isSentOtherwise =
            toJson(updated.settings) !== toJson(before.settings) || updated.throttleRate !== before.throttleRate
          if (isSentOtherwise) yield* sql.settingsChanged()
          yield* followPointers(sql, port.context, updated, before)
          if (updated.settings.region !== before.settings.region) yield* sql.run(beginMove, { app: key })
          return updated
        }),
      )
    },

    *moveLanes(limit) {
      // Outside of a transaction first: usually nothing is to be moved, and then no write lock is needed.
      const next = yield* port.relaxed.first(selectMove)
      if (next === undefined) return { more: false }
      const { app } = next
      return yield* port.relaxed.transaction(function* (sql) {
        // Changes of the application and of its endpoints take this lock, too: no lane is moved to a region of before.
        const application = yield* sql.first(lockMoving, { app })
        const move = yield* sql.first(selectReached, { app })
        if (move === undefined) return { more: true }
        const rows =
          application === undefined ? [] : yield* sql.all(selectEndpoints, { app, reached: move.reached, limit })
        const last = rows.at(-1)
        if (last === undefined || rows.length < limit) yield* sql.run(endMove, { app })
        else yield* sql.run(saveReached, { app, reached: last.key })
        const endpoints = rows.filter(({ region }) => region === null).map(({ key }) => key)
        if (endpoints.length === 0) return { more: true }
        const region = regionOf(null, application?.region)
        const moved = (yield* sql.all(moveLanes, { region, endpoints })).map(({ endpoint }) => endpoint)
        if (moved.length > 0) {
          // Owners give the lanes back, and the workers of the region look for those without an owner.
          yield* sql.settingsChanged(moved)
          yield* sql.lanesFreed()
        }
        return { more: true }
      })
    },

    *createRegion(app, name, secret) {
      return yield* port.transaction(function* (sql) {
        if (!(yield* sql.any(bumpVersion, { app }))) throw yield* noApplication(sql, app)
        const sealed = sealValue(port.context.vault, { secret }, regionPlace({ app, name })) as string
        const row = yield* sql.first(insertRegion, { app, name, secret: sealed })
        if (row === undefined) throw new AppError('conflict', `The region ${name} exists already.`)
        return row
      })
    },

    *listRegions(app, { limit, order, after }) {
      const rows = yield* port.all(selectRegions[order], { app, after, limit: limit + 1 })
      return toPage(rows, limit)
    },

    *deleteRegion(app, name) {
      return yield* port.transaction(function* (sql) {
        if (!(yield* sql.any(bumpVersion, { app }))) return false
        const member = yield* sql.first(selectMember, { app, name })
        if (member) throw new AppError('conflict', `The endpoint ${member.id} gets pseudonyms of the region ${name}.`)
        return yield* sql.any(deleteRegionRow, { app, name })
      })
    },
  }
}

function changed(before: Application, change: Partial<NewApplication>): Application {
  return { ...before, ...defined(change), settings: changedSettings(before.settings, change.settings) }
}

function settableValues({ dedupeSeconds = null, ...input }: NewApplication): Values {
  return valuesOf<object>({ ...input, dedupeSeconds, settings: changedSettings({}, input.settings) }, named)
}

/** The secret in a stored record; null, and a line in the log, when it does not open. */
export function openRegion(
  vault: Vault,
  stored: string,
  place: RegionPlace,
  log: ((sentence: string) => void) | undefined,
): string | null {
  const open = () => openValue<{ secret: string }>(vault, stored, regionPlace(place)).secret
  return unlessDamaged(open, log, `nothing can be pseudonymized in the region ${place.name}`) ?? null
}

/** The secrets of an application's regions, by name. */
export function openRegions(
  rows: readonly { readonly name: string; readonly secret: string }[],
  app: number,
  { vault, log }: Pick<StoreContext, 'vault' | 'log'>,
): ReadonlyMap<string, string | null> {
  return new Map(rows.map(({ name, secret }) => [name, openRegion(vault, secret, { app, name }, log)]))
}

export const noRegions: ReadonlyMap<string, string | null> = new Map()

interface RegionPlace {
  readonly app: number
  readonly name: string
}

/** No endpoint has this key. */
export function regionPlace({ app, name }: RegionPlace): SealedPlace {
  return { app, endpoint: 0, field: `region ${name}` }
}

/** Pseudonyms cannot be made in a region that the application has no secret of. */
export function unknownRegion(name: string): AppError {
  const message = `the application has no secret of the region ${name} to make pseudonyms with: create the region`
  return new AppError('validation', 'The region has no secret.', [{ at: ['body', 'region'], message, type: 'region' }])
}
