import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { QueueCursor } from '../../../src/store/store.ts'
import { begin, noEffects, type Open } from './harness.ts'

export function waiting(open: Open): void {
  test('waiting deliveries are counted by endpoint, in pages that meet without a gap', async (t) => {
    const world = await begin(t, open)
    const [first, second] = [await world.application(), await world.application()]
    const [a, b, c] = [await world.endpoint(first), await world.endpoint(first), await world.endpoint(second)]
    for (let i = 0; i < 7; i++) await world.publish([a, b].slice(0, (i % 2) + 1), { delayMs: i % 3 ? 0 : 60_000 })
    for (let i = 0; i < 4; i++) await world.publish([c])
    for (const limit of [1, 3, 5, 14, 100]) {
      const counted = new Map<string, number>()
      for (let after: QueueCursor | null = null, more = true; more; ) {
        const page = await world.store.surveyWaiting(after, limit)
        for (const { app, endpoint, count } of page.counts) {
          counted.set(`${app} ${endpoint}`, (counted.get(`${app} ${endpoint}`) ?? 0) + count)
        }
        after = page.next
        more = after !== null
      }
      const expected = new Map([
        [`${a.app} ${a.key}`, 7],
        [`${b.app} ${b.key}`, 3],
        [`${c.app} ${c.key}`, 4],
      ])
      assert.deepEqual(counted, expected, `in pages of ${limit}`)
    }
  })

  test('a count of one queue ends with that queue, and the next one begins behind it', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [a, b] = [await world.endpoint(app), await world.endpoint(app)]
    for (let i = 0; i < 5; i++) await world.publish([a, b])
    const start = { endpoint: a.key, class: 0, dueAt: 0, message: 0 } as const
    const counted = (counts: readonly { readonly endpoint: number; readonly count: number }[]) =>
      counts.map(({ endpoint, count }) => [endpoint, count])
    const part = await world.store.surveyWaiting(start, 3, 0, true)
    assert.deepEqual([counted(part.counts), part.next?.endpoint], [[[a.key, 3]], a.key])
    for (const limit of [3, 5, 7, 100]) {
      const rest = await world.store.surveyWaiting(part.next, limit, 0, true)
      assert.deepEqual(counted(rest.counts), [[a.key, 2]])
      assert.deepEqual(counted((await world.store.surveyWaiting(rest.next, 100)).counts), [[b.key, 5]])
    }
  })

  test('waiting deliveries are counted by class, with those that are late and whether their endpoint is stopped', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [one, paused] = [await world.endpoint(app), await world.endpoint(app, { paused: true })]
    for (const delayMs of [0, 0, 60_000]) await world.publish([one, paused], { delayMs })
    await world.harness.sql(`update pending set due_at = due_at - 90000 where endpoint = ${one.key} and class = 0`)
    const { counts } = await world.store.surveyWaiting(null, 100, 60_000)
    const [fresh, timed, ...ofPaused] = counts
    assert.deepEqual(
      counts.map(({ endpoint, class: itsClass, count, late, stopped }) => [endpoint, itsClass, count, late, stopped]),
      [
        [one.key, 0, 2, 2, false],
        [one.key, 1, 1, 0, false],
        [paused.key, 0, 2, 0, true],
        [paused.key, 1, 1, 0, true],
      ],
    )
    assert.ok(fresh && fresh.dueAgoMs >= 90_000)
    assert.ok(timed && timed.dueAgoMs < 0 && timed.dueAgoMs >= -60_000)
    assert.ok(ofPaused.every((each) => each.app === app.key))
  })

  test('a retry that keeps its place in an ordered lane is late when its wait is over, and not before', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application(), { flow: { order: 'fifo' } })
    const worker = await world.join()
    await world.publish([endpoint], { special: [{ endpoint: endpoint.key, orderKey: 0 }] })
    await world.claim(worker)
    const row = await world.head(endpoint)
    const delayed = { ...world.settlement(endpoint, row, { state: 'delayed', waitMs: 60_000 }), inOrder: true }
    await world.settle(worker, delayed)
    await world.pass(5)
    const late = async () => (await world.store.surveyWaiting(null, 100, 1)).counts.map((each) => each.late)
    assert.deepEqual(await late(), [0])
    await world.harness.sql(`update pending set held_until = held_until - 61000`)
    assert.deepEqual(await late(), [1])
  })

  test('lanes are counted by the way they look, in pages that meet without a gap', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const [idle, owned, sleeping, stopped] = [
      await world.endpoint(app),
      await world.endpoint(app),
      await world.endpoint(app),
      await world.endpoint(app, { disabled: true }),
    ]
    assert.ok(idle)
    const { worker } = await world.owningOne(owned)
    await store.settle(worker, [], { ...noEffects, health: [{ endpoint: owned.key, health: '{"circuit":"open"}' }] })
    await world.publish([sleeping, stopped], { delayMs: 60_000 })
    await store.reconcile()
    for (const limit of [1, 2, 3, 100]) {
      const found: string[] = []
      for (let after: number | null = null, more = true; more; ) {
        const page: Awaited<ReturnType<typeof store.surveyLanes>> = await store.surveyLanes(after, limit)
        for (const group of page.groups) {
          const state = group.stopped ? 'stopped' : group.owned ? 'owned' : group.due
          for (let i = 0; i < group.count; i++) found.push(`${state} ${group.health}`)
        }
        after = page.next
        more = after !== null
      }
      assert.deepEqual(found.toSorted(), ['later null', 'owned {"circuit":"open"}', 'stopped null'])
    }
  })

  test('with nothing waiting there is nothing to count', async (t) => {
    const { store } = await begin(t, open)
    assert.deepEqual(await store.surveyWaiting(null, 10), { counts: [], next: null })
  })

  test('the names of endpoints are read in both orders, of one application or of all', async (t) => {
    const world = await begin(t, open)
    const [first, second] = [await world.application(), await world.application()]
    const [a, b, c] = [await world.endpoint(first), await world.endpoint(second), await world.endpoint(first)]
    const deleted = await world.endpoint(first)
    await world.store.deleteEndpoint(deleted.app, deleted.key)
    const read = async (app: number | null, order: 'ascending' | 'descending', after: number | null, limit: number) => {
      const { items, done } = await world.store.nameEndpoints(app, { order, after, limit })
      return [items.map(({ key }) => key), done]
    }
    assert.deepEqual(await read(null, 'descending', null, 2), [[c.key, b.key], false])
    assert.deepEqual(await read(null, 'descending', b.key, 2), [[a.key], true])
    assert.deepEqual(await read(first.key, 'ascending', null, 5), [[a.key, c.key], true])
    const { items } = await world.store.nameEndpoints(second.key, { order: 'ascending', after: null, limit: 1 })
    const { key, id, app, uid, url, description } = b
    assert.deepEqual(items, [{ key, id, app, uid, url, description }])
  })
}
