import assert from 'node:assert/strict'
import { test } from 'node:test'
import { World } from '../conformance/harness.ts'
import { openSqliteHarness } from '../sqlite-harness.ts'

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
