import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import pg from 'pg'
import { firstKeyAt } from '../../../src/domain/ids.ts'
import { knownMigrations } from '../../../src/store/migrations.ts'
import { migrate } from '../../../src/store/postgres/migrate.ts'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import { ensurePartitions } from '../../../src/store/postgres/partitions.ts'
import { openSessions } from '../../../src/store/postgres/sessions.ts'
import { eventually } from '../../e2e/eventually.ts'
import { context, newDatabase, serversAt, sharedServer } from '../postgres-harness.ts'
import { dumpSchema } from './schema-dump.ts'

const schemaFile = join(import.meta.dirname, '../../../src/store/postgres/schema.sql')

test('the checked-in schema is what the migrations make (UPDATE_SCHEMA=1 writes it)', async () => {
  const server = await sharedServer()
  const url = await server.createDatabase()
  await migrate(serversAt(url))
  const made = await dumpSchema(server, url)
  if (process.env.UPDATE_SCHEMA) writeFileSync(schemaFile, made)
  assert.equal(readFileSync(schemaFile, 'utf8'), made)
})

test('migrations are numbered without gaps', () => {
  const versions = knownMigrations('postgres').map((migration) => migration.version)
  assert.deepEqual(
    versions,
    versions.map((_, i) => i + 1),
  )
})

test('a database is brought up to date one migration at a time, and only once', async () => {
  const server = await sharedServer()
  const url = await server.createDatabase()
  const first = { version: 1, name: 'schema', sql: 'create table a (x integer)' }
  const second = { version: 2, name: 'second', sql: 'alter table a add column y integer' }
  await migrate(serversAt(url), [first])
  await migrate(serversAt(url), [first, second])
  await migrate(serversAt(url), [first, second])
  const { rows } = await server.query('select version, name from migration order by version', url)
  assert.deepEqual(rows, [
    { version: 1, name: 'schema' },
    { version: 2, name: 'second' },
  ])
})

test('a migration that waits for a lock lets other sessions go on', async () => {
  const server = await sharedServer()
  const url = await server.createDatabase()
  const first = { version: 1, name: 'schema', sql: 'create table a (x integer)' }
  const second = { version: 2, name: 'second', sql: 'alter table a add column y integer' }
  await migrate(serversAt(url), [first])
  const [dump, other] = [new pg.Client(url), new pg.Client(url)]
  await Promise.all([dump.connect(), other.connect()])
  try {
    await dump.query('begin')
    await dump.query('select * from a')
    let isDone = false
    const done = migrate(serversAt(url), [first, second]).then(() => {
      isDone = true
    })
    const waits = `select 1 from pg_locks where relation = 'a'::regclass and not granted`
    await eventually('the migration waits', async () => (await other.query(waits)).rows.length > 0)
    await other.query('select * from a')
    assert.equal(isDone, false, 'the other session did not wait for the end of the migration')
    await dump.query('commit')
    await done
    await other.query('select y from a')
  } finally {
    await Promise.all([dump.end(), other.end()])
  }
})

test('a migration that fails leaves no trace', async () => {
  const server = await sharedServer()
  const url = await server.createDatabase()
  const broken = { version: 1, name: 'schema', sql: 'create table a (x integer); create table a (x integer)' }
  await assert.rejects(migrate(serversAt(url), [broken]), /already exists/)
  assert.equal(await dumpSchema(server, url), '')
  await migrate(serversAt(url), [{ ...broken, sql: 'create table a (x integer)' }])
})

test('a database with a newer schema is refused, naming both versions', async () => {
  const server = await sharedServer()
  const url = await newDatabase()
  await server.query(`insert into migration (version, name, applied_at) values (99, 'future', 0)`, url)
  const known = knownMigrations('postgres').length
  await assert.rejects(openPostgresStore(context, { url }), {
    name: 'NewerSchemaError',
    message: new RegExp(`schema version 99\\b.*\\bup to ${known}\\b`),
  })
})

test('processes that open a new database at once all get it', async () => {
  const server = await sharedServer()
  const url = await server.createDatabase()
  const stores = await Promise.all([1, 2, 3, 4].map(() => openPostgresStore(context, { url })))
  await Promise.all(stores.map((store) => store.close()))
  const { rows } = await server.query('select count(*)::integer as count from migration', url)
  assert.equal(rows[0].count, knownMigrations('postgres').length)
})

const dayMs = 24 * 60 * 60 * 1000

test('there is a partition for today and the next three days, made once by however many ask', async () => {
  const server = await sharedServer()
  const url = await newDatabase()
  const sessions = openSessions({ servers: serversAt(url), durable: true, connections: 4, onTrouble: () => {} })
  const later = Date.UTC(2031, 0, 31, 12)
  await Promise.all([1, 2, 3, 4].map(() => ensurePartitions(sessions, later)))
  await sessions.end()
  const { rows } = await server.query(
    `select relname from pg_class where relispartition and relkind = 'r' and relname like '%2031%' order by 1`,
    url,
  )
  const days = ['20310131', '20310201', '20310202', '20310203']
  const expected = ['attempt', 'coalesced', 'message', 'subject', 'variant'].flatMap((table) =>
    days.map((day) => `${table}_${day}`),
  )
  assert.deepEqual(
    rows.map((row) => row.relname),
    expected,
  )

  // The first and the last key of a day lie in it; what no day was made for lies in the default partition.
  const at = Date.UTC(2031, 1, 1)
  for (const key of [firstKeyAt(at), firstKeyAt(at + dayMs) - 1, firstKeyAt(at + 9 * dayMs)]) {
    await server.query(
      `insert into message values (${key}, 'm', 1, 't', null, null, 'text/plain', '{}', 'x');
       insert into attempt values (${key}, 1, 1, 'a', 0, 0, 0, 'delivered', null, null, null, 'scheduled')`,
      url,
    )
  }
  const places = await server.query('select tableoid::regclass::text as place from message order by key', url)
  assert.deepEqual(
    places.rows.map((row) => row.place),
    ['message_20310201', 'message_20310201', 'message_default'],
  )
})

test('a day whose rows already lie in the default partition stays there, and does not stop the others', async () => {
  const server = await sharedServer()
  const url = await newDatabase()
  const at = Date.UTC(2032, 5, 2)
  await server.query(
    `insert into message values (${firstKeyAt(at)}, 'm', 1, 't', null, null, 'text/plain', '{}', 'x')`,
    url,
  )
  const sessions = openSessions({ servers: serversAt(url), durable: true, connections: 1, onTrouble: () => {} })
  await ensurePartitions(sessions, at - dayMs)
  await sessions.end()
  const { rows } = await server.query(
    `select relname from pg_class where relispartition and relkind = 'r' and relname like 'message_2032%' order by 1`,
    url,
  )
  assert.deepEqual(
    rows.map((row) => row.relname),
    ['message_20320601', 'message_20320603', 'message_20320604'],
  )
})
