import assert from 'node:assert/strict'
import { copyFileSync, existsSync, renameSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { backup, DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { systemClock } from '../../../src/runtime/clock.ts'
import { openSqliteStore, type SqliteOptions } from '../../../src/store/sqlite/open.ts'
import type { Store } from '../../../src/store/store.ts'
import { eventually } from '../../e2e/eventually.ts'
import { plainEndpoint } from '../conformance/harness.ts'
import { contextWith, type Place, placeFor } from '../sqlite-harness.ts'
import { Child } from './child.ts'

const lost = { name: 'MissingLogError', message: /-wal, the write-ahead log of .*, is missing.* --accept-loss/ }

async function open(place: Place, options: Partial<SqliteOptions> = {}): Promise<Store> {
  const store = await openSqliteStore(contextWith(systemClock), { path: place.path, role: 'owner', ...options })
  place.closeFirst(() => store.close())
  return store
}

/** A file with an application, closed. */
async function closedFile(t: TestContext): Promise<Place> {
  const place = placeFor(t)
  const store = await open(place)
  const { key } = await store.createApplication({ name: 'Acme', uid: 'acme', throttleRate: null, metadata: {} })
  await store.createEndpoint(key, plainEndpoint)
  await store.close()
  return place
}

/** A process that has the file open and accepted messages. */
async function publisher(place: Place, role: 'owner' | 'guest', messages = 3): Promise<Child> {
  const child = new Child(place, role)
  assert.equal(await child.line(), 'open')
  for (let i = 0; i < messages; i++) {
    child.tell('publish')
    assert.equal(await child.line(), 'accepted')
  }
  return child
}

function messagesIn(path: string): number {
  using db = new DatabaseSync(path, { readOnly: true })
  return db.prepare('select count(*) as n from message').get()?.n as number
}

const removeLog = (place: Place) => rmSync(`${place.path}-wal`)

for (const role of ['owner', 'guest'] as const) {
  test(`the log of a killed ${role} is missing: the file is refused until the loss is accepted`, async (t) => {
    const place = await closedFile(t)
    const child = await publisher(place, role)
    await child.kill()
    const away = `${place.path}.away`
    renameSync(`${place.path}-wal`, away)
    await assert.rejects(open(place), lost)
    await assert.rejects(open(place, { role: 'guest' }), lost)
    assert.equal(existsSync(`${place.path}-wal`), false, 'the refused start makes no log')

    renameSync(away, `${place.path}-wal`)
    await (await open(place)).close()
    assert.equal(messagesIn(place.path), 3, 'the log was put back')

    await (await publisher(place, role)).kill()
    for (const end of ['-wal', '-shm', '-owner']) rmSync(`${place.path}${end}`, { force: true })
    await assert.rejects(open(place), lost)
    await (await open(place, { acceptLoss: true })).close()
    assert.equal(messagesIn(place.path), 3)
    await (await open(place)).close()
  })
}

test('a file that was closed is whole by itself: it opens at its place, and as a copy', async (t) => {
  const place = await closedFile(t)
  assert.equal(existsSync(`${place.path}-wal`), false)
  const copy = placeFor(t)
  copyFileSync(place.path, copy.path)
  await open(copy)
  await open(place)
})

test('a copy of an open file without its log is refused, a backup by SQLite is not', async (t) => {
  const place = await closedFile(t)
  const child = await publisher(place, 'owner')
  const [raw, backedUp, vacuumed] = [placeFor(t), placeFor(t), placeFor(t)]
  using db = new DatabaseSync(place.path, { readOnly: true })
  await backup(db, backedUp.path)
  await backup(db, backedUp.path)
  db.exec(`vacuum into '${vacuumed.path}'`)
  db.close()
  await child.kill()
  copyFileSync(place.path, raw.path)
  await assert.rejects(open(raw), lost)
  for (const made of [backedUp, vacuumed]) {
    await (await open(made)).close()
    assert.equal(messagesIn(made.path), 3)
    await (await publisher(made, 'owner', 1)).kill()
    removeLog(made)
    await assert.rejects(open(made), lost, 'the backup has a mark of its own from its first start on')
  }
})

test('a kill loses nothing while the log is in its place, with and without its index', async (t) => {
  const place = await closedFile(t)
  for (let killed = 1; killed <= 2; killed++) {
    const child = await publisher(place, 'owner')
    await child.kill()
    if (killed === 2) rmSync(`${place.path}-shm`)
    await (await open(place)).close()
    assert.equal(messagesIn(place.path), 3 * killed)
  }
})

test('the mark stays while any store has the file open, and goes with the last one', async (t) => {
  const place = await closedFile(t)
  const guest = await open(place, { role: 'guest' })
  const other = await publisher(place, 'guest', 1)
  const owner = await open(place)
  await owner.close()
  await guest.close()
  await other.kill()
  removeLog(place)
  await assert.rejects(open(place), lost)

  await (await open(place, { acceptLoss: true })).close()
  const last = await publisher(place, 'owner', 1)
  const first = await open(place, { role: 'guest' })
  await last.end()
  await first.close()
  assert.equal(existsSync(`${place.path}-wal`), false)
  await open(place)
})

test("a program's own connection may be the last one that closes the file", async (t) => {
  const place = await closedFile(t)
  const own = new DatabaseSync(place.path)
  own.exec('create table mine (a)')
  const store = await open(place)
  await store.close()
  own.exec('insert into mine values (1)')
  own.close()
  assert.equal(existsSync(`${place.path}-wal`), false)
  await open(place)
})

test("a change of a program's own tables leaves the mark in force", async (t) => {
  const place = await closedFile(t)
  const store = await open(place)
  store.watch({ rows() {}, lanes() {}, settings() {} })
  const own = new DatabaseSync(place.path)
  own.exec('create table mine (a)')
  const mark = () => own.prepare('select schema_count from unclosed').get()?.schema_count
  const isMarked = () => mark() === own.prepare('pragma schema_version').get()?.schema_version
  assert.equal(isMarked(), false)
  await eventually('the owner marks the file again', isMarked)
  own.close()
})

test('a log that is deleted under a running owner is missed after a kill, not after a stop', async (t) => {
  const place = await closedFile(t)
  const stopped = await publisher(place, 'owner')
  removeLog(place)
  await stopped.end()
  await (await open(place)).close()
  assert.equal(messagesIn(place.path), 3)

  const killed = await publisher(place, 'owner')
  removeLog(place)
  await killed.kill()
  await assert.rejects(open(place), lost)
})

test('an open that fails leaves the file closed, after a kill too', async (t) => {
  const place = await closedFile(t)
  const child = await publisher(place, 'owner')
  await child.kill()
  using db = new DatabaseSync(place.path)
  db.exec(`insert into migration (version, name, applied_at) values (9999, 'newer', 0)`)
  await assert.rejects(open(place), { name: 'NewerSchemaError' })
  db.exec('delete from migration where version = 9999')
  db.close()
  assert.equal(existsSync(`${place.path}-wal`), false)
  await (await open(place)).close()
  assert.equal(messagesIn(place.path), 3)
})

test('the first open of a file may die anywhere, also when a link leads to it', async (t) => {
  const place = placeFor(t)
  symlinkSync(`${place.path}.real`, place.path)
  const child = await publisher(place, 'owner', 0)
  await child.kill()
  assert.ok(statSync(`${place.path}.real-wal`).size > 0)
  rmSync(`${place.path}.real-wal`)
  await assert.rejects(open(place), lost)

  const [begun, unfinished] = [placeFor(t), placeFor(t)]
  using db = new DatabaseSync(begun.path)
  db.exec('pragma journal_mode = wal; create table migration (version)')
  copyFileSync(begun.path, unfinished.path)
  await open(unfinished)
})
