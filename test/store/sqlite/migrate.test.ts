import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { knownMigrations } from '../../../src/store/migrations.ts'
import { Connection } from '../../../src/store/sqlite/connection.ts'
import { migrate } from '../../../src/store/sqlite/migrate.ts'
import { openSqliteStore } from '../../../src/store/sqlite/open.ts'
import { VirtualClock } from '../../virtual-clock.ts'
import { contextWith, placeFor } from '../sqlite-harness.ts'
import { Child } from './child.ts'

const schemaFile = join(import.meta.dirname, '../../../src/store/sqlite/schema.sql')

function inMemory(t: TestContext): Connection {
  const db = new DatabaseSync(':memory:')
  t.after(() => db.close())
  return new Connection(db, contextWith(new VirtualClock()))
}

/** Every table and index as SQLite remembers it, by name. */
function schemaOf(db: DatabaseSync): string {
  const rows = db.prepare(
    `select sql from sqlite_schema where sql is not null and name not like 'sqlite_%' order by name`,
  )
  return rows
    .all()
    .map((row) => `${row.sql};\n`)
    .join('\n')
}

test('the checked-in schema is what the migrations make (UPDATE_SCHEMA=1 writes it)', (t) => {
  const connection = inMemory(t)
  migrate(connection)
  const made = schemaOf(connection.db)
  if (process.env.UPDATE_SCHEMA) writeFileSync(schemaFile, made)
  assert.equal(readFileSync(schemaFile, 'utf8'), made)
})

test('migrations are numbered without gaps', () => {
  const versions = knownMigrations('sqlite').map((migration) => migration.version)
  assert.deepEqual(
    versions,
    versions.map((_, i) => i + 1),
  )
})

test('a database is brought up to date one migration at a time, and only once', (t) => {
  const connection = inMemory(t)
  const first = { version: 1, name: 'schema', sql: 'create table a (x)' }
  const second = { version: 2, name: 'second', sql: 'alter table a add column y' }
  migrate(connection, [first])
  migrate(connection, [first, second])
  migrate(connection, [first, second])
  const applied = connection.db.prepare('select version, name from migration order by version').all()
  assert.deepEqual(
    applied.map((row) => ({ ...row })),
    [
      { version: 1, name: 'schema' },
      { version: 2, name: 'second' },
    ],
  )
})

test('a migration that fails leaves no trace', (t) => {
  const connection = inMemory(t)
  const broken = { version: 1, name: 'schema', sql: 'create table a (x); create table a (x)' }
  assert.throws(() => migrate(connection, [broken]), /already exists/)
  assert.equal(schemaOf(connection.db), '')
  migrate(connection, [{ ...broken, sql: 'create table a (x)' }])
})

test('a file with a newer schema is refused, naming both versions', async (t) => {
  const place = placeFor(t)
  const context = contextWith(new VirtualClock())
  await (await openSqliteStore(context, { path: place.path, role: 'owner' })).close()
  {
    using db = new DatabaseSync(place.path)
    db.exec(`insert into migration (version, name, applied_at) values (99, 'future', 0)`)
  }
  const known = knownMigrations('sqlite').length
  const expected = { name: 'NewerSchemaError', message: new RegExp(`schema version 99\\b.*\\bup to ${known}\\b`) }
  await assert.rejects(openSqliteStore(context, { path: place.path, role: 'owner' }), expected)
  // Being refused as an owner does not keep the lock.
  await assert.rejects(openSqliteStore(context, { path: place.path, role: 'owner' }), expected)
})

test('a migration that another process made first is not made again', (t) => {
  const place = placeFor(t)
  using ours = new DatabaseSync(place.path)
  using theirs = new DatabaseSync(place.path)
  const context = contextWith(new VirtualClock())
  const [slow, fast] = [new Connection(ours, context), new Connection(theirs, context)]
  const transaction = slow.transaction.bind(slow)
  // While this one waits for the write lock, the other gets it.
  slow.transaction = (work) => {
    migrate(fast)
    return transaction(work)
  }
  migrate(slow)
  assert.equal(ours.prepare('select count(*) as count from migration').get()?.count, knownMigrations('sqlite').length)
})

test('processes that make the same file at once all get it', async (t) => {
  const place = placeFor(t)
  const children = (['owner', 'guest', 'guest', 'guest'] as const).map((role) => new Child(place, role))
  const lines = await Promise.all(children.map((child) => child.line()))
  assert.deepEqual(lines, ['open', 'open', 'open', 'open'])
  await Promise.all(children.map((child) => child.kill()))
  using db = new DatabaseSync(place.path)
  assert.equal(db.prepare('select count(*) as count from migration').get()?.count, knownMigrations('sqlite').length)
})
