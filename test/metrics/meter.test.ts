import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { Histogram, Meter } from '../../src/metrics/meter.ts'
import { observed } from '../../src/metrics/observed-store.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { queuedAtOnce } from '../../src/store/plan.ts'
import type { Publication } from '../../src/store/store.ts'
import { noEffects, type Open, World } from '../store/conformance/harness.ts'
import { openPostgresHarness } from '../store/postgres-harness.ts'
import { openSqliteHarness } from '../store/sqlite-harness.ts'

/** A store whose commits a meter counts. */
async function metered(t: TestContext, open: Open) {
  const harness = await open()
  t.after(() => harness.close())
  const meter = new Meter()
  const store = observed(harness.store, systemClock, [meter])
  const world = new World({ ...harness, store })
  const app = await world.application()
  return { meter, store, world, app }
}

function positive(all: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(all).filter(([, count]) => count > 0))
}

function counts({ ends, deadLetters, ...meter }: Meter) {
  return {
    messages: meter.messagesAccepted,
    deliveries: meter.deliveriesAccepted,
    ...positive(ends),
    ...(Object.values(deadLetters).some((count) => count > 0) && { dead_letters: positive(deadLetters) }),
  }
}

function counting(open: Open): void {
  test('messages and deliveries are counted when they are stored, and not when they are refused', async (t) => {
    const { meter, store, world, app } = await metered(t, open)
    const [one, two] = [await world.endpoint(app), await world.endpoint(app)]
    await world.publish([one, two], { eventId: 'e1' })
    const again = await world.publication([one], { eventId: 'e1' })
    await store.publish([again, { ...again, eventId: 'e2', version: again.version - 1 }])
    assert.deepEqual(counts(meter), { messages: 1, deliveries: 2 })
    assert.equal(
      meter.publishDuration.counts.reduce((sum, each) => sum + each),
      2,
    )
  })

  test('messages that are stored together count one by one, and repeated ones apart', async (t) => {
    const { meter, store, world, app } = await metered(t, open)
    const endpoint = await world.endpoint(app)
    const once = { hash: 'h', fingerprint: 'f', ttlMs: 60_000 }
    const plain = await world.publication([endpoint])
    await store.publishTogether([plain, { ...plain, once: [once] }], null)
    await store.publishTogether([plain, { ...plain, once: [once] }], null)
    assert.deepEqual(counts(meter), { messages: 3, deliveries: 3 })
    assert.equal(meter.messagesRepeated, 1)
    const all = { hash: 'all', fingerprint: 'f', ttlMs: 60_000 }
    await store.publishTogether([plain], all)
    await store.publishTogether([plain], all)
    assert.deepEqual([meter.messagesAccepted, meter.messagesRepeated], [4, 2])
  })

  test('a message within a transaction of the caller counts once, when its commit is reported', async (t) => {
    const { meter, store, world, app } = await metered(t, open)
    const endpoint = await world.endpoint(app)
    const foreign = await world.harness.foreign()
    t.after(() => foreign.close())
    const publication = await world.publication([endpoint])
    const publish = () =>
      store.publishWithin(foreign.connection, app.id, (_app, { version }) => ({ ...publication, version }))
    await foreign.run('begin')
    await publish()
    await foreign.run('rollback')
    await foreign.run('begin')
    const enlisted = await publish()
    assert.equal(meter.messagesAccepted, 0)
    await foreign.run('commit')
    enlisted?.committed()
    enlisted?.committed()
    assert.deepEqual(counts(meter), { messages: 1, deliveries: 1 })
  })

  test('attempts and ends are counted when they are recorded, and not by a worker that was declared dead', async (t) => {
    const { meter, store, world, app } = await metered(t, open)
    const endpoint = await world.endpoint(app)
    for (let i = 0; i < 3; i++) await world.publish([endpoint])
    const worker = await world.join()
    await world.claim(worker)
    const [first, second, third] = await world.rows(endpoint)
    assert(first && second && third)
    const settlements = [
      world.settlement(endpoint, first, { state: 'delivered' }),
      world.settlement(endpoint, second, { state: 'waiting', waitMs: 60_000 }),
      world.settlement(endpoint, third, { state: 'dead', reason: 'exhausted' }),
    ]
    assert.equal(await store.settle(worker + 1000, settlements, noEffects), 'fenced')
    assert.deepEqual(counts(meter), { messages: 3, deliveries: 3 })
    assert.equal(await store.settle(worker, settlements, noEffects), 'settled')
    const ended = { delivered: 1, dead: 1, dead_letters: { exhausted: 1 } }
    assert.deepEqual(counts(meter), { messages: 3, deliveries: 3, ...ended })
    assert.equal(meter.deliveriesRetried, 1)
    assert.deepEqual(
      [...meter.attempts()].filter(({ count }) => count > 0),
      [
        { outcome: 'delivered', status: '2xx', count: 1 },
        { outcome: 'refused', status: '5xx', count: 2 },
      ],
    )
    assert.deepEqual([...meter.failing], [[endpoint.key, { app: app.key, failures: 2 }]])
  })

  test('deliveries that end without an attempt are counted: dropped, expired, coalesced, cancelled', async (t) => {
    const { meter, store, world, app } = await metered(t, open)
    const endpoint = await world.endpoint(app, { paused: true })
    const special = (change: object): Pick<Publication, 'special'> => ({
      special: [{ endpoint: endpoint.key, ...change }],
    })
    await world.publish([endpoint], special({ drop: 'overflow' }))
    const coalesce = { key: 'a', windowMs: 60_000 }
    await world.publish([endpoint], special({ coalesce }))
    await world.publish([endpoint], special({ coalesce }))
    const together = await world.publication([endpoint], special({ coalesce }))
    await store.publishTogether([together, together], null)
    await world.publish([endpoint])
    await world.publish([endpoint])
    const [row] = await world.rows(endpoint)
    assert(row)
    await store.endResting([{ endpoint: endpoint.key, app: app.key, row, reason: 'expired' }])
    await store.deleteEndpoint(app.key, endpoint.key)
    while ((await store.sweepRemoved()).more);
    assert.deepEqual(counts(meter), {
      messages: 7,
      deliveries: 7,
      expired: 1,
      dropped: 1,
      coalesced: 3,
      cancelled: 2,
      dead_letters: { overflow: 1, expired: 1 },
    })
    assert.equal((await store.counts()).pending, 0)
  })
}

function countingWide(open: Open): void {
  test('deliveries of a wide message that coalesce are counted when they are queued', async (t) => {
    const { meter, store, world, app } = await metered(t, open)
    const endpoint = await world.endpoint(app)
    const special = [{ endpoint: endpoint.key, coalesce: { key: 'a', windowMs: 60_000 } }]
    await world.publish([endpoint], { special })
    const gone = Array.from({ length: queuedAtOnce }, (_, i) => i + 1)
    await world.publish([], { app: app.key, endpoints: [...gone, endpoint.key], special })
    assert.equal(meter.ends.coalesced, 0)
    while ((await store.expand(5000)).more);
    assert.equal(meter.ends.coalesced, 1)
  })
}

for (const [dialect, open] of [
  ['sqlite', openSqliteHarness],
  ['postgres', openPostgresHarness],
] as const) {
  describe(dialect, () => {
    counting(open)
    countingWide(open)
  })
}

test('an observation counts in the first bucket whose bound is not below it', () => {
  const histogram = new Histogram([0.1, 1])
  for (const seconds of [0, 0.1, 0.5, 1, 1.01, 100]) histogram.observe(seconds)
  assert.deepEqual([...histogram.counts], [2, 2, 2])
  assert.ok(Math.abs(histogram.sum - 102.61) < 1e-9)
})
