import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import { context, newDatabase, sharedServer, useOwnServer } from '../postgres-harness.ts'

useOwnServer()

/** Changes a setting of the whole server for the length of a test. */
async function withSetting(t: TestContext, name: string, value: string): Promise<void> {
  const server = await sharedServer()
  const apply = async (sql: string, expected: string) => {
    await server.query(sql)
    await server.query('select pg_reload_conf()')
    for (;;) {
      const { rows } = await server.query(`select current_setting('${name}') as value`)
      if (rows[0].value === expected) return
    }
  }
  const { rows } = await server.query(`select current_setting('${name}') as value`)
  t.after(() => apply(`alter system reset ${name}`, rows[0].value))
  await apply(`alter system set ${name} = ${value}`, value)
}

const options = { skip: process.env.DATABASE_URL ? 'the server at DATABASE_URL is not ours to change' : false }

for (const name of ['fsync', 'full_page_writes']) {
  test(`a server with ${name} off is refused before anything is written`, options, async (t) => {
    const server = await sharedServer()
    const url = await server.createDatabase()
    await withSetting(t, name, 'off')
    await assert.rejects(openPostgresStore(context, { url }), {
      name: 'NotDurableError',
      message: new RegExp(`${name} = off`),
    })
    const { rows } = await server.query(`select to_regclass('migration') as found`, url)
    assert.equal(rows[0].found, null)
  })
}

test('accepted messages are on disk even where the database says that commits need not wait', async () => {
  const server = await sharedServer()
  const url = await newDatabase()
  await server.query(`alter database "${new URL(url).pathname.slice(1)}" set synchronous_commit = off`)
  const store = await openPostgresStore(context, { url })
  await store.createApplication({ name: 'Acme', uid: 'acme', throttleRate: null, metadata: {} })
  // Everything up to now is on disk, so the application's commit is: nothing was written since.
  const { rows } = await server.query(
    'select pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn() as flushed',
    url,
  )
  await store.close()
  assert.equal(rows[0].flushed, true)
})

test('the driver goes on giving others what it always gave', async () => {
  const store = await openPostgresStore(context, { url: await newDatabase() })
  await store.close()
  assert.equal(pg.types.getTypeParser(20)('42'), '42')
})

test('a store can be closed twice, and then refuses with StoreTrouble', async () => {
  const store = await openPostgresStore(context, { url: await newDatabase() })
  await Promise.all([store.close(), store.close()])
  await store.close()
  await assert.rejects(store.ping(), { name: 'StoreTrouble' })
})

test('a server that is not there is StoreTrouble', async () => {
  await assert.rejects(openPostgresStore(context, { url: 'postgres://postgres@127.0.0.1:1/sluice' }), {
    name: 'StoreTrouble',
  })
})

test('a character that Postgres cannot store is the caller’s mistake', async (t) => {
  const store = await openPostgresStore(context, { url: await newDatabase() })
  t.after(() => store.close())
  const input = { name: 'a\0b', uid: null, throttleRate: null, metadata: {} }
  await assert.rejects(store.createApplication(input), { name: 'AppError', code: 'validation' })
})
