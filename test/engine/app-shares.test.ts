import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Outcome } from '../../src/domain/outcome.ts'
import { Engine } from '../../src/engine/engine.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import type { Store, Watcher } from '../../src/store/store.ts'
import { plainEndpoint } from '../store/conformance/harness.ts'
import { contextWith } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { engineParts, sendingBy } from './engine-under-test.ts'

const second = 1000
const leaseMs = 3 * second
const success: Outcome = {
  ...{ code: 'delivered', status: 204, durationMs: 10 },
  ...{ wish: undefined, retryAfterMs: undefined, response: undefined, error: undefined },
}

/** Workers over one store, whose attempts take a while, and all that arrived. */
class Fleet {
  readonly clock = new VirtualClock()
  readonly engines: Engine[] = []
  readonly arrivals: { readonly at: number; readonly worker: number; readonly endpoint: string }[] = []
  inFlight = 0
  most = 0
  readonly #watchers: Watcher[] = []
  readonly #attemptMs: number
  #store!: Store

  constructor(attemptMs: number) {
    this.#attemptMs = attemptMs
  }

  async open(t: TestContext): Promise<Store> {
    this.#store = await openSqliteStore(contextWith(this.clock), { path: ':memory:', role: 'owner' })
    const tell = (call: (watcher: Watcher) => void) => {
      for (const watcher of this.#watchers) call(watcher)
    }
    this.#store.watch({
      rows: (...args) => tell((watcher) => watcher.rows(...args)),
      lanes: () => tell((watcher) => watcher.lanes()),
      settings: (...args) => tell((watcher) => watcher.settings(...args)),
      workers: () => tell((watcher) => watcher.workers?.()),
    })
    t.after(async () => {
      for (const engine of this.engines) engine.crash()
      await this.#store.close()
    })
    return this.#store
  }

  async start(): Promise<void> {
    const worker = this.engines.length
    const watch: Store['watch'] = (watcher) => void this.#watchers.push(watcher)
    const engine = new Engine({
      ...engineParts(this.clock),
      leaseMs,
      store: new Proxy(this.#store, { get: (target, name) => (name === 'watch' ? watch : Reflect.get(target, name)) }),
      sender: sendingBy(({ url }, _message, onLeave, onEnd) => {
        this.clock.soon(() => {
          onLeave()
          this.arrivals.push({ at: this.clock.steady(), worker, endpoint: url })
          this.most = Math.max(this.most, ++this.inFlight)
        })
        return this.clock.after(this.#attemptMs, () => {
          this.inFlight--
          onEnd(success)
        })
      }),
    })
    this.engines.push(engine)
    await engine.start()
  }

  /** An application with endpoints that have deliveries waiting. */
  async busy(limits: { throttleRate?: number; maxInFlight?: number }, endpoints: number, each: number) {
    const { throttleRate = null, maxInFlight } = limits
    const settings = maxInFlight === undefined ? {} : { maxInFlight }
    const app = await this.#store.createApplication({ name: 'Acme', uid: null, throttleRate, metadata: {}, settings })
    const keys: number[] = []
    for (let n = 0; n < endpoints; n++) {
      const url = `https://receiver.test/${app.key}/${n}`
      keys.push((await this.#store.createEndpoint(app.key, { ...plainEndpoint, url, concurrency: 50 })).key)
    }
    const { version = 0 } = (await this.#store.subscriptions(app.key)) ?? {}
    const message = {
      ...{ app: app.key, version, eventType: 'x', eventId: null, channels: null, contentType: 'application/json' },
      ...{ body: Buffer.from('{}'), endpoints: keys, delayMs: 0 },
    }
    await this.#store.publish(Array.from({ length: each }, () => message))
    return app
  }

  /** Arrivals in a span. */
  between(from: number, until: number): number {
    return this.arrivals.filter(({ at }) => at >= from && at < until).length
  }

  /** In any window, no more arrives than a rate per second allows, and what may be saved up. */
  assertRate(rate: number, burst: number): void {
    for (const [i, { at: from }] of this.arrivals.entries()) {
      for (let j = i; j < this.arrivals.length; j++) {
        const at = this.arrivals[j]?.at as number
        const excess = j - i + 1 - burst - (rate * (at - from)) / second
        assert.ok(excess <= 1e-6, `${excess.toFixed(2)} too many from ${from} to ${at}`)
      }
    }
  }
}

test('one busy lane among five workers gets all of the rate of its application', async (t) => {
  const fleet = new Fleet(10)
  await fleet.open(t)
  for (let n = 0; n < 5; n++) await fleet.start()
  await fleet.clock.advance(leaseMs)
  await fleet.busy({ throttleRate: 50 }, 1, 1000)
  await fleet.clock.advance(10 * second)
  const sent = fleet.between(leaseMs + second, leaseMs + 9 * second)
  assert.ok(sent >= 0.97 * 400, `${sent} of 400`)
  fleet.assertRate(50, 5)
})

test('one busy lane among five workers gets all attempts that its application may have under way', async (t) => {
  const fleet = new Fleet(100)
  await fleet.open(t)
  for (let n = 0; n < 5; n++) await fleet.start()
  await fleet.busy({ maxInFlight: 4 }, 1, 1000)
  await fleet.clock.advance(10 * second)
  assert.equal(fleet.most, 4)
  const sent = fleet.between(second, 9 * second)
  assert.ok(sent >= 0.95 * 4 * 80, `${sent} of ${4 * 80}`)
})

test('lanes of several workers share a limit, and the last busy one gets all of it', async (t) => {
  const fleet = new Fleet(10)
  await fleet.open(t)
  for (let n = 0; n < 3; n++) await fleet.start()
  await fleet.busy({ throttleRate: 30 }, 6, 60)
  await fleet.clock.advance(20 * second)
  const workers = new Set(fleet.arrivals.map(({ worker }) => worker))
  assert.ok(workers.size > 1, `${[...workers]} sent`)
  assert.equal(fleet.arrivals.length, 360)
  assert.ok((fleet.arrivals.at(-1)?.at ?? 0) <= 14 * second, `the last at ${fleet.arrivals.at(-1)?.at}`)
  fleet.assertRate(30, 3)
})

test('a limit of two serves the lanes of five workers in turns, and never more than two at once', async (t) => {
  const fleet = new Fleet(100)
  await fleet.open(t)
  for (let n = 0; n < 5; n++) await fleet.start()
  await fleet.busy({ maxInFlight: 2 }, 10, 20)
  await fleet.clock.advance(30 * second)
  assert.equal(fleet.most, 2)
  const soon = new Set(fleet.arrivals.filter(({ at }) => at < 8 * second).map(({ endpoint }) => endpoint))
  assert.equal(soon.size, 10, 'lanes that got something within eight seconds')
  assert.equal(fleet.arrivals.length, 200)
})

test('a worker that dies takes nothing of a limit along, and the others stay within it', async (t) => {
  const fleet = new Fleet(10)
  await fleet.open(t)
  for (let n = 0; n < 2; n++) await fleet.start()
  await fleet.busy({ throttleRate: 40 }, 4, 400)
  await fleet.clock.advance(5 * second)
  fleet.engines[0]?.crash()
  const { clock } = fleet
  await clock.advance(10 * second)
  const sent = fleet.between(10 * second, 15 * second)
  assert.ok(sent >= 0.97 * 200, `${sent} of 200 after the death`)
  fleet.assertRate(40, 4)
})
