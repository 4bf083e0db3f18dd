import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mostOpen, worstExcess } from './oracles.ts'
import type { Arrival } from './receiver.ts'

const limit = { rate: 10, burst: 2 }

function came(notBefore: number, at: number, endedAt = at): Arrival {
  const nothing = { path: '/', headers: {}, body: Buffer.alloc(0), status: 200 }
  return { ...nothing, notBefore, at, endedAt, end: 'answered' }
}

test('a burst and then the exact rate breaks no window', () => {
  assert.equal(worstExcess([came(0, 0), came(0, 0), came(100, 100), came(200, 200)], limit), 0)
})

test('one more than burst and rate allow is found, wherever it is', () => {
  assert.equal(worstExcess([came(0, 0), came(0, 0), came(0, 0)], limit), 1)
  const late = [came(0, 0), came(5000, 5000), came(5050, 5050), came(5100, 5100), came(5100, 5100)]
  assert.equal(worstExcess(late, limit), 1)
})

test('requests that a late reader read at once are no burst', () => {
  // All three were read at 300, but the reader had not looked since 0: they may have come 100 ms apart.
  assert.equal(worstExcess([came(0, 300), came(0, 300), came(0, 300)], limit), 0)
  assert.ok(worstExcess([came(290, 300), came(290, 300), came(290, 300)], limit) > 0.8)
})

test('requests that only touch were never open together', () => {
  assert.equal(mostOpen([came(0, 0, 10), came(10, 10, 20), came(15, 15, 16)]), 2)
  assert.equal(mostOpen([came(0, 0, 10), came(10, 10, 20)]), 1)
})
