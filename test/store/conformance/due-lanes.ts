import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DueLane, DuePlace } from '../../../src/store/lanes.ts'
import { begin, keysOf, longMs, type Open, type World } from './harness.ts'

/** All due lanes of a walk in steps of this many applications. */
async function walk(
  { store }: World,
  applications: number,
  lanesEach: number,
  regions: readonly string[] | null = null,
): Promise<DueLane[]> {
  const found: DueLane[] = []
  let place: DuePlace | null = null
  do {
    const step = await store.findDue(place, { applications, lanesEach }, regions)
    assert.ok(step.lanes.length <= applications * lanesEach, 'a step is bounded')
    found.push(...step.lanes)
    place = step.next
  } while (place !== null)
  return found
}

export function dueLanes(open: Open): void {
  test('due lanes are found by application, the longest waiting of each first', async (t) => {
    const world = await begin(t, open)
    const [one, two, idle] = [await world.application(), await world.application(), await world.application()]
    const ofOne = [await world.endpoint(one), await world.endpoint(one), await world.endpoint(one)]
    const ofTwo = await world.endpoint(two)
    await world.endpoint(idle)
    for (const endpoint of ofOne.toReversed()) {
      await world.publish([endpoint])
      await world.pass(30)
    }
    await world.publish([ofTwo])
    await world.woken(...ofOne, ofTwo)
    for (const applications of [1, 2, 10]) {
      assert.deepEqual(await walk(world, applications, 2), [
        { endpoint: ofOne[2]?.key, app: one.key },
        { endpoint: ofOne[1]?.key, app: one.key },
        { endpoint: ofTwo.key, app: two.key },
      ])
    }
  })

  test('owned lanes, stopped lanes and lanes that are due later are not found', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [owned, later, stopped, due] = [
      await world.endpoint(app),
      await world.endpoint(app),
      await world.endpoint(app),
      await world.endpoint(app),
    ]
    await world.owningOne(owned)
    await world.publish([later], { delayMs: longMs })
    await world.publish([stopped])
    await world.woken(later, stopped)
    await world.store.updateEndpoint(app.key, stopped.key, { paused: true })
    await world.publish([due])
    await world.woken(due)
    assert.deepEqual(await walk(world, 10, 10), [{ endpoint: due.key, app: app.key }])
  })

  test('lanes are found in the regions that are asked for', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const near = await world.endpoint(app)
    const far = await world.endpoint(app, { flow: { region: 'eu' } })
    const farther = await world.endpoint(app, { flow: { region: 'us' } })
    await world.publish([near, far, farther])
    await world.woken(near, far, farther)
    const found = async (regions: readonly string[] | null) =>
      (await walk(world, 1, 10, regions)).map(({ endpoint }) => endpoint)
    assert.deepEqual(await found(null), [near.key, far.key, farther.key])
    assert.deepEqual(await found(['us', 'default']), [near.key, farther.key])
    assert.deepEqual(await found(['eu']), [far.key])
    assert.deepEqual(await found(['ap']), [])
  })

  test('named lanes are claimed where they are due, unowned and of a region of the worker', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [owned, idle, due, far] = [
      await world.endpoint(app),
      await world.endpoint(app),
      await world.endpoint(app),
      await world.endpoint(app, { flow: { region: 'eu' } }),
    ]
    await world.owningOne(owned)
    const worker = await world.join()
    await world.publish([due, far])
    await world.woken(due, far)
    const all = [far, due, idle, owned].map(({ key }) => key)
    assert.deepEqual(keysOf((await world.store.claimNamed(worker, all, ['default'])).lanes), [due.key])
    assert.deepEqual(keysOf((await world.store.claimNamed(worker, all, ['default'])).lanes), [], 'it is owned now')
    assert.deepEqual(keysOf((await world.store.claimNamed(worker, all)).lanes), [far.key])
    assert.deepEqual((await world.store.claimNamed(worker, [])).lanes, [])
    await world.release(worker, due)
    assert.deepEqual(keysOf(await world.claim(await world.join())), [due.key], 'it was claimed as any other')
  })

  test('a worker that was declared dead claims no named lane', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    await world.store.leave(worker)
    await world.publish([endpoint])
    await world.woken(endpoint)
    assert.deepEqual((await world.store.claimNamed(worker, [endpoint.key])).lanes, [])
    assert.deepEqual(keysOf(await world.claim(await world.join())), [endpoint.key])
  })
}
