import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ClaimedLane, Taken } from '../../../src/store/lanes.ts'
import { begin, noEffects, type Open, type World } from './harness.ts'

/** More rows than any store brings along. */
const manyRows = 40

/** Claims one lane, with all that comes along. */
async function take(world: World, worker: number): Promise<Taken & { readonly lane: ClaimedLane }> {
  for (;;) {
    const taken = await world.store.claim(worker, 1)
    const [lane] = taken.lanes
    if (lane !== undefined) return { ...taken, lane }
    await world.pass(5)
  }
}

/** A claim brings the first rows of its lanes along. */
export function fronts(open: Open): void {
  test('a claim brings the first rows of each class along, as a read of the queue brings them', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'waiting', waitMs: 0 }))
    await world.publish([endpoint])
    await world.publish([endpoint], { delayMs: 3_600_000 })
    await world.release(worker, endpoint)
    const { lane } = await take(world, worker)
    assert.ok(lane.front, 'the queue is short')
    const { pages, limit } = lane.front
    const kept = (rows: readonly object[]) => rows.map((each) => ({ ...each, ageMs: 0, lateMs: 0 }))
    assert.deepEqual(kept(pages[0].rows), kept(await world.rows(endpoint, 0)))
    assert.deepEqual(kept(pages[1].rows), kept(await world.rows(endpoint, 1)))
    assert.deepEqual([pages[0].rows.length, pages[1].rows.length, pages[2].rows.length], [1, 1, 0])
    assert.ok(limit > 1, 'a page with fewer rows than the limit is the whole queue')
    const { nextInMs = 0 } = pages[1]
    assert.ok(nextInMs > 3_000_000 && nextInMs <= 3_600_000, 'it says when the next timed row is due')
  })

  test('a claim of named lanes brings their rows along, too, each lane its own', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoints = [await world.endpoint(app), await world.endpoint(app), await world.endpoint(app)]
    const [one, two, three] = endpoints
    assert(one && two && three)
    const worker = await world.join()
    const first = await world.publish([one, three])
    const second = await world.publish([three])
    await world.woken(one, three)
    const { lanes } = await world.store.claimNamed(
      worker,
      endpoints.map(({ key }) => key),
    )
    const rows = new Map(
      lanes.map(({ endpoint, front }) => [endpoint.key, front?.pages[0].rows.map(({ message }) => message)]),
    )
    assert.deepEqual(rows.get(one.key), [first.key])
    assert.deepEqual(rows.get(three.key), [first.key, second.key])
    assert.equal(rows.has(two.key), false)
  })

  test('of a long queue, a claim brings a part that says so, or nothing', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    for (let n = 0; n < manyRows; n++) await world.publish([endpoint])
    const { lane } = await take(world, await world.join())
    const { front } = lane
    if (front === undefined) return
    const [fresh] = front.pages
    assert.ok(fresh.rows.length >= front.limit, 'the page does not look like the whole queue')
    assert.deepEqual(
      fresh.rows.map(({ message }) => message),
      (await world.rows(endpoint)).slice(0, front.limit).map(({ message }) => message),
    )
  })

  test('messages that come along are those that sending loads, and none whose content was erased', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [plain, large] = [await world.endpoint(app), await world.endpoint(app)]
    const small = await world.publish([plain])
    await world.publish([large], { body: new TextEncoder().encode(JSON.stringify('x'.repeat(100_000))) })
    await world.woken(plain, large)
    const worker = await world.join()
    const { messages } = await world.store.claimNamed(worker, [plain.key, large.key])
    assert.deepEqual(messages, messages.length === 0 ? [] : await world.store.loadMessages([small.key]))
    assert.equal(await world.store.settle(worker, [], noEffects), 'settled')
  })

  test('rows that were settled are not brought along to the next owner', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const next = await world.publish([endpoint])
    await world.settle(worker, world.settlement(endpoint, row, { state: 'delivered' }))
    await world.release(worker, endpoint)
    const { lane } = await take(world, await world.join())
    assert.deepEqual(
      lane.front?.pages[0].rows.map(({ message }) => message),
      [next.key],
    )
  })
}
