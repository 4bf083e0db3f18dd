import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { AppError } from '../../src/domain/app-error.ts'
import type { Flow } from '../../src/domain/flow.ts'
import { Admission } from '../../src/intake/admission.ts'
import { Publisher } from '../../src/intake/publisher.ts'
import { Ledger } from '../../src/metrics/ledger.ts'
import { observed } from '../../src/metrics/observed-store.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import type { NewEndpoint } from '../../src/store/store.ts'
import { type Harness, World } from '../store/conformance/harness.ts'
import { contextWith } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'

const envelope = { eventType: 'a', eventId: null, channels: null, contentType: 'text/plain', delayMs: 0 }
const body = Buffer.from('x')
const limits = { perEndpoint: 5, perApplication: 1000, server: 1000, commitDelayMs: 5000 }

/** A publisher that counts, over a real store. */
async function publishing(t: TestContext) {
  const clock = new VirtualClock()
  const real = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
  t.after(() => real.close())
  const ledger = new Ledger({ store: real, clock, isTold: true })
  const admission = new Admission(limits, ledger)
  const store = observed(real, clock, [ledger, admission])
  const world = new World({ store, pass: (ms: number) => clock.advance(ms) } as unknown as Harness)
  const app = await world.application('acme')
  const publisher = new Publisher({ store, clock, admission })
  return {
    clock,
    ledger,
    store,
    app,
    endpoint: (flow: Partial<Flow>, change: Partial<NewEndpoint> = {}) => world.endpoint(app, { ...change, flow }),
    async publish() {
      const [published] = await Promise.all([publisher.publish('acme', envelope, body), clock.settle()])
      return published
    },
    async publishTogether(count: number) {
      const items = Array.from({ length: count }, () => ({ envelope, body }))
      const [published] = await Promise.all([publisher.publishTogether('acme', items), clock.settle()])
      return published
    },
    async refused(publish: () => Promise<unknown>) {
      await assert.rejects(publish, (error) => error instanceof AppError && error.code === 'overloaded')
    },
    waiting: async (endpoint: { key: number }) => (await store.readFronts(endpoint.key, 1000)).length,
  }
}

test("an endpoint's own limit refuses the whole publish, be it below the server's or above", async (t) => {
  const world = await publishing(t)
  const [small, large] = [await world.endpoint({ maxWaiting: 2 }), await world.endpoint({ maxWaiting: 8 })]
  await world.publish()
  await world.publish()
  await world.refused(() => world.publish())
  assert.deepEqual([await world.waiting(small), await world.waiting(large)], [2, 2])
  await world.store.updateEndpoint(world.app.key, small.key, { flow: { maxWaiting: 100 } })
  await world.clock.advance(1500)
  await world.publish()
  await world.publishTogether(5)
  await world.refused(() => world.publish())
  assert.equal((await world.store.counts()).messages, 8)
  assert.equal(world.ledger.waiting, 16)
})

test('an endpoint that takes nothing more is passed over, with a dead letter, and the others get the message', async (t) => {
  const world = await publishing(t)
  const [full, free] = [
    await world.endpoint({ maxWaiting: 3, overflow: 'drop_new' }),
    await world.endpoint({ maxWaiting: 100 }),
  ]
  const first = await world.publishTogether(5)
  const last = await world.publish()
  assert.deepEqual([await world.waiting(full), await world.waiting(free)], [3, 6])
  for (const { key } of [...first.slice(3), last]) {
    const letter = await world.store.findDead(full.key, key)
    assert.deepEqual([letter?.reason, letter?.code, letter?.attempts], ['overflow', 'untried', 0])
  }
  assert.equal((await world.store.counts()).dead, 3)
  assert.equal(world.ledger.waitingAt(full.key), 3, 'what is dead does not wait')
  const [row] = await world.store.readFronts(full.key, 1)
  assert(row)
  await world.store.endResting([{ endpoint: full.key, app: world.app.key, row, reason: 'aged' }])
  await world.publish()
  assert.equal(await world.waiting(full), 3)
  assert.equal((await world.store.counts()).dead, 4)
})

test('an endpoint whose oldest give way takes everything, within the limits of application and server', async (t) => {
  const world = await publishing(t)
  const endpoint = await world.endpoint({ maxWaiting: 2, overflow: 'drop_oldest' })
  await world.publishTogether(900)
  assert.equal(await world.waiting(endpoint), 900)
  await world.refused(() => world.publishTogether(101))
})

test('a message for a disabled endpoint waits, or is dead if the endpoint says so', async (t) => {
  const world = await publishing(t)
  const holds = await world.endpoint({}, { disabled: true })
  const drops = await world.endpoint({ whileDisabled: 'drop', maxWaiting: 1 })
  await world.publish()
  await world.store.updateEndpoint(world.app.key, drops.key, { disabled: true })
  await world.clock.advance(1500)
  const { key } = await world.publish()
  assert.deepEqual([await world.waiting(holds), await world.waiting(drops)], [2, 1])
  const letter = await world.store.findDead(drops.key, key)
  assert.deepEqual([letter?.reason, letter?.code, letter?.attempts], ['disabled', 'untried', 0])
  await world.store.updateEndpoint(world.app.key, drops.key, { disabled: false, flow: { maxWaiting: 2 } })
  await world.publish()
  assert.deepEqual([await world.waiting(holds), await world.waiting(drops)], [3, 2])
  assert.equal((await world.store.counts()).dead, 1)
})

test('a dropped delivery can be sent again', async (t) => {
  const world = await publishing(t)
  const endpoint = await world.endpoint({ maxWaiting: 1, overflow: 'drop_new' })
  await world.publish()
  const { key } = await world.publish()
  assert.deepEqual(await world.store.replay([{ endpoint: endpoint.key, message: key }]), [
    { endpoint: endpoint.key, message: key },
  ])
  assert.equal(await world.waiting(endpoint), 2)
  assert.equal((await world.store.counts()).dead, 0)
})

test('a message carries its time to live into every queue', async (t) => {
  const world = await publishing(t)
  const [plain, special] = [await world.endpoint({}), await world.endpoint({ order: 'fifo' })]
  const published = new Publisher({ store: world.store, clock: world.clock })
  const answer = published.publish('acme', { ...envelope, expiresInMs: 5000 }, body)
  await world.clock.settle()
  const { id } = await answer
  for (const { key } of [plain, special]) {
    const [row] = await world.store.readFronts(key, 1)
    assert.equal(row?.expiresInMs, 5000)
  }
  const message = await world.store.findMessage(world.app.key, id)
  assert.equal(message?.expiresAt, world.clock.now() + 5000)
})
