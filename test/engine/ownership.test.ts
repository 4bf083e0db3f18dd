import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Outcome } from '../../src/domain/outcome.ts'
import { Engine } from '../../src/engine/engine.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { type Store, StoreTrouble, type Watcher } from '../../src/store/store.ts'
import { type Harness, plainEndpoint, World } from '../store/conformance/harness.ts'
import { contextWith } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { engineParts, sendingBy, serverDefaults } from './engine-under-test.ts'

const second = 1000
const success: Outcome = {
  ...{ code: 'delivered', status: 204, durationMs: 10 },
  ...{ wish: undefined, retryAfterMs: undefined, response: undefined, error: undefined },
}

test('a lane released while a claim is under way has one owner afterwards', async (t) => {
  const clock = new VirtualClock()
  const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
  const world = new World({ store } as unknown as Harness)
  const sent: string[] = []
  const engines: Engine[] = []
  const watchers: Watcher[] = []
  store.watch({
    rows: (...args) => {
      for (const watcher of watchers) watcher.rows(...args)
    },
    lanes: () => {
      for (const watcher of watchers) watcher.lanes()
    },
    settings: (...args) => {
      for (const watcher of watchers) watcher.settings(...args)
    },
  })
  t.after(async () => {
    for (const engine of engines) engine.crash()
    await store.close()
  })

  async function start(claim: Store['claim'] = store.claim): Promise<void> {
    const over: Partial<Store> = { claim, watch: (watcher) => void watchers.push(watcher) }
    const engine = new Engine({
      store: new Proxy(store, { get: (target, name) => Reflect.get(name in over ? over : target, name) }),
      sender: sendingBy((_target, message, onLeave, onEnd) => {
        sent.push(message.id)
        clock.soon(onLeave)
        return clock.after(10, () => onEnd(success))
      }),
      ...engineParts(clock),
      onTrouble: (error) => {
        if (!(error instanceof StoreTrouble)) throw error
      },
    })
    engines.push(engine)
    await engine.start()
  }

  // Nothing came of a claim, so the next one also asks for what is owned; its answer takes its time.
  let fails = false
  let isAsked = false
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>()
  const claim: Store['claim'] = async (worker, limit, ownedToo) => {
    if (fails) {
      fails = false
      throw new StoreTrouble('busy')
    }
    // Once another is there, that one is faster.
    const claimed = await store.claim(worker, engines.length > 1 ? 0 : limit, ownedToo)
    if (ownedToo) {
      isAsked = claimed.lanes.length === 1
      await answered
    }
    return claimed
  }
  await start(claim)
  const app = await world.application('acme')
  const endpoint = await world.endpoint(app, {})
  const { id: first } = await world.publish([endpoint])
  await clock.advance(100)
  fails = true
  await clock.advance(second)
  const { id: next } = await world.publish([endpoint])
  await clock.advance(second)
  assert.ok(isAsked, 'the lane is still owned when that is asked')
  await store.updateEndpoint(app.key, endpoint.key, { paused: true })
  await clock.advance(3 * second)
  answer()
  await clock.advance(second)

  await start()
  await store.updateEndpoint(app.key, endpoint.key, { paused: false })
  const { id: last } = await world.publish([endpoint])
  await clock.advance(5 * second)
  assert.deepEqual(sent, [first, next, last])
})

const day = 86_400 * second

/** Before and after a restart: the server's default limit, or a change of the endpoint while its lane rests. */
const changes = [
  { title: 'a lower default rate of the server', after: { rate: 1, periodMs: second, burst: 100 } },
  { title: 'a first default rate of the server', before: { rate: null }, after: { rate: 1, burst: 100 } },
  { title: "a lower rate of the endpoint's own", change: { throttleRate: 1, burst: 100 } },
  { title: 'the same default of one a day', before: { rate: 1, periodMs: day }, after: { rate: 1, periodMs: day } },
] as const

for (const { title, ...limits } of changes) {
  test(`a restart with ${title} gives no attempts that were used before it`, async (t) => {
    const clock = new VirtualClock()
    const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
    t.after(() => store.close())
    const world = new World({ store } as unknown as Harness)
    const app = await world.application('acme')
    const endpoint = await world.endpoint(app, {})
    let sent = 0
    async function run(defaults: object): Promise<number> {
      const engine = new Engine({
        ...engineParts(clock),
        store,
        sender: sendingBy((_target, _message, onLeave, onEnd) => {
          sent++
          clock.soon(onLeave)
          return clock.after(1, () => onEnd(success))
        }),
        serverDefaults: { ...serverDefaults, ...defaults },
      })
      await engine.start()
      const before = sent
      await clock.advance(100)
      const stopped = engine.stop(second)
      await clock.advance(10)
      await stopped
      return sent - before
    }
    for (let i = 0; i < 98; i++) await world.publish([endpoint])
    assert.equal(await run({ rate: 100, burst: 100, ...('before' in limits && limits.before) }), 98)
    if ('change' in limits) await store.updateEndpoint(app.key, endpoint.key, limits.change)
    for (let i = 0; i < 200; i++) await world.publish([endpoint])
    const more = await run({ rate: 100, burst: 100, ...('after' in limits && limits.after) })
    // 100 may be saved up; the rate adds 10 in the 100 ms that the first engine ran.
    assert.ok(more <= 12, `${more} attempts at once after the restart`)
  })
}

test('a lane that was moved while the answer to its claim was lost is given back unsent', async (t) => {
  const clock = new VirtualClock()
  const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
  t.after(() => store.close())
  const app = await store.createApplication({ name: 'Acme', uid: null, throttleRate: null, metadata: {} })
  const endpoint = await store.createEndpoint(app.key, { ...plainEndpoint, flow: { region: 'eu' } })
  const common = { app: app.key, eventType: 'x', eventId: null, channels: null, contentType: 'application/json' }
  const { version = 0 } = (await store.subscriptions(app.key)) ?? {}
  await store.publish([{ ...common, version, body: Buffer.from('{}'), endpoints: [endpoint.key], delayMs: 0 }])
  let lost = 0
  const losing = new Proxy(store, {
    get(target, name) {
      if (name !== 'claim') return Reflect.get(target, name)
      return async (...args: Parameters<Store['claim']>) => {
        const claim = await target.claim(...args)
        if (claim.lanes.length === 0 || lost++ > 0) return claim
        await target.updateEndpoint(app.key, endpoint.key, { flow: { region: 'us' } })
        throw new StoreTrouble('the answer was lost')
      }
    },
  })
  let sent = 0
  const sender = sendingBy(() => {
    sent++
    return () => {}
  })
  const engine = new Engine({ ...engineParts(clock), store: losing, sender, regions: ['eu'], onTrouble() {} })
  await engine.start()
  await clock.advance(30_000)
  const other = await store.join({ leaseMs: 60_000, description: 'a worker of us', regions: ['us'] })
  const { lanes } = await store.claim(other, 10, false, ['us'])
  assert.deepEqual([lost > 1, sent, lanes.length], [true, 0, 1])
  engine.crash()
})

test('a pause that is signalled before the answer to a claim comes is not missed', async (t) => {
  const clock = new VirtualClock()
  const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
  t.after(() => store.close())
  const app = await store.createApplication({ name: 'Acme', uid: null, throttleRate: null, metadata: {} })
  // The first delivery leaves, because the settings are read while it is sent; the second must wait.
  const endpoint = await store.createEndpoint(app.key, { ...plainEndpoint, concurrency: 1 })
  const common = { app: app.key, eventType: 'x', eventId: null, channels: null, contentType: 'application/json' }
  const { version = 0 } = (await store.subscriptions(app.key)) ?? {}
  const publication = { ...common, version, body: Buffer.from('{}'), endpoints: [endpoint.key], delayMs: 0 }
  await store.publish([publication, publication, publication])
  let isPaused = false
  const slow = new Proxy(store, {
    get(target, name) {
      if (name !== 'claim') return Reflect.get(target, name)
      return async (...args: Parameters<Store['claim']>) => {
        const claim = await target.claim(...args)
        if (claim.lanes.length > 0 && !isPaused) {
          isPaused = true
          await target.updateEndpoint(app.key, endpoint.key, { paused: true })
        }
        return claim
      }
    },
  })
  let sent = 0
  const sender = sendingBy((_target, _message, onLeave, onEnd) => {
    sent++
    clock.soon(onLeave)
    return clock.after(100, () => onEnd(success))
  })
  const engine = new Engine({ ...engineParts(clock), store: slow, sender, onTrouble() {} })
  await engine.start()
  await clock.advance(30_000)
  assert.ok(isPaused)
  assert.ok(sent <= 1, `${sent} were sent to a paused endpoint`)
  engine.crash()
})

test('a row that is stored after a claim has read the queue, and before its answer comes, is sent at once', async (t) => {
  const clock = new VirtualClock()
  const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
  t.after(() => store.close())
  const world = new World({ store } as unknown as Harness)
  const endpoint = await world.endpoint(await world.application())
  const { id: first } = await world.publish([endpoint])
  const between: string[] = []
  const slow = new Proxy(store, {
    get(target, name) {
      if (name !== 'claim') return Reflect.get(target, name)
      return async (...args: Parameters<Store['claim']>) => {
        const claim = await target.claim(...args)
        if (claim.lanes.length > 0) between.push((await world.publish([endpoint])).id)
        return claim
      }
    },
  })
  const sent: string[] = []
  const sender = sendingBy((_target, message, onLeave, onEnd) => {
    sent.push(message.id)
    clock.soon(onLeave)
    return clock.after(10, () => onEnd(success))
  })
  const engine = new Engine({ ...engineParts(clock), store: slow, sender, onTrouble() {} })
  await engine.start()
  await clock.advance(100)
  assert.equal(between.length, 1)
  assert.deepEqual(sent, [first, ...between])
  engine.crash()
})
