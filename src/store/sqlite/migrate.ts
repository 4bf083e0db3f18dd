import { realpathSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import {
  assertReleased,
  knownMigrations,
  type Migration,
  missingFrom,
  newerNotice,
  type Schema,
  worksSince,
} from '../migrations.ts'
import type { Connection } from './connection.ts'
import { asTrouble, openingTrouble } from './trouble.ts'

const createMigrationTable = `
  create table if not exists migration (
    version integer primary key,
    name text not null,
    applied_at integer not null,
    works_since integer -- null: only programs that know this migration work behind it
  ) strict`
const selectTable = `select 1 from sqlite_schema where type = 'table' and name = 'migration'`
const selectFirst = 'select name from migration where version = 1'
const selectNewest = `
  select max(version) as version, max(coalesce(works_since, version)) as since from migration`
const insertMigration = 'insert into migration (version, name, applied_at, works_since) values (?, ?, ?, ?)'

/**
 * Brings the database to the newest version, one transaction per migration. Safe when several processes do it at once:
 * each looks again once it holds the write lock. The answer is a line for the log when the database is newer than the program.
 */
export function migrate(
  connection: Connection,
  migrations: readonly Migration[] = knownMigrations('sqlite'),
): string | undefined {
  for (;;) {
    // Read again after each: a newer program may have migrated beyond what this one survives meanwhile.
    const schema = schemaOf(connection.db)
    const [next] = missingFrom(migrations, schema)
    if (next === undefined) return newerNotice(migrations, schema)
    apply(connection, next)
  }
}

/** The schema of the file, which is only read. A file that is missing has none. */
export function readSchema(path: string): Schema {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return { version: 0, worksSince: 0 }
  let db: DatabaseSync | undefined
  try {
    db = openReadOnly(path)
    return schemaOf(db)
  } catch (error) {
    throw asTrouble(openingTrouble(error, path))
  } finally {
    db?.close()
  }
}

/** Without a log SQLite reads the file alone: a new log beside it would hide that the right one is missing (log-mark.ts). */
function openReadOnly(path: string): DatabaseSync {
  const file = realpathSync(path)
  const url = pathToFileURL(file)
  if (statSync(`${file}-wal`, { throwIfNoEntry: false }) === undefined) url.searchParams.set('immutable', '1')
  return new DatabaseSync(url, { readOnly: true })
}

function apply(connection: Connection, migration: Migration): void {
  connection.transaction(() => {
    if (schemaOf(connection.db).version >= migration.version) return
    connection.db.exec(createMigrationTable)
    connection.db.exec(migration.sql)
    connection.prepare(insertMigration).run(migration.version, migration.name, connection.now(), worksSince(migration))
  })
}

function schemaOf(db: DatabaseSync): Schema {
  if (db.prepare(selectTable).get() === undefined) return { version: 0, worksSince: 0 }
  const first = db.prepare(selectFirst).get()?.name
  assertReleased(first === undefined ? undefined : String(first))
  const row = db.prepare(selectNewest).get()
  return { version: Number(row?.version ?? 0), worksSince: Number(row?.since ?? 0) }
}
