import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Bodies } from '../../src/engine/bodies.ts'
import type { Outgoing } from '../../src/store/store.ts'

/** A message whose body and bookkeeping together count as `countedBytes`. */
function message(key: number, countedBytes = 1000): Outgoing {
  const body = new Uint8Array(countedBytes - 500)
  return { key, id: `msg_${key}`, eventType: 'a', body, contentType: 'application/json', headers: null }
}

function open(limitBytes: number, stored: readonly Outgoing[]) {
  const asked: number[][] = []
  const loadMessages = async (keys: readonly number[]) => {
    asked.push([...keys])
    return stored.filter(({ key }) => keys.includes(key))
  }
  return { asked, bodies: new Bodies({ loadMessages }, limitBytes) }
}

test('a message is kept once it was read', async () => {
  const { bodies, asked } = open(10_000, [message(1), message(2)])
  assert.equal(bodies.get(1), undefined)
  const found = await bodies.load(new Set([1, 2]))
  assert.deepEqual([...found.keys()], [1, 2])
  assert.equal(bodies.get(1), found.get(1))
  assert.equal(bodies.get(2), found.get(2))
  assert.deepEqual(asked, [[1, 2]], 'one call for all')
})

test('a message that no longer exists is missing from the answer', async () => {
  const { bodies } = open(10_000, [message(1)])
  assert.deepEqual([...(await bodies.load(new Set([1, 9]))).keys()], [1])
  assert.equal(bodies.get(9), undefined)
})

test('beyond its limit it forgets what it has kept longest, and still answers all that was asked for', async () => {
  const { bodies } = open(
    3000,
    [1, 2, 3, 4, 5].map((key) => message(key)),
  )
  await bodies.load(new Set([1, 2, 3]))
  assert.deepEqual(
    [1, 2, 3].map((key) => bodies.get(key) !== undefined),
    [true, true, true],
  )
  const found = await bodies.load(new Set([4, 5]))
  assert.equal(found.size, 2)
  assert.deepEqual(
    [1, 2, 3, 4, 5].map((key) => bodies.get(key) !== undefined),
    [false, false, true, true, true],
  )
})

test('reading a message twice does not count it twice', async () => {
  const { bodies } = open(2000, [message(1), message(2)])
  for (let i = 0; i < 5; i++) await bodies.load(new Set([1]))
  await bodies.load(new Set([2]))
  assert.ok(bodies.get(1) && bodies.get(2))
})

test('a message larger than the limit is answered and not kept', async () => {
  const { bodies } = open(2000, [message(1, 5000), message(2)])
  assert.equal((await bodies.load(new Set([1]))).size, 1)
  assert.equal(bodies.get(1), undefined)
  await bodies.load(new Set([2]))
  assert.ok(bodies.get(2), 'what came and went left no debt behind')
})

test('what must not be sent any more is forgotten, and its room is free again', async () => {
  const { bodies, asked } = open(
    3000,
    [1, 2, 3, 4].map((key) => message(key)),
  )
  await bodies.load(new Set([1, 2, 3]))
  bodies.forget([2, 9])
  assert.equal(bodies.get(2), undefined)
  await bodies.load(new Set([4]))
  assert.ok(bodies.get(1) && bodies.get(3) && bodies.get(4), 'all three fit')
  bodies.forget()
  assert.deepEqual([bodies.get(1), bodies.get(3), bodies.get(4)], [undefined, undefined, undefined])
  await bodies.load(new Set([1]))
  assert.deepEqual(asked.at(-1), [1])
})
