import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, type TestContext, test } from 'node:test'
import pg from 'pg'
import { handleOnce, memoryStore, type Outcome } from '../../receiver/src/index.ts'
import { postgresStore, postgresTransaction } from '../../receiver/src/postgres.ts'
import { sqliteStore, sqliteTransaction } from '../../receiver/src/sqlite.ts'
import { eventually } from '../e2e/eventually.ts'
import { sharedServer } from '../store/postgres-harness.ts'
import { hasRedis, redisClient, redisUrl } from './redis-server.ts'
import { newFile, type OpenedStore, openFile, openStore, type StoreKind } from './stores.ts'

interface Kind {
  readonly kind: StoreKind
  readonly skip?: string | false
  place(t: TestContext): Promise<string>
}

const kinds: readonly Kind[] = [
  { kind: 'memory', place: async () => '' },
  { kind: 'sqlite', place: async (t) => newFile(t) },
  { kind: 'postgres', place: async () => (await sharedServer()).createDatabase() },
  { kind: 'redis', skip: !hasRedis && 'redis-server is not on the PATH', place: () => redisUrl() },
]

let ids = 0
/** An id that no other test uses: all tests share one Redis. */
const newId = () => `msg_${++ids}`

const outcomes = (list: readonly Outcome<unknown>[]) => list.map(({ outcome }) => outcome).sort()

for (const { kind, skip = false, place } of kinds) {
  describe(`the ${kind} store`, { skip }, () => {
    async function open(t: TestContext, at?: string): Promise<OpenedStore['store']> {
      const { store, close } = await openStore(kind, at ?? (await place(t)))
      t.after(close)
      return store
    }

    test('lets the work of a message be done once, and knows it from then on', async (t) => {
      const store = await open(t)
      const id = newId()
      let works = 0
      const work = () => ++works
      assert.deepEqual(await handleOnce(store, id, work), { outcome: 'handled', value: 1 })
      assert.deepEqual(await handleOnce(store, id, work), { outcome: 'duplicate' })
      assert.deepEqual(await handleOnce(store, newId(), work), { outcome: 'handled', value: 2 })
    })

    test('frees a message whose work failed, at once', async (t) => {
      const store = await open(t)
      const id = newId()
      await assert.rejects(
        handleOnce(store, id, () => Promise.reject(new Error('no disk'))),
        /no disk/,
      )
      assert.equal((await handleOnce(store, id, () => {})).outcome, 'handled')
    })

    test('has one caller work, however many come at once', async (t) => {
      const at = await place(t)
      const stores = kind === 'memory' ? [await open(t)] : await Promise.all([open(t, at), open(t, at)])
      const id = newId()
      const done = Promise.withResolvers<void>()
      let works = 0
      const calls = Array.from({ length: 40 }, (_, i) =>
        handleOnce(stores[i % stores.length] as (typeof stores)[0], id, () => {
          works++
          return done.promise
        }),
      )
      let answered = 0
      for (const call of calls) void call.then(() => ++answered)
      await eventually('all others are answered while one works', () => answered === 39)
      done.resolve()
      const ended = await Promise.all(calls)
      assert.equal(works, 1)
      assert.deepEqual(outcomes(ended), [...Array(39).fill('busy'), 'handled'])
      for (const each of ended)
        if (each.outcome === 'busy') assert.ok(each.retryAfterMs > 0 && each.retryAfterMs <= 30_000)
      assert.equal((await handleOnce(stores[0] as (typeof stores)[0], id, () => {})).outcome, 'duplicate')
    })

    test('gives an expired claim to the next caller, whose failure does not undo the late success', async (t) => {
      const store = await open(t)
      const id = newId()
      assert.equal(await store.claim(id, 'slow', 1), 'claimed')
      await eventually('the lease is over', async () => (await store.claim(id, 'quick', 60_000)) === 'claimed')
      const busy = await store.claim(id, 'third', 1)
      assert.ok(typeof busy === 'object' && busy.busyMs > 50_000)
      await store.release(id, 'slow')
      assert.equal(typeof (await store.claim(id, 'third', 1)), 'object', 'a lost claim releases nothing')
      await store.complete(id, 60_000)
      await store.release(id, 'quick')
      assert.equal(await store.claim(id, 'third', 1), 'handled')
    })

    test('forgets a handled message after the time it was to be kept', async (t) => {
      const store = await open(t)
      const id = newId()
      await store.claim(id, 'one', 60_000)
      await store.complete(id, 1)
      await eventually('it is forgotten', async () => (await store.claim(id, 'two', 60_000)) === 'claimed')
    })

    test('takes ids of any text', async (t) => {
      const store = await open(t)
      for (const id of ["'; drop table sluice_handled; --", 'ä🙂', '__proto__', 'x'.repeat(8000), '%$1{}']) {
        assert.equal((await handleOnce(store, `${newId()}${id}`, () => {})).outcome, 'handled')
        assert.equal((await handleOnce(store, `msg_${ids}${id}`, () => {})).outcome, 'duplicate')
      }
    })

    if (kind !== 'memory') {
      test('lets another process take over from one that was killed at work', async (t) => {
        const at = await place(t)
        const store = await open(t, at)
        const id = newId()
        const child = spawn(process.execPath, [join(import.meta.dirname, 'worker.ts'), kind, at, id, '3'], {
          stdio: ['ignore', 'pipe', 'inherit'],
        })
        const exited = once(child, 'exit')
        await once(child.stdout, 'data')
        child.kill('SIGKILL')
        await exited
        const result = await eventually('it is taken over', async () => {
          const result = await handleOnce(store, id, () => 'taken over')
          return result.outcome !== 'busy' && result
        })
        assert.deepEqual(result, { outcome: 'handled', value: 'taken over' })
      })
    }
  })
}

describe('the memory store', () => {
  test('forgets the oldest messages beyond its limit, and refuses more claims than that', async () => {
    const store = memoryStore({ maxMessages: 3 })
    for (const id of ['a', 'b', 'c', 'd']) await handleOnce(store, id, () => {})
    assert.equal((await handleOnce(store, 'd', () => {})).outcome, 'duplicate')
    assert.equal((await handleOnce(store, 'a', () => {})).outcome, 'handled')
    let now = 0
    const full = memoryStore({ maxMessages: 2, now: () => now })
    assert.equal(await full.claim('a', '1', 10), 'claimed')
    assert.equal(await full.claim('b', '2', 10), 'claimed')
    assert.deepEqual(await full.claim('c', '3', 10), { busyMs: 1000 })
    now = 10
    assert.equal(await full.claim('c', '3', 10), 'claimed')
  })
})

test('tables shed expired rows as they are used', async (t) => {
  const url = await (await sharedServer()).createDatabase()
  const pool = new pg.Pool({ connectionString: url })
  t.after(() => pool.end())
  const database = new DatabaseSync(':memory:')
  t.after(() => database.close())
  const rows = 'select count(*)::int as rows from sluice_handled'
  for (const store of [sqliteStore(database), postgresStore(pool)]) {
    for (let i = 0; i < 100; i++) {
      await store.claim(`msg_${i}`, 'token', 60_000)
      await store.complete(`msg_${i}`, 0)
    }
  }
  const [{ rows: inPostgres }] = (await pool.query(rows)).rows
  const { rows: inSqlite } = database.prepare(rows.replace('::int', '')).get() as { rows: number }
  assert.ok(inPostgres < 50 && inSqlite < 50, `${inPostgres} and ${inSqlite} rows are left`)
})

test('a table name that would end a statement is refused', () => {
  const database = new DatabaseSync(':memory:')
  for (const table of ['a; drop table b', 'a"b', '', 'a.b', '1a']) {
    assert.throws(() => sqliteStore(database, { table }), RangeError)
    assert.throws(() => postgresStore({ query: () => Promise.reject(new Error()) }, { table }), RangeError)
  }
})

describe('in a transaction of SQLite', () => {
  test('work and memory happen together or not at all', async (t) => {
    const file = newFile(t)
    const [database, other] = [openFile(file), openFile(file)]
    t.after(() => [database, other].map((each) => each.close()))
    database.exec('create table paid (invoice integer)')
    const transaction = sqliteTransaction(database)
    const pay = (invoice: number) => (tx: DatabaseSync) => {
      tx.prepare('insert into paid values (?)').run(invoice)
      return invoice
    }
    const paid = () =>
      other
        .prepare('select invoice from paid order by 1')
        .all()
        .map((row) => row.invoice)
    assert.deepEqual(await transaction.run('msg_1', pay(1)), { outcome: 'handled', value: 1 })
    assert.deepEqual(await transaction.run('msg_1', pay(1)), { outcome: 'duplicate' })
    const failing = (tx: DatabaseSync) => {
      pay(2)(tx)
      throw new Error('no')
    }
    await assert.rejects(transaction.run('msg_2', failing), /no/)
    assert.deepEqual(paid(), [1])
    assert.deepEqual(await transaction.run('msg_2', pay(2)), { outcome: 'handled', value: 2 })
    await assert.rejects(
      transaction.run('msg_3', async (tx) => pay(3)(tx)),
      /must not be asynchronous/,
    )
    assert.deepEqual(paid(), [1, 2])
    assert.deepEqual(await sqliteTransaction(other).run('msg_1', pay(1)), { outcome: 'duplicate' })
  })

  test('a file that another process writes to is busy', async (t) => {
    const file = newFile(t)
    const [database, other] = [openFile(file), openFile(file)]
    t.after(() => [database, other].map((each) => each.close()))
    const transaction = sqliteTransaction(database)
    database.exec('pragma busy_timeout = 0')
    other.exec('begin immediate')
    assert.deepEqual(await transaction.run('msg_1', () => {}), { outcome: 'busy', retryAfterMs: 1000 })
    other.exec('rollback')
    assert.equal((await transaction.run('msg_1', () => {})).outcome, 'handled')
  })
})

describe('in a transaction of Postgres', () => {
  test('work and memory happen together or not at all, and a second caller is busy meanwhile', async (t) => {
    const url = await (await sharedServer()).createDatabase()
    const pool = new pg.Pool({ connectionString: url, max: 4 })
    t.after(() => pool.end())
    await pool.query('create table paid (invoice integer)')
    const transaction = postgresTransaction(pool)
    const pay = (invoice: number) => (tx: pg.PoolClient) => tx.query('insert into paid values ($1)', [invoice])
    const paid = async () => (await pool.query('select invoice from paid order by 1')).rows.map((row) => row.invoice)

    const gate = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    const first = transaction.run('msg_1', async (tx) => {
      await pay(1)(tx)
      started.resolve()
      await gate.promise
    })
    await started.promise
    assert.deepEqual(await transaction.run('msg_1', pay(1)), { outcome: 'busy', retryAfterMs: 1000 })
    gate.resolve()
    assert.equal((await first).outcome, 'handled')
    assert.deepEqual(await transaction.run('msg_1', pay(1)), { outcome: 'duplicate' })
    await assert.rejects(
      transaction.run('msg_2', async (tx) => {
        await pay(2)(tx)
        throw new Error('no')
      }),
      /no/,
    )
    assert.deepEqual(await paid(), [1])
    assert.equal((await transaction.run('msg_2', pay(2))).outcome, 'handled')
    assert.deepEqual(await paid(), [1, 2])
    assert.equal(pool.idleCount, pool.totalCount, 'every connection came back')
  })

  test('a connection that breaks at work leaves nothing behind, and the pool goes on', async (t) => {
    const url = await (await sharedServer()).createDatabase()
    const pool = new pg.Pool({ connectionString: url, max: 2 })
    pool.on('error', () => {})
    t.after(() => pool.end())
    const transaction = postgresTransaction(pool)
    await assert.rejects(
      transaction.run('msg_1', async (tx) => {
        tx.on('error', () => {})
        const [{ pid }] = (await tx.query('select pg_backend_pid() as pid')).rows
        await pool.query('select pg_terminate_backend($1)', [pid])
        await tx.query('select 1')
      }),
    )
    assert.equal((await transaction.run('msg_1', () => {})).outcome, 'handled')
  })

  test('many processes may create the table at once', async (t) => {
    const url = await (await sharedServer()).createDatabase()
    const pools = Array.from({ length: 12 }, () => new pg.Pool({ connectionString: url, max: 1 }))
    t.after(() => Promise.all(pools.map((pool) => pool.end())))
    await Promise.all(pools.map((pool) => postgresStore(pool).open()))
  })

  test('a database that was away is asked again', async (t) => {
    const url = await (await sharedServer()).createDatabase()
    const pool = new pg.Pool({ connectionString: url })
    t.after(() => pool.end())
    let away = true
    const store = postgresStore({
      query: (text, values) => (away ? Promise.reject(new Error('away')) : pool.query(text, values)),
    })
    await assert.rejects(
      handleOnce(store, 'msg_1', () => {}),
      /away/,
    )
    away = false
    assert.equal((await handleOnce(store, 'msg_1', () => {})).outcome, 'handled')
  })
})

test('every key in Redis expires', {
  skip: !hasRedis,
}, async (t) => {
  const client = await redisClient(await redisUrl())
  t.after(() => client.destroy())
  const keys = await client.sendCommand(['KEYS', 'sluice:handled:*'])
  assert.ok(Array.isArray(keys))
  const ttl = await client.sendCommand(['PTTL', String(keys[0])])
  assert.ok(Number(ttl) > 0, 'every key expires')
})
