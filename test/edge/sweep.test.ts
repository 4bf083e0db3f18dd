import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { Receiver } from '../e2e/receiver.ts'
import { Edge, figures, messageId, signed, skip } from './edge.ts'

/** A file of its own: it waits for an alarm for more than a minute, beside the others. */
test('ids whose time is over are deleted by an alarm', { skip }, async (t) => {
  const receiver = await Receiver.listen(t)
  const to = `${receiver.url}/orders`
  const edge = await Edge.start(t, { orders: { mode: 'relay', to, rememberSeconds: 60, timeoutSeconds: 1, shards: 1 } })
  const ids = Array.from({ length: 20 }, messageId)
  for (const id of ids) await edge.send('/orders', signed(id, '{}'))
  assert.ok(((await figures(edge, 'orders')).ids ?? 0) > 0)
  await eventually('no id is left', async () => (await figures(edge, 'orders')).ids === 0)
  const [row] = await edge.exec('DeliveryLedger', 'orders/0', 'select count(*) as n from delivery')
  assert.equal(row?.n, 0)
})
