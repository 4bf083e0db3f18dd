import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { QueueCursor } from '../../../src/store/store.ts'
import { begin, type Open } from './harness.ts'

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
