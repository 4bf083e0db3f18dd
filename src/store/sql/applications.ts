import { type AppError, noSuch } from '../../domain/app-error.ts'
import { changedSettings } from '../../domain/application-fields.ts'
import type { Application } from '../../domain/endpoint.ts'
import { defined, isSame } from '../../domain/field.ts'
import { decodeKey } from '../../domain/ids.ts'
import type { AppRef } from '../access.ts'
import type { Applications, PortalLook } from '../applications.ts'
import { listStart, toPage } from '../page.ts'
import { conflictOnUid, insertNew, type Methods, type Port, type Sql, type Work } from './port.ts'
import { columnsOf, inBothOrders, type Shape, statement, toJson } from './statement.ts'
import { followPointers } from './subjects.ts'

const columns = columnsOf<Application>({
  key: 'key',
  id: 'id',
  uid: 'uid',
  name: 'name',
  throttleRate: 'throttle_rate',
  metadata: 'metadata',
  dedupeSeconds: 'dedupe_s',
  settings: `coalesce(settings, '{}')`,
  createdAt: 'created_at',
  updatedAt: 'updated_at',
})
const shape: Shape<Application> = { json: ['metadata', 'settings'] }

const insertApplication = statement<Application>(
  'insert-application',
  `insert into application
     (key, id, uid, name, throttle_rate, metadata, dedupe_s, settings, created_at, updated_at)
   values (:key, :id, :uid, :name, :throttle_rate, :metadata, :dedupe_s, :settings, :now, :now)
   on conflict (key) do nothing returning ${columns}`,
  shape,
)
const selectApplication = statement<Application>(
  'application',
  `select ${columns} from application where key = :key and deleted_at is null`,
  shape,
)
// Leans on application_uid.
const selectByUid = statement<Application>(
  'application-by-uid',
  `select ${columns} from application where uid = :uid and deleted_at is null`,
  shape,
)
const selectRefs = statement<AppRef>(
  'application-refs',
  ({ among }) => `select key, id, uid from application where ${among('key', ':apps', 'bigint')} and deleted_at is null`,
)
// Ranges of the primary key. The management application has the key 0 and is not listed.
const selectApplications = inBothOrders<Application>(
  'applications',
  (beyond, direction) => `
    select ${columns} from application where key ${beyond} :after and key > 0 and deleted_at is null
     order by key ${direction} limit :limit`,
  shape,
)
const updateApplicationRow = statement<Application>(
  'update-application',
  ({ greatest }) => `
    update application set uid = :uid, name = :name, throttle_rate = :throttle_rate, metadata = :metadata,
           dedupe_s = :dedupe_s, settings = :settings, updated_at = ${greatest(':now', 'updated_at')}
     where key = :key
    returning ${columns}`,
  shape,
)
/**
 * Makes publishers read the application's subscriptions again. It is also the lock by which changes of one
 * application's endpoints and regions take turns. No row means that there is no such application.
 */
export const bumpVersion = statement<{ key: number; region: string | null }>(
  'bump-version',
  `update application set version = version + 1 where key = :app and deleted_at is null
   returning key, settings ->> 'region' as region`,
)

// The lanes of its endpoints follow a few at a time: `moveLanes`.
const beginMove = statement(
  'begin-region-move',
  'insert into region_move (app) values (:app) on conflict (app) do update set reached = 0',
)

const selectLook = statement<PortalLook>('portal-look', 'select name, logo, color from portal_look where app = :app')
const upsertLook = statement(
  'set-portal-look',
  `insert into portal_look (app, name, logo, color) values (:app, :name, :logo, :color)
   on conflict (app) do update set name = excluded.name, logo = excluded.logo, color = excluded.color`,
)

// Also the name of a deleted application, until the sweep takes its row.
const selectName = statement<{ name: string }>(
  'application-name',
  'select coalesce(uid, id) as name from application where key = :app',
)

/** The refusal for an application that was deleted after the caller looked it up; it repeats the name. */
export function* noApplication(sql: Sql, app: number): Work<AppError> {
  return noSuch('application', (yield* sql.first(selectName, { app }))?.name ?? String(app))
}

const selectLocked = statement(
  'lock-application',
  ({ forUpdate }) => `select key from application where key = :app and deleted_at is null ${forUpdate}`,
)

/**
 * Locks an application, before its things of a kind are counted: counted in one statement with the lock, those that another
 * transaction adds while this one waits would be missed. Throws AppError `not_found` when the application is deleted.
 */
export function* lockApplication(sql: Sql, app: number): Work<void> {
  if ((yield* sql.first(selectLocked, { app })) === undefined) throw yield* noApplication(sql, app)
}

type ApplicationMethods = Pick<
  Applications,
  | 'createApplication'
  | 'findApplication'
  | 'applicationRefs'
  | 'listApplications'
  | 'updateApplication'
  | 'findPortalLook'
  | 'setPortalLook'
>

/** Applications. */
export function applications(port: Port): Methods<ApplicationMethods> {
  return {
    *createApplication(input) {
      return yield* conflictOnUid(port, input, () =>
        port.transaction(function* (sql) {
          const made = yield* insertNew(sql, 'app', insertApplication, () => valuesOf(input))
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

    *listApplications({ limit, order, after }) {
      const rows = yield* port.all(selectApplications[order], { after: after ?? listStart(order), limit: limit + 1 })
      return toPage(rows, limit)
    },

    *updateApplication(key, change) {
      return yield* conflictOnUid(port, change, () =>
        port.transaction(function* (sql) {
          // A change of nothing locks and writes nothing, so that it leaves no audit row either.
          const stored = yield* sql.first(selectApplication, { key })
          if (stored !== undefined && isSame(changed(stored, change), stored)) return stored
          // The lock comes first, so that a change made meanwhile by another caller is not undone.
          if ((yield* sql.first(bumpVersion, { app: key })) === undefined) return undefined
          const before = (yield* sql.first(selectApplication, { key })) as Application
          const values = valuesOf(changed(before, change))
          const updated = (yield* sql.first(updateApplicationRow, { ...values, key })) as Application
          const isSentOtherwise =
            toJson(updated.settings) !== toJson(before.settings) || updated.throttleRate !== before.throttleRate
          if (isSentOtherwise) yield* sql.settingsChanged()
          yield* followPointers(sql, port.context, updated, before)
          if (updated.settings.region !== before.settings.region) yield* sql.all(beginMove, { app: key })
          return updated
        }),
      )
    },

    *findPortalLook(app) {
      return yield* port.first(selectLook, { app })
    },

    *setPortalLook(app, { name, logo, color }) {
      return yield* port.transaction(function* (sql) {
        if ((yield* sql.first(selectApplication, { key: app })) === undefined) return false
        yield* sql.all(upsertLook, { app, name, logo, color })
        return true
      })
    },
  }
}

function changed(before: Application, change: Parameters<Applications['updateApplication']>[1]): Application {
  return { ...before, ...defined(change), settings: changedSettings(before.settings, change.settings) }
}

function valuesOf(input: Parameters<Applications['createApplication']>[0]) {
  return {
    uid: input.uid,
    name: input.name,
    throttle_rate: input.throttleRate,
    metadata: toJson(input.metadata),
    dedupe_s: input.dedupeSeconds ?? null,
    settings: toJson(changedSettings({}, input.settings)),
  }
}
