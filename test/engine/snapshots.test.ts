import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Message } from '../../src/domain/delivery.ts'
import { defaultCircuitPolicy } from '../../src/domain/health.ts'
import type { Outcome } from '../../src/domain/outcome.ts'
import type { RetryPolicy } from '../../src/domain/retry.ts'
import { Engine } from '../../src/engine/engine.ts'
import type { Endpoint, EndpointState } from '../../src/features/endpoints/rules.ts'
import { type ExplainedDelivery, type ExplainedEndpoint, Explainer } from '../../src/features/why/service.ts'
import { Ledger } from '../../src/metrics/ledger.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { type NewEndpoint, StoreTrouble } from '../../src/store/store.ts'
import { answered } from '../answered.ts'
import { type Harness, World } from '../store/conformance/harness.ts'
import { contextWith } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { engineParts, sendingBy, serverDefaults } from './engine-under-test.ts'

const second = 1000
const plain = { retryAfterMs: undefined, response: undefined, error: undefined, durationMs: 1 }

/** The real engine over a real store in virtual time. Attempts hang until they are answered. */
class Delivering {
  readonly clock = new VirtualClock()
  readonly #open = new Map<string, (outcome: Outcome) => void>()
  world!: World
  explainer!: Explainer
  engine!: Engine
  /** Replaces storing of answers, where a test sets it. */
  refusal: (() => Promise<never>) | undefined

  static async start(t: TestContext, limits = { inFlight: 64, inFlightPerApp: 64 }): Promise<Delivering> {
    const delivering = new Delivering()
    const { clock } = delivering
    const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
    const harness = { store, pass: (ms: number) => clock.advance(ms) } as unknown as Harness
    delivering.world = new World(harness)
    delivering.explainer = new Explainer(store, clock, serverDefaults, new Ledger({ store, clock }))
    const answerLanes: typeof store.answerLanes = (...args) => delivering.refusal?.() ?? store.answerLanes(...args)
    delivering.engine = new Engine({
      store: { ...store, answerLanes },
      sender: sendingBy((_target, message, onLeave, onEnd) => {
        clock.soon(onLeave)
        delivering.#open.set(message.id, onEnd)
        return () => {}
      }),
      ...engineParts(clock),
      limits,
    })
    await clock.advance(second)
    await delivering.engine.start()
    t.after(async () => {
      delivering.engine.crash()
      await store.close()
    })
    return delivering
  }

  async endpoint(change: Partial<NewEndpoint>): Promise<Endpoint> {
    return this.world.endpoint(await this.world.application(), change)
  }

  async publish(endpoint: Endpoint, n: number): Promise<Message[]> {
    const messages: Message[] = []
    for (let i = 0; i < n; i++) {
      const { id } = await this.world.publish([endpoint])
      messages.push((await this.world.store.findMessage(endpoint.app, id)) as Message)
    }
    await this.clock.advance(10)
    return messages
  }

  /** Every attempt under way ends so, as does each that begins meanwhile. */
  async answer(outcome: Partial<Outcome> & Pick<Outcome, 'code' | 'status'>): Promise<void> {
    for (const [id, end] of this.#open) {
      this.#open.delete(id)
      end(answered({ ...plain, ...outcome }))
    }
    await this.clock.advance(100)
  }

  async explain(endpoint: Endpoint): Promise<ExplainedEndpoint> {
    return this.#told(this.explainer.endpoint(endpoint))
  }

  async explainOne(message: Message | undefined, endpoint: Endpoint): Promise<ExplainedDelivery> {
    return this.#told(this.explainer.delivery(message as Message, endpoint))
  }

  async state(endpoint: Endpoint): Promise<EndpointState> {
    return this.#told(this.explainer.state(endpoint))
  }

  async #told<T>(told: Promise<T>): Promise<T> {
    await this.clock.advance(600)
    return told
  }
}

test('a snapshot has the number of attempts in flight, and their deliveries', async (t) => {
  const delivering = await Delivering.start(t)
  const endpoint = await delivering.endpoint({ concurrency: 1 })
  const [first, , third] = await delivering.publish(endpoint, 3)
  const told = await delivering.explain(endpoint)
  assert.deepEqual([told.why.reason, told.lane.queue.waiting, told.lane.live?.snapshot.inFlight], ['in_flight', 3, 1])
  assert.match(
    told.why.detail,
    /^1 of 1 attempts are under way, the longest for 0 s\. The next starts when one ends\.$/,
  )
  const sending = await delivering.explainOne(first, endpoint)
  assert.equal(sending.why.reason, 'sending')
  assert.match(sending.why.detail, /^An attempt is under way, for 0\.6 s so far\.$/)
  const behind = await delivering.explainOne(third, endpoint)
  assert.deepEqual(
    behind.why.blockers.map(({ reason }) => reason),
    ['behind_others', 'in_flight'],
  )
  await delivering.answer({ code: 'delivered', status: 200 })
  assert.equal((await delivering.explainOne(first, endpoint)).why.reason, 'delivered')
})

test('an endpoint without a rate follows the default of its application, also when that changes', async (t) => {
  const delivering = await Delivering.start(t)
  const endpoint = await delivering.endpoint({})
  const { store } = delivering.world
  await store.updateApplication(endpoint.app, { settings: { defaultRate: 1, defaultPeriodSeconds: 60 } })
  const [, next, last] = await delivering.publish(endpoint, 3)
  await delivering.answer({ code: 'delivered', status: 200 })
  const limited = await delivering.explain(endpoint)
  assert.equal(limited.why.reason, 'rate_limited')
  assert.match(limited.why.detail, /rate limit of 1\/min, the default of the application\./)
  assert.deepEqual([limited.lane.throttleRate, limited.lane.rateFrom], [1, 'application'])
  assert.equal(await delivering.state(endpoint), 'throttled')
  assert.notEqual((await delivering.explainOne(next, endpoint)).why.reason, 'sending')
  await store.updateApplication(endpoint.app, { settings: { defaultRate: null } })
  // The lane may rest until its next token, and then sends without a limit.
  await delivering.clock.advance(61 * second)
  for (const message of [next, last]) {
    assert.equal((await delivering.explainOne(message, endpoint)).why.reason, 'sending')
  }
})

test('a snapshot has a rate limit, a Retry-After and a retry to the millisecond', async (t) => {
  const delivering = await Delivering.start(t)
  const endpoint = await delivering.endpoint({ throttleRate: 1, throttlePeriodSeconds: 60, burst: 1 })
  await delivering.publish(endpoint, 1)
  await delivering.answer({ code: 'delivered', status: 200 })
  const [next] = await delivering.publish(endpoint, 1)
  const limited = await delivering.explain(endpoint)
  assert.equal(limited.why.reason, 'rate_limited')
  const token = limited.why.nextAt as number
  const startedAt = delivering.clock.now()
  await delivering.clock.advance(token - startedAt - 5)
  assert.notEqual((await delivering.explainOne(next, endpoint)).why.reason, 'sending')
  await delivering.clock.advance(5)
  assert.equal((await delivering.explainOne(next, endpoint)).why.reason, 'sending')

  await delivering.answer({ code: 'refused', status: 429, retryAfterMs: 90_000 })
  const held = await delivering.explainOne(next, endpoint)
  assert.deepEqual(
    held.why.blockers
      .map(({ reason }) => reason)
      .toSorted()
      .slice(0, 1),
    ['held'],
  )
  assert.ok(held.why.nextAt !== null && held.why.nextAt - delivering.clock.now() > 80_000)
})

test('a lane that waits for slots of others says so', async (t) => {
  const delivering = await Delivering.start(t, { inFlight: 2, inFlightPerApp: 2 })
  const endpoint = await delivering.endpoint({ concurrency: 8 })
  await delivering.publish(endpoint, 5)
  const { why } = await delivering.explain(endpoint)
  assert.equal(why.reason, 'crowded')
})

test('a lane without an owner is explained by its stored state, without waiting', async (t) => {
  const delivering = await Delivering.start(t)
  const endpoint = await delivering.endpoint({ paused: true })
  await delivering.publish(endpoint, 2)
  const { why, lane } = await delivering.explainer.endpoint(endpoint)
  assert.deepEqual([why.reason, lane.live, lane.silent, lane.queue.waiting], ['paused', null, false, 2])
})

test('an owner that cannot answer is waited for half a second, and said to be silent', async (t) => {
  const delivering = await Delivering.start(t)
  const endpoint = await delivering.endpoint({ concurrency: 4 })
  await delivering.publish(endpoint, 2)
  delivering.refusal = () => Promise.reject(new StoreTrouble('busy'))
  const before = delivering.clock.steady()
  let toldAt = 0
  const told = delivering.explainer.endpoint(endpoint).finally(() => {
    toldAt = delivering.clock.steady()
  })
  await delivering.clock.advance(2000)
  const { why, lane } = await told
  assert.deepEqual([why.reason, lane.live, lane.silent], ['owner_silent', null, true])
  assert.ok(toldAt - before >= 500 && toldAt - before < 600, `${toldAt - before} ms`)
  // It goes on delivering all the same, and answers the next time.
  delivering.refusal = undefined
  assert.equal((await delivering.explain(endpoint)).lane.live?.snapshot.inFlight, 2)
})

test('with keys, a front that blocks is named, also with a delayed message behind it', async (t) => {
  const delivering = await Delivering.start(t)
  const retry: RetryPolicy = { waits: { kind: 'list', ms: [] }, jitter: 'none', maxAgeMs: 3600 * second }
  const endpoint = await delivering.endpoint({ retry, flow: { order: 'key', deadHead: 'block' } })
  const special = [{ endpoint: endpoint.key, orderKey: 1 }]
  const publish = (delayMs: number) => delivering.world.publish([endpoint], { special, delayMs })
  const { id } = await publish(0)
  await delivering.clock.advance(10)
  await delivering.answer({ code: 'refused', status: 500 })
  await publish(second)
  await delivering.clock.advance(2 * second)
  const { why } = await delivering.explain(endpoint)
  assert.deepEqual([why.reason, why.nextAt], ['head_blocked', null])
  assert.match(why.detail, new RegExp(id))
})

test('an earlier snapshot is not taken for an answer', async (t) => {
  const delivering = await Delivering.start(t)
  const endpoint = await delivering.endpoint({ concurrency: 4 })
  await delivering.publish(endpoint, 1)
  assert.notEqual((await delivering.explain(endpoint)).lane.live, null)
  delivering.engine.crash()
  const { lane, why } = await delivering.explain(endpoint)
  assert.deepEqual([lane.live, lane.silent, why.reason], [null, true, 'owner_silent'])
})

test('the state of an endpoint follows its receiver: active, failing, circuit open, active again', async (t) => {
  const delivering = await Delivering.start(t)
  const circuit = { ...defaultCircuitPolicy, failures: 2, openMs: 60_000, rampMs: 0 }
  const retry: RetryPolicy = { waits: { kind: 'list', ms: [second, second, second] }, jitter: 'none', maxAgeMs: 1e9 }
  const endpoint = await delivering.endpoint({ concurrency: 1, retry, flow: { circuit } })
  await delivering.publish(endpoint, 1)
  assert.equal(await delivering.state(endpoint), 'active')
  await delivering.answer({ code: 'refused', status: 500 })
  // The owner knows of the failure at once; the store learns of it later.
  assert.equal(await delivering.state(endpoint), 'failing')
  await delivering.clock.advance(second)
  await delivering.answer({ code: 'refused', status: 500 })
  assert.equal(await delivering.state(endpoint), 'circuit_open')
  // The time of the open circuit has passed, and its probe is under way.
  await delivering.clock.advance(80 * second)
  assert.equal(await delivering.state(endpoint), 'circuit_open')
  await delivering.answer({ code: 'delivered', status: 200 })
  assert.equal(await delivering.state(endpoint), 'active')
})

test('the state of an endpoint names its limits: throttled only while deliveries wait, held by Retry-After', async (t) => {
  const delivering = await Delivering.start(t)
  const endpoint = await delivering.endpoint({ throttleRate: 1, throttlePeriodSeconds: 5, burst: 1 })
  await delivering.publish(endpoint, 1)
  await delivering.answer({ code: 'delivered', status: 200 })
  assert.equal(await delivering.state(endpoint), 'active', 'the bucket is empty, and no delivery waits for it')
  await delivering.publish(endpoint, 1)
  assert.equal(await delivering.state(endpoint), 'throttled')
  await delivering.clock.advance(5 * second)
  await delivering.answer({ code: 'refused', status: 429, retryAfterMs: 90_000 })
  assert.equal(await delivering.state(endpoint), 'held')
})
