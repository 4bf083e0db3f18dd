import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertRemaining, begin, keysOf, longMs, type Open } from './harness.ts'

const dayMs = 24 * 60 * 60 * 1000

export function reconciling(open: Open): void {
  test('in ordinary life there is nothing to repair', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [due, owned, resting] = [await world.endpoint(app), await world.endpoint(app), await world.endpoint(app)]
    const [retrying, stopped] = [await world.endpoint(app), await world.endpoint(app, { disabled: true })]
    await world.owningOne(owned)
    const { worker } = await world.owningOne(resting)
    await world.release(worker, resting, longMs)
    await world.publish([retrying], { delayMs: longMs })
    await world.publish([due, stopped, resting])
    await world.woken(retrying, due, resting)
    assert.equal(await world.store.reconcile(), 0)
    assert.deepEqual(keysOf((await world.store.claim(worker, 10)).lanes), [due.key])
  })

  test('a lane whose wake-up was lost is woken, once', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    await world.publish([endpoint])
    await world.woken(endpoint)
    await world.harness.sql('update lane set due_at = null')
    await world.assertNothingToClaim(worker)
    assert.equal(await world.store.reconcile(), 1)
    assert.equal(await world.store.reconcile(), 0)
    assert.deepEqual(keysOf((await world.store.claim(worker, 10)).lanes), [endpoint.key])
  })

  test('a lane that loses its wake-up again is found again', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [first, second] = [await world.endpoint(app), await world.endpoint(app)]
    await world.publish([first, second])
    await world.woken(first, second)
    for (let times = 0; times < 3; times++) {
      await world.harness.sql('update lane set due_at = null')
      // A sweep may go on where the last one stopped, so that two calls have seen every lane.
      assert.equal((await world.store.reconcile()) + (await world.store.reconcile()), 2)
    }
  })

  test('a lane that would sleep past a delayed message is set to its instant', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    await world.publish([endpoint], { delayMs: longMs })
    await world.woken(endpoint)
    await world.harness.sql('update lane set due_at = due_at + 3600000')
    assert.equal(await world.store.reconcile(), 1)
    assertRemaining((await world.store.claim(worker, 1)).nextInMs, longMs)
  })

  test('a repair does not cut short what holds the lane', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.release(worker, endpoint, longMs)
    await world.harness.sql('update lane set due_at = null')
    assert.equal(await world.store.reconcile(), 1)
    await world.assertNothingToClaim(worker)
    assertRemaining((await world.store.claim(worker, 1)).nextInMs, longMs)
  })

  test('a lane that a broken clock put to sleep for years wakes within a day', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.release(worker, endpoint)
    await world.harness.sql('update lane set due_at = 99999999999999, not_before = 99999999999999')
    assert.equal(await world.store.reconcile(), 1)
    assertRemaining((await world.store.claim(worker, 1)).nextInMs, dayMs)
    assert.equal(await world.store.reconcile(), 0)
  })

  test('a repair signals that a lane may be claimed', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    await world.publish([endpoint])
    await world.woken(endpoint)
    await world.harness.sql('update lane set due_at = null')
    const signalled = Promise.withResolvers<void>()
    world.store.watch({ rows() {}, lanes: () => signalled.resolve(), settings() {} })
    await world.store.reconcile()
    await signalled.promise
  })
}
