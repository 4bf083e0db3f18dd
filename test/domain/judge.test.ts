import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { judge, laneEffect } from '../../src/domain/judge.ts'
import type { Outcome, OutcomeCode } from '../../src/domain/outcome.ts'
import {
  defaultJitterMs,
  type Jitter,
  jitters,
  type RetryAfterRule,
  type RetryPolicy,
  retryAfterRules,
} from '../../src/domain/retry.ts'
import { answered as asSent } from '../answered.ts'

function answered(status: number, retryAfterMs?: number): Outcome {
  const code = status >= 200 && status < 300 ? 'delivered' : status >= 300 && status < 400 ? 'redirected' : 'refused'
  return asSent({ code, status, retryAfterMs, response: undefined, error: undefined, durationMs: 1 })
}

function failed(code: OutcomeCode): Outcome {
  return { code, status: 0, wish: undefined, retryAfterMs: undefined, response: undefined, error: code, durationMs: 1 }
}

function policy(
  ms: readonly number[],
  maxAgeMs = 1e12,
  jitter: Jitter = 'none',
  retryAfter?: RetryAfterRule,
): RetryPolicy {
  return { waits: { kind: 'list', ms }, jitter, maxAgeMs, ...(retryAfter === undefined ? {} : { retryAfter }) }
}

const noRandom = () => assert.fail('a verdict without a wait needs no randomness')
const low = () => 0

const delivered = { state: 'delivered' }
const waiting = { state: 'waiting', waitMs: 1000 }
const gone = { state: 'dead', reason: 'gone' }

for (const [status, verdict] of [
  [200, delivered],
  [201, delivered],
  [202, delivered],
  [204, delivered],
  [299, delivered],
  [301, waiting],
  [302, waiting],
  [307, waiting],
  [308, waiting],
  [400, waiting],
  [401, waiting],
  [404, waiting],
  [409, waiting],
  [410, gone],
  [422, waiting],
  [429, waiting],
  [500, waiting],
  [502, waiting],
  [503, waiting],
  [599, waiting],
] as const) {
  test(`a first attempt answered ${status} is ${verdict.state}`, () => {
    assert.deepEqual(judge(1, 0, answered(status), policy([1000]), low), verdict)
  })
}

const withoutAnswer: OutcomeCode[] = [
  'blocked',
  'dns_not_found',
  'dns_failed',
  'dns_timeout',
  'connect_refused',
  'connect_failed',
  'connect_timeout',
  'tls_failed',
  'timeout',
  'reset',
  'invalid_http',
  'internal',
]
test('an attempt without an answer is tried again, whatever the reason', () => {
  for (const code of withoutAnswer) {
    assert.deepEqual(judge(1, 0, failed(code), policy([1000]), low), waiting, code)
    assert.deepEqual(laneEffect(failed(code)), { holdMs: undefined, disable: false }, code)
  }
})

test('the last attempt of a policy is the last', () => {
  const three = policy([10, 20])
  assert.deepEqual(judge(1, 0, answered(500), three, low), { state: 'waiting', waitMs: 10 })
  assert.deepEqual(judge(2, 0, answered(500), three, low), { state: 'waiting', waitMs: 20 })
  assert.deepEqual(judge(3, 0, answered(500), three, noRandom), { state: 'dead', reason: 'exhausted' })
  assert.deepEqual(judge(3, 0, answered(200), three, noRandom), delivered)
})

test('a delivery dies of age exactly when its next attempt would come too late', () => {
  const limited = policy([1000], 5000)
  assert.deepEqual(judge(1, 4000, answered(500), limited, low), waiting)
  assert.deepEqual(judge(1, 4001, answered(500), limited, low), { state: 'dead', reason: 'aged' })
  assert.deepEqual(judge(1, 4001, answered(200), limited, noRandom), delivered)
})

test('a Retry-After beyond the age limit ends the delivery at once', () => {
  assert.deepEqual(judge(1, 0, answered(503, 5001), policy([10], 5000), low), { state: 'dead', reason: 'aged' })
  assert.deepEqual(judge(1, 0, answered(503, 5000), policy([10], 5000), low), { state: 'waiting', waitMs: 5000 })
})

test('410 ends a delivery and disables its endpoint, even on the last attempt and with a Retry-After', () => {
  assert.deepEqual(judge(9, 1e12, answered(410, 5000), policy([10], 5000), noRandom), gone)
  assert.deepEqual(laneEffect(answered(410, 5000)), { holdMs: undefined, disable: true })
})

for (const [status, holdMs] of [
  [200, undefined],
  [301, undefined],
  [400, undefined],
  [404, undefined],
  [429, 7000],
  [500, undefined],
  [502, undefined],
  [503, 7000],
] as const) {
  test(`Retry-After with ${status} ${holdMs === undefined ? 'does not hold' : 'holds'} the lane`, () => {
    assert.deepEqual(laneEffect(answered(status, 7000)), { holdMs, disable: false })
    assert.deepEqual(laneEffect(answered(status)), { holdMs: undefined, disable: false })
  })
}

test('the receiver alone decides the next try of a message it answered with Retry-After', () => {
  for (const retryAfter of [undefined, 'receiver'] as const) {
    const hourly = policy([3_600_000], 1e12, 'full', retryAfter)
    assert.deepEqual(judge(1, 0, answered(429, 5000), hourly, low), { state: 'waiting', waitMs: 5000 })
    assert.deepEqual(judge(1, 0, answered(503, 7_200_000), hourly, low), { state: 'waiting', waitMs: 7_200_000 })
    assert.deepEqual(judge(1, 0, answered(503), { ...hourly, jitter: 'none' }, low), {
      state: 'waiting',
      waitMs: 3_600_000,
    })
  }
})

test('a policy may ask for the later of Retry-After and its own wait', () => {
  const later = policy([3_600_000], 1e12, 'none', 'later')
  assert.deepEqual(judge(1, 0, answered(429, 5000), later, low), { state: 'waiting', waitMs: 3_600_000 })
  assert.deepEqual(judge(1, 0, answered(503, 7_200_000), later, low), { state: 'waiting', waitMs: 7_200_000 })
})

test('a Retry-After is never undercut, nor passed but by the later wait, and no wait ends beyond the age limit', () => {
  const anyRandom = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  const anyStatus = fc.constantFrom(0, 301, 400, 404, 429, 500, 503)
  const anyRetryAfter = fc.option(fc.double({ min: 0, max: 200_000, noNaN: true }), { nil: undefined })
  const anyMs = fc.nat(100_000)
  fc.assert(
    fc.property(
      fc.array(anyMs, { minLength: 1, maxLength: 5 }),
      fc.integer({ min: 1, max: 6 }),
      anyMs,
      anyMs,
      fc.constantFrom(...jitters),
      fc.constantFrom(...retryAfterRules),
      anyStatus,
      anyRetryAfter,
      anyRandom,
      (waits, attempts, ageMs, maxAgeMs, jitter, rule, status, retryAfterMs, random) => {
        const outcome = { ...answered(status), retryAfterMs }
        const verdict = judge(attempts, ageMs, outcome, policy(waits, maxAgeMs, jitter, rule), () => random)
        const added = jitter === 'added' ? defaultJitterMs : 0
        const longest = added + (jitter === 'decorrelated' ? Math.max(...waits) : (waits[attempts - 1] ?? 0))
        const most = rule === 'receiver' ? (retryAfterMs ?? longest) : Math.max(retryAfterMs ?? 0, longest)
        if (attempts > waits.length) assert.deepEqual(verdict, { state: 'dead', reason: 'exhausted' })
        else if (verdict.state === 'waiting') {
          assert.ok(verdict.waitMs >= (retryAfterMs ?? 0), 'not undercut')
          assert.ok(verdict.waitMs <= Math.ceil(most), 'not passed')
          assert.ok(ageMs + verdict.waitMs <= maxAgeMs, 'in time')
        } else {
          assert.deepEqual(verdict, { state: 'dead', reason: 'aged' })
          assert.ok(ageMs + Math.ceil(most) > maxAgeMs, 'it had time left')
        }
      },
    ),
  )
})

test('no wait is shorter than the least one of the server, whatever the policy or the receiver says', () => {
  const never = Number.POSITIVE_INFINITY
  for (const [waitMs, retryAfterMs] of [
    [0, undefined],
    [0, 0],
    [1, 0],
    [999, 5],
  ]) {
    const verdict = judge(1, 0, answered(503, retryAfterMs), policy([waitMs as number]), low, never, 1000)
    assert.deepEqual(verdict, { state: 'waiting', waitMs: 1000 })
  }
  assert.deepEqual(judge(1, 0, answered(500), policy([5000]), low, never, 1000), { state: 'waiting', waitMs: 5000 })
  assert.deepEqual(judge(2, 0, answered(500), policy([0]), low, never, 1000), { state: 'dead', reason: 'exhausted' })
})
