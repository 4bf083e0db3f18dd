import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  decodeKey,
  encodeId,
  firstKeyAt,
  KeyMaker,
  keysPerMs,
  keyTime,
  nodes,
  type Prefix,
} from '../../src/domain/ids.ts'
import { anyCharacter } from '../any-character.ts'

const prefixes: Prefix[] = ['app', 'ep', 'msg', 'atmpt', 'key']
const anyPrefix = fc.constantFrom(...prefixes)
const anyKey = fc.maxSafeNat()
const anyTail = fc.stringMatching(/^[0-9A-Za-z]{18}$/)

/** 2026 to 2100, in which every key stays below 2^53. */
const anyInstant = fc.integer({ min: Date.UTC(2026), max: Date.UTC(2100) })

test('an id leads back to its key', () => {
  fc.assert(
    fc.property(anyPrefix, anyKey, anyTail, (prefix, key, tail) => {
      const id = encodeId(prefix, key, () => tail)
      assert.match(id, new RegExp(`^${prefix}_[0-9A-Za-z]{27}$`))
      assert.ok(id.endsWith(tail))
      assert.equal(decodeKey(prefix, id), key)
    }),
  )
})

test('ids asks for exactly as much random text as it shows', () => {
  const asked: number[] = []
  encodeId('msg', 1, (length) => {
    asked.push(length)
    return 'x'.repeat(length)
  })
  assert.deepEqual(asked, [18])
})

test('ids sort as text in the order of their keys', () => {
  fc.assert(
    fc.property(anyKey, anyKey, anyTail, anyTail, (a, b, tailA, tailB) => {
      fc.pre(a !== b)
      const idA = encodeId('msg', a, () => tailA)
      const idB = encodeId('msg', b, () => tailB)
      assert.equal(idA < idB, a < b)
    }),
  )
})

test('an id of another kind is no id of this kind', () => {
  fc.assert(
    fc.property(anyPrefix, anyPrefix, anyKey, anyTail, (made, asked, key, tail) => {
      fc.pre(made !== asked)
      assert.equal(
        decodeKey(
          asked,
          encodeId(made, key, () => tail),
        ),
        undefined,
      )
    }),
  )
})

test('foreign text is no id', () => {
  const id = encodeId('msg', 123_456_789, (length) => 'a'.repeat(length))
  const foreign = [
    '',
    'msg_',
    'msg',
    id.slice(4),
    id.slice(0, -1),
    `${id}a`,
    `x${id}`,
    id.replace('_', '-'),
    id.toUpperCase(),
    `msg_${'-'.repeat(9)}${'a'.repeat(18)}`,
    `msg_00000000é${'a'.repeat(18)}`,
    `msg_0000 0000${'a'.repeat(18)}`,
    // Nine digits can say more than 2^53 − 1, the largest whole number that is exact.
    `msg_${'z'.repeat(9)}${'a'.repeat(18)}`,
  ]
  for (const text of foreign) assert.equal(decodeKey('msg', text), undefined, JSON.stringify(text))
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter, maxLength: 40 }), (text) => {
      const key = decodeKey('msg', text)
      assert.ok(key === undefined || (text.startsWith('msg_') && Number.isSafeInteger(key)))
    }),
  )
})

test('a key contains the instant at which it was made, and the first key of an instant is its smallest', () => {
  fc.assert(
    fc.property(anyInstant, fc.integer({ min: 0, max: nodes - 1 }), (at, node) => {
      const key = new KeyMaker(node).next(at)
      assert.ok(Number.isSafeInteger(key))
      assert.equal(keyTime(key), at)
      assert.ok(firstKeyAt(at) <= key && key < firstKeyAt(at + 1))
      assert.equal(firstKeyAt(at + 1) - firstKeyAt(at), keysPerMs)
    }),
  )
})

test('the keys of all nodes differ and those of one node grow, whatever the clocks do', () => {
  const clockStep = fc.oneof(
    { weight: 6, arbitrary: fc.constant(0) },
    { weight: 3, arbitrary: fc.integer({ min: 1, max: 3 }) },
    { weight: 2, arbitrary: fc.integer({ min: -5000, max: 5000 }) },
  )
  const anyNode = fc.constantFrom(0, 1, nodes - 1)
  fc.assert(
    fc.property(anyInstant, fc.array(fc.tuple(anyNode, clockStep), { maxLength: 400, size: 'max' }), (start, steps) => {
      const makers = new Map([0, 1, nodes - 1].map((node) => [node, new KeyMaker(node)]))
      const seen = new Set<number>()
      const last = new Map<number, number>()
      let now = start
      for (const [node, stepMs] of steps) {
        now += stepMs
        const key = makers.get(node)?.next(now) as number
        assert.ok(key > (last.get(node) ?? 0), 'it grows')
        assert.ok(!seen.has(key), 'it was never handed out')
        assert.ok(keyTime(key) >= now, 'it is not older than its instant')
        seen.add(key)
        last.set(node, key)
      }
    }),
  )
})

test('more than 64 keys in a millisecond borrow from the next one, and never a slot of another node', () => {
  const at = Date.UTC(2026)
  const makers = Array.from({ length: nodes }, (_, node) => new KeyMaker(node))
  const seen = new Set<number>()
  for (const maker of makers) {
    const keys = Array.from({ length: 200 }, () => maker.next(at))
    assert.deepEqual(
      [0, 63, 64, 127, 128, 199].map((i) => keyTime(keys[i] as number) - at),
      [0, 0, 1, 1, 2, 3],
    )
    for (const key of keys) seen.add(key)
  }
  assert.equal(seen.size, nodes * 200)
})
