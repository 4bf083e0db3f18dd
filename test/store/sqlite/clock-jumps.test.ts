import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { openSqliteStore } from '../../../src/store/sqlite/open.ts'
import { VirtualClock } from '../../virtual-clock.ts'
import { World } from '../conformance/harness.ts'
import { contextWith } from '../sqlite-harness.ts'

const hourMs = 3_600_000

async function begin(t: TestContext) {
  const clock = new VirtualClock()
  const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
  t.after(() => store.close())
  const alone = () => assert.fail('a database in memory has one connection')
  const harness = {
    store,
    pass: (ms: number) => clock.advance(ms),
    sql: async () => {},
    foreign: alone,
    elsewhere: alone,
    close: async () => {},
  }
  const world = new World(harness)
  const endpoint = await world.endpoint(await world.application())
  return { world, clock, endpoint, ...(await world.owningOne(endpoint)) }
}

for (const [direction, jumpMs] of [
  ['forward', hourMs],
  ['back', -hourMs],
] as const) {
  test(`a clock set ${direction} an hour neither frees nor freezes a resting lane`, async (t) => {
    const { world, clock, endpoint, worker } = await begin(t)
    await world.release(worker, endpoint, 10_000, 30_000)
    clock.jump(jumpMs)
    // The lane may be handed out early; the bucket that its owner gets is what counts.
    for (let seconds = 1; seconds <= 10; seconds++) {
      await clock.advance(1000)
      const [lane] = (await world.store.claim(worker, 1)).lanes
      if (!lane) continue
      assert.deepEqual([lane.clean, lane.bucketDebtMs], [true, 30_000 - seconds * 1000])
      return
    }
    assert.fail('the lane is frozen')
  })

  test(`a clock set ${direction} an hour leaves a receiver's health as old as it was`, async (t) => {
    const { world, clock, endpoint, worker } = await begin(t)
    const health = [{ endpoint: endpoint.key, health: 'unwell' }]
    await world.store.settle(worker, [], { holds: [], disable: [], health })
    await clock.advance(4_000)
    clock.jump(jumpMs)
    await world.store.leave(worker)
    const [lane] = (await world.store.claim(await world.join(), 1)).lanes
    assert.deepEqual([lane?.health, lane?.healthAgeMs], ['unwell', 4_000])
  })

  test(`a clock set ${direction} an hour leaves a hold as long as it was`, async (t) => {
    const { world, clock, endpoint, worker } = await begin(t)
    await world.store.settle(worker, [], {
      holds: [{ endpoint: endpoint.key, holdMs: 10_000 }],
      disable: [],
      health: [],
    })
    await clock.advance(4_000)
    clock.jump(jumpMs)
    await world.store.leave(worker)
    const heir = await world.join()
    const { lanes, nextInMs } = await world.store.claim(heir, 1)
    assert.deepEqual([lanes, nextInMs], [[], 6_000])
    await clock.advance(6_000)
    assert.equal((await world.store.claim(heir, 1)).lanes[0]?.holdMs, 0)
  })

  test(`a clock set ${direction} an hour leaves leases as long as they were`, async (t) => {
    const { world, clock, worker } = await begin(t)
    const other = await world.join(60_000)
    clock.jump(jumpMs)
    await clock.advance(59_000)
    assert.equal((await world.store.renew(worker, 60_000)).workers, 2)
    await clock.advance(2_000)
    assert.equal((await world.store.renew(worker, 60_000)).workers, 1)
    assert.equal((await world.store.renew(other, 60_000)).alive, false)
  })
}

test('fresh rows keep the order in which they were accepted when the clock is set back', async (t) => {
  const { world, clock, endpoint, row } = await begin(t)
  clock.jump(-hourMs)
  const { key } = await world.publish([endpoint])
  const rows = await world.rows(endpoint)
  assert.deepEqual(
    rows.map((each) => each.message),
    [row.message, key],
  )
  assert.equal(rows[1]?.ageMs, 0)
})

test('a change of an endpoint is later than the one before it when the clock is set back', async (t) => {
  const { world, clock, endpoint, worker } = await begin(t)
  clock.jump(-hourMs)
  const changed = await world.store.updateEndpoint(endpoint.app, endpoint.key, { paused: true })
  assert((changed?.updatedAt ?? 0) > endpoint.updatedAt)
  await world.store.settle(worker, [], { holds: [], disable: [{ endpoint: endpoint.key, reason: 'gone' }], health: [] })
  const [gone] = await world.store.loadEndpoints([endpoint.key])
  assert((gone?.updatedAt ?? 0) > (changed?.updatedAt ?? 0))
})

test('without exclusivity, a lease written before the clock was set back is cut to its length', async (t) => {
  const clock = new VirtualClock()
  const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner', exclusive: false })
  t.after(() => store.close())
  await store.join({ leaseMs: 1000, description: 'dies' })
  const survivor = await store.join({ leaseMs: 1000, description: 'lives' })
  clock.jump(-hourMs)
  assert.equal((await store.renew(survivor, 10_000)).workers, 2)
  await clock.advance(1001)
  assert.equal((await store.renew(survivor, 10_000)).workers, 1)
})
