import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { type Served, served, workplace } from './program.ts'

describe('order', () => {
  const where = workplace()
  let place: Served
  before(async () => {
    place = await served(where)
    await place.sluice('app create Orders --uid orders')
  })

  test('endpoints are put in order, messages sent with a key, and the head of a line is directed', async () => {
    const { json, sluice } = place
    const made = await json(
      'endpoint create orders http://127.0.0.1:1/hook --uid strict --order fifo --dead-head block',
    )
    assert.deepEqual([made.order, made.deadHead], ['fifo', 'block'])
    assert.match(await sluice('endpoint get orders strict'), /^order +fifo\ndead head +block$/m)
    await sluice('endpoint pause orders strict')
    const sent = await json('send orders a.b {} --ordering-key red')
    assert.equal(sent.orderingKey, 'red')
    const raw = await json('send orders a.b {} --raw --ordering-key blue')
    assert.equal(raw.orderingKey, 'blue')
    assert.match(
      await sluice(`lane skip-head orders strict ${raw.id}`),
      new RegExp(`^${raw.id} becomes a dead letter as soon as a worker has the lane\\.\\n$`),
    )
    const head = await json('lane skip-head orders strict')
    assert.deepEqual([head.messageId, head.order], [sent.id, 'skip'])
    assert.match(await sluice('lane orders strict'), /^state +paused$/m)
    await sluice('endpoint update orders strict --order none')
    assert.match(await sluice('lane retry-head orders strict', 6), /is not ordered/)
  })
})
