import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openRandomText, systemRandomText } from '../../src/runtime/random.ts'

test('random text has the asked length and only base-62 digits, across refills of the pool', () => {
  for (const length of [0, 1, 18, 30, 16_000, 40_000]) {
    const text = systemRandomText(length)
    assert.equal(text.length, length)
    assert.match(text, /^[0-9A-Za-z]*$/)
  }
})

test('every byte that maps to a digit maps evenly, and the eight left over are thrown away', () => {
  let next = 0
  // Feeds 0, 1, … 255, 0, …: 64 rounds fill one pool of 16 KiB.
  const text = openRandomText((bytes) => {
    for (let i = 0; i < bytes.length; i++) bytes[i] = next++ & 0xff
  })(248 * 64)
  const counts = new Map<string, number>()
  for (const digit of text) counts.set(digit, (counts.get(digit) ?? 0) + 1)
  assert.equal(counts.size, 62)
  assert.deepEqual(new Set(counts.values()), new Set([256]))
})

test('ten thousand ids do not repeat', () => {
  const seen = new Set(Array.from({ length: 10_000 }, () => systemRandomText(18)))
  assert.equal(seen.size, 10_000)
})
