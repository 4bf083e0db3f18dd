import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Application } from '../../../src/features/applications/noun.ts'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import { queuedAtOnce } from '../../../src/store/plan.ts'
import { begin, type Open, type World } from './harness.ts'

/** Real endpoints at both ends of a list long enough to be wide; between them keys that were deleted meanwhile. */
async function wide(world: World, app: Application): Promise<{ first: Endpoint; last: Endpoint; keys: number[] }> {
  const first = await world.endpoint(app)
  const last = await world.endpoint(app)
  const gone = Array.from({ length: queuedAtOnce }, (_, i) => i + 1)
  return { first, last, keys: [first.key, ...gone, last.key] }
}

export function fanOut(open: Open): void {
  test('a message for very many endpoints is accepted at once and expanded in chunks, each delivery once', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const { first, last, keys } = await wide(world, app)
    const worker = await world.join()
    const { key, id } = await world.publish([], { app: app.key, endpoints: keys })
    assert.equal((await world.store.counts()).pending, 0)
    assert.deepEqual((await world.store.findMessage(app.key, id))?.endpoints, keys)

    assert.equal((await world.store.expand(400)).more, true)
    assert.deepEqual(
      (await world.rows(first)).map((row) => row.message),
      [key],
    )
    assert.deepEqual(await world.rows(last), [])
    assert.equal((await world.store.expand(400)).more, true)
    assert.equal((await world.store.expand(400)).more, false)
    assert.equal((await world.store.expand(400)).more, false)
    assert.equal((await world.rows(last)).length, 1)
    assert.equal((await world.store.counts()).pending, 2, 'endpoints deleted meanwhile get nothing')
    await world.claim(worker, 2)
  })

  test('many expanding at once queue each delivery once', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoints = await Promise.all(Array.from({ length: 30 }, () => world.endpoint(app)))
    const gone = Array.from({ length: queuedAtOnce }, (_, i) => i + 1)
    const keys = [...endpoints.map((endpoint) => endpoint.key), ...gone]
    await world.publish([], { app: app.key, endpoints: keys })
    await world.publish([], { app: app.key, endpoints: keys })
    for (let more = true; more; ) {
      const answers = await Promise.all(Array.from({ length: 8 }, async () => (await world.store.expand(70)).more))
      more = answers.some(Boolean)
    }
    while ((await world.store.expand(70)).more);
    assert.equal((await world.store.counts()).pending, 60)
    for (const endpoint of endpoints) assert.equal((await world.rows(endpoint)).length, 2)
  })

  test('a wide message for later is timed, and one that waited to be expanded is as old as its acceptance', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const { first, keys } = await wide(world, app)
    await world.publish([], { app: app.key, endpoints: keys })
    await world.pass(100)
    while ((await world.store.expand(5000)).more);
    assert.ok((await world.head(first)).ageMs >= 100)
    await world.publish([], { app: app.key, endpoints: keys, delayMs: 60_000 })
    while ((await world.store.expand(5000)).more);
    assert.equal((await world.rows(first, 0)).length, 1)
    assert.deepEqual(await world.rows(first, 1), [])
    assert.equal((await world.store.counts()).pending, 4)
  })

  test('a group of messages that is too much for one transaction is expanded too, and signalled', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const { first, keys } = await wide(world, app)
    let signals = 0
    world.store.watch({ rows() {}, lanes() {}, settings() {}, fanOuts: () => void signals++ })
    const publication = await world.publication([], { app: app.key, endpoints: keys.slice(0, 900) })
    await world.store.publish(Array.from({ length: 30 }, () => publication))
    assert.equal(signals, 1)
    while ((await world.store.expand(5000)).more);
    assert.equal((await world.rows(first)).length, 30)
  })

  test('a message that is expanded because others of its group need room is signalled, though those are refused', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const { first, keys } = await wide(world, app)
    const eventIds = Array.from({ length: 22 }, (_, i) => `event ${i}`)
    for (const eventId of eventIds) await world.publish([], { app: app.key, eventId })
    let signals = 0
    world.store.watch({ rows() {}, lanes() {}, settings() {}, fanOuts: () => void signals++ })
    const publication = await world.publication([], { app: app.key, endpoints: keys.slice(0, 900) })
    const group = [...eventIds, null].map((eventId) => ({ ...publication, eventId }))
    const states = (await world.store.publish(group)).map(({ state }) => state)
    assert.deepEqual(states, [...eventIds.map(() => 'conflict'), 'accepted'])
    assert.equal(signals, 1)
    while ((await world.store.expand(5000)).more);
    assert.equal((await world.rows(first)).length, 1)
  })

  test('an expunged message is expanded no further', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const { keys } = await wide(world, app)
    const { key } = await world.publish([], { app: app.key, endpoints: keys })
    await world.harness.sql(`update message set expunged_at = 1 where key = ${key}`)
    assert.equal((await world.store.expand(5000)).more, false)
    assert.equal((await world.store.counts()).pending, 0)
  })

  test('with nothing to expand, nothing happens', async (t) => {
    const { store } = await begin(t, open)
    assert.equal((await store.expand(100)).more, false)
  })
}
