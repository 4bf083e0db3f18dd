import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import type { EndpointChange } from '../../../src/store/store.ts'
import { begin, keysOf, longMs, noEffects, type Open, type World } from './harness.ts'

const closing: EndpointChange = { flow: { circuitOrder: { n: 1, action: 'close' } } }

/** An endpoint with one message waiting, whose lane rests for long because its receiver is unwell. */
async function resting(world: World): Promise<{ endpoint: Endpoint; worker: number }> {
  const endpoint = await world.endpoint(await world.application())
  const { worker } = await world.owningOne(endpoint)
  const rest = { endpoint: endpoint.key, bucketDebtMs: 0, bucketLimit: null, notBeforeMs: longMs, health: 'unwell' }
  await world.store.release(worker, [rest])
  await world.assertNothingToClaim(worker)
  return { endpoint, worker }
}

export function health(open: Open): void {
  test('the health of a receiver is kept as last written, with its age', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    const tell = (text: string | null) =>
      world.store.settle(worker, [], { ...noEffects, health: [{ endpoint: endpoint.key, health: text }] })
    await tell('first')
    await tell('"second" \\ 🎬')
    await world.pass(30)
    await world.store.leave(worker)
    const heir = await world.join()
    const [lane] = await world.claim(heir)
    assert.equal(lane?.health, '"second" \\ 🎬')
    assert((lane?.healthAgeMs ?? 0) >= 30)
    await world.store.settle(heir, [], { ...noEffects, health: [{ endpoint: endpoint.key, health: null }] })
    assert.equal((await world.store.findLane(endpoint.key))?.health, null)
  })

  test('the states of lanes are read together, and lanes that do not exist are left out', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const owned = await world.endpoint(app)
    const { worker } = await world.owningOne(owned)
    const health = [{ endpoint: owned.key, health: '{"failures":3}' }]
    await world.store.settle(worker, [], { ...noEffects, health, holds: [{ endpoint: owned.key, holdMs: longMs }] })
    const idle = await world.endpoint(app)
    const states = await world.store.laneStates([idle.key, owned.key, 1])
    const byKey = new Map(states.map((state) => [state.endpoint, state]))
    assert.deepEqual([...byKey.keys()].toSorted(), [owned.key, idle.key].toSorted())
    const busy = byKey.get(owned.key)
    assert(busy !== undefined && busy.holdUntil > busy.now)
    assert.deepEqual([busy.owner, busy.dueAt, busy.health], [worker, null, '{"failures":3}'])
    const { owner, dueAt, health: saved, healthAgeMs } = byKey.get(idle.key) ?? {}
    assert.deepEqual([owner, dueAt, saved, healthAgeMs], [null, null, null, 0])
    assert.deepEqual(await world.store.laneStates([]), [])
  })

  test('a lane given back without a word on its health keeps what it had', async (t) => {
    const world = await begin(t, open)
    const { endpoint, worker } = await resting(world)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, closing)
    await world.claim(worker)
    await world.release(worker, endpoint, longMs)
    assert.equal((await world.store.findLane(endpoint.key))?.health, 'unwell')
  })

  for (const [what, change] of [
    ["an operator's order", closing],
    ['another policy', { flow: { circuit: 'off' } }],
    ['another word on adapting', { flow: { adaptive: false } }],
  ] as const) {
    test(`${what} wakes a lane that rests for its receiver's sake`, async (t) => {
      const world = await begin(t, open)
      const { endpoint, worker } = await resting(world)
      await world.store.updateEndpoint(endpoint.app, endpoint.key, change)
      const [lane] = await world.claim(worker)
      assert.equal(lane?.health, 'unwell')
      assert.equal(lane?.bucketDebtMs, 0)
    })
  }

  test('any other change lets it rest', async (t) => {
    const world = await begin(t, open)
    const { endpoint, worker } = await resting(world)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { description: 'another', flow: { maxWaiting: 5 } })
    await world.assertNothingToClaim(worker)
  })

  test('an order given while a lane is owned ends the rest its owner then gives it, once', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, closing)
    await world.release(worker, endpoint, longMs)
    assert.deepEqual(keysOf(await world.claim(worker)), [endpoint.key])
    await world.release(worker, endpoint, longMs)
    await world.assertNothingToClaim(worker)
  })

  test('an order does not shorten a Retry-After', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await world.store.settle(worker, [], { ...noEffects, holds: [{ endpoint: endpoint.key, holdMs: longMs }] })
    await world.store.updateEndpoint(endpoint.app, endpoint.key, closing)
    await world.release(worker, endpoint)
    await world.assertNothingToClaim(worker)
  })

  test('an order wakes no lane that is stopped', async (t) => {
    const world = await begin(t, open)
    const { endpoint, worker } = await resting(world)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { paused: true })
    await world.store.updateEndpoint(endpoint.app, endpoint.key, closing)
    await world.assertNothingToClaim(worker)
  })

  test('enabling an endpoint forgets how its receiver did, and releases what waited', async (t) => {
    const world = await begin(t, open)
    const { endpoint, worker } = await resting(world)
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { disabled: true })
    assert.equal((await world.store.findLane(endpoint.key))?.health, 'unwell')
    await world.store.updateEndpoint(endpoint.app, endpoint.key, { disabled: false })
    const [lane] = await world.claim(worker)
    assert.equal(lane?.health, null)
  })

  test('a claim of a lane has the rate of its application, and a change of it is signalled', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await store.createApplication({ name: 'Slow', uid: null, throttleRate: 5, metadata: {} })
    const endpoint = await world.endpoint(app)
    const worker = await world.join()
    await world.publish([endpoint])
    const [lane] = await world.claim(worker)
    assert.equal(lane?.endpoint.appThrottleRate, 5)
    const changed = new Promise<void>((resolve) => {
      store.watch({ rows: () => {}, lanes: () => {}, settings: () => resolve() })
    })
    await store.updateApplication(app.key, { throttleRate: null })
    await changed
    assert.equal((await store.loadEndpoints([endpoint.key]))[0]?.appThrottleRate, null)
  })
}
