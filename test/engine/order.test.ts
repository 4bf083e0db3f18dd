import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Flow } from '../../src/domain/flow.ts'
import type { Outcome } from '../../src/domain/outcome.ts'
import type { RetryPolicy } from '../../src/domain/retry.ts'
import { Engine } from '../../src/engine/engine.ts'
import type { Application } from '../../src/features/applications/noun.ts'
import type { Endpoint } from '../../src/features/endpoints/rules.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import type { Publication, Store } from '../../src/store/store.ts'
import { answered } from '../answered.ts'
import { type Harness, World } from '../store/conformance/harness.ts'
import { contextWith } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { engineParts, sendingBy } from './engine-under-test.ts'

const second = 1000
const minute = 60 * second

const nothing = { retryAfterMs: undefined, response: undefined, error: undefined }
const success: Outcome = answered({ code: 'delivered', status: 204, durationMs: 100, ...nothing })
const failure: Outcome = answered({ code: 'refused', status: 500, durationMs: 100, ...nothing })
const timeout: Outcome = answered({ code: 'timeout', status: 0, durationMs: 100, ...nothing })
const gone: Outcome = answered({ code: 'refused', status: 410, durationMs: 100, ...nothing })

/** Two attempts, ten seconds apart. */
const twice: RetryPolicy = { waits: { kind: 'list', ms: [10 * second] }, jitter: 'none', maxAgeMs: 10 * minute }

/** The real engine over a real store in virtual time; every attempt takes a tenth of a second. */
class Ordered {
  readonly clock = new VirtualClock()
  /** The sent messages in their order, by the number in their bodies. */
  readonly sent: number[] = []
  /** The outcome of a message, by the number in its body. */
  readonly answers = new Map<number, Outcome>()
  /** Set, a settle is answered only when this is resolved. */
  gate: Promise<void> | undefined
  store!: Store
  world!: World
  app!: Application
  endpoint!: Endpoint
  #engine!: Engine
  #published = 0
  open = 0
  mostOpen = 0

  static async start(t: TestContext, flow: Partial<Flow>): Promise<Ordered> {
    const ordered = new Ordered()
    const { clock } = ordered
    ordered.store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
    // Nothing here goes behind the store's back.
    ordered.world = new World({ store: ordered.store } as unknown as Harness)
    ordered.app = await ordered.world.application('acme')
    ordered.endpoint = await ordered.world.endpoint(ordered.app, { concurrency: 8, retry: twice, flow })
    await ordered.startEngine()
    t.after(async () => {
      ordered.#engine.crash()
      await ordered.store.close()
    })
    return ordered
  }

  async startEngine(): Promise<void> {
    const { clock, store } = this
    const settle: Store['settle'] = async (...args) => {
      await this.gate
      return store.settle(...args)
    }
    this.#engine = new Engine({
      store: new Proxy(store, { get: (target, name) => (name === 'settle' ? settle : Reflect.get(target, name)) }),
      sender: sendingBy((_target, message, onLeave, onEnd) => {
        const n = JSON.parse(Buffer.from(message.body).toString()).n
        this.sent.push(n)
        this.mostOpen = Math.max(this.mostOpen, ++this.open)
        clock.soon(onLeave)
        return clock.after(100, () => {
          this.open--
          onEnd(this.answers.get(n) ?? success)
        })
      }),
      ...engineParts(clock),
      leaseMs: 5 * second,
    })
    await this.#engine.start()
  }

  /** Dies, and is followed by another that finds everything in the store. */
  async crash(): Promise<void> {
    this.#engine.crash()
    await this.clock.advance(6 * second)
    await this.startEngine()
  }

  /** Publishes so many, numbered on, each with the key its number is given. */
  async publish(count: number, keyOf: (n: number) => number | undefined = () => 0, delayMs = 0): Promise<number[]> {
    const publications: Publication[] = []
    for (let i = 0; i < count; i++) {
      const n = ++this.#published
      const orderKey = keyOf(n)
      const special = orderKey === undefined ? [] : [{ endpoint: this.endpoint.key, orderKey }]
      const body = Buffer.from(JSON.stringify({ n }))
      publications.push(await this.world.publication([this.endpoint], { body, special, delayMs }))
    }
    const answers = await this.store.publish(publications)
    return answers.map((answer) => (answer.state === 'accepted' ? answer.key : 0))
  }

  async change(flow: Partial<Flow>): Promise<void> {
    await this.store.updateEndpoint(this.app.key, this.endpoint.key, { flow })
  }

  async waiting(): Promise<number> {
    return (await this.store.counts()).pending
  }
}

function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i)
}

test('a first-in-first-out lane sends one at a time, and behind a head that fails nothing moves', async (t) => {
  const ordered = await Ordered.start(t, { order: 'fifo' })
  ordered.answers.set(1, failure)
  await ordered.publish(5)
  await ordered.clock.advance(9 * second)
  assert.deepEqual(ordered.sent, [1])
  ordered.answers.delete(1)
  await ordered.clock.advance(5 * second)
  assert.deepEqual(ordered.sent, [1, 1, 2, 3, 4, 5])
  assert.equal(ordered.mostOpen, 1)
  assert.equal(await ordered.waiting(), 0)
})

test('a backlog of thousands goes out in its order, though workers die meanwhile', async (t) => {
  const ordered = await Ordered.start(t, { order: 'fifo' })
  for (let i = 0; i < 4; i++) await ordered.publish(250)
  await ordered.clock.advance(20 * second)
  await ordered.crash()
  await ordered.clock.advance(30 * second)
  await ordered.crash()
  await ordered.clock.advance(100 * second)
  assert.equal(await ordered.waiting(), 0)
  // A delivery under way when a worker died comes twice, one directly behind the other.
  assert.deepEqual([...new Set(ordered.sent)], numbers(1, 1000))
  assert.deepEqual(
    ordered.sent,
    ordered.sent.toSorted((a, b) => a - b),
  )
  assert.ok(ordered.sent.length <= 1002, `${ordered.sent.length} were sent`)
})

test('the next goes only when the last one is recorded: a crash before that must not reverse them', async (t) => {
  const ordered = await Ordered.start(t, { order: 'fifo' })
  let release = () => {}
  ordered.gate = new Promise((resolve) => {
    release = resolve
  })
  await ordered.publish(2)
  await ordered.clock.advance(3 * second)
  assert.deepEqual(ordered.sent, [1])
  ordered.gate = undefined
  release()
  await ordered.clock.advance(second)
  assert.deepEqual(ordered.sent, [1, 2])
})

test('a head that waits for its retry still waits for it with the next owner, and then goes first', async (t) => {
  const ordered = await Ordered.start(t, { order: 'fifo' })
  ordered.answers.set(1, failure)
  await ordered.publish(3)
  await ordered.clock.advance(second)
  ordered.answers.delete(1)
  await ordered.crash()
  await ordered.clock.advance(second)
  assert.deepEqual(ordered.sent, [1], 'neither too early nor another')
  await ordered.clock.advance(10 * second)
  assert.deepEqual(ordered.sent, [1, 1, 2, 3])
})

test('a wait counts from when it is recorded, also while a connection that was given up is still being closed', async (t) => {
  const ordered = await Ordered.start(t, { order: 'fifo' })
  ordered.answers.set(1, timeout)
  await ordered.publish(1)
  // The attempt takes a tenth of a second, and so does hanging up.
  await ordered.clock.advance(10 * second + 90)
  assert.deepEqual(ordered.sent, [1])
  await ordered.clock.advance(60)
  assert.deepEqual(ordered.sent, [1, 1])
})

test('with keys, only deliveries with the same key wait for one that fails', async (t) => {
  const ordered = await Ordered.start(t, { order: 'key' })
  ordered.answers.set(1, failure)
  // 1, 4 and 7 have one key; 3, 6 and 9 have none.
  await ordered.publish(9, (n) => (n % 3 === 0 ? undefined : n % 3))
  await ordered.clock.advance(5 * second)
  assert.deepEqual(ordered.sent.toSorted(), [1, 2, 3, 5, 6, 8, 9])
  assert.ok(ordered.mostOpen > 1, 'different keys go at the same time')
  ordered.answers.delete(1)
  await ordered.clock.advance(10 * second)
  assert.deepEqual(ordered.sent.slice(7), [1, 4, 7])
})

test('a key that stands still with thousands behind it takes bounded memory and lets the others pass', async (t) => {
  const ordered = await Ordered.start(t, { order: 'key', deadHead: 'block' })
  ordered.answers.set(1, failure)
  await ordered.publish(1000, () => 1)
  await ordered.clock.advance(15 * second)
  assert.deepEqual(ordered.sent, [1, 1])
  await ordered.publish(500, (n) => 2 + (n % 7))
  await ordered.clock.advance(30 * second)
  assert.equal(ordered.sent.length, 502)
  for (const k of numbers(0, 6)) {
    const ofKey = ordered.sent.slice(2).filter((n) => n % 7 === k)
    assert.deepEqual(
      ofKey,
      ofKey.toSorted((a, b) => a - b),
    )
  }
})

test('a dead front is skipped by default', async (t) => {
  const ordered = await Ordered.start(t, { order: 'fifo' })
  ordered.answers.set(1, failure)
  const [first = 0] = await ordered.publish(2)
  await ordered.clock.advance(12 * second)
  assert.deepEqual(ordered.sent, [1, 1, 2])
  assert.equal((await ordered.store.findDead(ordered.endpoint.key, first))?.reason, 'exhausted')
})

test('a front that blocks waits for an operator: retried it has all its attempts, skipped it is a dead letter', async (t) => {
  const ordered = await Ordered.start(t, { order: 'fifo', deadHead: 'block' })
  const { store, clock, endpoint } = ordered
  ordered.answers.set(1, failure)
  const [first = 0] = await ordered.publish(3)
  await clock.advance(minute)
  assert.deepEqual(ordered.sent, [1, 1])
  assert.equal(await ordered.waiting(), 3)
  assert.equal((await store.commandFront(endpoint.key, null, 'retry')).state, 'stored')
  await clock.advance(minute)
  assert.deepEqual(ordered.sent, [1, 1, 1, 1])
  assert.equal((await store.commandFront(endpoint.key, null, 'skip')).state, 'stored')
  await clock.advance(second)
  assert.deepEqual(ordered.sent, [1, 1, 1, 1, 2, 3])
  const dead = await store.findDead(endpoint.key, first)
  assert.deepEqual([dead?.reason, await ordered.waiting()], ['skipped', 0])
})

test('a key that blocks is freed while the lane is busy with others', async (t) => {
  const ordered = await Ordered.start(t, { order: 'key', deadHead: 'block' })
  const { store, clock, endpoint } = ordered
  ordered.answers.set(1, failure)
  const [first = 0] = await ordered.publish(2, () => 1)
  await clock.advance(15 * second)
  assert.deepEqual(ordered.sent, [1, 1])
  await store.commandFront(endpoint.key, first, 'skip')
  await ordered.publish(1, () => 2)
  await clock.advance(second)
  assert.deepEqual(ordered.sent.toSorted(), [1, 1, 2, 3])
})

test('blocking ends when the endpoint no longer wants it, or the blocking delivery expires', async (t) => {
  const ordered = await Ordered.start(t, { order: 'fifo', deadHead: 'block' })
  ordered.answers.set(1, failure)
  ordered.answers.set(3, failure)
  await ordered.publish(2)
  await ordered.clock.advance(minute)
  assert.deepEqual(ordered.sent, [1, 1])
  await ordered.change({ deadHead: 'skip' })
  await ordered.clock.advance(second)
  assert.deepEqual(ordered.sent, [1, 1, 2])
  await ordered.change({ deadHead: 'block' })
  const [third = 0] = await ordered.publish(2)
  await ordered.clock.advance(minute)
  assert.deepEqual(ordered.sent.slice(3), [3, 3])
  // All that waits is ten minutes old by then.
  await ordered.clock.advance(11 * minute)
  assert.equal((await ordered.store.findDead(ordered.endpoint.key, third))?.reason, 'aged')
  assert.equal(await ordered.waiting(), 0)
})

test('an endpoint with a backlog may begin or cease to keep an order', async (t) => {
  const ordered = await Ordered.start(t, { order: 'fifo' })
  ordered.answers.set(1, failure)
  await ordered.publish(4)
  await ordered.clock.advance(second)
  assert.deepEqual(ordered.sent, [1])
  await ordered.change({ order: 'none' })
  await ordered.clock.advance(2 * second)
  assert.deepEqual(ordered.sent.toSorted(), [1, 2, 3, 4], 'no delivery waits for the front any more')
  ordered.answers.delete(1)
  await ordered.clock.advance(6 * second)
  assert.equal(ordered.sent.length, 4, 'what failed waits for its retry as before')
  await ordered.clock.advance(3 * second)
  assert.deepEqual(ordered.sent.slice(4), [1])

  ordered.answers.set(5, failure)
  await ordered.publish(1, () => undefined)
  await ordered.clock.advance(second)
  await ordered.change({ order: 'fifo' })
  await ordered.publish(2)
  await ordered.clock.advance(30 * second)
  assert.deepEqual(ordered.sent.slice(5), [5, 6, 7, 5], 'what waited for its retry has its place when that is due')
  assert.equal(await ordered.waiting(), 0)
})

test('a delayed message takes its place when it is due, and a replay comes last', async (t) => {
  const ordered = await Ordered.start(t, { order: 'fifo' })
  const { store, clock, endpoint } = ordered
  const [first = 0] = await ordered.publish(1)
  await clock.advance(second)
  await ordered.publish(1, () => 0, 5 * second)
  await ordered.publish(1)
  await clock.advance(4 * second)
  assert.deepEqual(ordered.sent, [1, 3])
  await store.updateEndpoint(ordered.app.key, endpoint.key, { paused: true })
  await clock.advance(2 * second)
  await store.replay([{ endpoint: endpoint.key, message: first }])
  await ordered.publish(1)
  await store.updateEndpoint(ordered.app.key, endpoint.key, { paused: false })
  await clock.advance(3 * second)
  assert.deepEqual(ordered.sent, [1, 3, 2, 4, 1])
  assert.equal(ordered.mostOpen, 1)
})

test('after a 410 the rest keeps its place until the endpoint is enabled', async (t) => {
  const ordered = await Ordered.start(t, { order: 'fifo' })
  ordered.answers.set(2, gone)
  await ordered.publish(4)
  await ordered.clock.advance(minute)
  assert.deepEqual(ordered.sent, [1, 2])
  await ordered.publish(1)
  await ordered.store.updateEndpoint(ordered.app.key, ordered.endpoint.key, { disabled: false })
  await ordered.clock.advance(5 * second)
  assert.deepEqual(ordered.sent, [1, 2, 3, 4, 5])
})

test('an expunged message at a front that waits lets the others go', async (t) => {
  const ordered = await Ordered.start(t, { order: 'fifo', deadHead: 'block' })
  ordered.answers.set(1, failure)
  const [first = 0] = await ordered.publish(2)
  await ordered.clock.advance(minute)
  await ordered.store.expungeMessages([first])
  await ordered.clock.advance(3 * minute)
  assert.deepEqual(ordered.sent, [1, 1, 2])
})

test("beyond the endpoint's queue limit, a blocked front gives way", async (t) => {
  const ordered = await Ordered.start(t, { order: 'key', deadHead: 'block', maxWaiting: 3, overflow: 'drop_oldest' })
  ordered.answers.set(1, failure)
  const [first = 0] = await ordered.publish(3)
  await ordered.clock.advance(minute)
  assert.deepEqual(ordered.sent, [1, 1])
  await ordered.publish(1)
  await ordered.clock.advance(2 * minute)
  assert.equal((await ordered.store.findDead(ordered.endpoint.key, first))?.reason, 'overflow')
  assert.deepEqual(ordered.sent, [1, 1, 2, 3, 4])
})
