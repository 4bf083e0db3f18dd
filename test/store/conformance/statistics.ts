import assert from 'node:assert/strict'
import { test } from 'node:test'
import { attemptsPerCount } from '../../../src/store/configuration.ts'
import { begin, type Open } from './harness.ts'

export function statistics(open: Open): void {
  test('attempts are counted by outcome, within the asked time, at one endpoint', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [endpoint, other] = [await world.endpoint(app), await world.endpoint(app)]
    const values = [
      [endpoint.key, 100, 'delivered'],
      [endpoint.key, 101, 'delivered'],
      [endpoint.key, 200, 'refused'],
      [endpoint.key, 201, 'timeout'],
      [other.key, 150, 'delivered'],
    ].map(([key, at, code], i) => `(${i + 1}, ${key}, 1, 'atmpt_${i}', ${at}, 5, 200, '${code}', 'scheduled')`)
    await world.harness.sql(
      `insert into attempt (message, endpoint, n, id, at, duration_ms, status, code, trigger) values ${values.join()}`,
    )
    assert.deepEqual(await world.store.countAttempts(endpoint.key, 100, 200), { delivered: 1, failed: 1, reached: 200 })
    assert.deepEqual(await world.store.countAttempts(endpoint.key, 0, 999), { delivered: 2, failed: 2, reached: 999 })
    assert.deepEqual(await world.store.countAttempts(endpoint.key, 201, 999), { delivered: 0, failed: 0, reached: 999 })
  })

  test('a count that stops early goes on where it stopped, without missing or repeating any', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const total = 2 * attemptsPerCount + 7
    // Seven in each millisecond, so that a count cannot end between two of them unnoticed.
    await world.harness.sql(`
      with recursive g (i) as (select 1 union all select i + 1 from g where i < ${total})
      insert into attempt (message, endpoint, n, id, at, duration_ms, status, code, trigger)
      select i, ${endpoint.key}, 1, 'atmpt_' || i, 1000 + i / 7, 5, 200,
             case when i % 2 = 0 then 'delivered' else 'reset' end, 'scheduled' from g`)
    let [delivered, failed, calls] = [0, 0, 0]
    for (let after = 0; after < 1_000_000; calls++) {
      const count = await world.store.countAttempts(endpoint.key, after, 1_000_000)
      assert(count.delivered + count.failed < attemptsPerCount + 7)
      delivered += count.delivered
      failed += count.failed
      after = count.reached
    }
    assert.deepEqual([delivered, failed], [Math.floor(total / 2), Math.ceil(total / 2)])
    assert(calls >= 3, `${calls} calls`)
  })
}
