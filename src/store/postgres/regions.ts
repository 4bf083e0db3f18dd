import { AppError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { toPage } from '../page.ts'
import { type Region, type Regions, sealRegion } from '../regions.ts'
import { bumpVersion } from './applications.ts'
import type { Database } from './database.ts'
import { sqlNow } from './server-time.ts'
import type { Statement } from './sessions.ts'

const insertRegion: Statement = {
  name: 'insert-region',
  text: `
    insert into region (app, name, secret, created_at) values ($1, $2, $3, ${sqlNow}) on conflict do nothing
    returning name, created_at`,
}
// Ranges of the primary key.
const selectUp: Statement = {
  name: 'regions-up',
  text: 'select name, created_at from region where app = $1 and name > $2 order by name limit $3',
}
const selectDown: Statement = {
  name: 'regions-down',
  text: `
    select name, created_at from region
     where app = $1 and ($2::text is null or name < $2) order by name desc limit $3`,
}
// Leans on endpoint_app.
const selectUser: Statement = {
  name: 'region-user',
  text: `select id from endpoint where app = $1 and deleted_at is null and flow ->> 'region' = $2 limit 1`,
}
const deleteRegionRow: Statement = {
  name: 'delete-region',
  text: 'delete from region where app = $1 and name = $2 returning name',
}

interface RegionRow {
  readonly name: string
  readonly created_at: EpochMs
}

/** The secrets that pseudonyms are made with. */
export function regions({ durable, context }: Database): Regions {
  return {
    createRegion(app, name, secret) {
      return durable.transaction(async (run) => {
        if ((await run(bumpVersion, [app])).length === 0) {
          throw new AppError('not_found', 'There is no such application.')
        }
        const sealed = sealRegion(context.vault, secret, { app, name })
        const [row] = await run<RegionRow>(insertRegion, [app, name, sealed])
        if (row === undefined) throw new AppError('conflict', `The region ${name} exists already.`)
        return toRegion(row)
      })
    },

    async listRegions(app, { limit, order, after }) {
      const rows =
        order === 'ascending'
          ? await durable.run<RegionRow>(selectUp, [app, after ?? '', limit + 1])
          : await durable.run<RegionRow>(selectDown, [app, after, limit + 1])
      return toPage(rows, limit, toRegion)
    },

    deleteRegion(app, name) {
      return durable.transaction(async (run) => {
        if ((await run(bumpVersion, [app])).length === 0) return false
        const [used] = await run<{ id: string }>(selectUser, [app, name])
        if (used) throw new AppError('conflict', `The endpoint ${used.id} is in the region ${name}.`)
        return (await run(deleteRegionRow, [app, name])).length > 0
      })
    },
  }
}

function toRegion(row: RegionRow): Region {
  return { name: row.name, createdAt: row.created_at }
}
