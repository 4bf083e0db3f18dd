import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { dialects, Target } from './attack.ts'

/** The largest batch: 25,000 deliveries. */
const messagesPerBatch = 500
const endpoints = 50

/** Endpoints whose deliveries cost the store more than plain ones, and what a message has beside. */
const shapes: Readonly<Record<string, { readonly flow: object; readonly message?: object }>> = {
  plain: { flow: {} },
  'in order': { flow: { order: 'fifo' } },
  'in order by a key': { flow: { order: 'key' }, message: { orderingKey: 'k' } },
  'dropped because disabled': { flow: { whileDisabled: 'drop', disabled: true } },
  coalesced: { flow: { coalesce: { windowMs: 60_000 } } },
  shaped: { flow: { shape: { drop: ['/a'] } } },
  'with an end': { flow: {}, message: { expiresAt: new Date(Date.now() + 3_600_000).toISOString() } },
}

for (const dialect of dialects) {
  for (const [name, { flow, message }] of Object.entries(shapes)) {
    test(`${dialect}: a batch of deliveries ${name} holds nobody up`, async (t) => {
      const target = await Target.share(t, dialect)
      const app = await target.newApplication()
      for (let i = 0; i < endpoints; i++) {
        await target.client.createEndpoint(app, { url: 'https://example.com/', ...flow })
      }
      const messages = Array.from({ length: messagesPerBatch }, () => ({
        eventType: 'x',
        payload: { a: 1, b: 2 },
        ...message,
      }))
      const body = JSON.stringify({ messages })
      await target.measure(`a batch ${name}`, async () => {
        const { status, text } = await target.call('POST', `/app/${app}/msg/batch?with_content=false`, { body })
        assert.equal(status, 202, text.slice(0, 300))
        await eventually('all are queued', async () => {
          return (await target.place.query('select message from fan_out limit 1')).length === 0
        })
      })
    })
  }
}
