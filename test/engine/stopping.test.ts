import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Outcome } from '../../src/domain/outcome.ts'
import { Engine } from '../../src/engine/engine.ts'
import type { Endpoint } from '../../src/features/endpoints/rules.ts'
import type { Target } from '../../src/sender/send.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import type { Watcher } from '../../src/store/store.ts'
import { answered } from '../answered.ts'
import { type Harness, plainEndpoint, World } from '../store/conformance/harness.ts'
import { contextWith } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { engineParts, sendingBy } from './engine-under-test.ts'

const second = 1000

/** The real engine over a real store in virtual time; every attempt takes a tenth of a second, and the receiver accepts it. */
class Delivering {
  readonly clock = new VirtualClock()
  readonly sent: { readonly target: Target; readonly id: string }[] = []
  world!: World
  /** One at a time, so that most of what is published waits. */
  endpoint!: Endpoint
  answer: Pick<Outcome, 'code' | 'status'> & Partial<Outcome> = { code: 'delivered', status: 204 }
  watcher!: Watcher
  engine!: Engine
  takesMs: (target: Target) => number = () => 100

  static async start(t: TestContext): Promise<Delivering> {
    const delivering = new Delivering()
    const { clock, sent } = delivering
    const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
    // Nothing here goes behind the store's back.
    const harness = { store, pass: (ms: number) => clock.advance(ms) } as unknown as Harness
    delivering.world = new World(harness)
    const app = await delivering.world.application('acme')
    delivering.endpoint = await delivering.world.endpoint(app, { concurrency: 1 })
    const watch = (watcher: Watcher) => {
      delivering.watcher = watcher
      store.watch(watcher)
    }
    const engine = new Engine({
      store: { ...store, watch },
      sender: sendingBy((target, message, onLeave, onEnd) => {
        sent.push({ target, id: message.id })
        clock.soon(onLeave)
        const durationMs = delivering.takesMs(target)
        const nothing = { durationMs, retryAfterMs: undefined, response: undefined, error: undefined }
        return clock.after(durationMs, () => onEnd(answered({ ...nothing, ...delivering.answer })))
      }),
      ...engineParts(clock),
    })
    delivering.engine = engine
    await engine.start()
    t.after(async () => {
      engine.crash()
      await store.close()
    })
    return delivering
  }

  async publish(count: number): Promise<void> {
    for (let i = 0; i < count; i++) await this.world.publish([this.endpoint])
  }

  async waiting(): Promise<number> {
    return (await this.world.store.counts()).pending
  }

  update(change: Parameters<World['store']['updateEndpoint']>[2]): Promise<Endpoint | undefined> {
    return this.world.store.updateEndpoint(this.endpoint.app, this.endpoint.key, change)
  }
}

test('a paused endpoint gets nothing until it is resumed, and then all that waited', async (t) => {
  const delivering = await Delivering.start(t)
  await delivering.publish(50)
  await delivering.clock.advance(second)
  const sent = delivering.sent.length
  assert(sent > 5 && sent < 15, `${sent} were sent`)
  await delivering.update({ paused: true })
  await delivering.clock.advance(100)
  const settled = delivering.sent.length
  assert(settled <= sent + 1, 'what was under way ends, and nothing more is started')
  await delivering.publish(10)
  await delivering.clock.advance(60 * second)
  assert.equal(delivering.sent.length, settled)
  await delivering.update({ paused: false })
  await delivering.clock.advance(30 * second)
  assert.equal(delivering.sent.length, 60)
  assert.equal(await delivering.waiting(), 0)
})

for (const [what, remove] of [
  ['endpoint', ({ world, endpoint }: Delivering) => world.store.deleteEndpoint(endpoint.app, endpoint.key)],
  ['application', ({ world, endpoint }: Delivering) => world.store.deleteApplication(endpoint.app)],
] as const) {
  test(`nothing more is sent for a deleted ${what}, and waiting deliveries are cancelled`, async (t) => {
    const delivering = await Delivering.start(t)
    await delivering.publish(1500)
    await delivering.clock.advance(second)
    const sent = delivering.sent.length
    assert(sent > 5 && sent < 15, `${sent} were sent`)
    assert.equal(await remove(delivering), true)
    await delivering.clock.advance(5 * second)
    assert(delivering.sent.length <= sent + 1, 'what was under way ends, and nothing more is started')
    assert.equal(await delivering.waiting(), 0)
    const { attempts, dead } = await delivering.world.store.counts()
    assert.deepEqual([attempts, dead], [delivering.sent.length, 0])
    assert.deepEqual(await delivering.world.store.sweepRemoved(), { cancelled: 0, more: false })
  })
}

test('a change of the method holds from the next attempt on', async (t) => {
  const delivering = await Delivering.start(t)
  await delivering.publish(1)
  await delivering.clock.advance(second)
  await delivering.update({ method: 'PUT' })
  await delivering.publish(1)
  await delivering.clock.advance(second)
  assert.deepEqual(
    delivering.sent.map(({ target }) => target.method),
    ['POST', 'PUT'],
  )
})

test('an expunged message is not sent, although a worker had read it already', async (t) => {
  const delivering = await Delivering.start(t)
  const { world, endpoint, clock, sent } = delivering
  // Takes everything at once, so that the worker has every body at hand.
  const other = await world.store.createEndpoint(endpoint.app, { ...plainEndpoint, concurrency: 32 })
  const published = []
  for (let i = 0; i < 20; i++) published.push(await world.publish([endpoint, other]))
  await clock.advance(250)
  const victim = published[10]
  assert(victim)
  const times = () => sent.filter(({ id }) => id === victim.id).length
  assert.equal(times(), 1)
  await world.store.expungeMessages([victim.key])
  await clock.advance(30 * second)
  assert.equal(times(), 1)
  assert.equal(sent.length, 39)
  assert.equal(await delivering.waiting(), 0)
  assert.equal((await world.store.counts()).dead, 0)
})

test('no answer is recorded of an attempt that was under way when the store could be listened to again', async (t) => {
  const delivering = await Delivering.start(t)
  const { world, clock } = delivering
  const body = Buffer.from('thanks, ann')
  delivering.answer = { code: 'refused', status: 500, error: 'ann', response: body, responseHeaders: '{"x":"ann"}' }
  const { key } = await world.publish([delivering.endpoint])
  await clock.advance(50)
  assert.equal(delivering.sent.length, 1)
  // The signal that names erased messages may have been lost.
  delivering.watcher.expunged?.()
  await clock.advance(120 * second)
  const attempts = await world.store.loadAttempts(await world.store.attemptBriefsOf(key))
  const words = attempts.map((each) => [each?.error, each?.response?.length ?? null, each?.responseHeaders])
  assert.deepEqual(words[0], ['the message may have been erased while it was being sent', null, null])
  assert.deepEqual(words[1], ['ann', body.length, { x: 'ann' }], 'the next attempt sends what the store has')
})

test('replays of a task are sent by the same worker, behind fresh deliveries', async (t) => {
  const delivering = await Delivering.start(t)
  const { world, endpoint, clock, sent } = delivering
  await delivering.publish(10)
  await clock.advance(5 * second)
  assert.equal(sent.length, 10)
  const since = { since: 0, until: clock.now() + second }
  const filter = { eventTypes: null, channel: null, tag: null, outcome: null, statusClass: null }
  const work = { type: 'endpoint.bulk-replay', input: { ...since, ...filter, endpoint: endpoint.key } } as const
  const { id } = await world.store.createTask({ app: endpoint.app, work, data: {} })
  await clock.advance(5 * second)
  assert.equal((await world.store.findTask(id))?.status, 'finished')
  assert.deepEqual(
    sent.slice(10).map((one) => one.id),
    sent.slice(0, 10).map((one) => one.id),
  )
  const attempts = (await world.store.counts()).attempts
  assert.equal(attempts, 20)
})

test('a receiver that answered 410 gets nothing more, though its settings are read before that is recorded', async (t) => {
  const delivering = await Delivering.start(t)
  delivering.answer = { code: 'refused', status: 410 }
  await delivering.publish(10)
  await delivering.clock.advance(100)
  assert.equal(delivering.sent.length, 1)
  // Results are recorded in batches, up to 15 ms later: the settings that are read now say that the endpoint is enabled.
  await delivering.update({ description: 'renamed' })
  await delivering.clock.advance(10)
  assert.equal(delivering.sent.length, 1)
  await delivering.clock.advance(60 * second)
  assert.equal(delivering.sent.length, 1)
  const [stored] = await delivering.world.store.loadEndpoints([delivering.endpoint.key])
  assert.deepEqual([stored?.disabled, stored?.disabledReason], [true, 'gone'])
})

test('an engine that stops hands a lane on while another still has an attempt under way', async (t) => {
  const delivering = await Delivering.start(t)
  const { world, endpoint, clock, sent } = delivering
  const other = await world.store.createEndpoint(endpoint.app, { ...plainEndpoint, url: 'https://quick.test/' })
  delivering.takesMs = ({ url }) => (url === other.url ? 100 : 60 * second)
  await world.publish([endpoint, other])
  await clock.advance(50)
  assert.equal(sent.length, 2)
  const stopped = delivering.engine.stop(5 * 60 * second)
  await world.publish([endpoint, other])
  const successor = await world.join()
  await clock.advance(second)
  assert.deepEqual(
    (await world.claim(successor)).map((lane) => [lane.endpoint.key, lane.clean]),
    [[other.key, true]],
  )
  await clock.advance(60 * second)
  await stopped
  assert.deepEqual(
    (await world.claim(successor)).map((lane) => [lane.endpoint.key, lane.clean]),
    [[endpoint.key, true]],
  )
  assert.equal(sent.length, 2)
})
