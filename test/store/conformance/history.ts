import assert from 'node:assert/strict'
import { test } from 'node:test'
import { begin, type Open } from './harness.ts'

export function history(open: Open): void {
  test('a message is found within its own application only', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const other = await world.application()
    const { id } = await world.publish([endpoint], { eventId: 'evt-1' })
    assert.equal((await world.store.findMessage(endpoint.app, id))?.id, id)
    assert.equal(await world.store.findMessage(other.key, id), undefined)
    assert.equal(await world.store.findMessage(other.key, 'evt-1'), undefined)
    assert.equal(await world.store.findMessage(endpoint.app, 'evt-2'), undefined)
    const last = id.endsWith('0') ? '1' : '0'
    assert.equal(await world.store.findMessage(endpoint.app, id.slice(0, -1) + last), undefined)
  })

  test('an event id that looks like a message id is still found', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const eventId = `msg_${'0'.repeat(27)}`
    const { id } = await world.publish([endpoint], { eventId })
    assert.equal((await world.store.findMessage(endpoint.app, eventId))?.id, id)
  })

  test('the attempts of a message come by endpoint and ordinal', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [first, second] = [await world.endpoint(app), await world.endpoint(app)]
    const worker = await world.join()
    const { key } = await world.publish([first, second])
    await world.publish([first])
    for (const endpoint of [second, first]) {
      const row = await world.head(endpoint)
      await world.settle(worker, world.settlement(endpoint, row, { state: 'waiting', waitMs: 0 }))
    }
    await world.pass(5)
    const retry = await world.head(first, 1)
    await world.settle(worker, world.settlement(first, retry, { state: 'delivered' }))
    const attempts = await world.store.attemptsOf(key)
    assert.deepEqual(
      attempts.map(({ endpoint, n }) => [endpoint, n]),
      [
        [first.key, 1],
        [first.key, 2],
        [second.key, 1],
      ],
    )
    assert.deepEqual(await world.store.attemptsOf(1), [])
  })

  test('there is no dead letter where nothing died', async (t) => {
    const { store } = await begin(t, open)
    assert.equal(await store.findDead(1, 2), undefined)
  })

  test('a new store counts nothing and answers a ping', async (t) => {
    const { store } = await begin(t, open)
    await store.ping()
    assert.deepEqual(await store.counts(), { pending: 0, dead: 0, messages: 0, attempts: 0 })
  })

  test('closing twice is harmless', async (t) => {
    const { store } = await begin(t, open)
    await store.close()
    await store.close()
  })
}
