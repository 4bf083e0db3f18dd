import { AppError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { type Page, toPage } from '../page.ts'
import { type Region, type Regions, sealRegion } from '../regions.ts'
import type { Connection, Synchronous } from './connection.ts'

const bumpVersion = 'update application set version = version + 1 where key = ? and deleted_at is null'
const insertRegion = `
  insert into region (app, name, secret, created_at) values (?, ?, ?, ?) on conflict (app, name) do nothing`
// Ranges of the primary key.
const selectUp = 'select name, created_at from region where app = ? and name > ? order by name limit ?'
const selectDown = `
  select name, created_at from region where app = ?1 and (?2 is null or name < ?2) order by name desc limit ?3`
// Leans on endpoint_app.
const selectUser = `
  select id from endpoint where app = ? and deleted_at is null and flow ->> '$.region' = ? limit 1`
const deleteRegionRow = 'delete from region where app = ? and name = ?'

interface RegionRow {
  readonly name: string
  readonly created_at: EpochMs
}

/** The secrets that pseudonyms are made with. */
export function regions(connection: Connection): Synchronous<Regions> {
  const bump = connection.prepare(bumpVersion)
  const insert = connection.prepare(insertRegion)
  const up = connection.prepare<RegionRow>(selectUp)
  const down = connection.prepare<RegionRow>(selectDown)
  const user = connection.prepare<{ id: string }>(selectUser)
  const remove = connection.prepare(deleteRegionRow)

  return {
    createRegion(app, name, secret): Region {
      return connection.transaction(() => {
        const createdAt = connection.now()
        if (bump.run(app).changes === 0) throw new AppError('not_found', 'There is no such application.')
        const sealed = sealRegion(connection.context.vault, secret, { app, name })
        if (insert.run(app, name, sealed, createdAt).changes === 0) {
          throw new AppError('conflict', `The region ${name} exists already.`)
        }
        return { name, createdAt }
      })
    },

    listRegions(app, { limit, order, after }): Page<Region> {
      const rows = order === 'ascending' ? up.all(app, after ?? '', limit + 1) : down.all(app, after, limit + 1)
      return toPage(rows, limit, toRegion)
    },

    deleteRegion(app, name): boolean {
      return connection.transaction(() => {
        if (bump.run(app).changes === 0) return false
        const used = user.get(app, name)
        if (used) throw new AppError('conflict', `The endpoint ${used.id} is in the region ${name}.`)
        return remove.run(app, name).changes > 0
      })
    },
  }
}

function toRegion(row: RegionRow): Region {
  return { name: row.name, createdAt: row.created_at }
}
