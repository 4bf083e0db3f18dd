import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Engine } from '../../src/engine/engine.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { StoreTrouble } from '../../src/store/store.ts'
import { type Harness, World } from '../store/conformance/harness.ts'
import { contextWith } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { engineParts, sendingBy } from './engine-under-test.ts'

const second = 1000

test('an attempt that is recorded after an outage of the store began when it began', async (t) => {
  const clock = new VirtualClock()
  const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
  const world = new World({ store, pass: (ms: number) => clock.advance(ms) } as unknown as Harness)
  const endpoint = await world.endpoint(await world.application('acme'))
  const { key } = await world.publish([endpoint])
  let isDown = false
  let begunAt = 0
  const engine = new Engine({
    ...engineParts(clock),
    leaseMs: 600 * second,
    store: {
      ...store,
      settle: async (...args) => {
        if (isDown) throw new StoreTrouble('the store is down')
        return store.settle(...args)
      },
    },
    sender: sendingBy((_target, _message, onLeave, onEnd) => {
      begunAt = clock.now()
      isDown = true
      clock.soon(onLeave)
      const answer = {
        status: 204,
        wish: undefined,
        retryAfterMs: undefined,
        response: undefined,
        error: undefined,
        durationMs: 100,
      }
      return clock.after(100, () => onEnd({ ...answer, code: 'delivered' }))
    }),
    onTrouble: () => {},
  })
  await engine.start()
  t.after(async () => {
    engine.crash()
    await store.close()
  })
  await clock.advance(60 * second)
  assert.deepEqual(await store.attemptsOf(key), [])
  isDown = false
  await clock.advance(60 * second)
  const [attempt] = await store.attemptsOf(key)
  assert.ok(attempt)
  assert.ok(Math.abs(attempt.at - begunAt) <= 1, `recorded ${attempt.at - begunAt} ms late`)
})

test('a worker whose lease is not renewed in time gives its attempts up, says how many, and makes them again', async (t) => {
  const clock = new VirtualClock()
  const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
  const world = new World({ store, pass: (ms: number) => clock.advance(ms) } as unknown as Harness)
  const app = await world.application('acme')
  await world.publish([await world.endpoint(app), await world.endpoint(app)])
  let isDown = false
  let begun = 0
  const said: string[] = []
  const engine = new Engine({
    ...engineParts(clock),
    leaseMs: 10 * second,
    store: {
      ...store,
      renew: async (...args) => {
        if (isDown) throw new StoreTrouble('the store is down')
        return store.renew(...args)
      },
    },
    sender: sendingBy((_target, _message, onLeave, onEnd) => {
      begun++
      clock.soon(onLeave)
      const nothing = {
        status: 0,
        wish: undefined,
        retryAfterMs: undefined,
        response: undefined,
        error: undefined,
        durationMs: 0,
      }
      return () => onEnd({ ...nothing, code: 'aborted' })
    }),
    log: (sentence) => said.push(sentence),
    onTrouble: () => {},
  })
  await engine.start()
  t.after(async () => {
    engine.crash()
    await store.close()
  })
  await clock.advance(second)
  assert.equal(begun, 2)
  isDown = true
  await clock.advance(30 * second)
  assert.equal(begun, 2, 'nothing is sent without a lease')
  assert.deepEqual(said, ['the lease of this worker was not renewed in time: 2 attempts given up, to be made again'])
  isDown = false
  await clock.advance(30 * second)
  assert.equal(begun, 4)
})
