import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { applications } from '../../../src/features/applications/rows.ts'
import { endpoints } from '../../../src/features/endpoints/rows.ts'
import { intakeReads } from '../../../src/store/sql/intake.ts'
import { messages } from '../../../src/store/sql/messages.ts'
import { finishNow } from '../../../src/store/sql/port.ts'
import { Connection } from '../../../src/store/sqlite/connection.ts'
import { intake, type Taking } from '../../../src/store/sqlite/intake.ts'
import { migrate } from '../../../src/store/sqlite/migrate.ts'
import { onSqlite, promised, sqlitePort } from '../../../src/store/sqlite/port.ts'
import { asTrouble } from '../../../src/store/sqlite/trouble.ts'
import type { Intake, Publication, Store } from '../../../src/store/store.ts'
import { VirtualClock } from '../../virtual-clock.ts'
import { plainEndpoint } from '../conformance/harness.ts'
import { contextWith, placeFor } from '../sqlite-harness.ts'

/** The store's parts over a connection whose limits the test can set. */
function openParts(path: string) {
  const db = new DatabaseSync(path, { timeout: 50 })
  const connection = new Connection(db, contextWith(new VirtualClock()))
  migrate(connection)
  const parts = {
    ...onSqlite<Pick<Store, 'createApplication'>>(applications(sqlitePort(connection))),
    ...onSqlite<Pick<Store, 'createEndpoint'>>(endpoints(sqlitePort(connection))),
    ...promised<Taking>(intake(connection)),
    ...onSqlite<Pick<Intake, 'subscriptions' | 'surveyWaiting'>>(intakeReads(sqlitePort(connection))),
    ...onSqlite<Pick<Store, 'counts'>>(messages(sqlitePort(connection))),
  }
  return { db, connection, parts, [Symbol.dispose]: () => db.close() }
}

async function publicationFor(
  parts: Pick<Store, 'createApplication' | 'createEndpoint'>,
  bytes: number,
): Promise<Publication> {
  const app = await parts.createApplication({ name: 'Acme', uid: null, throttleRate: null, metadata: {} })
  const endpoint = await parts.createEndpoint(app.key, plainEndpoint)
  return {
    app: app.key,
    version: 2,
    eventType: 'a.b',
    eventId: null,
    channels: null,
    body: new Uint8Array(bytes),
    contentType: 'text/plain',
    endpoints: [endpoint.key],
    delayMs: 0,
  }
}

test('a full disk is trouble, leaves nothing half-written, and passes', async () => {
  using opened = openParts(':memory:')
  const { db, parts } = opened
  const small = await publicationFor(parts, 10)
  await parts.publish([small])
  const before = await parts.counts()
  const pages = db.prepare('pragma page_count').get()?.page_count
  db.exec(`pragma max_page_count = ${pages}`)
  const large = { ...small, body: new Uint8Array(100_000) }
  await assert.rejects(parts.publish([small, large, small]), { name: 'StoreTrouble', message: /full/ })
  assert.equal(db.isTransaction, false)
  assert.deepEqual(await parts.counts(), before)
  db.exec('pragma max_page_count = 1000000')
  const answers = await parts.publish([small, large, small])
  assert(answers.every((answer) => answer.state === 'accepted'))
})

test('a write lock held elsewhere for too long is trouble, and passes', async (t) => {
  const place = placeFor(t)
  using opened = openParts(place.path)
  const { db, parts } = opened
  db.exec('pragma journal_mode = wal')
  const publication = await publicationFor(parts, 10)
  using other = new DatabaseSync(place.path)
  other.exec('begin immediate')
  await assert.rejects(parts.publish([publication]), { name: 'StoreTrouble', message: /locked/ })
  other.exec('rollback')
  assert.equal((await parts.publish([publication]))[0]?.state, 'accepted')
})

test('a transaction holds the write lock from its start, so that what it read stays true', (t) => {
  const place = placeFor(t)
  using opened = openParts(place.path)
  opened.db.exec('pragma journal_mode = wal')
  using other = new DatabaseSync(place.path, { timeout: 0 })
  opened.connection.transaction(() => {
    assert.throws(() => other.exec('update application set version = 9'), /locked/)
  })
  other.exec('update application set version = 9')
})

test('a mistake of our own is not trouble: retrying would not help', async () => {
  using opened = openParts(':memory:')
  const { db, parts } = opened
  const publication = await publicationFor(parts, 10)
  const bug = parts.publish([{ ...publication, body: null as unknown as Uint8Array }])
  await assert.rejects(bug, { name: 'Error', message: /NOT NULL/ })
  assert.equal(db.isTransaction, false)
  const other = new TypeError('not of the database')
  assert.equal(asTrouble(other), other)
})

test('a key that another process took is made again', async () => {
  // Two makers with one number, one instant and one starting point hand out the same keys.
  const clock = new VirtualClock()
  const db = new DatabaseSync(':memory:')
  let numbers = [0.5, 0.5, 0.5, 0.9]
  const context = { ...contextWith(clock), random: () => numbers.shift() ?? 0.1 }
  const first = new Connection(db, context)
  migrate(first)
  const second = new Connection(db, context)
  const input = { name: 'Acme', uid: null, throttleRate: null, metadata: {} }
  const one = finishNow(applications(sqlitePort(first)).createApplication(input))
  const two = finishNow(applications(sqlitePort(second)).createApplication(input))
  assert.notEqual(one.key, two.key)
  assert.deepEqual(numbers, [])
  numbers = []
  db.close()
})
