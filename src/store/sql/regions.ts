import { AppError } from '../../domain/app-error.ts'
import { regionOf } from '../../domain/region.ts'
import type { Applications, Region } from '../applications.ts'
import { toPage } from '../page.ts'
import type { StoreContext } from '../store.ts'
import { openValue, SealError, type SealedPlace, sealValue, type Vault } from '../vault.ts'
import { bumpVersion, noApplication } from './applications.ts'
import type { Methods, Port } from './port.ts'
import { inBothOrders, statement } from './statement.ts'

const insertRegion = statement<Region>(
  'insert-region',
  `insert into region (app, name, secret, created_at) values (:app, :name, :secret, :now)
   on conflict (app, name) do nothing returning name, created_at as "createdAt"`,
)
// Ranges of the primary key.
const selectRegions = inBothOrders<Region>(
  'regions',
  (beyond, direction) => `
    select name, created_at as "createdAt" from region
     where app = :app and (cast(:after as text) is null or name ${beyond} :after) order by name ${direction} limit :limit`,
)
// Leans on endpoint_app. Endpoints without pseudonyms do not need the secret.
const selectMember = statement<{ id: string }>(
  'region-member',
  `select id from endpoint
    where app = :app and deleted_at is null and flow ->> 'region' = :name
      and coalesce(flow -> 'shape' ->> 'pseudonymize', '[]') <> '[]' limit 1`,
)
const deleteRegionRow = statement(
  'delete-region',
  'delete from region where app = :app and name = :name returning name',
)

// Applications whose lanes follow a change of their region.
const selectMove = statement<{ app: number }>('region-move', 'select app from region_move where app >= 0 limit 1')
const lockApplication = statement<{ region: string | null }>(
  'lock-moving-application',
  ({ forUpdate }) => `
    select settings ->> 'region' as region from application where key = :app and deleted_at is null ${forUpdate}`,
)
const selectReached = statement<{ reached: number }>(
  'region-move-reached',
  'select reached from region_move where app = :app',
)
// A range of endpoint_app.
const selectEndpoints = statement<{ key: number; region: string | null }>(
  'endpoints-to-move',
  `select key, flow ->> 'region' as region from endpoint
    where app = :app and key > :reached and deleted_at is null order by key limit :limit`,
)
const moveLanes = statement<{ endpoint: number }>(
  'move-lanes',
  ({ among }) => `
    update lane set region = :region where ${among('endpoint', ':endpoints', 'bigint')} and region <> :region
    returning endpoint`,
)
const saveReached = statement('save-region-move', 'update region_move set reached = :reached where app = :app')
const endMove = statement('end-region-move', 'delete from region_move where app = :app')

type RegionMethods = Pick<Applications, 'createRegion' | 'listRegions' | 'deleteRegion' | 'moveLanes'>

/** The secrets that pseudonyms are made with, and the lanes that follow their application into another region. */
export function regions(port: Port): Methods<RegionMethods> {
  return {
    *moveLanes(limit) {
      // Outside of a transaction first: usually nothing is to be moved, and then no write lock is needed.
      const next = yield* port.relaxed.first(selectMove)
      if (next === undefined) return { more: false }
      const { app } = next
      return yield* port.relaxed.transaction(function* (sql) {
        // Changes of the application and of its endpoints take this lock, too: no lane is moved to a region of before.
        const application = yield* sql.first(lockApplication, { app })
        const move = yield* sql.first(selectReached, { app })
        if (move === undefined) return { more: true }
        const rows =
          application === undefined ? [] : yield* sql.all(selectEndpoints, { app, reached: move.reached, limit })
        const last = rows.at(-1)
        if (last === undefined || rows.length < limit) yield* sql.all(endMove, { app })
        else yield* sql.all(saveReached, { app, reached: last.key })
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
        if ((yield* sql.first(bumpVersion, { app })) === undefined) throw yield* noApplication(sql, app)
        const sealed = sealRegion(port.context.vault, secret, { app, name })
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
        if ((yield* sql.first(bumpVersion, { app })) === undefined) return false
        const member = yield* sql.first(selectMember, { app, name })
        if (member) throw new AppError('conflict', `The endpoint ${member.id} gets pseudonyms of the region ${name}.`)
        return (yield* sql.first(deleteRegionRow, { app, name })) !== undefined
      })
    },
  }
}

/** A region's secret as it is stored. */
function sealRegion(vault: Vault, secret: string, place: RegionPlace): string {
  return sealValue(vault, { secret }, sealedPlace(place)) as string
}

/** The secret in a stored record; null, and a line in the log, when it does not open. */
export function openRegion(
  vault: Vault,
  stored: string,
  place: RegionPlace,
  log: ((sentence: string) => void) | undefined,
): string | null {
  try {
    return openValue<{ secret: string }>(vault, stored, sealedPlace(place)).secret
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    log?.(`nothing can be pseudonymized in the region ${place.name}: ${error.message}`)
    return null
  }
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

export interface RegionPlace {
  readonly app: number
  readonly name: string
}

/** No endpoint has this key. */
export function sealedPlace({ app, name }: RegionPlace): SealedPlace {
  return { app, endpoint: 0, field: `region ${name}` }
}

/** Pseudonyms cannot be made in a region that the application has no secret of. */
export function unknownRegion(name: string): AppError {
  const message = `the application has no secret of the region ${name} to make pseudonyms with: create the region`
  return new AppError('validation', 'The region has no secret.', [{ at: ['body', 'region'], message, type: 'region' }])
}
