import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import type { Connection } from './connection.ts'

/** The file was last written by a newer Sluice, whose tables this one does not know. */
export class NewerSchemaError extends Error {
  override readonly name = 'NewerSchemaError'
}

interface Migration {
  readonly version: number
  readonly name: string
  readonly sql: string
}

const createMigrationTable = `
  create table if not exists migration (
    version integer primary key,
    name text not null,
    applied_at integer not null
  ) strict`

const selectVersion = 'select max(version) as version from migration'
const insertMigration = 'insert into migration (version, name, applied_at) values (?, ?, ?)'

/** The migrations that come with this program, in order. */
export function knownMigrations(): Migration[] {
  const folder = join(import.meta.dirname, 'migrations')
  return readdirSync(folder)
    .filter((file) => /^\d{4}_.*\.sql$/.test(file))
    .sort()
    .map((file) => ({
      version: Number(file.slice(0, 4)),
      name: file.slice(5, -'.sql'.length),
      sql: readFileSync(join(folder, file), 'utf8'),
    }))
}

/**
 * Brings the database to the newest version, one transaction per migration. Safe when several processes do it at once:
 * each looks again once it holds the write lock.
 */
export function migrate(connection: Connection, migrations: readonly Migration[] = knownMigrations()): void {
  const newest = migrations.at(-1)?.version ?? 0
  const found = currentVersion(connection.db)
  if (found > newest) {
    throw new NewerSchemaError(
      `the database has schema version ${found}, but this version of Sluice knows only up to ${newest}: upgrade Sluice`,
    )
  }
  for (const migration of migrations) {
    if (migration.version > found) apply(connection, migration)
  }
}

function apply(connection: Connection, migration: Migration): void {
  connection.transaction(() => {
    if (currentVersion(connection.db) >= migration.version) return
    connection.db.exec(createMigrationTable)
    connection.db.exec(migration.sql)
    connection.prepare(insertMigration).run(migration.version, migration.name, connection.now())
  })
}

/** The newest migration applied, 0 for an empty database. */
function currentVersion(db: DatabaseSync): number {
  const table = db.prepare(`select 1 from sqlite_schema where type = 'table' and name = 'migration'`).get()
  if (table === undefined) return 0
  return Number(db.prepare(selectVersion).get()?.version ?? 0)
}
