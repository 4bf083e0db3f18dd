import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import type { Renewal, Store, Watcher } from '../../../src/store/store.ts'
import { eventually } from '../../e2e/eventually.ts'
import { World } from '../conformance/harness.ts'
import { context, newDatabase, sharedServer, useOwnServer } from '../postgres-harness.ts'

useOwnServer()

/** No test here waits for a lease to run out. */
const leaseMs = 10 * 60_000

/** One process with a worker, and what its store signals. */
class Process {
  readonly store: Store
  readonly died: NonNullable<Renewal['died']>[number][] = []
  readonly heard: string[] = []
  worker = 0

  private constructor(store: Store) {
    this.store = store
    const watcher: Watcher = {
      rows() {},
      lanes() {},
      settings() {},
      workersDied: (died) => this.died.push(...died),
      sessionLost: () => this.heard.push('lost'),
      sessionHeld: () => this.heard.push('held'),
    }
    store.watch(watcher)
  }

  static async start(t: TestContext, url: string): Promise<Process> {
    const process = new Process(await openPostgresStore(context, { url }))
    t.after(() => process.store.close())
    process.worker = await process.store.join({ leaseMs, description: 'a process' })
    return process
  }

  async workersAlive(): Promise<number> {
    return (await this.store.renew(this.worker, leaseMs)).workers as number
  }
}

/** The sessions that hold the locks of workers. */
const holders = `
  select pid, objid::int as worker from pg_locks
   where locktype = 'advisory' and granted and mode = 'ExclusiveLock' and objsubid = 2
     and database = (select oid from pg_database where datname = current_database())`

test('a worker whose connections end is dead long before its lease is over, and its lanes are claimable', async (t) => {
  const url = await newDatabase()
  const [gone, other] = [await Process.start(t, url), await Process.start(t, url)]
  const world = new World({ store: other.store } as never)
  const app = await other.store.createApplication({ name: 'Acme', uid: null, throttleRate: null, metadata: {} })
  const endpoint = await world.endpoint(app)
  await world.publish([endpoint])
  await eventually('the lane is claimed', async () => (await gone.store.claim(gone.worker, 10)).lanes.length === 1)

  await gone.store.close()
  await eventually('the other hears of the death', () => other.died.length > 0)
  assert.deepEqual(
    other.died.map(({ worker, lanes }) => ({ worker, lanes })),
    [{ worker: gone.worker, lanes: 1 }],
  )
  const { lanes } = await other.store.claim(other.worker, 10)
  assert.deepEqual(
    lanes.map((lane) => [lane.endpoint.key, lane.clean]),
    [[endpoint.key, false]],
  )
  const listed = await other.store.listWorkers(10)
  assert.deepEqual(
    listed.map(({ worker, died, endedAt }) => [worker, died, endedAt !== null]),
    [
      [other.worker, false, false],
      [gone.worker, true, true],
    ],
  )
})

test('a worker that leaves is not called dead, and frees its lock', async (t) => {
  const url = await newDatabase()
  const [leaver, other] = [await Process.start(t, url), await Process.start(t, url)]
  const server = await sharedServer()
  assert.equal((await server.query(holders, url)).rows.length, 2)
  await leaver.store.leave(leaver.worker)
  const { rows } = await server.query(holders, url)
  assert.deepEqual(
    rows.map(({ worker }) => worker),
    [other.worker],
  )
  assert.equal(await other.workersAlive(), 1)
  assert.deepEqual(other.died, [])
})

test('two workers of one process do not take each other for dead', async (t) => {
  const url = await newDatabase()
  const process = await Process.start(t, url)
  const second = await process.store.join({ leaseMs, description: 'a second worker' })
  const witness = await Process.start(t, url)
  // The witness finds a third process dead, so it has looked; the process with two workers looks as often.
  const third = await Process.start(t, url)
  await third.store.close()
  await eventually('a look at the sessions', () => [...witness.died, ...process.died].length > 0)
  assert.deepEqual(
    [...witness.died, ...process.died].map(({ worker }) => worker),
    [third.worker],
  )
  assert.equal(await witness.workersAlive(), 3)
  assert.equal((await process.store.renew(second, leaseMs)).alive, true)
})

test('a worker whose listening connection is cut comes back under its number', async (t) => {
  const url = await newDatabase()
  const [cut, other] = [await Process.start(t, url), await Process.start(t, url)]
  const server = await sharedServer()
  const holder = async () => (await server.query(holders, url)).rows.find(({ worker }) => worker === cut.worker)?.pid
  const before = await holder()
  await server.query(`select pg_terminate_backend(${before})`, url)
  await eventually('it lost its session and has another one', () => cut.heard.join() === 'lost,held')
  const after = await holder()
  assert.ok(after !== undefined && after !== before, `${after} holds the lock that ${before} had`)
  assert.equal((await cut.store.renew(cut.worker, leaseMs)).alive, true)
  assert.deepEqual(other.died, [])
})

test('a server that starts anew ends no worker', async (t) => {
  const url = await newDatabase()
  const both = [await Process.start(t, url), await Process.start(t, url)]
  const server = await sharedServer()
  await server.stop('at once')
  await server.start()
  await eventually('both are seen again', () => both.every(({ heard }) => heard.at(-1) === 'held'))
  for (const process of both) {
    await eventually('it lives', async () => (await process.store.renew(process.worker, leaseMs)).alive)
    assert.deepEqual(process.died, [])
  }
  assert.equal(await both[0]?.workersAlive(), 2)
})
