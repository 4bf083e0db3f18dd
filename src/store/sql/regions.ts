import { AppError } from '../../domain/app-error.ts'
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
// Leans on endpoint_app.
const selectMember = statement<{ id: string }>(
  'region-member',
  `select id from endpoint where app = :app and deleted_at is null and flow ->> 'region' = :name limit 1`,
)
const deleteRegionRow = statement(
  'delete-region',
  'delete from region where app = :app and name = :name returning name',
)

/** The secrets that pseudonyms are made with. */
export function regions(port: Port): Methods<Pick<Applications, 'createRegion' | 'listRegions' | 'deleteRegion'>> {
  return {
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
        if (member) throw new AppError('conflict', `The endpoint ${member.id} is in the region ${name}.`)
        return (yield* sql.first(deleteRegionRow, { app, name })) !== undefined
      })
    },
  }
}

/** A region's secret as it is stored. */
export function sealRegion(vault: Vault, secret: string, place: RegionPlace): string {
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

/** An endpoint cannot be in a region that its application does not have. */
export function unknownRegion(name: string): AppError {
  const field = { at: ['body', 'region'], message: `there is no region ${name} in this application`, type: 'region' }
  return new AppError('validation', 'The region does not exist.', [field])
}
