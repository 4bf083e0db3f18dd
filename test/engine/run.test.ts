import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Outcome } from '../../src/domain/outcome.ts'
import type { RetryPolicy } from '../../src/domain/retry.ts'
import { Engine } from '../../src/engine/engine.ts'
import type { Endpoint } from '../../src/features/endpoints/rules.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import type { NewEndpoint, Store } from '../../src/store/store.ts'
import { answered } from '../answered.ts'
import { type Harness, World } from '../store/conformance/harness.ts'
import { contextWith } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { engineParts, sendingBy } from './engine-under-test.ts'

const second = 1000
const nothing = { retryAfterMs: undefined, response: undefined }

/** The engine of a process that runs for a while and ends, again and again, over a store that stays, in virtual time. */
class Runs {
  readonly clock: VirtualClock
  readonly #store: Store
  readonly world: World
  readonly endpoint: Endpoint
  /** When each request began, since the beginning of its run. */
  sent: number[] = []
  answerAfterMs = 0
  answer: Pick<Outcome, 'code' | 'status'> = { code: 'delivered', status: 204 }

  private constructor(store: Store, world: World, endpoint: Endpoint, clock: VirtualClock) {
    this.#store = store
    this.world = world
    this.endpoint = endpoint
    this.clock = clock
  }

  static async begin(t: TestContext, change: Partial<NewEndpoint>): Promise<Runs> {
    const clock = new VirtualClock()
    await clock.advance(second)
    const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
    t.after(() => store.close())
    const world = new World({ store, pass: (ms: number) => clock.advance(ms) } as unknown as Harness)
    const app = await world.application('acme')
    const endpoint = await world.endpoint(app, change)
    return new Runs(store, world, endpoint, clock)
  }

  async publish(count: number): Promise<number[]> {
    const keys: number[] = []
    for (let i = 0; i < count; i++) keys.push((await this.world.publish([this.endpoint])).key)
    return keys
  }

  /** One run: attempts may be under way for `ms`. Answers whether there was something left that the run had no time for. */
  async run(ms: number, mostNeededMs = (ms * 2) / 3): Promise<boolean> {
    const { clock } = this
    const beganAt = clock.steady()
    this.sent = []
    const parts = engineParts(clock)
    const engine = new Engine({
      store: this.#store,
      sender: sendingBy((_target, _message, onLeave, onEnd) => {
        this.sent.push(clock.steady() - beganAt)
        clock.soon(onLeave)
        const startedAt = clock.steady()
        const end = (outcome: Outcome) => {
          cancel()
          onEnd({ ...outcome, durationMs: clock.steady() - startedAt })
        }
        const late = this.answerAfterMs > timeoutMs
        const outcome = late ? ({ code: 'timeout', status: 0 } as const) : this.answer
        const whole = { ...nothing, error: undefined, durationMs: 0 }
        const cancel = clock.after(Math.min(this.answerAfterMs, timeoutMs), () =>
          end(answered({ ...whole, ...outcome })),
        )
        return () => end(answered({ ...whole, code: 'aborted', status: 0 }))
      }),
      ...parts,
      limits: { ...parts.limits, run: { endsAt: beganAt + ms, mostNeededMs } },
      health: { circuit: { ...circuit, failures: 1 }, disableAfterMs: 0 },
    })
    await engine.start()
    await clock.advance(ms - 1)
    const lacksTime = engine.lacksTime(second)
    const stopped = engine.stop(0)
    await clock.advance(second)
    await stopped
    return lacksTime
  }

  async attempts(message: number): Promise<[number, string][]> {
    return (await this.world.store.attemptsOf(message)).map(({ n, code }) => [n, code])
  }
}

const timeoutMs = 15 * second
/** One attempt, and no other. */
const once: RetryPolicy = { waits: { kind: 'list', ms: [] }, jitter: 'none', maxAgeMs: 86_400_000 }
const circuit = {
  ...{ failures: 1, ratio: 1, windowMs: 60_000, minimum: 1000 },
  ...{ openMs: 600_000, maxOpenMs: 600_000, rampMs: 0 },
}

test('an attempt may take all the time that is left, and is recorded as what it is', async (t) => {
  const runs = await Runs.begin(t, { timeoutMs, concurrency: 16 })
  const keys = await runs.publish(4)
  runs.answerAfterMs = 9 * second
  await runs.run(9.5 * second)
  for (const key of keys) assert.deepEqual(await runs.attempts(key), [[1, 'delivered']])
})

test('an attempt at the end of the run is recorded, uses up none of its delivery and says nothing about the receiver', async (t) => {
  const runs = await Runs.begin(t, { timeoutMs, retry: once })
  const [key = 0] = await runs.publish(1)
  runs.answerAfterMs = 11 * second
  await runs.run(9.5 * second)
  assert.deepEqual(await runs.attempts(key), [[1, 'aborted']])
  const { attempts, priorAttempts } = await runs.world.head(runs.endpoint, 1)
  assert.deepEqual([attempts, priorAttempts], [0, 1])
  // The endpoint allows one attempt, and its circuit opens at the first failure: both are as before.
  await runs.run(12 * second)
  assert.deepEqual(await runs.attempts(key), [
    [1, 'aborted'],
    [2, 'delivered'],
  ])
})

test('no attempt starts in a rest that is too short for it, and the next run goes on', async (t) => {
  const runs = await Runs.begin(t, { timeoutMs, throttleRate: 1, burst: 1, concurrency: 16 })
  await runs.publish(60)
  runs.answerAfterMs = 5 * second
  assert.equal(await runs.run(9 * second, 6 * second), true, 'the rest is known')
  assert.ok(runs.sent.length >= 2 && runs.sent.every((at) => at <= 3 * second), `sent at ${runs.sent}`)
  // A timeout that is shorter than the rest is time enough.
  assert.equal(await runs.run(40 * second, 30 * second), true)
  const last = runs.sent.at(-1) ?? 0
  assert.ok(last > 20 * second && last <= 25 * second, `sent at ${runs.sent}`)
})

test('an endpoint that has answered within a second is sent to until two seconds before the end', async (t) => {
  const runs = await Runs.begin(t, { timeoutMs, throttleRate: 1, burst: 1 })
  await runs.publish(60)
  runs.answerAfterMs = 50
  await runs.run(30 * second)
  const last = runs.sent.at(-1) ?? 0
  assert.ok(last > 26 * second && last <= 28 * second, `sent at ${runs.sent}`)
})

test('behind a receiver that hangs, each delivery has its turn, and none is sent twice before', async (t) => {
  const runs = await Runs.begin(t, { timeoutMs, concurrency: 16 })
  const keys = await runs.publish(40)
  runs.answerAfterMs = Number.POSITIVE_INFINITY
  for (let i = 0; i < 3; i++) {
    await runs.run(9.5 * second)
    await runs.clock.advance(50 * second)
  }
  const counts = await Promise.all(keys.map(async (key) => (await runs.attempts(key)).length))
  assert.ok(
    counts.every((count) => count >= 1),
    `${counts}`,
  )
  assert.ok(counts.reduce((sum, count) => sum + count) <= 48, `${counts}`)
})

test('in an ordered lane the delivery keeps its place and all its attempts', async (t) => {
  const runs = await Runs.begin(t, { timeoutMs, retry: once, flow: { order: 'fifo' } })
  const special = [{ endpoint: runs.endpoint.key, orderKey: 0 }]
  const first = (await runs.world.publish([runs.endpoint], { special })).key
  const behind = (await runs.world.publish([runs.endpoint], { special })).key
  runs.answerAfterMs = 11 * second
  await runs.run(9.5 * second)
  assert.equal(runs.sent.length, 1)
  runs.answerAfterMs = second
  await runs.run(12 * second)
  assert.deepEqual(await runs.attempts(first), [
    [1, 'aborted'],
    [2, 'delivered'],
  ])
  assert.deepEqual(await runs.attempts(behind), [[1, 'delivered']])
})
