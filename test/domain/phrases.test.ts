import assert from 'node:assert/strict'
import { test } from 'node:test'
import { count, moment, perSecond, span, withCommas } from '../../src/domain/phrases.ts'

test('durations are written in one or two units', () => {
  const cases: [number, string][] = [
    [0, '0 s'],
    [340, '0.3 s'],
    [2000, '2 s'],
    [9949, '9.9 s'],
    [9950, '10 s'],
    [59_400, '59 s'],
    [60_000, '1 min'],
    [130_000, '2 min 10 s'],
    [3_600_000, '1 h'],
    [11_100_000, '3 h 5 min'],
    [187_200_000, '2 d 4 h'],
  ]
  for (const [ms, text] of cases) assert.equal(span(ms), text)
})

test('instants are written to the second, with their day when they are not near', () => {
  const now = Date.UTC(2026, 10, 15, 9, 40)
  assert.equal(moment(now + 90_000, now), '09:41:30 UTC (in 1 min 30 s)')
  assert.equal(moment(now - 3000, now), '09:39:57 UTC (3 s ago)')
  assert.equal(moment(now + 48 * 3_600_000, now), '2026-11-17 09:40:00 UTC (in 2 d)')
})

test('rates are written in the unit that reads best', () => {
  assert.deepEqual([100, 12.345, 0.5, 0.05, 0.001].map(perSecond), ['100/s', '12.3/s', '0.5/s', '3/min', '3.6/h'])
})

test('one and many', () => {
  assert.deepEqual(
    [count(1, 'delivery', 'deliveries'), count(1204, 'delivery', 'deliveries')],
    ['1 delivery', '1,204 deliveries'],
  )
  for (const n of [0, 7, 999, 1000, 12_345, 999_999, 1_000_000, -1234, Number.MAX_SAFE_INTEGER]) {
    assert.equal(withCommas(n), n.toLocaleString('en'))
  }
})
