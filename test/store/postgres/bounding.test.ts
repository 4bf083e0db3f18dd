import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RestingEnd } from '../../../src/store/delivering.ts'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import type { Store } from '../../../src/store/store.ts'
import { type Harness, noEffects, World } from '../conformance/harness.ts'
import { context, newDatabase } from '../postgres-harness.ts'

const rounds = 25
const rowsPerRound = 20

/** Takes the lane and delivers what it finds there, as an owner that does not wait for anybody. */
async function deliver(store: Store, world: World, endpoint: number): Promise<number[]> {
  const worker = await world.join()
  const delivered: number[] = []
  for (let tries = 0; tries < 20 && delivered.length === 0; tries++) {
    const { lanes } = await store.claim(worker, 10)
    if (lanes.every((lane) => lane.endpoint.key !== endpoint)) continue
    const [page] = await store.readDue([{ endpoint, class: 0, after: null, limit: 100 }])
    const settlements = (page?.rows ?? []).map((row) => {
      const owner = { key: endpoint, app: lanes[0]?.endpoint.app ?? 0 }
      return world.settlement(owner as never, row, { state: 'delivered' })
    })
    assert.equal(await store.settle(worker, settlements, noEffects), 'settled')
    delivered.push(...settlements.map(({ row }) => row.message))
    await store.release(worker, [{ endpoint, bucketDebtMs: 0, bucketLimit: null, notBeforeMs: 0 }])
    break
  }
  await store.leave(worker)
  return delivered
}

test('a sweep and an owner that race for a lane share its deliveries between them, and none has two ends', async (t) => {
  const url = await newDatabase()
  const [first, second] = [await openPostgresStore(context, { url }), await openPostgresStore(context, { url })]
  t.after(() => Promise.all([first.close(), second.close()]))
  const world = new World({ store: first } as unknown as Harness)
  const app = await world.application()
  const endpoint = await world.endpoint(app)
  let [swept, sent, published] = [0, 0, 0]
  // A machine may always run one of the two first, so there are more rounds until each has ended something.
  for (let round = 0; round < rounds || swept === 0 || sent === 0; round++) {
    const publication = await world.publication([endpoint])
    const answers = await first.publish(Array.from({ length: rowsPerRound }, () => publication))
    published += answers.length
    const keys = new Set(answers.map((answer) => (answer.state === 'accepted' ? answer.key : 0)))
    const rows = await second.readFronts(endpoint.key, rowsPerRound)
    const ends = rows.map((row): RestingEnd => ({ endpoint: endpoint.key, app: app.key, row, reason: 'aged' }))
    const sweep = async (part: readonly RestingEnd[]) => {
      for (let i = 0; i < round % 8; i++) await second.counts()
      return second.endResting(part)
    }
    const [delivered, ...ended] = await Promise.all([
      deliver(first, world, endpoint.key),
      sweep(ends.slice(0, 10)),
      sweep(ends.slice(10)),
      sweep(ends),
    ])
    const dead = ended.flat().map(({ row }) => row.message)
    const all = [...delivered, ...dead]
    assert.equal(new Set(all).size, all.length, 'a delivery has two ends')
    for (const key of all) assert.ok(keys.has(key))
    swept += dead.length
    sent += delivered.length
    // The rows that both passed over, because the other held them, are ended before the next round.
    const left = await second.readFronts(endpoint.key, rowsPerRound)
    await second.endResting(left.map((row) => ({ endpoint: endpoint.key, app: app.key, row, reason: 'aged' })))
  }
  const { pending, dead, attempts } = await first.counts()
  assert.equal(pending, 0)
  assert.equal(dead + attempts, published)
  assert.equal(attempts, sent)
})
