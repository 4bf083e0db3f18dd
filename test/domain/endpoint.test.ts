import assert from 'node:assert/strict'
import { test } from 'node:test'
import { effectiveRate, rateLimit } from '../../src/features/endpoints/rules.ts'

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

const unset = { throttleRate: null, throttlePeriodSeconds: 1, burst: null }
const server = { timeoutMs: 1, connectTimeoutMs: 1, rate: 30, periodMs: 60_000, burst: 20 }
const noDefaults = { timeoutMs: 1, connectTimeoutMs: 1, rate: null, periodMs: 1000, burst: null }

for (const [title, endpoint, app, defaults, expected] of [
  ['no level sets a rate', unset, {}, noDefaults, [null, 1, null, null, null]],
  ['only the server sets a rate', unset, {}, server, [30, 60, 20, 'server', 'server']],
  ['the application sets a rate', unset, { defaultRate: 5 }, server, [5, 1, null, 'application', null]],
  [
    'the application sets a rate with its period and burst',
    unset,
    { defaultRate: 5, defaultPeriodSeconds: 10, defaultBurst: 2 },
    server,
    [5, 10, 2, 'application', 'application'],
  ],
  ['the application sets a burst alone', unset, { defaultBurst: 2 }, server, [30, 60, 2, 'server', 'application']],
  [
    'the endpoint sets a rate: a wider burst does not count',
    { throttleRate: 1, throttlePeriodSeconds: 60, burst: null },
    { defaultRate: 5, defaultBurst: 50 },
    server,
    [1, 60, null, 'endpoint', null],
  ],
  [
    'the endpoint sets a burst alone',
    { ...unset, burst: 3 },
    { defaultRate: 5 },
    server,
    [5, 1, 3, 'application', 'endpoint'],
  ],
  ['a burst without any rate', { ...unset, burst: 3 }, { defaultBurst: 2 }, noDefaults, [null, 1, null, null, null]],
] as const) {
  test(`the rate and burst of an endpoint and their sources: ${title}`, () => {
    const found = effectiveRate(endpoint, app, defaults)
    const { throttleRate, throttlePeriodSeconds, burst, rateFrom, burstFrom } = found
    assert.deepEqual([throttleRate, throttlePeriodSeconds, burst, rateFrom, burstFrom], expected)
  })
}
