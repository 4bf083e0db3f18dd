import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Clock } from '../../src/domain/clock.ts'
import type { DeadLetterSummary } from '../../src/domain/delivery.ts'
import type { CircuitPolicy } from '../../src/domain/flow.ts'
import type { Outcome } from '../../src/domain/outcome.ts'
import type { RetryPolicy } from '../../src/domain/retry.ts'
import { Job } from '../../src/domain/turns.ts'
import { Engine } from '../../src/engine/engine.ts'
import type { Application } from '../../src/features/applications/noun.ts'
import type { Endpoint } from '../../src/features/endpoints/rules.ts'
import { RestingSweep } from '../../src/leader/resting-sweep.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import type { NewEndpoint, Publication } from '../../src/store/store.ts'
import { type Harness, World } from '../store/conformance/harness.ts'
import { contextWith } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { engineParts, sendingBy } from './engine-under-test.ts'

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const waitingLimit = 300

const nothing = { wish: undefined, retryAfterMs: undefined, response: undefined, error: undefined }
const success: Outcome = { code: 'delivered', status: 204, durationMs: 100, ...nothing }
const failure: Outcome = { code: 'connect_refused', status: 0, durationMs: 100, ...nothing }
const circuit: CircuitPolicy = {
  failures: 5,
  ratio: 1,
  windowMs: minute,
  minimum: 1000,
  openMs: minute,
  maxOpenMs: 30 * minute,
  rampMs: 0,
}

/** The real engine and the real sweep over a real store in virtual time; every attempt takes a tenth of a second. */
class Bounded {
  readonly clock = new VirtualClock()
  readonly sent: { readonly id: string; readonly at: number }[] = []
  answer: Outcome = success
  world!: World
  app!: Application
  endpoint!: Endpoint

  static async start(t: TestContext, change: Partial<NewEndpoint>, restMs?: number): Promise<Bounded> {
    const bounded = new Bounded()
    const { clock, sent } = bounded
    const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
    // Nothing here goes behind the store's back.
    bounded.world = new World({ store, pass: (ms: number) => clock.advance(ms) } as unknown as Harness)
    bounded.app = await bounded.world.application('acme')
    bounded.endpoint = await bounded.world.endpoint(bounded.app, { concurrency: 1, ...change })
    const timers = restMs === undefined ? clock : coarse(clock, restMs)
    const engine = new Engine({
      store,
      sender: sendingBy((_target, message, onLeave, onEnd) => {
        sent.push({ id: message.id, at: clock.steady() })
        clock.soon(onLeave)
        const outcome = bounded.answer
        return clock.after(100, () => onEnd(outcome))
      }),
      ...engineParts(timers),
      leaseMs: 5 * minute,
      waitingLimit,
    })
    await engine.start()
    const sweep = new RestingSweep(store, waitingLimit)
    const sweeping = new Job(
      timers,
      () => sweep.step(),
      (error) => {
        throw error
      },
    )
    const ask = () => {
      sweeping.request()
      timers.after(15 * second, ask)
    }
    timers.after(15 * second, ask)
    t.after(async () => {
      engine.crash()
      sweeping.stop()
      await store.close()
    })
    return bounded
  }

  async publish(count: number, change: Partial<Publication> = {}): Promise<string[]> {
    const publication = await this.world.publication([this.endpoint], change)
    const answers = await this.world.store.publish(Array.from({ length: count }, () => publication))
    return answers.map((answer) => {
      assert(answer.state === 'accepted')
      return answer.id
    })
  }

  async dead(): Promise<DeadLetterSummary[]> {
    const range = { endpoint: null, from: 0, until: this.clock.now() + 1, after: null } as const
    return this.world.store.listDead(this.app.key, { ...range, order: 'ascending', limit: 10_000 })
  }

  async reasons(): Promise<Record<string, number>> {
    const counts: Record<string, number> = {}
    for (const { reason } of await this.dead()) counts[reason] = (counts[reason] ?? 0) + 1
    return counts
  }

  async waiting(): Promise<number> {
    return (await this.world.store.counts()).pending
  }
}

/** The same clock, with every wait of more than a moment rounded up: a day is then a few seconds of real time. */
function coarse(clock: VirtualClock, restMs: number): Clock {
  return {
    now: () => clock.now(),
    steady: () => clock.steady(),
    soon: (fn) => clock.soon(fn),
    afterPromises: (fn) => clock.afterPromises(fn),
    after: (ms, fn) => clock.after(ms < 200 ? ms : Math.ceil(ms / restMs) * restMs, fn),
  }
}

test('an expired message is not sent, and is dead without an attempt', async (t) => {
  const bounded = await Bounded.start(t, {})
  await bounded.publish(10)
  const late = await bounded.publish(20, { expiresInMs: 500 })
  const rest = await bounded.publish(3)
  await bounded.clock.advance(10 * second)
  assert.deepEqual(await bounded.reasons(), { expired: 20 })
  assert.deepEqual(
    bounded.sent.filter(({ id }) => late.includes(id)),
    [],
  )
  assert.deepEqual(
    bounded.sent.slice(-3).map(({ id }) => id),
    rest,
  )
  // Ending them took neither time nor turns.
  assert.ok((bounded.sent.at(-1)?.at ?? 0) < 2 * second)
  for (const { code, attempts, error } of await bounded.dead()) {
    assert.deepEqual([code, attempts, error], ['untried', 0, null])
  }
})

test('a message that expires costs a limited endpoint no token', async (t) => {
  const bounded = await Bounded.start(t, { throttleRate: 1, burst: 1, throttlePeriodSeconds: 1 })
  await bounded.publish(2)
  await bounded.publish(50, { expiresInMs: 1500 })
  const [last] = await bounded.publish(1)
  await bounded.clock.advance(4 * second)
  assert.deepEqual(await bounded.reasons(), { expired: 50 })
  assert.equal(bounded.sent.length, 3)
  assert.equal(bounded.sent.at(-1)?.id, last)
  assert.ok((bounded.sent.at(-1)?.at ?? 0) <= 2 * second + 10)
})

test('a retry that would come too late for its message is not waited for', async (t) => {
  const retry: RetryPolicy = { waits: { kind: 'list', ms: [minute, minute] }, jitter: 'none', maxAgeMs: hour }
  const bounded = await Bounded.start(t, { retry })
  bounded.answer = failure
  await bounded.publish(1, { expiresInMs: 30 * second })
  await bounded.publish(1, { expiresInMs: 90 * second })
  await bounded.clock.advance(second)
  assert.deepEqual(await bounded.reasons(), { expired: 1 })
  const [letter] = await bounded.dead()
  assert.deepEqual([letter?.attempts, letter?.code], [1, 'connect_refused'])
  await bounded.clock.advance(2 * minute)
  assert.deepEqual(await bounded.reasons(), { expired: 2 })
  assert.equal(bounded.sent.length, 3)
})

test('a delivery that has waited too long is dead, tried or not: on a slow lane, and on one that is stopped', async (t) => {
  const flow = { maxAgeMs: 2 * second }
  const bounded = await Bounded.start(t, { flow })
  await bounded.publish(50)
  await bounded.clock.advance(10 * second)
  const sent = bounded.sent.length
  assert.ok(sent > 15 && sent <= 21, `${sent} were sent in two seconds`)
  assert.deepEqual(await bounded.reasons(), { aged: 50 - sent })
  const { world, endpoint, clock } = bounded
  await world.store.updateEndpoint(endpoint.app, endpoint.key, { paused: true })
  await bounded.publish(1200)
  await bounded.publish(5, { delayMs: hour })
  await clock.advance(second)
  assert.equal(await bounded.waiting(), 1205)
  await clock.advance(20 * second)
  assert.deepEqual(await bounded.reasons(), { aged: 1250 - sent })
  assert.equal(await bounded.waiting(), 5, 'what is for later has no age yet')
  await clock.advance(hour + 20 * second)
  assert.deepEqual(await bounded.reasons(), { aged: 1255 - sent })
  assert.equal(bounded.sent.length, sent)
})

test('a message expires in a lane that is stopped, too', async (t) => {
  const bounded = await Bounded.start(t, { disabled: true })
  await bounded.publish(700, { expiresInMs: 5 * second })
  await bounded.publish(3)
  await bounded.clock.advance(25 * second)
  assert.deepEqual(await bounded.reasons(), { expired: 700 })
  assert.equal(await bounded.waiting(), 3)
})

for (const [state, change] of [
  ['slow', { throttleRate: 1, burst: 1, throttlePeriodSeconds: 1 }],
  ['paused', { paused: true }],
  ['held by its rate', { throttleRate: 1, burst: 1, throttlePeriodSeconds: 60 }],
] as const) {
  test(`the oldest give way when too many wait at an endpoint that is ${state}`, async (t) => {
    const flow = { maxWaiting: 100, overflow: 'drop_oldest' } as const
    const bounded = await Bounded.start(t, { ...change, flow })
    const ids = await bounded.publish(1500)
    await bounded.clock.advance(20 * second)
    const waiting = await bounded.waiting()
    assert.ok(waiting <= 100 && waiting >= 80, `${waiting} wait`)
    const dead = await bounded.dead()
    assert.deepEqual(await bounded.reasons(), { overflow: dead.length })
    assert.equal(waiting + dead.length + bounded.sent.length, 1500)
    const kept = new Set(ids.slice(-waiting))
    const heads = await bounded.world.store.loadSummaries(dead.map(({ message }) => message))
    for (const { id } of heads) assert.ok(!kept.has(id), 'one of the newest gave way')
  })
}

test('while as many wait as may, nothing gives way', async (t) => {
  const flow = { maxWaiting: 100, overflow: 'drop_oldest' } as const
  const bounded = await Bounded.start(t, { flow })
  await bounded.publish(100)
  await bounded.clock.advance(20 * second)
  assert.equal(bounded.sent.length, 100)
  assert.deepEqual(await bounded.dead(), [])
})

test('deliveries that wait for their retry give way, too', async (t) => {
  const retry: RetryPolicy = { waits: { kind: 'list', ms: [hour] }, jitter: 'none', maxAgeMs: 24 * hour }
  const flow = { maxWaiting: 10, overflow: 'drop_oldest' } as const
  const bounded = await Bounded.start(t, { retry, flow, concurrency: 32 })
  bounded.answer = failure
  for (let i = 0; i < 20; i++) {
    await bounded.publish(5)
    await bounded.clock.advance(second)
  }
  await bounded.clock.advance(20 * second)
  assert.equal(await bounded.waiting(), 10)
  const dead = await bounded.dead()
  assert.equal(dead.length, 90)
  for (const { attempts, reason } of dead) assert.deepEqual([attempts, reason], [1, 'overflow'])
})

test("an endpoint that only says that its oldest give way has the server's limit", async (t) => {
  const bounded = await Bounded.start(t, { paused: true, flow: { overflow: 'drop_oldest' } })
  await bounded.publish(400)
  await bounded.clock.advance(20 * second)
  assert.equal(await bounded.waiting(), 300)
})

test('a subscriber that is down for a day is left alone, and whatever is dropped is a dead letter', async (t) => {
  const flow = { maxWaiting: 60, overflow: 'drop_oldest', maxAgeMs: 2 * hour, circuit } as const
  const retry: RetryPolicy = {
    waits: { kind: 'exponential', baseMs: second, factor: 2, capMs: 10 * minute, maxAttempts: 50 },
    jitter: 'none',
    maxAgeMs: 24 * hour,
  }
  const bounded = await Bounded.start(t, { flow, retry, concurrency: 4 }, minute)
  const { clock, sent } = bounded
  bounded.answer = failure
  const ids: string[] = []
  for (let minutes = 0; minutes < 24 * 60; minutes++) {
    ids.push(...(await bounded.publish(2)))
    await clock.advance(minute)
  }
  const tries = sent.length
  const ofTheLastHour = sent.filter(({ at }) => at > 23 * hour).length
  assert.ok(ofTheLastHour <= 6, `${ofTheLastHour} tries in the last hour`)
  const waiting = await bounded.waiting()
  assert.ok(waiting <= 62, `${waiting} wait`)
  bounded.answer = success
  await clock.advance(2 * hour)
  assert.equal(await bounded.waiting(), 0)
  const dead = await bounded.dead()
  const arrived = new Set(sent.slice(tries).map(({ id }) => id))
  const heads = await bounded.world.store.loadSummaries(dead.map(({ message }) => message))
  const ends = [...arrived, ...heads.map(({ id }) => id)]
  assert.deepEqual(ends.toSorted(), ids.toSorted(), 'each has exactly one end')
  assert.deepEqual(
    [...arrived].filter((id) => !ids.slice(-62).includes(id)),
    [],
    'what arrives late is the newest',
  )
})
