import assert from 'node:assert/strict'
import { test } from 'node:test'
import { World } from '../conformance/harness.ts'
import { openPostgresHarness, sharedServer } from '../postgres-harness.ts'

const leftovers = `
  select (select count(*) from removal)::integer as removals, (select count(*) from lane)::integer as lanes,
         (select count(*) from pending)::integer as pending`

test('rows that a publish commits behind a deletion are cancelled, too, and then nothing is left of the endpoint', async (t) => {
  const harness = await openPostgresHarness()
  t.after(() => harness.close())
  const world = new World(harness)
  const server = await sharedServer()
  const left = async () => (await server.query(leftovers, harness.url)).rows[0]
  const app = await world.application()
  const endpoint = await world.endpoint(app)
  await world.publish([endpoint])
  await world.store.deleteEndpoint(app.key, endpoint.key)
  assert.deepEqual(await world.store.sweepRemoved(), { cancelled: 1, more: true })
  // The endpoint is not forgotten yet: a statement that began before the deletion may still run.
  assert.deepEqual(await world.store.sweepRemoved(), { cancelled: 0, more: false })
  assert.deepEqual(await left(), { removals: 1, lanes: 1, pending: 0 })

  await harness.sql(`insert into pending values (${endpoint.key}, 0, 1, 1, 1, 0, 0)`)
  await harness.sql('update removal set since = 0, due_at = 0')
  assert.deepEqual(await world.store.sweepRemoved(), { cancelled: 1, more: true })
  assert.deepEqual(await left(), { removals: 0, lanes: 0, pending: 0 })
})

test('a lane that a worker still owns is kept until it is released', async (t) => {
  const harness = await openPostgresHarness()
  t.after(() => harness.close())
  const world = new World(harness)
  const server = await sharedServer()
  const app = await world.application()
  const endpoint = await world.endpoint(app)
  const { worker } = await world.owningOne(endpoint)
  await world.store.deleteEndpoint(app.key, endpoint.key)
  const again = () => harness.sql('update removal set since = 0, due_at = 0')
  await again()
  await world.store.sweepRemoved()
  assert.equal((await server.query('select owner from lane', harness.url)).rows.length, 1)
  await world.release(worker, endpoint)
  await again()
  await world.store.sweepRemoved()
  const { rows } = await server.query(leftovers, harness.url)
  assert.deepEqual(rows[0], { removals: 0, lanes: 0, pending: 0 })
})

test('workers that sweep at once take different endpoints, and together take all', async (t) => {
  const harness = await openPostgresHarness()
  t.after(() => harness.close())
  const world = new World(harness)
  const app = await world.application()
  const endpoints = await Promise.all(Array.from({ length: 8 }, () => world.endpoint(app)))
  for (let i = 0; i < 5; i++) await world.publish(endpoints)
  await world.store.deleteApplication(app.key)
  const sweepAll = async () => {
    let cancelled = 0
    for (let more = true; more; ) {
      const swept = await world.store.sweepRemoved()
      cancelled += swept.cancelled
      more = swept.more
    }
    return cancelled
  }
  const counts = await Promise.all([sweepAll(), sweepAll(), sweepAll()])
  const rest = await sweepAll()
  assert.equal(
    counts.reduce((sum, count) => sum + count, rest),
    40,
  )
  assert.equal((await world.store.counts()).pending, 0)
})
