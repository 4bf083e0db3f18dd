import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { eventually } from '../../e2e/eventually.ts'
import { begin, noEffects, type TriedSettlement, type World } from '../conformance/harness.ts'
import { openPostgresHarness } from '../postgres-harness.ts'

const response = Buffer.from([0, 255, 10])

/** A worker and a batch of deliveries that were all delivered. */
async function deliveredBatch(t: TestContext) {
  const world = await begin(t, openPostgresHarness)
  const endpoint = await world.endpoint(await world.application())
  const worker = await world.join()
  const publication = await world.publication([endpoint])
  await world.store.publish(Array.from({ length: 3 }, () => publication))
  const settlements = (await world.rows(endpoint)).map((row): TriedSettlement => {
    const { attempt, ...rest } = world.settlement(endpoint, row, { state: 'delivered' })
    return { ...rest, attempt: { ...attempt, response } }
  })
  const [, second] = settlements.map(({ row }) => row.message)
  assert(second !== undefined)
  return { world, worker, settlements, second }
}

async function responsesOf(world: World, settlements: readonly TriedSettlement[]) {
  const attempts = await Promise.all(settlements.map(({ row }) => world.store.attemptsOf(row.message)))
  return attempts.map(([attempt, ...others]) => [attempt?.id, attempt?.response, others.length])
}

test('a row that goes while its batch is being settled leaves the others their answers', async (t) => {
  const { world, worker, settlements, second } = await deliveredBatch(t)
  const other = await world.harness.foreign()
  t.after(() => other.close())
  // Within a transaction, the first look at what others do would be repeated by every later one.
  const watching = await world.harness.foreign()
  t.after(() => watching.close())
  await other.run(`begin; delete from pending where message = ${second}`)
  const settled = world.store.settle(worker, settlements, noEffects)
  const isBlocked = `select from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and query like '%delete from pending%'`
  await eventually('the batch waits for the row', async () => (await watching.rows(isBlocked)).length > 0)
  await other.run('commit')
  assert.equal(await settled, 'settled')
  const ids = settlements.map(({ attempt }) => attempt.id)
  assert.deepEqual(await responsesOf(world, settlements), [
    [ids[0], response, 0],
    [ids[1], null, 0],
    [ids[2], response, 0],
  ])
  assert.equal((await world.store.counts()).pending, 0)
})

test('an attempt that is recorded already keeps none of its batch from being settled', async (t) => {
  const { world, worker, settlements, second } = await deliveredBatch(t)
  await world.harness.sql(`
    insert into attempt (message, endpoint, n, id, at, duration_ms, status, code, trigger)
    values (${second}, ${settlements[0]?.endpoint}, 1, 'atmpt_before', 0, 0, 204, 'delivered', 'scheduled')`)
  assert.equal(await world.store.settle(worker, settlements, noEffects), 'settled')
  const ids = settlements.map(({ attempt }) => attempt.id)
  assert.deepEqual(await responsesOf(world, settlements), [
    [ids[0], response, 0],
    ['atmpt_before', null, 0],
    [ids[2], response, 0],
  ])
  assert.equal((await world.store.counts()).pending, 0)
})
