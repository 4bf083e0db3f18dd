import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Bodies } from '../../src/engine/bodies.ts'
import type { Outgoing, StoredMessage, VariantKey } from '../../src/store/store.ts'

/** A message whose body and bookkeeping together count as `countedBytes`. */
function message(key: number, countedBytes = 1000): Outgoing {
  const body = new Uint8Array(countedBytes - 500)
  return {
    key,
    id: `msg_${key}`,
    eventType: 'a',
    body,
    contentType: 'application/json',
    headers: null,
    trace: null,
    arrivedHeaders: null,
    variant: null,
    signature: null,
  }
}

function entryOf(key: number, message: Outgoing | undefined): [number, Outgoing][] {
  return message === undefined ? [] : [[key, message]]
}

function open(limitBytes: number, stored: readonly Outgoing[]) {
  const asked: number[][] = []
  const loadMessages = async (keys: readonly number[]) => {
    asked.push([...keys])
    return stored.filter(({ key, variant }) => variant === null && keys.includes(key))
  }
  const loadVariants = async (keys: readonly VariantKey[]) =>
    stored.filter((each) => keys.some((key) => key.message === each.key && key.variant === each.variant))
  const bodies = new Bodies({ loadMessages, loadVariants }, limitBytes)
  return {
    asked,
    expect: (message: StoredMessage) => bodies.expect(message),
    bodies: {
      get: (message: number, variant: number | null = null) => bodies.get({ message, variant }),
      load: async (messages: readonly number[], variant: number | null = null) => {
        const found = await bodies.load(messages.map((message) => ({ message, variant })))
        return new Map(messages.flatMap((message) => entryOf(message, found.get({ message, variant }))))
      },
      forget: (messages?: readonly number[]) => bodies.forget(messages),
    },
  }
}

test('a message is kept once it was read', async () => {
  const { bodies, asked } = open(10_000, [message(1), message(2)])
  assert.equal(bodies.get(1), undefined)
  const found = await bodies.load([1, 2])
  assert.deepEqual([...found.keys()], [1, 2])
  assert.equal(bodies.get(1), found.get(1))
  assert.equal(bodies.get(2), found.get(2))
  assert.deepEqual(asked, [[1, 2]], 'one call for all')
})

test('a message that no longer exists is missing from the answer', async () => {
  const { bodies } = open(10_000, [message(1)])
  assert.deepEqual([...(await bodies.load([1, 9])).keys()], [1])
  assert.equal(bodies.get(9), undefined)
})

test('beyond its limit it drops the oldest messages, and still answers all that were requested', async () => {
  const { bodies } = open(
    3000,
    [1, 2, 3, 4, 5].map((key) => message(key)),
  )
  await bodies.load([1, 2, 3])
  assert.deepEqual(
    [1, 2, 3].map((key) => bodies.get(key) !== undefined),
    [true, true, true],
  )
  const found = await bodies.load([4, 5])
  assert.equal(found.size, 2)
  assert.deepEqual(
    [1, 2, 3, 4, 5].map((key) => bodies.get(key) !== undefined),
    [false, false, true, true, true],
  )
})

test('reading a message twice does not count it twice', async () => {
  const { bodies } = open(2000, [message(1), message(2)])
  for (let i = 0; i < 5; i++) await bodies.load([1])
  await bodies.load([2])
  assert.ok(bodies.get(1) && bodies.get(2))
})

test('a message larger than the limit is answered and not kept', async () => {
  const { bodies } = open(2000, [message(1, 5000), message(2)])
  assert.equal((await bodies.load([1])).size, 1)
  assert.equal(bodies.get(1), undefined)
  await bodies.load([2])
  assert.ok(bodies.get(2), 'what came and went left no debt behind')
})

test('a message that must not be sent any more is forgotten, and its room is free again', async () => {
  const { bodies, asked } = open(
    3000,
    [1, 2, 3, 4].map((key) => message(key)),
  )
  await bodies.load([1, 2, 3])
  bodies.forget([2, 9])
  assert.equal(bodies.get(2), undefined)
  await bodies.load([4])
  assert.ok(bodies.get(1) && bodies.get(3) && bodies.get(4), 'all three fit')
  bodies.forget()
  assert.deepEqual([bodies.get(1), bodies.get(3), bodies.get(4)], [undefined, undefined, undefined])
  await bodies.load([1])
  assert.deepEqual(asked.at(-1), [1])
})

test('a message that is forgotten while it is read is read again, in every form', async () => {
  for (const forgotten of [[1], undefined]) {
    const reads: ((messages: Outgoing[]) => void)[] = []
    const read = () => new Promise<Outgoing[]>((resolve) => reads.push(resolve))
    const bodies = new Bodies({ loadMessages: read, loadVariants: read }, 10_000)
    for (const variant of [null, 0]) {
      const [before, after, other] = [message(1), message(1, 800), message(2)].map((each) => ({ ...each, variant }))
      assert(before && after && other)
      const loading = bodies.load([1, 2].map((message) => ({ message, variant })))
      bodies.forget(forgotten)
      reads.shift()?.([before, other])
      await setImmediate()
      reads.shift()?.(forgotten === undefined ? [after, other] : [after])
      const found = await loading
      assert.equal(found.get({ message: 1, variant }), after)
      assert.equal(found.get({ message: 2, variant }), other)
      assert.equal(bodies.get({ message: 1, variant }), after)
    }
    assert.equal(reads.length, 0)
  }
})

test('variants are cached beside the message itself, and are forgotten with it', async () => {
  const own = message(1)
  const shaped = { ...message(1), variant: 0 }
  const { bodies } = open(10_000, [own, shaped, { ...message(2), variant: 0 }])
  assert.equal((await bodies.load([1, 2])).get(1), own)
  assert.equal(bodies.get(1, 0), undefined)
  assert.equal((await bodies.load([1, 2], 0)).get(1), shaped)
  assert.deepEqual([bodies.get(1), bodies.get(1, 0), bodies.get(1, 1)], [own, shaped, undefined])
  bodies.forget([1])
  assert.deepEqual([bodies.get(1), bodies.get(1, 0)], [undefined, undefined])
  assert.ok(bodies.get(2, 0))
})

test('a message that was just stored is kept without being read, apart from where it came from', async () => {
  const { asked, expect, bodies } = open(10_000, [])
  const chunk = new Uint8Array(100).fill(7)
  const publication = {
    ...{ app: 1, version: 1, eventType: 'a', eventId: null, channels: null, contentType: 'text/plain' },
    ...{ body: chunk.subarray(10, 20), endpoints: [1], delayMs: 0, headers: { 'x-a': 'b' } },
  }
  expect({ publication, identity: { key: 5, id: 'msg_5' }, dueAt: 0 })
  const kept = bodies.get(5)
  assert.deepEqual(
    { ...kept, body: [...(kept?.body ?? [])] },
    {
      ...{ key: 5, id: 'msg_5', eventType: 'a', contentType: 'text/plain', headers: { 'x-a': 'b' }, trace: null },
      ...{ body: Array(10).fill(7), arrivedHeaders: null, variant: null, signature: null },
    },
  )
  assert.equal(kept?.body.buffer.byteLength, 10, 'nothing else is kept with it')
  assert.deepEqual(asked, [])
  bodies.forget([5])
  assert.equal(bodies.get(5), undefined)
})
