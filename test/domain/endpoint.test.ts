import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rateLimit } from '../../src/domain/endpoint.ts'

test('an endpoint without a rate has no limit, whatever its burst', () => {
  assert.equal(rateLimit({ throttleRate: null, throttlePeriodSeconds: 1, burst: 5 }), undefined)
})

for (const [throttleRate, throttlePeriodSeconds, burst, expected] of [
  [100, 1, null, { rate: 100, periodMs: 1000, burst: 10 }],
  [101, 1, null, { rate: 101, periodMs: 1000, burst: 11 }],
  [1, 60, null, { rate: 1, periodMs: 60_000, burst: 1 }],
  [10, 1, null, { rate: 10, periodMs: 1000, burst: 1 }],
  [100, 1, 3, { rate: 100, periodMs: 1000, burst: 3 }],
] as const) {
  test(`${throttleRate} per ${throttlePeriodSeconds} s with burst ${burst} saves up ${expected.burst}`, () => {
    assert.deepEqual(rateLimit({ throttleRate, throttlePeriodSeconds, burst }), expected)
  })
}
