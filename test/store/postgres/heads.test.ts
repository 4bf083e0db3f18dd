import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Engine } from '../../../src/engine/engine.ts'
import { systemClock } from '../../../src/runtime/clock.ts'
import { systemRandom } from '../../../src/runtime/random.ts'
import { answered } from '../../answered.ts'
import { engineParts, sendingBy } from '../../engine/engine-under-test.ts'
import { World } from '../conformance/harness.ts'
import { openPostgresHarness } from '../postgres-harness.ts'

const nothing = { retryAfterMs: undefined, response: undefined, error: undefined }

test('operators who direct heads while a worker sends give no delivery two ends, and reverse nothing', async (t) => {
  const harness = await openPostgresHarness()
  const { store } = harness
  const world = new World(harness)
  const app = await world.application()
  const retry = { waits: { kind: 'list' as const, ms: [20] }, jitter: 'none' as const, maxAgeMs: 600_000 }
  const endpoint = await world.endpoint(app, { retry, flow: { order: 'fifo', deadHead: 'block' } })
  const sent: string[] = []
  const engine = new Engine({
    store,
    sender: sendingBy((_target, message, onLeave, onEnd) => {
      sent.push(message.id)
      onLeave()
      // Two of three fail, so that most heads come to block.
      const isTaken = sent.length % 3 === 0
      return systemClock.after(1, () =>
        onEnd(
          answered({ code: isTaken ? 'delivered' : 'refused', status: isTaken ? 200 : 500, durationMs: 1, ...nothing }),
        ),
      )
    }),
    ...engineParts(systemClock),
  })
  t.after(async () => {
    await engine.stop(1000)
    await harness.close()
  })
  const special = [{ endpoint: endpoint.key, orderKey: 0 }]
  const publication = await world.publication([endpoint], { special })
  const published = await store.publish(Array.from({ length: 8 }, () => publication))
  const messages = published.flatMap((each) => (each.state === 'accepted' ? [each] : []))
  const order = new Map(messages.map(({ id }, i) => [id, i]))
  await engine.start()

  const operator = async (order: 'retry' | 'skip', share: number) => {
    while ((await store.counts()).pending > 0) {
      if (systemRandom() < share) await store.commandFront(endpoint.key, null, order)
      await world.pass(5)
    }
  }
  await Promise.all([operator('retry', 0.5), operator('retry', 0.5), operator('skip', 0.1), operator('skip', 0.1)])
  const places = sent.map((id) => order.get(id) as number)
  assert.deepEqual(
    places,
    places.toSorted((a, b) => a - b),
    'in the order of acceptance',
  )
  for (const { key, id } of messages) {
    const trail = await store.attemptsOf(key)
    const delivered = trail.filter(({ code }) => code === 'delivered').length
    const dead = await store.findDead(endpoint.key, key)
    assert.equal(delivered + (dead ? 1 : 0), 1, `${delivered} deliveries, ${dead?.reason}`)
    assert.deepEqual(
      trail.map(({ n }) => n),
      trail.map((_, i) => i + 1),
    )
    assert.equal(trail.length, sent.filter((message) => message === id).length, 'every attempt is recorded')
  }
})
