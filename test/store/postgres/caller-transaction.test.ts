import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { type Match, NotEnlistableError } from '../../../src/store/publishing.ts'
import { World } from '../conformance/harness.ts'
import { openPostgresHarness, sharedServer } from '../postgres-harness.ts'

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
  const harness = await openPostgresHarness()
  const client = await (await sharedServer()).session(harness.url)
  t.after(async () => {
    await client.end()
    await harness.close()
  })
  const world = new World(harness)
  const app = await world.application('acme')
  return { ...harness, world, app, client, endpoint: await world.endpoint(app) }
}

test('a transaction that has failed already is refused, and so is a pool', async (t) => {
  const { store, client, url } = await open(t)
  await client.query('begin')
  await assert.rejects(client.query('select nonsense'))
  await assert.rejects(async () => store.publishWithin(client, 'acme', toAll), NotEnlistableError)
  await client.query('rollback')
  const pool = new pg.Pool({ connectionString: url })
  await assert.rejects(async () => store.publishWithin(pool, 'acme', toAll), NotEnlistableError)
  await pool.end()
})

test('the transaction commits durably, whatever the connection was set to, and only this one', async (t) => {
  const { store, client } = await open(t)
  const setting = async () => (await client.query('show synchronous_commit')).rows[0].synchronous_commit
  await client.query('set synchronous_commit = off')
  await client.query('begin')
  await store.publishWithin(client, 'acme', toAll)
  assert.equal(await setting(), 'on')
  await client.query('commit')
  assert.equal(await setting(), 'off')
  await client.query('set synchronous_commit = remote_apply')
  await client.query('begin')
  await store.publishWithin(client, 'acme', toAll)
  assert.equal(await setting(), 'remote_apply')
  await client.query('commit')
})

test('a transaction with a snapshot publishes to the endpoints it sees', async (t) => {
  const { store, client, world, app, endpoint } = await open(t)
  await client.query('begin isolation level repeatable read')
  await client.query('select 1 from application')
  await world.endpoint(app)
  const enlisted = await store.publishWithin(client, 'acme', toAll)
  await client.query('commit')
  assert(enlisted?.published.state === 'accepted')
  const message = await store.findMessage(app.key, enlisted.published.id)
  assert.deepEqual(message?.endpoints, [endpoint.key])
})

test('an endpoint that changes in the middle of the transaction is matched again', async (t) => {
  const { store, client, world, app } = await open(t)
  let changes = 0
  const match: Match = (application, subscriptions) => {
    const publication = toAll(application, subscriptions)
    // As if another had changed the endpoints between the two statements.
    return changes++ < 2 ? { ...publication, version: publication.version - 1 } : publication
  }
  await world.endpoint(app)
  await client.query('begin')
  const enlisted = await store.publishWithin(client, 'acme', match)
  await client.query('commit')
  assert.equal(enlisted?.published.state, 'accepted')
  assert.deepEqual([changes, (await store.counts()).pending], [3, 2])
})

test('a connection for which the names stand for other tables is refused', async (t) => {
  const { store, client } = await open(t)
  await client.query('create schema shop create table message (body text)')
  await client.query('set search_path = shop, public')
  await client.query('begin')
  await assert.rejects(async () => store.publishWithin(client, 'acme', toAll), NotEnlistableError)
  await client.query('rollback')
  await client.query('drop schema shop cascade')
  await client.query('begin')
  const enlisted = await store.publishWithin(client, 'acme', toAll)
  assert.equal(enlisted?.published.state, 'accepted')
  await client.query('commit')
})

test('nothing stays on the connection: no prepared statement, no setting, no savepoint', async (t) => {
  const { store, client } = await open(t)
  await client.query('begin')
  await store.publishWithin(client, 'acme', toAll)
  await assert.rejects(client.query('release savepoint sluice'), { code: '3B001' })
  await client.query('rollback')
  assert.deepEqual((await client.query('select name from pg_prepared_statements')).rows, [])
  assert.equal((await client.query('select 9007199254740993 as big')).rows[0].big, '9007199254740993')
})

test('a taken key costs another number, not the transaction', async (t) => {
  const { store, client, app, sql } = await open(t)
  await client.query('begin')
  const first = await store.publishWithin(client, 'acme', toAll)
  await client.query('commit')
  assert(first?.published.state === 'accepted')
  // Every key that this node number gives in the next seconds.
  await sql(`
    insert into message (key, id, app, event_type, content_type, endpoints, body)
    select ${first.published.key} + ms * 2048 + slot, '', 0, 'a', 'a', '{}', ''
      from generate_series(0, 20000) as ms, generate_series(0, 1) as slot on conflict do nothing`)
  await client.query('begin')
  await client.query('create table own_order (id integer)')
  const second = await store.publishWithin(client, 'acme', toAll)
  await client.query('commit')
  assert(second?.published.state === 'accepted')
  assert.equal((await store.findMessage(app.key, second.published.id))?.key, second.published.key)
  assert.notEqual(Math.floor(second.published.key / 64) % 32, Math.floor(first.published.key / 64) % 32)
  await client.query('drop table own_order')
})

test('a commit for an endpoint that was deleted and swept meanwhile ends as cancelled', async (t) => {
  const { store, client, app, endpoint, sql } = await open(t)
  await client.query('begin')
  await store.publishWithin(client, 'acme', toAll)
  await store.deleteEndpoint(app.key, endpoint.key)
  // As if the transaction were older than the sweep waits for.
  await sql('update removal set since = 0, due_at = 0')
  while ((await store.sweepRemoved()).more);
  await client.query('commit')
  assert.equal((await store.counts()).pending, 1)
  assert.equal(await store.reconcile(), 0)
  let cancelled = 0
  for (let swept = await store.sweepRemoved(); swept.more; swept = await store.sweepRemoved())
    cancelled += swept.cancelled
  assert.equal(cancelled, 1)
  assert.equal((await store.counts()).pending, 0)
})
