import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dialects, isLong, Target } from './attack.ts'

const range = <T>(count: number, each: (i: number) => T) => Array.from({ length: count }, (_, i) => each(i))
const url = 'https://example.com/'

for (const dialect of dialects) {
  test(`${dialect}: a batch of 1,000 messages never holds the loop`, async (t) => {
    const target = await Target.share(t, dialect)
    const app = await target.newApplication()
    const message = { eventType: 'x', channels: range(5, (i) => `c${i}`), tags: range(5, (i) => `t${i}`) }
    const payload = Object.fromEntries(range(9, (i) => [`k${i}`, range(40, () => ({}))]))
    const small = range(1000, (i) => ({ ...message, eventId: `e${i}`, payload: { n: range(200, () => 1) } }))
    const keys = range(700, (i) => ({ ...message, eventId: `k${i}`, payload }))
    for (const [name, messages] of Object.entries({ small, keys })) {
      const body = JSON.stringify({ messages })
      assert.ok(body.length < 2 ** 20, `${body.length}`)
      await target.measure(`a batch: ${name}`, async () => {
        const { status, text } = await target.call('POST', `/app/${app}/msg/batch`, { body })
        assert.equal(status, 202, text.slice(0, 300))
      })
    }
  })

  test(`${dialect}: a batch for many endpoints never holds the loop`, async (t) => {
    const target = await Target.share(t, dialect)
    const app = await target.newApplication()
    for (let i = 0; i < (isLong ? 1000 : 200); i++) await target.client.createEndpoint(app, { url, disabled: true })
    const messages = range(1000, () => ({ eventType: 'x', payload: {} }))
    await target.measure('a batch for many endpoints', async () => {
      for (const [count, expected] of [
        [1000, 413],
        [isLong ? 30 : 150, 202],
      ] as const) {
        const body = { messages: messages.slice(0, count) }
        const { status, text } = await target.call('POST', `/app/${app}/msg/batch`, { body })
        assert.equal(status, expected, text.slice(0, 300))
      }
    })
  })
}

test('keys to coalesce by, in a megabyte, never hold the loop', async (t) => {
  const target = await Target.share(t, 'sqlite')
  const app = await target.newApplication()
  for (const i of range(60, (n) => n)) {
    const coalesce = { key: `/l/${100_000 + i}/x`, windowMs: 2000 }
    const { status, text } = await target.call('POST', `/app/${app}/endpoint`, {
      body: { url, disabled: true, coalesce },
    })
    assert.equal(status, 201, text)
  }
  const body = `{"eventType":"x","payload":{"l":[${range(300_000, () => '{}').join(',')}]}}`
  await target.measure('coalescing keys', async () => {
    const { status, text } = await target.call('POST', `/app/${app}/msg?with_content=false`, { body })
    assert.equal(status, 202, text)
  })
})
