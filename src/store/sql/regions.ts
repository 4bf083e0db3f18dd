import { AppError, noSuch } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import type { Applications, Region } from '../applications.ts'
import { toPage } from '../page.ts'
import { bumpVersion } from './applications.ts'
import type { Methods, Port } from './port.ts'
import { sealRegion } from './region-secrets.ts'
import { inBothOrders, statement } from './statement.ts'

interface RegionRow {
  readonly name: string
  readonly created_at: EpochMs
}

const insertRegion = statement<RegionRow>(
  'insert-region',
  `insert into region (app, name, secret, created_at) values (:app, :name, :secret, :now)
   on conflict (app, name) do nothing returning name, created_at`,
)
// Ranges of the primary key.
const selectRegions = inBothOrders<RegionRow>(
  'regions',
  (beyond, direction) => `
    select name, created_at from region
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
        if ((yield* sql.first(bumpVersion, { app })) === undefined) {
          throw noSuch('application')
        }
        const sealed = sealRegion(port.context.vault, secret, { app, name })
        const row = yield* sql.first(insertRegion, { app, name, secret: sealed })
        if (row === undefined) throw new AppError('conflict', `The region ${name} exists already.`)
        return toRegion(row)
      })
    },

    *listRegions(app, { limit, order, after }) {
      const rows = yield* port.all(selectRegions[order], { app, after, limit: limit + 1 })
      return toPage(rows, limit, toRegion)
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

function toRegion(row: RegionRow): Region {
  return { name: row.name, createdAt: row.created_at }
}
