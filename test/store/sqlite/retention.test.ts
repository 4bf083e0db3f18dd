import assert from 'node:assert/strict'
import { test } from 'node:test'
import { begin, type World } from '../conformance/harness.ts'
import { openSqliteHarness } from '../sqlite-harness.ts'

const day = 24 * 60 * 60 * 1000
const limits = { historyMs: 30 * day, deadMs: 30 * day }

async function retainAll({ store }: World): Promise<number> {
  for (let steps = 1; steps < 1000; steps++) if (!(await store.retain(limits)).more) return steps
  return assert.fail('there is always more')
}

/** Messages that were delivered, and then nothing happened for forty days. */
async function deliveredLongAgo(world: World, count: number) {
  const endpoint = await world.endpoint(await world.application())
  const worker = await world.join()
  for (let left = count; left > 0; left -= 100) {
    await world.store.publish(
      await Promise.all(Array.from({ length: Math.min(100, left) }, () => world.publication([endpoint]))),
    )
    const rows = await world.rows(endpoint)
    await world.settle(worker, ...rows.map((row) => world.settlement(endpoint, row, { state: 'delivered' })))
  }
  await world.pass(40 * day)
  return endpoint
}

test('a message that is sent again while old ones are removed stays', async (t) => {
  const world = await begin(t, openSqliteHarness)
  const { store } = world
  const endpoint = await deliveredLongAgo(world, 600)
  const heads = await store.listMessages(endpoint.app, {
    from: 0,
    until: Number.MAX_SAFE_INTEGER,
    after: null,
    limit: 600,
    order: 'descending',
  })
  const [queued, tried] = heads.map(({ key }) => ({ endpoint: endpoint.key, message: key }))
  assert(queued && tried)
  // The waiting deliveries are read first; both begin to wait after that.
  assert.deepEqual(await store.retain(limits), { removed: 0, more: true })
  await store.replay([tried])
  const worker = await world.join()
  const row = await world.head(endpoint, 2)
  await world.settle(worker, world.settlement(endpoint, row, { state: 'waiting', waitMs: day }))
  await store.replay([queued])
  await retainAll(world)
  assert.deepEqual(await store.counts(), { pending: 2, dead: 0, messages: 2, attempts: 3 })
})

test('many old messages go in short steps, and the pass after is an hour later', async (t) => {
  const world = await begin(t, openSqliteHarness)
  await deliveredLongAgo(world, 1000)
  assert.ok((await retainAll(world)) >= 5, 'all of them in too few steps')
  assert.equal((await world.store.counts()).messages, 0)
  await deliveredLongAgo(world, 1)
  await world.pass(60 * 60 * 1000)
  await retainAll(world)
  assert.equal((await world.store.counts()).messages, 0)
})

test('a message that was to be kept is removed once nothing keeps it', async (t) => {
  const world = await begin(t, openSqliteHarness)
  const { store } = world
  const endpoint = await deliveredLongAgo(world, 2)
  await world.publish([endpoint])
  await world.pass(35 * day)
  await retainAll(world)
  assert.equal((await store.counts()).messages, 1)
  const worker = await world.join()
  await world.settle(worker, world.settlement(endpoint, await world.head(endpoint), { state: 'delivered' }))
  await world.pass(2 * 60 * 60 * 1000)
  await retainAll(world)
  assert.equal((await store.counts()).messages, 0)
})
