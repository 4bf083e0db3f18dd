import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertRemaining, begin, inTime, keysOf, longMs, noEffects, type Open } from './harness.ts'

const dayMs = 24 * 60 * 60 * 1000

export function lanes(open: Open): void {
  test('a lane without work is not claimed', async (t) => {
    const world = await begin(t, open)
    await world.endpoint(await world.application())
    const worker = await world.join()
    await world.assertNothingToClaim(worker)
    assert.equal((await world.store.claim(worker, 1)).nextInMs, undefined)
  })

  test('a lane with work is claimed by one worker, with the settings of its endpoint', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoint = await world.endpoint(app, { throttleRate: 5, burst: 2 })
    const [first, second] = [await world.join(), await world.join()]
    await world.publish([endpoint])
    const sent = {
      ...endpoint,
      appId: app.id,
      appThrottleRate: null,
      appSettings: {},
      regionSecret: null,
      region: 'default',
    }
    const [lane] = await world.claim(first)
    const state = { clean: true, bucketDebtMs: 0, bucketLimit: undefined, holdMs: 0, health: null, healthAgeMs: 0 }
    assert.deepEqual(lane, { endpoint: sent, ...state, front: lane?.front })
    await world.assertNothingToClaim(second)
    await world.publish([endpoint])
    await world.assertNothingToClaim(second)
  })

  test('lanes are claimed up to the limit, the longest waiting first', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoints = [await world.endpoint(app), await world.endpoint(app), await world.endpoint(app)]
    const worker = await world.join()
    for (const endpoint of endpoints.toReversed()) {
      await world.publish([endpoint])
      await world.pass(30)
    }
    const { lanes, nextInMs } = await world.store.claim(worker, 2)
    assert.deepEqual(keysOf(lanes), [endpoints[2]?.key, endpoints[1]?.key])
    assert.equal(nextInMs, 0)
    assert.deepEqual(keysOf(await world.claim(worker)), [endpoints[0]?.key])
  })

  test('a lane released with rows left is claimable at once', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.release(worker, endpoint)
    assert.deepEqual(keysOf(await world.claim(worker)), [endpoint.key])
  })

  test('a lane released empty rests until something is published', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'delivered' }))
    await world.release(worker, endpoint)
    await world.assertNothingToClaim(worker)
    assert.equal((await world.store.claim(worker, 1)).nextInMs, undefined)
    await world.publish([endpoint])
    await world.claim(worker)
  })

  test('a lane released with nothing but a retry is due when the retry is', (t) =>
    inTime(t, open, async (world, ms) => {
      const endpoint = await world.endpoint(await world.application())
      const { worker, row } = await world.owningOne(endpoint)
      await world.settle(worker, world.settlement(endpoint, row, { state: 'waiting', waitMs: ms }))
      await world.release(worker, endpoint)
      assert.deepEqual((await world.store.claim(worker, 1)).lanes, [])
      assertRemaining((await world.store.claim(worker, 1)).nextInMs, ms)
      await world.pass(ms + 50)
      await world.claim(worker)
    }))

  test('a lane released with nothing but a replay is claimable at once', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.harness.sql('update pending set class = 2, due_at = 99999999999999')
    await world.release(worker, endpoint)
    await world.claim(worker)
  })

  test('only its owner can release a lane', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    await world.owningOne(endpoint)
    const other = await world.join()
    await world.release(other, endpoint)
    await world.assertNothingToClaim(other)
  })

  test('a lane released while signals are watched is signalled when it has something to do', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    const signalled = Promise.withResolvers<void>()
    world.store.watch({ rows() {}, lanes: () => signalled.resolve(), settings() {} })
    await world.release(worker, endpoint)
    await signalled.promise
    await world.claim(worker)
  })

  test('a lane that may not send yet sleeps that long, whatever is published meanwhile', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.release(worker, endpoint, longMs)
    await world.publish([endpoint])
    await world.assertNothingToClaim(worker)
    assertRemaining((await world.store.claim(worker, 1)).nextInMs, longMs)
  })

  test('a lane that slept for want of a token is claimable afterwards', (t) =>
    inTime(t, open, async (world, ms) => {
      const endpoint = await world.endpoint(await world.application())
      const { worker } = await world.owningOne(endpoint)
      await world.release(worker, endpoint, ms)
      assert.deepEqual((await world.store.claim(worker, 1)).lanes, [])
      await world.pass(ms + 50)
      await world.claim(worker)
    }))

  test('an empty lane remembers how long it may not send', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'delivered' }))
    await world.release(worker, endpoint, longMs)
    await world.publish([endpoint])
    await world.assertNothingToClaim(worker)
  })

  test("the next owner learns the bucket's debt, less the time that has passed", async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.release(worker, endpoint, 0, 10_000.5)
    await world.pass(100)
    const [lane] = await world.claim(worker)
    assert(lane)
    assert(lane.bucketDebtMs > 0 && lane.bucketDebtMs <= 9_901, `${lane.bucketDebtMs} ms of debt`)
    await world.release(worker, endpoint, 0, Number.POSITIVE_INFINITY)
    const [again] = await world.claim(worker)
    assert(again && again.bucketDebtMs > 1_000_000 * dayMs, `${again?.bucketDebtMs} ms of debt`)
  })

  test("the next owner learns a bucket's debt of many days in full", async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.release(worker, endpoint, 0, 10 * dayMs, { rate: 1, periodMs: dayMs, burst: 10 })
    const [lane] = await world.claim(worker)
    assert(lane && lane.bucketDebtMs > 9.9 * dayMs, `${lane?.bucketDebtMs} ms of debt`)
  })

  test('the next owner learns the limit that the debt was counted by', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    for (const limit of [{ rate: 100, periodMs: 1000, burst: 7 }, null]) {
      await world.release(worker, endpoint, 0, 60_000, limit)
      const [lane] = await world.claim(worker)
      assert.deepEqual([lane?.clean, lane?.bucketLimit], [true, limit])
    }
    await world.release(worker, endpoint, 0, 60_000)
    // As an older version stored it.
    await world.harness.sql('update lane set bucket_limit = null')
    assert.equal((await world.claim(worker))[0]?.clean, false)
  })

  test('a hold outlives the worker that met it', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.store.settle(worker, [], {
      holds: [{ endpoint: endpoint.key, holdMs: longMs }],
      disable: [],
      health: [],
    })
    await world.store.leave(worker)
    const next = await world.join()
    await world.assertNothingToClaim(next)
    assertRemaining((await world.store.claim(next, 1)).nextInMs, longMs)
  })

  test('a hold keeps a released lane asleep, and ends', (t) =>
    inTime(t, open, async (world, ms) => {
      const endpoint = await world.endpoint(await world.application())
      const { worker } = await world.owningOne(endpoint)
      await world.store.settle(worker, [], { ...noEffects, holds: [{ endpoint: endpoint.key, holdMs: ms }] })
      await world.release(worker, endpoint)
      await world.publish([endpoint])
      assert.deepEqual((await world.store.claim(worker, 1)).lanes, [])
      await world.pass(ms + 50)
      assert.equal((await world.claim(worker))[0]?.holdMs, 0)
    }))

  test('a shorter hold does not shorten a longer one', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    for (const holdMs of [longMs, 10]) {
      await world.store.settle(worker, [], { holds: [{ endpoint: endpoint.key, holdMs }], disable: [], health: [] })
    }
    await world.release(worker, endpoint)
    await world.assertNothingToClaim(worker)
    assertRemaining((await world.store.claim(worker, 1)).nextInMs, longMs)
  })

  test('disabling an endpoint stops its lane and keeps its rows; enabling releases them', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    await world.publish([endpoint])
    await world.pass(30)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { disabled: true })
    await world.publish([endpoint])
    await world.assertNothingToClaim(worker)
    assert.equal((await world.store.counts()).pending, 2)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { disabled: false })
    await world.claim(worker)
    assert.equal((await world.rows(endpoint)).length, 2)
  })

  test('an endpoint disabled while its lane is owned rests once it is released', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { disabled: true })
    await world.release(worker, endpoint)
    await world.assertNothingToClaim(worker)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { disabled: false })
    await world.claim(worker)
  })

  test('an endpoint made disabled takes messages in and delivers them once it is enabled', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application(), { disabled: true })
    const worker = await world.join()
    await world.publish([endpoint])
    await world.assertNothingToClaim(worker)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { disabled: false })
    await world.claim(worker)
  })

  test('enabling an endpoint does not cut short what holds its lane', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.release(worker, endpoint, longMs)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { disabled: true })
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { disabled: false })
    await world.assertNothingToClaim(worker)
    assertRemaining((await world.store.claim(worker, 1)).nextInMs, longMs)
  })

  test('an update that does not touch disabled leaves the lane as it is', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { url: 'https://example.com/new' })
    await world.assertNothingToClaim(await world.join())
    await world.release(worker, endpoint)
    assert.equal((await world.claim(worker))[0]?.endpoint.url, 'https://example.com/new')
  })

  test('a hold that a broken clock made endless is handed on as a day', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    await world.publish([endpoint])
    await world.pass(30)
    await world.harness.sql('update lane set hold_until = 99999999999999')
    const [lane] = await world.claim(worker)
    assert.equal(lane?.holdMs, dayMs)
  })
}
