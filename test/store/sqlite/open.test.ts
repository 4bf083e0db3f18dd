import assert from 'node:assert/strict'
import { symlinkSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { assertDurable, openSqliteStore } from '../../../src/store/sqlite/open.ts'
import { VirtualClock } from '../../virtual-clock.ts'
import { contextWith, placeFor } from '../sqlite-harness.ts'

/** The settings that the file itself keeps. */
function filePragmas(path: string): Record<string, unknown> {
  using db = new DatabaseSync(path)
  return { ...db.prepare('pragma journal_mode').get(), ...db.prepare('pragma auto_vacuum').get() }
}

test('a file is durable when it is made and when it is opened again', async (t) => {
  const place = placeFor(t)
  // Opening asserts synchronous=full and journal_mode=wal by reading them back; see the next test.
  for (const opening of ['first', 'again']) {
    const store = await openSqliteStore(contextWith(new VirtualClock()), { path: place.path, role: 'owner' })
    assert.deepEqual(filePragmas(place.path), { journal_mode: 'wal', auto_vacuum: 2 }, opening)
    await store.close()
  }
})

test('a database that is not durable is refused', (t) => {
  const place = placeFor(t)
  using db = new DatabaseSync(place.path)
  db.exec('pragma journal_mode = wal; pragma synchronous = full')
  assertDurable(db, false)
  db.exec('pragma synchronous = normal')
  assert.throws(() => assertDurable(db, false), /not durable: journal_mode is wal and synchronous 1/)
  db.exec('pragma synchronous = full; pragma journal_mode = delete')
  assert.throws(() => assertDurable(db, false), /not durable: journal_mode is delete/)
})

test('a database that cannot be made durable is not opened', async () => {
  // An empty path is SQLite's word for a temporary file, which has no write-ahead log.
  const opening = openSqliteStore(contextWith(new VirtualClock()), { path: '', role: 'guest' })
  await assert.rejects(opening, /not durable: journal_mode is delete/)
})

test('messages are stored durably also where the path is a link to the file', async (t) => {
  const place = placeFor(t)
  const link = `${place.path}.link`
  symlinkSync(place.path, link)
  new DatabaseSync(place.path).close()
  const store = await openSqliteStore(contextWith(new VirtualClock()), { path: link, role: 'owner' })
  const app = await store.createApplication({ name: 'A', uid: null, throttleRate: null, metadata: {} })
  const publication = {
    app: app.key,
    version: 1,
    eventType: 'a',
    eventId: null,
    channels: null,
    endpoints: [],
    delayMs: 0,
  }
  for (let i = 0; i < 2; i++) {
    const [answer] = await store.publish([{ ...publication, body: new Uint8Array(1), contentType: 'text/plain' }])
    assert.equal(answer?.state, 'accepted')
  }
  await store.close()
})

test('a path that cannot be opened is trouble', async () => {
  const path = '/nowhere/at/all/sluice.db'
  const context = contextWith(new VirtualClock())
  await assert.rejects(openSqliteStore(context, { path, role: 'owner' }), { name: 'StoreTrouble' })
  await assert.rejects(openSqliteStore(context, { path, role: 'guest' }), { name: 'StoreTrouble' })
})

test('a database in memory serves several workers at once, each bound by its own lease', async (t) => {
  const clock = new VirtualClock()
  const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner', exclusive: false })
  t.after(() => store.close())
  const first = await store.join({ leaseMs: 1000, description: 'first' })
  const second = await store.join({ leaseMs: 5000, description: 'second' })
  assert.equal((await store.renew(first, 1000)).workers, 2)
  await clock.advance(1001)
  assert.equal((await store.renew(second, 5000)).workers, 1)
  assert.equal((await store.renew(first, 1000)).alive, false)
})

test('an owner that opens without exclusivity leaves the workers in the file alive', async (t) => {
  const place = placeFor(t)
  const context = contextWith(new VirtualClock())
  const first = await openSqliteStore(context, { path: place.path, role: 'owner', exclusive: false })
  place.closeFirst(() => first.close())
  const worker = await first.join({ leaseMs: 1000, description: 'first' })
  const second = await openSqliteStore(context, { path: place.path, role: 'owner', exclusive: false })
  place.closeFirst(() => second.close())
  assert.equal((await second.renew(worker, 1000)).alive, true)
})
