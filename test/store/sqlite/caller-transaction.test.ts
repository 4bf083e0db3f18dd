import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { type Match, NotEnlistableError } from '../../../src/store/publishing.ts'
import { openSqliteStore } from '../../../src/store/sqlite/open.ts'
import { StoreTrouble, type Watcher } from '../../../src/store/store.ts'
import { VirtualClock } from '../../virtual-clock.ts'
import { World } from '../conformance/harness.ts'
import { contextWith, placeFor } from '../sqlite-harness.ts'

const toAll: Match = ({ key: app }, { version, list }) => ({
  app,
  version,
  eventType: 'a',
  eventId: null,
  channels: null,
  body: new Uint8Array(2),
  contentType: 'application/json',
  endpoints: list.map(({ endpoint }) => endpoint),
  delayMs: 0,
})

async function open(t: TestContext) {
  const place = placeFor(t)
  const clock = new VirtualClock()
  const store = await openSqliteStore(contextWith(clock), { path: place.path, role: 'owner' })
  place.closeFirst(() => store.close())
  const db = new DatabaseSync(place.path, { timeout: 0 })
  place.closeFirst(() => db.close())
  await store.createApplication({ name: 'Acme', uid: 'acme', throttleRate: null, metadata: {} })
  return { place, store, clock, db }
}

test('it answers at once, so that a transaction never waits for its own process', async (t) => {
  const { store, db } = await open(t)
  db.exec('begin immediate')
  const answer = store.publishWithin(db, 'acme', toAll)
  assert(!(answer instanceof Promise) && answer?.published.state === 'accepted')
  db.exec('commit')
})

test('a connection whose commits a power cut may undo is refused', async (t) => {
  const { store, db } = await open(t)
  db.exec('pragma synchronous = normal')
  db.exec('begin')
  assert.throws(() => store.publishWithin(db, 'acme', toAll), NotEnlistableError)
  db.exec('commit')
  db.exec('pragma synchronous = extra')
  db.exec('begin')
  await store.publishWithin(db, 'acme', toAll)
  db.exec('commit')
  assert.equal((await store.counts()).messages, 1)
})

test('a store in memory has no other connections', async () => {
  const store = await openSqliteStore(contextWith(new VirtualClock()), { path: ':memory:', role: 'owner' })
  using db = new DatabaseSync(':memory:')
  db.exec('begin')
  assert.throws(() => store.publishWithin(db, 'acme', toAll), NotEnlistableError)
  await store.close()
})

test('a file that another process writes to is trouble, and the transaction is as it was', async (t) => {
  const { place, store, db } = await open(t)
  using other = new DatabaseSync(place.path)
  other.exec('begin immediate')
  db.exec('begin')
  assert.throws(() => store.publishWithin(db, 'acme', toAll), StoreTrouble)
  other.exec('rollback')
  await store.publishWithin(db, 'acme', toAll)
  db.exec('commit')
  assert.equal((await store.counts()).messages, 1)
})

test('the watcher hears of a commit when it is announced, of the very endpoints', async (t) => {
  const { store, db } = await open(t)
  const world = new World({ store } as never)
  const app = await store.findApplication('acme')
  assert(app)
  const endpoint = await world.endpoint(app)
  const heard: unknown[] = []
  const watcher: Watcher = {
    rows: (endpoints) => heard.push(endpoints),
    lanes: () => heard.push('lanes'),
    settings() {},
  }
  store.watch(watcher)
  db.exec('begin immediate')
  const enlisted = store.publishWithin(db, 'acme', toAll)
  assert(enlisted && !(enlisted instanceof Promise))
  assert.deepEqual(heard, [])
  db.exec('commit')
  enlisted.committed()
  assert.deepEqual(heard, [[endpoint.key], 'lanes'])
})

test('a connection may be opened as its program likes', async (t) => {
  const { place, store } = await open(t)
  const app = await store.findApplication('acme')
  assert(app)
  await new World({ store } as never).endpoint(app)
  using db = new DatabaseSync(place.path, { readBigInts: true, returnArrays: true, allowBareNamedParameters: false })
  db.exec('begin immediate')
  const enlisted = await store.publishWithin(db, 'acme', toAll)
  assert.deepEqual(Object.values(db.prepare('select 1').get() ?? {}), [1n], 'and it stays so')
  db.exec('commit')
  assert(enlisted?.published.state === 'accepted')
  assert.equal((await store.counts()).pending, 1)
  const message = await store.findMessage(app.key, enlisted.published.id)
  assert.equal(message?.endpoints.length, 1)
})
