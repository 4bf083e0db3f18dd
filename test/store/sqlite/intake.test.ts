import assert from 'node:assert/strict'
import { test } from 'node:test'
import { World } from '../conformance/harness.ts'
import { openSqliteHarness } from '../sqlite-harness.ts'

const dayMs = 86_400_000

test('publishing to a lane that a worker owns writes no lane and signals none', async (t) => {
  const harness = await openSqliteHarness()
  t.after(() => harness.close())
  const world = new World(harness)
  const endpoint = await world.endpoint(await world.application())
  await world.owningOne(endpoint)
  const heard: string[] = []
  world.store.watch({ rows: () => heard.push('rows'), lanes: () => heard.push('lanes'), settings() {} })
  await world.publish([endpoint])
  assert.deepEqual(heard, ['rows'])
})

test('the hash of a message that was removed days ago does not hide that of the next message', async (t) => {
  const harness = await openSqliteHarness()
  t.after(() => harness.close())
  const world = new World(harness)
  const { key: app } = await world.application()
  const once = [{ hash: 'one window', fingerprint: '', ttlMs: 7 * dayMs }]
  const publication = await world.publication([], { app, once })
  const [first] = await world.store.publish([publication])
  assert(first?.state === 'accepted')
  await world.pass(2 * dayMs)
  await world.store.removeMessages(app, [first.key])
  const [second] = await world.store.publish([publication])
  assert(second?.state === 'accepted')
  assert.deepEqual(await world.store.publish([publication]), [{ ...second, state: 'repeated' }])
})
