import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Outcome } from '../../src/domain/outcome.ts'
import { Engine } from '../../src/engine/engine.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { type Store, StoreTrouble, type Watcher } from '../../src/store/store.ts'
import { type Harness, World } from '../store/conformance/harness.ts'
import { contextWith } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { engineParts, sendingBy } from './engine-under-test.ts'

const second = 1000
const success: Outcome = {
  ...{ code: 'delivered', status: 204, durationMs: 10 },
  ...{ retryAfterMs: undefined, response: undefined, error: undefined },
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
