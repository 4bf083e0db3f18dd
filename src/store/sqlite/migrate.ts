import type { DatabaseSync } from 'node:sqlite'
import { programFolder } from '../../assets/assets.ts'
import { type Migration, missingFrom, readMigrations } from '../migrations.ts'
import type { Connection } from './connection.ts'

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
  return readMigrations(programFolder('store/sqlite/migrations'))
}

/**
 * Brings the database to the newest version, one transaction per migration. Safe when several processes do it at once:
 * each looks again once it holds the write lock.
 */
export function migrate(connection: Connection, migrations: readonly Migration[] = knownMigrations()): void {
  for (const migration of missingFrom(migrations, currentVersion(connection.db))) apply(connection, migration)
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
