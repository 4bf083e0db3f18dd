import assert from 'node:assert/strict'
import { test } from 'node:test'
import { begin, keysOf, longMs, noEffects, type Open, type World } from './harness.ts'

const shortMs = 60

export function ownership(open: Open): void {
  test('workers get ids of their own and are counted while they live', async (t) => {
    const world = await begin(t, open)
    const [first, second] = [await world.join(), await world.join()]
    assert.notEqual(first, second)
    const renewal = await world.store.renew(first, longMs)
    assert.deepEqual(renewal, {
      ...{ alive: true, workers: 2, sharers: 2, died: [] },
      lanes: { activeLanes: 0, fewestLanes: 0 },
    })
    await world.store.leave(second)
    assert.equal((await world.store.renew(first, longMs)).workers, 1)
  })

  test('the lanes to share are those that a worker owns and those that are due', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [owned, due, idle] = [await world.endpoint(app), await world.endpoint(app), await world.endpoint(app)]
    const { worker } = await world.owningOne(owned)
    await world.publish([idle], { delayMs: longMs })
    await world.publish([due])
    await world.pass(30)
    assert.equal((await world.store.renew(worker, longMs)).lanes, undefined, 'a worker that is alone shares none')
    await world.join()
    assert.equal((await world.store.renew(worker, longMs)).lanes?.activeLanes, 2)
    assert.equal((await world.store.renew(worker, longMs, undefined, false)).lanes, undefined, 'not counted')
    assert.deepEqual(await world.store.renew(worker, longMs, undefined, false, false), { alive: true }, 'not looked')
  })

  test('the fewest lanes are counted over the workers alive', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const { worker } = await world.owningOne(await world.endpoint(app))
    const { worker: other } = await world.owningOne(await world.endpoint(app))
    assert.equal((await world.store.renew(worker, longMs)).lanes?.fewestLanes, 1)
    const idle = await world.join()
    assert.equal((await world.store.renew(other, longMs)).lanes?.fewestLanes, 0)
    await world.store.leave(idle)
    assert.equal((await world.store.renew(worker, longMs)).lanes?.fewestLanes, 1)
  })

  test('a worker that is leaving shares no lanes, but lives until it has left', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const { worker } = await world.owningOne(await world.endpoint(app))
    const { worker: busy } = await world.owningOne(await world.endpoint(app))
    const other = await world.join()
    await world.store.startLeaving(other)
    const { workers, sharers, lanes } = await world.store.renew(worker, longMs)
    assert.deepEqual({ workers, sharers, fewest: lanes?.fewestLanes }, { workers: 3, sharers: 2, fewest: 1 })
    assert.equal((await world.store.renew(other, longMs)).alive, true)
    await world.store.startLeaving(worker)
    await world.store.startLeaving(busy)
    assert.equal((await world.store.renew(busy, longMs)).sharers, 1, 'all are leaving')
  })

  test('a worker that never joined is not alive', async (t) => {
    const { store } = await begin(t, open)
    assert.equal((await store.renew(4711, longMs)).alive, false)
  })

  test('a lapsed worker is declared dead by the next one that renews, and its lanes are claimable', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const survivor = await world.join()
    const { worker } = await world.owningOne(endpoint, shortMs)
    await world.pass(2 * shortMs)
    const renewal = await world.store.renew(survivor, longMs)
    const { died, ...counts } = renewal
    assert.deepEqual(counts, { alive: true, workers: 1, sharers: 1 })
    assert.deepEqual(
      died?.map((each) => [each.worker, each.lanes]),
      [[worker, 1]],
    )
    const [lane] = await world.claim(survivor)
    assert.equal(lane?.endpoint.key, endpoint.key)
    assert.equal(lane?.clean, false)
    assert.equal((await world.store.renew(worker, longMs)).alive, false)
  })

  test('a lane is clean again once its new owner has handed it back', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    await world.owningOne(endpoint, shortMs)
    const survivor = await world.join()
    await world.pass(2 * shortMs)
    await world.store.renew(survivor, longMs)
    await world.claim(survivor)
    await world.release(survivor, endpoint)
    assert.equal((await world.claim(survivor))[0]?.clean, true)
  })

  test('a worker that renews in time keeps its lanes', async (t) => {
    const world = await begin(t, open)
    const other = await world.join()
    const { worker } = await world.owningOne(await world.endpoint(await world.application()), shortMs)
    assert.equal((await world.store.renew(worker, longMs)).alive, true)
    await world.pass(2 * shortMs)
    assert.equal((await world.store.renew(other, longMs)).workers, 2)
    await world.assertNothingToClaim(other)
  })

  test('a lapsed worker may continue until another worker declares it dead', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint, shortMs)
    await world.pass(2 * shortMs)
    assert.equal((await world.store.renew(worker, longMs)).alive, true)
    const settled = await world.settle(worker, world.settlement(endpoint, row, { state: 'delivered' }))
    assert.equal(settled, 'settled')
  })

  test('nothing that a dead worker says is recorded', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker: dead, row } = await world.owningOne(endpoint, shortMs)
    const survivor = await world.join()
    await world.pass(2 * shortMs)
    await world.store.renew(survivor, longMs)
    await world.claim(survivor)

    await assertFenced(world, dead, () => world.settlement(endpoint, row, { state: 'delivered' }))
    const holds = [{ endpoint: endpoint.key, holdMs: longMs }]
    assert.equal(
      await world.store.settle(dead, [], { holds, disable: [{ endpoint: endpoint.key, reason: 'gone' }], health: [] }),
      'fenced',
    )
    assert.equal((await world.store.findEndpoint(endpoint.app, endpoint.id))?.disabled, false)
    await world.release(dead, endpoint)
    await world.assertNothingToClaim(survivor)
    await world.release(survivor, endpoint)
    await world.pass(30)
    assert.deepEqual((await world.store.claim(dead, 10)).lanes, [])
    assert.equal((await world.claim(survivor))[0]?.holdMs, 0)
  })

  test('a worker that leaves hands back its lanes at once and can settle no more', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const next = await world.join()
    await world.store.leave(worker)
    await assertFenced(world, worker, () => world.settlement(endpoint, row, { state: 'delivered' }))
    // How full the bucket was, it did not say.
    assert.equal((await world.claim(next))[0]?.clean, false)
  })

  test('a lane released before its worker leaves stays clean', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.release(worker, endpoint)
    await world.store.leave(worker)
    assert.equal((await world.claim(await world.join()))[0]?.clean, true)
  })

  test('leaving twice is harmless', async (t) => {
    const world = await begin(t, open)
    const worker = await world.join()
    await world.store.leave(worker)
    await world.store.leave(worker)
  })

  test('a stopped lane of a dead worker stays stopped', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    await world.owningOne(endpoint, shortMs)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { disabled: true })
    const survivor = await world.join()
    await world.pass(2 * shortMs)
    await world.store.renew(survivor, longMs)
    await world.assertNothingToClaim(survivor)
  })

  test('workers are listed with their reports, their lanes and how they ended', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const survivor = await store.join({ leaseMs: longMs, description: 'survivor' })
    const report = { version: '1.2.3', host: 'here', pid: 42, inFlight: 3 }
    await store.renew(survivor, longMs, report)
    await store.lead({ id: 'candidate', description: 'survivor' }, longMs)
    const endpoint = await world.endpoint(await world.application())
    await world.publish([endpoint])
    const leaving = await store.join({ leaseMs: longMs, description: 'leaving' })
    await store.leave(leaving)
    const doomed = await store.join({ leaseMs: 40, description: 'doomed' })
    await world.claim(doomed)
    await world.pass(60)
    const { died } = await store.renew(survivor, longMs)
    assert.deepEqual(died, [{ worker: doomed, description: 'doomed', lanes: 1 }])
    assert.deepEqual((await store.renew(survivor, longMs)).died, [])
    await world.claim(survivor)

    const workers = await store.listWorkers(10)
    assert.deepEqual(
      workers.map(({ worker, died: isDead, endedAt, lanes, leads }) => [
        worker,
        isDead,
        endedAt !== null,
        lanes,
        leads,
      ]),
      [
        [doomed, true, true, 0, false],
        [leaving, false, true, 0, false],
        [survivor, false, false, 1, true],
      ],
    )
    const [{ report: none } = {}, , alive] = workers
    assert.deepEqual([none, alive?.report, alive?.description], [null, report, 'survivor'])
    assert.ok(alive && alive.seenAt >= alive.joinedAt && alive.leaseUntil - alive.seenAt === longMs)
    assert.equal((await store.listWorkers(1)).length, 1)
  })

  test('a worker that lost the answer to its claim can ask for what it owns', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [first, second] = [await world.endpoint(app), await world.endpoint(app)]
    const worker = await world.join()
    const other = await world.join()
    await world.publish([first])
    await world.claim(worker)
    await world.publish([second])
    await world.pass(30)
    const { lanes } = await world.store.claim(worker, 10, true)
    assert.deepEqual(
      keysOf(lanes).toSorted((a, b) => a - b),
      [first.key, second.key],
    )
    assert(lanes.every((lane) => lane.clean))
    assert.deepEqual((await world.store.claim(other, 10, true)).lanes, [])
    assert.equal((await world.store.claim(worker, 10, true)).lanes.length, 2)
  })
}

async function assertFenced(world: World, worker: number, settlement: () => Parameters<World['settle']>[1]) {
  const before = await world.store.counts()
  assert.equal(await world.store.settle(worker, [settlement()], noEffects), 'fenced')
  assert.deepEqual(await world.store.counts(), before)
}
