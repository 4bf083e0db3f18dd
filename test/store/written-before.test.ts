import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { systemClock } from '../../src/runtime/clock.ts'
import { openPostgresStore } from '../../src/store/postgres/open.ts'
import { readSchema } from '../../src/store/sqlite/migrate.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import type { Store } from '../../src/store/store.ts'
import { type Harness, World } from './conformance/harness.ts'
import { plainSource, tokenOf } from './conformance/sources.ts'
import { context, sharedServer } from './postgres-harness.ts'
import { contextWith, placeFor } from './sqlite-harness.ts'

// A database of each kind and of each released schema; the number in a file's name is the schema's. In it are an application
// with a region, an event type, three endpoints, a schedule, an API key, a token, an audit entry and a task; of its messages
// one was delivered, one is dead, one waits at two endpoints and one is due in fifty years.
const folder = join(import.meta.dirname, 'written-before')
const page = { limit: 10, order: 'ascending', after: null } as const

const released = [1]

for (const schema of released) {
  test(`a SQLite file of schema ${schema} opens and works`, async (t) => {
    const { path } = placeFor(t)
    writeFileSync(path, gunzipSync(readFileSync(join(folder, `sqlite-${schema}.db.gz`))))
    await works(t, await openSqliteStore(contextWith(systemClock), { path, role: 'owner' }))
  })

  test(`a Postgres database of schema ${schema} opens and works`, async (t) => {
    const server = await sharedServer()
    const url = await server.createDatabase()
    await server.query(gunzipSync(readFileSync(join(folder, `postgres-${schema}.sql.gz`))).toString('utf8'), url)
    await works(t, await openPostgresStore(context, { url }))
  })
}

// As every version before the first release made it.
const unreleased = `
  create table migration (version integer primary key, name text not null, applied_at bigint not null);
  insert into migration values (1, 'core', 0), (2, 'resources', 0)`
const refusal = {
  name: 'UnreleasedSchemaError',
  message: /before the first release, .*: name another database in .*begin there/,
}

test('a SQLite file of a version before the first release is refused with what to do, and left as it is', async (t) => {
  const { path } = placeFor(t)
  {
    using db = new DatabaseSync(path)
    db.exec(unreleased)
  }
  await assert.rejects(openSqliteStore(contextWith(systemClock), { path, role: 'owner' }), refusal)
  assert.throws(() => readSchema(path), refusal)
  using db = new DatabaseSync(path)
  assert.equal(db.prepare('select count(*) as count from migration').get()?.count, 2)
})

test('a Postgres database of a version before the first release is refused with what to do, and left as it is', async () => {
  const server = await sharedServer()
  const url = await server.createDatabase()
  await server.query(unreleased, url)
  await assert.rejects(openPostgresStore(context, { url }), refusal)
  assert.equal((await server.query('select 1 from migration', url)).rows.length, 2)
})

async function works(t: TestContext, store: Store): Promise<void> {
  t.after(() => store.close())
  const app = await store.findApplication('acme')
  assert(app !== undefined)
  assert.deepEqual(
    [app.name, app.throttleRate, app.metadata, app.dedupeSeconds, app.settings],
    ['Acme', 50, { plan: 'gold' }, 60, { signatureHeaders: { signature: 'x-acme-signature' } }],
  )
  assert.deepEqual((await store.listApplications(page)).items, [app])
  assert.deepEqual(
    (await store.listRegions(app.key, page)).items.map(({ name }) => name),
    ['eu'],
  )
  const eventType = await store.findEventType('video.trending')
  assert.deepEqual(
    [eventType?.schemas, eventType?.featureFlags, eventType?.archived],
    [{ 1: { type: 'object' } }, ['beta'], false],
  )
  await listsWhatIsConfigured(store, app.key)
  await listsWhatHappened(store, app.key)
  const source = await store.createSource(app.key, plainSource, tokenOf)
  assert.deepEqual((await store.listSources(app.key, page)).items, [source])
  await deliversWaiting(store, app.key, 'waiting')
  await replays(store, app.key)
}

async function listsWhatIsConfigured(store: Store, app: number): Promise<void> {
  const endpoints = (await store.listEndpoints(app, page)).items
  assert.deepEqual(
    endpoints.map(({ uid, paused }) => [uid, paused]),
    [
      ['first', false],
      ['shaped', false],
      ['paused', true],
    ],
  )
  const [first, shaped] = endpoints
  assert.deepEqual(
    [first?.secrets, first?.headers, first?.eventTypes],
    [[{ secret: 'whsec_AAAA', expiresAt: null }], { authorization: 'Bearer one' }, ['video.*']],
  )
  assert.equal(shaped?.flow.region, 'eu')
  const sendable = await store.loadEndpoints(endpoints.map(({ key }) => key))
  assert.equal(sendable.find(({ uid }) => uid === 'shaped')?.regionSecret, 'a secret that only we know')
  const schedules = (await store.listSchedules(app, page)).items
  assert.deepEqual(
    schedules.map(({ uid, cron, channels, metadata, paused }) => [uid, cron, channels, metadata, paused]),
    [['daily', '0 9 * * *', ['eu'], { by: 'cron' }, false]],
  )
  assert.deepEqual((await store.findApiKey(sha256('an api key')))?.scopes, ['publish'])
  assert.equal((await store.findAppToken(sha256('an app token')))?.sessionId, 's1')
  const everybody = { actor: null, action: null, app: null, since: null, until: null }
  const audit = (await store.listAudit(page, everybody)).items
  assert.deepEqual(
    audit.map(({ n, action }) => [n, action]),
    [[1, 'endpoint.create']],
  )
  assert.deepEqual(
    (await store.listTasks(page)).map(({ status }) => status),
    ['running'],
  )
}

async function listsWhatHappened(store: Store, app: number): Promise<void> {
  const all = { from: 0, until: Number.MAX_SAFE_INTEGER, after: null, order: 'ascending', limit: 10 } as const
  const messages = await store.listMessages(app, all)
  assert.deepEqual(
    messages.map(({ eventId }) => eventId),
    ['delivered', 'dead', 'waiting', 'timed'],
  )
  const delivered = await store.findMessage(app, 'delivered')
  assert.deepEqual([delivered?.tags, new TextDecoder().decode(delivered?.body)], [['t'], '{"views":1.0}'])
  assert.deepEqual(
    (await store.attemptsOf(delivered?.key ?? 0)).map(({ status }) => status),
    [204],
  )
  const letters = await store.listDead(app, { ...all, endpoint: null })
  assert.deepEqual(
    letters.map(({ reason, message }) => [reason, message]),
    [['exhausted', messages[1]?.key]],
  )
  assert.deepEqual(await store.counts(), { pending: 3, dead: 1, messages: 4, attempts: 2 })
}

/** Delivers the message that waits, and one that is published now. */
async function deliversWaiting(store: Store, app: number, eventId: string): Promise<void> {
  const pass = (ms: number) => new Promise<void>((resolve) => void systemClock.after(ms, resolve))
  const world = new World({ store, pass } as Harness)
  const endpoint = await store.findEndpoint(app, 'first')
  assert(endpoint !== undefined)
  const published = await world.publish([endpoint], { eventId: 'new' })
  const worker = await world.join()
  await world.claim(worker)
  const rows = await world.rows(endpoint)
  const waiting = await store.findMessage(app, eventId)
  assert.deepEqual(
    rows.map(({ message }) => message),
    [waiting?.key, published.key],
  )
  for (const row of rows) {
    assert.equal(await world.settle(worker, world.settlement(endpoint, row, { state: 'delivered' })), 'settled')
  }
}

async function replays(store: Store, app: number): Promise<void> {
  const world = new World({ store } as Harness)
  const endpoint = await store.findEndpoint(app, 'first')
  assert(endpoint !== undefined)
  const [letter] = await store.listDeadOf(endpoint.key, {
    from: 0,
    until: Number.MAX_SAFE_INTEGER,
    after: null,
    order: 'ascending',
    limit: 10,
  })
  assert(letter !== undefined)
  assert.equal((await store.replay([letter])).length, 1)
  assert.equal((await world.rows(endpoint, 2)).length, 1)
  await store.updateEndpoint(app, endpoint.key, { description: 'changed' })
  assert.equal((await store.findEndpoint(app, 'first'))?.description, 'changed')
}

function sha256(text: string): Uint8Array {
  return createHash('sha256').update(text).digest()
}
