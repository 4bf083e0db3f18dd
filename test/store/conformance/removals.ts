import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import { endpointsPerRemoval, rowsPerRemoval } from '../../../src/store/maintenance.ts'
import { begin, type Open, plainEndpoint, type World } from './harness.ts'
import { plainSchedule } from './schedules.ts'

/** Sweeps until nothing is left to do right away; answers how much was cancelled, and in how many steps. */
async function sweep({ store }: World): Promise<{ cancelled: number; steps: number }> {
  let cancelled = 0
  for (let steps = 1; steps < 1000; steps++) {
    const swept = await store.sweepRemoved()
    cancelled += swept.cancelled
    if (!swept.more) return { cancelled, steps }
  }
  throw new Error('the sweep does not end')
}

async function waiting({ store }: World): Promise<number> {
  return (await store.counts()).pending
}

export function removals(open: Open): void {
  test('no query finds a deleted endpoint, and its uid is free', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const endpoint = await world.endpoint(app, { uid: 'one' })
    assert.equal(await store.deleteEndpoint(app.key, endpoint.key), true)
    assert.equal(await store.findEndpoint(app.key, endpoint.id), undefined)
    assert.equal(await store.findEndpoint(app.key, 'one'), undefined)
    assert.deepEqual(await store.loadEndpoints([endpoint.key]), [])
    assert.deepEqual((await store.listEndpoints(app.key, { limit: 5, order: 'ascending', after: null })).items, [])
    assert.equal(await store.updateEndpoint(app.key, endpoint.key, { disabled: false }), undefined)
    await world.endpoint(app, { uid: 'one' })
  })

  test('an endpoint is deleted once, and by its own application only', async (t) => {
    const world = await begin(t, open)
    const [app, other] = [await world.application(), await world.application()]
    const endpoint = await world.endpoint(app)
    const before = await world.store.subscriptions(other.key)
    assert.equal(await world.store.deleteEndpoint(other.key, endpoint.key), false)
    assert.deepEqual(await world.store.subscriptions(other.key), before)
    assert.deepEqual(await world.store.findEndpoint(app.key, endpoint.id), endpoint)
    assert.equal(await world.store.deleteEndpoint(app.key, endpoint.key), true)
    assert.equal(await world.store.deleteEndpoint(app.key, endpoint.key), false)
  })

  test('a publish at the version before a deletion is stale', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoint = await world.endpoint(app)
    const publication = await world.publication([endpoint])
    await world.store.deleteEndpoint(app.key, endpoint.key)
    assert.deepEqual(await world.store.publish([publication]), [{ state: 'stale' }])
    assert.deepEqual((await world.store.subscriptions(app.key))?.list, [])
  })

  test('the deliveries that wait for a deleted endpoint are cancelled, and no others', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [gone, kept] = [await world.endpoint(app), await world.endpoint(app)]
    await world.publish([gone, kept])
    await world.publish([gone], { delayMs: 60_000 })
    const worker = await world.join()
    await world.store.deleteEndpoint(app.key, gone.key)
    assert.deepEqual(
      (await world.claim(worker)).map((lane) => lane.endpoint.key),
      [kept.key],
    )
    assert.equal((await sweep(world)).cancelled, 2)
    assert.equal(await waiting(world), 1)
    assert.equal((await world.rows(kept)).length, 1)
    await world.assertNothingToClaim(worker)
  })

  test('a queue of any length is removed a bounded number of rows at a time', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoint = await world.endpoint(app)
    const publication = await world.publication([endpoint])
    const rows = 2 * rowsPerRemoval + 300
    for (let i = 0; i < rows; i += 100) await world.store.publish(Array(100).fill(publication))
    await world.store.deleteEndpoint(app.key, endpoint.key)
    const first = await world.store.sweepRemoved()
    assert.deepEqual(first, { cancelled: rowsPerRemoval, more: true })
    const rest = await sweep(world)
    assert.equal(rest.cancelled, rowsPerRemoval + 300)
    assert(rest.steps >= 2, `${rest.steps} steps`)
    assert.equal(await waiting(world), 0)
    assert.deepEqual(await sweep(world), { cancelled: 0, steps: 1 })
  })

  test('a row of a deleted endpoint that is settled is not queued again once it was cancelled', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoint = await world.endpoint(app)
    const { worker, row } = await world.owningOne(endpoint)
    await world.store.deleteEndpoint(app.key, endpoint.key)
    await sweep(world)
    const settlement = world.settlement(endpoint, row, { state: 'waiting', waitMs: 5 })
    assert.equal(await world.settle(worker, settlement), 'settled')
    assert.equal(await waiting(world), 0)
    assert.equal((await world.store.counts()).attempts, 1)
  })

  test('a lane owned while its endpoint is deleted is stopped, and has no owner once it is released', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const secrets = [{ secret: 'whsec_bmV3', expiresAt: null }]
    const endpoint = await world.endpoint(app, { secrets, headers: { authorization: 'x' } })
    const { worker } = await world.owningOne(endpoint)
    await world.store.deleteEndpoint(app.key, endpoint.key)
    const [again] = (await world.store.claim(worker, 1, true)).lanes
    assert.equal(again?.endpoint.disabled, true)
    assert.deepEqual([again?.endpoint.secrets, again?.endpoint.headers], [[], {}], 'its secrets are gone')
    await world.release(worker, endpoint)
    await world.assertNothingToClaim(worker)
    await sweep(world)
    assert.equal(await waiting(world), 0)
  })

  test('deleting is signalled with the endpoints it stops', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoints = [await world.endpoint(app), await world.endpoint(app), await world.endpoint(app)]
    const signalled: (readonly number[] | undefined)[] = []
    world.store.watch({ rows() {}, lanes() {}, settings: (keys) => void signalled.push(keys) })
    const [first, ...others] = endpoints.map((endpoint) => endpoint.key)
    await world.store.deleteEndpoint(app.key, first as number)
    await world.store.deleteApplication(app.key)
    assert.deepEqual(signalled, [[first], others])
  })

  test('no query finds a deleted application, it accepts nothing, and its uid is free', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application('acme')
    const endpoint = await world.endpoint(app)
    const publication = await world.publication([endpoint])
    await world.publish([endpoint])
    assert.equal(await store.deleteApplication(app.key), true)
    assert.equal(await store.findApplication('acme'), undefined)
    assert.equal(await store.findApplication(app.id), undefined)
    assert.equal(await store.subscriptions(app.key), undefined)
    assert.deepEqual((await store.listApplications({ limit: 5, order: 'descending', after: null })).items, [])
    assert.equal(await store.updateApplication(app.key, { name: 'new' }), undefined)
    assert.deepEqual(await store.publish([publication]), [{ state: 'stale' }])
    const gone = { code: 'not_found', message: 'There is no application "acme".' }
    await assert.rejects(world.endpoint(app), gone)
    await assert.rejects(store.createRegion(app.key, 'eu', 'a'.repeat(32)), gone)
    await assert.rejects(store.createSchedule(app.key, plainSchedule), gone)
    assert.equal(await store.findEndpoint(app.key, endpoint.id), undefined)
    assert.equal(await store.deleteApplication(app.key), false)
    await world.application('acme')
    await world.assertNothingToClaim(await world.join())
    assert.equal((await sweep(world)).cancelled, 1)
    assert.equal(await waiting(world), 0)
  })

  test('more endpoints than one transaction stops are stopped by sweeping', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoints: Endpoint[] = []
    for (let i = 0; i < endpointsPerRemoval + 3; i++) endpoints.push(await world.endpoint(app))
    await world.publish(endpoints)
    await world.store.deleteApplication(app.key)
    const keys = endpoints.map((endpoint) => endpoint.key)
    assert.equal((await world.store.loadEndpoints(keys)).length, 3)
    assert.equal((await sweep(world)).cancelled, endpoints.length)
    assert.deepEqual(await world.store.loadEndpoints(keys), [])
    assert.equal(await waiting(world), 0)
  })

  test('the application of operational webhooks is never listed or deleted', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.store.createEndpoint(0, plainEndpoint)
    assert.deepEqual(await world.store.findEndpoint(0, endpoint.id), endpoint)
    for (const order of ['ascending', 'descending'] as const) {
      assert.deepEqual((await world.store.listApplications({ limit: 5, order, after: null })).items, [])
    }
    assert.equal(await world.store.deleteApplication(0), false)
    assert.equal(await world.store.findApplication('management'), undefined)
  })
}
