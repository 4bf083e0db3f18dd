import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertRemaining, begin, noEffects, type Open, type World } from './harness.ts'

export function snapshots(open: Open): void {
  test('a question reaches the watcher, and its answer the caller that asked', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    const heard = Promise.withResolvers<readonly number[]>()
    world.store.watch({ rows() {}, lanes() {}, settings() {}, asked: heard.resolve })
    assert.equal(await world.store.askLanes([endpoint.key]), true)
    assert.deepEqual(await heard.promise, [endpoint.key])
    assert.deepEqual(await world.store.readAnswers([endpoint.key]), [
      { endpoint: endpoint.key, owner: worker, snapshot: null, snapshotAt: 0 },
    ])
    const { now } = await laneOf(world, endpoint.key)
    await world.store.answerLanes(worker, [{ endpoint: endpoint.key, snapshot: '{"n":"\\"1"}' }])
    const [answer] = await world.store.readAnswers([endpoint.key])
    assert.deepEqual([answer?.owner, answer?.snapshot], [worker, '{"n":"\\"1"}'])
    assert(answer && answer.snapshotAt >= now && answer.snapshotAt < now + 10_000, `${answer?.snapshotAt}`)
  })

  test('an answer replaces the one before, also when the clock was set back in between', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    const { now } = await laneOf(world, endpoint.key)
    await world.harness.sql(`update lane set snapshot = 'old', snapshot_at = ${now + 3_600_000}`)
    await world.store.answerLanes(worker, [{ endpoint: endpoint.key, snapshot: 'new' }])
    const [answer] = await world.store.readAnswers([endpoint.key])
    assert.equal(answer?.snapshot, 'new')
    assert(answer && answer.snapshotAt < now + 10_000, `${answer?.snapshotAt}`)
  })

  test('only the owner of a lane speaks for it', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    const other = await world.join()
    await world.store.answerLanes(other, [{ endpoint: endpoint.key, snapshot: 'no' }])
    assert.equal((await world.store.readAnswers([endpoint.key]))[0]?.snapshot, null)
    await world.release(worker, endpoint)
    await world.store.answerLanes(worker, [{ endpoint: endpoint.key, snapshot: 'no' }])
    const [answer] = await world.store.readAnswers([endpoint.key])
    assert.deepEqual([answer?.owner, answer?.snapshot], [null, null])
  })

  test('several lanes are answered at once, and read in the order of their endpoints', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [one, two, three] = [await world.endpoint(app), await world.endpoint(app), await world.endpoint(app)]
    assert(one && two && three)
    const worker = await world.join()
    for (const endpoint of [one, two]) {
      await world.publish([endpoint])
      await world.claim(worker)
    }
    await world.store.answerLanes(worker, [
      { endpoint: two.key, snapshot: 'two' },
      { endpoint: one.key, snapshot: 'one' },
      { endpoint: three.key, snapshot: 'three' },
    ])
    await world.store.answerLanes(worker, [])
    const answers = await world.store.readAnswers([three.key, two.key, one.key, 999])
    assert.deepEqual(
      answers.map(({ endpoint, snapshot }) => [endpoint, snapshot]),
      [
        [one.key, 'one'],
        [two.key, 'two'],
        [three.key, null],
      ],
    )
    assert.deepEqual(await world.store.readAnswers([]), [])
  })

  test('the endpoints of an application are walked in pages', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [one, two, three] = [await world.endpoint(app), await world.endpoint(app), await world.endpoint(app)]
    assert(one && two && three)
    const { store } = world
    const keys = [one.key, two.key, three.key].toSorted((a, b) => a - b)
    const found = await store.endpointKeys(app.key, null, 2)
    assert.deepEqual(
      found.map((row) => [row.endpoint, row.app]),
      keys.slice(0, 2).map((key) => [key, app.key]),
    )
    const rest = await store.endpointKeys(app.key, keys[1] as number, 2)
    assert.deepEqual(
      rest.map(({ endpoint }) => endpoint),
      keys.slice(2),
    )
    assert.ok((await store.endpointKeys(null, null, 100)).length >= 3)
  })

  test('a queue has rungs, and the rows between two places are counted', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application(), { flow: { order: 'key' } })
    const { store } = world
    for (let i = 0; i < 10; i++) {
      const special = [{ endpoint: endpoint.key, orderKey: i % 2 }]
      await world.publish([endpoint], { delayMs: i < 7 ? 0 : 60_000 * i, special })
    }
    const rungs = await store.queueRungs(endpoint.key, null, 3, 100)
    assert.deepEqual(
      rungs.map((rung) => rung.class),
      [0, 0, 1],
    )
    const [first, second, third] = rungs
    assert(first && second && third)
    assert.deepEqual(await store.queueRungs(endpoint.key, null, 3, 6), [first, second])
    assert.deepEqual(await store.queueRungs(endpoint.key, first, 3, 100), [second, third])
    const count = (...places: Parameters<typeof store.countRange> extends [number, ...infer Rest] ? Rest : never) =>
      store.countRange(endpoint.key, ...places)
    assert.deepEqual(
      [await count(null, first, 100), await count(first, second, 100), await count(first, third, 100)],
      [2, 2, 5],
    )
    assert.equal(await count(null, third, 4), 4, 'no further than the limit')
    assert.equal(await count(null, third, 100, 0), 4, 'those of a key alone')
  })

  test('a row tells what holds it, what it is in order with, and when it expires', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application(), { flow: { order: 'key' } })
    const special = [{ endpoint: endpoint.key, orderKey: 7 }]
    const worker = await world.join()
    await world.publish([endpoint], { expiresInMs: 90_000, special })
    await world.claim(worker)
    const row = await world.head(endpoint)
    const found = await world.store.findRow(endpoint.key, row)
    assert.deepEqual([found?.retryInMs, found?.orderKey], [0, 7])
    assert.equal((found?.expiresAt ?? 0) - (found?.since ?? 0), 90_000)
    assertRemaining((found?.expiresAt ?? 0) - (await laneOf(world, endpoint.key)).now, 90_000)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'delayed', waitMs: 50_000 }))
    assertRemaining((await world.store.findRow(endpoint.key, row))?.retryInMs, 50_000)
    assert.equal(await world.store.findRow(endpoint.key, { ...row, message: row.message + 1 }), undefined)
  })

  test('the first in the queue is known, of all and of those with one ordering key', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application(), { flow: { order: 'key', deadHead: 'block' } })
    const worker = await world.join()
    const publish = (orderKey: number) => world.publish([endpoint], { special: [{ endpoint: endpoint.key, orderKey }] })
    assert.equal(await world.store.findFront(endpoint.key, null, null), undefined)
    const [first, second, third] = [await publish(1), await publish(2), await publish(2)]
    await world.publish([endpoint], { delayMs: 60_000, special: [{ endpoint: endpoint.key, orderKey: 3 }] })
    await world.pass(30)
    await world.claim(worker)
    const rows = await world.rows(endpoint)
    const place = (key: number) => rows.find(({ message }) => message === key) ?? null
    const firstOf = (orderKey: number | null, before: number | null) =>
      world.store.findFront(endpoint.key, orderKey, before === null ? null : place(before))
    assert.deepEqual(await firstOf(null, null), { id: first.id, message: first.key, attempts: 0, retryInMs: 0 })
    assert.equal((await firstOf(2, null))?.message, second.key)
    assert.equal((await firstOf(2, third.key))?.message, second.key)
    assert.equal(await firstOf(2, second.key), undefined)
    assert.equal(await firstOf(3, null), undefined)
    const head = place(second.key)
    assert(head)
    await world.settle(worker, world.settlement(endpoint, head, { state: 'delayed', waitMs: 50_000 }))
    const held = await firstOf(2, third.key)
    assertRemaining(held?.retryInMs, 50_000)
    assert.equal(held?.attempts, 1)
    await world.settle(worker, world.settlement(endpoint, { ...head, attempts: 1 }, { state: 'blocked' }))
    assert.equal((await firstOf(2, third.key))?.retryInMs, Number.POSITIVE_INFINITY)
  })

  test('a count tells since when the longest waiting delivery waits, and a lane how well its receiver does', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const first = await laneOf(world, endpoint.key)
    assert.deepEqual([first.health, first.healthAgeMs], [null, 0])
    const oldestSince = async () => {
      const { counts } = await world.store.surveyWaiting(null, 100)
      return Math.min(...counts.filter((each) => each.endpoint === endpoint.key).map((each) => each.oldestSince))
    }
    const since = await oldestSince()
    assert(since <= first.now, `${since}`)
    await world.pass(30)
    await world.publish([endpoint])
    assert.equal(await oldestSince(), since)
    // A retry waits as long as its delivery does.
    await world.settle(worker, world.settlement(endpoint, row, { state: 'waiting', waitMs: 60_000 }))
    assert.equal(await oldestSince(), since)
    await world.store.settle(worker, [], { ...noEffects, health: [{ endpoint: endpoint.key, health: 'poor' }] })
    await world.pass(30)
    const later = await laneOf(world, endpoint.key)
    assert.equal(later.health, 'poor')
    assert(later.healthAgeMs >= 29 && later.healthAgeMs < 10_000, `${later.healthAgeMs}`)
  })
}

async function laneOf(world: World, endpoint: number) {
  const lane = await world.store.findLane(endpoint)
  assert(lane)
  return lane
}
