import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RestingEnd } from '../../../src/store/delivering.ts'
import { begin, type Open, type World } from './harness.ts'

export function bounding(open: Open): void {
  test('lanes without a worker in which deliveries wait are found a page at a time, with their first deliveries', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const flow = { maxWaiting: 7, overflow: 'drop_oldest', maxAgeMs: 60_000 } as const
    const first = await world.endpoint(app, { paused: true, flow })
    await world.endpoint(app)
    const third = await world.endpoint(app, { disabled: true })
    const { key } = await world.publish([first, third])
    await world.publish([first])
    const later = await world.publish([first], { delayMs: 60_000 })
    const { lanes, next } = await world.store.readResting(null, 10)
    assert.equal(next, null)
    assert.deepEqual(
      lanes.map((lane) => [lane.endpoint, lane.app, lane.retry, lane.rows.map((row) => [row.class, row.message])]),
      [
        [
          first.key,
          app.key,
          null,
          [
            [0, key],
            [1, later.key],
          ],
        ],
        [third.key, app.key, null, [[0, key]]],
      ],
    )
    assert.deepEqual(lanes[0]?.flow, first.flow)
    const page = await world.store.readResting(null, 1)
    assert.deepEqual([page.lanes.map((lane) => lane.endpoint), page.next], [[first.key], first.key])
    const rest = await world.store.readResting(page.next, 1)
    assert.deepEqual(
      rest.lanes.map((lane) => lane.endpoint),
      [third.key],
    )
    assert.deepEqual(await world.store.readResting(third.key, 1), { lanes: [], next: null })
  })

  test('lanes that are owned, empty or of a deleted endpoint do not rest', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const owned = await world.endpoint(app)
    await world.owningOne(owned)
    const deleted = await world.endpoint(app, { paused: true })
    await world.publish([deleted])
    await world.store.deleteEndpoint(app.key, deleted.key)
    await world.endpoint(app)
    assert.deepEqual(await world.store.readResting(null, 10), { lanes: [], next: null })
  })

  test('lanes that became due a moment ago can be left out', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [waking, stopped] = [await world.endpoint(app), await world.endpoint(app, { paused: true })]
    const sleeping = await world.endpoint(app)
    await world.publish([waking, stopped])
    await world.publish([sleeping], { delayMs: 60_000 })
    await world.woken(waking, sleeping)
    const found = async (wakingMs: number) =>
      (await world.store.readResting(null, 10, wakingMs)).lanes.map(({ endpoint }) => endpoint)
    assert.deepEqual(await found(60_000), [stopped.key, sleeping.key])
    assert.deepEqual(await found(0), [waking.key, stopped.key, sleeping.key])
  })

  test('the head of a queue is read in order, whether or not it is due', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const keys: number[] = []
    for (let i = 0; i < 4; i++) keys.push((await world.publish([endpoint])).key)
    const later = await world.publish([endpoint], { delayMs: 60_000 })
    const rows = await world.store.readFronts(endpoint.key, 3)
    assert.deepEqual(
      rows.map((row) => [row.class, row.message]),
      [...keys.slice(0, 3).map((key) => [0, key]), [1, later.key]],
    )
    assert.equal(rows.at(-1)?.ageMs, 0, 'not due yet, so it has no age')
  })

  test('a delivery that ends while its lane has no owner is dead, untried, with the attempts it had', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoint = await world.endpoint(app)
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'waiting', waitMs: 0 }))
    const { key } = await world.publish([endpoint])
    await world.store.updateEndpoint(app.key, endpoint.key, { paused: true })
    await world.release(worker, endpoint)
    const ends = await endsOf(world, endpoint.key, app.key)
    assert.deepEqual(await world.store.endResting(ends), ends)
    const tried = await world.store.findDead(endpoint.key, row.message)
    assert.deepEqual([tried?.reason, tried?.attempts, tried?.code, tried?.status], ['aged', 1, 'untried', 0])
    const fresh = await world.store.findDead(endpoint.key, key)
    assert.deepEqual([fresh?.reason, fresh?.attempts, fresh?.error, fresh?.response], ['aged', 0, null, null])
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 2, messages: 2, attempts: 1 })
    const deliveries = [row.message, key, 1].map((message) => ({ endpoint: endpoint.key, message }))
    assert.deepEqual(await world.store.deadAmong(deliveries), deliveries.slice(0, 2))
    const summaries = (await world.store.summariseDead(deliveries)).map(({ message, reason, bytes }) => [
      message,
      reason,
      bytes,
    ])
    assert.deepEqual(
      new Set(summaries),
      new Set([
        [row.message, 'aged', 0],
        [key, 'aged', 0],
      ]),
    )
    assert.deepEqual(await world.store.endResting(ends), [], 'they have ended')
    assert.equal((await world.store.counts()).dead, 2)
  })

  test('a delivery in a lane with an owner stays, while others end', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [owned, resting] = [await world.endpoint(app), await world.endpoint(app, { paused: true })]
    await world.owningOne(owned)
    await world.publish([resting])
    const ends = [...(await endsOf(world, owned.key, app.key)), ...(await endsOf(world, resting.key, app.key))]
    const ended = await world.store.endResting(ends)
    assert.deepEqual(
      ended.map((end) => end.endpoint),
      [resting.key],
    )
    assert.equal((await world.rows(owned)).length, 1)
    assert.deepEqual(await world.store.endResting([]), [])
  })

  test('deliveries of a lane whose worker died are ended by its next worker alone, or while it has none', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoint = await world.endpoint(app)
    const { worker, row } = await world.owningOne(endpoint)
    const ends = await endsOf(world, endpoint.key, app.key)
    assert.deepEqual(await world.store.endResting(ends), [])
    await world.store.leave(worker)
    assert.equal((await world.store.endResting(ends)).length, 1)
    // The old owner comes late: nothing of what it says is recorded.
    assert.equal(await world.settle(worker, world.settlement(endpoint, row, { state: 'delivered' })), 'fenced')
    assert.deepEqual(await world.store.counts(), { pending: 0, dead: 1, messages: 1, attempts: 0 })
  })

  test('an expired message is found in every lane without a worker, in pages that end', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const resting = [await world.endpoint(app, { paused: true }), await world.endpoint(app, { paused: true })]
    const owned = await world.endpoint(app)
    await world.owningOne(owned)
    for (let i = 0; i < 3; i++) {
      await world.publish([...resting, owned], { expiresInMs: 20 })
      await world.pass(2)
    }
    await world.publish(resting, { expiresInMs: 60_000 })
    await world.publish(resting)
    await world.pass(60)
    for (const limit of [1, 2, 4, 100]) {
      const found = new Set<string>()
      let pages = 0
      for (let from: number | null = null; ; ) {
        const page: Awaited<ReturnType<typeof world.store.readExpired>> = await world.store.readExpired(from, limit)
        for (const { endpoint, row } of page.deliveries) {
          assert.ok((row.expiresInMs ?? 1) <= 0)
          found.add(`${endpoint} ${row.message}`)
        }
        from = page.next
        assert.ok(++pages < 30, 'it never ends')
        if (from === null) break
      }
      // Pages too small for what expired at one instant pass over some of it, which a later sweep finds.
      if (limit >= 4) assert.equal(found.size, 6, `in pages of ${limit}`)
      for (const each of found) assert.ok(!each.startsWith(`${owned.key} `))
    }
  })
}

/** All that waits for an endpoint, ended for its age. */
async function endsOf(world: World, endpoint: number, app: number): Promise<RestingEnd[]> {
  const rows = await world.store.readFronts(endpoint, 100)
  return rows.map((row) => ({ endpoint, app, row, reason: 'aged' }))
}
