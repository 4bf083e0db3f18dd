import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  defaultRetryPolicy,
  type Jitter,
  jittered,
  maxAttempts,
  type RetryPolicy,
  waitAfter,
} from '../../src/domain/retry.ts'

function exponential(baseMs: number, factor: number, capMs: number, attempts: number): RetryPolicy {
  return {
    waits: { kind: 'exponential', baseMs, factor, capMs, maxAttempts: attempts },
    jitter: 'none',
    maxAgeMs: 1e12,
  }
}

function list(...ms: number[]): RetryPolicy {
  return { waits: { kind: 'list', ms }, jitter: 'none', maxAgeMs: 1e12 }
}

function allWaits(policy: RetryPolicy): (number | undefined)[] {
  return Array.from({ length: maxAttempts(policy) + 2 }, (_, i) => waitAfter(policy, i + 1))
}

test('a written-out policy waits as written and then no more', () => {
  assert.deepEqual(allWaits(list(5, 50, 20)), [5, 50, 20, undefined, undefined, undefined])
  assert.deepEqual(allWaits(list()), [undefined, undefined, undefined])
})

test('an exponential policy grows by its factor up to its cap', () => {
  assert.deepEqual(allWaits(exponential(100, 2, 500, 6)), [100, 200, 400, 500, 500, undefined, undefined, undefined])
  assert.deepEqual(allWaits(exponential(100, 1.5, 1000, 4)), [100, 150, 225, undefined, undefined, undefined])
  assert.deepEqual(allWaits(exponential(100, 2, 500, 1)), [undefined, undefined, undefined])
})

test('a long exponential policy stays at its cap', () => {
  assert.equal(waitAfter(exponential(1000, 10, 60_000, 10_000), 9_999), 60_000)
})

test('the default policy makes ten attempts over about three days', () => {
  assert.equal(maxAttempts(defaultRetryPolicy), 10)
  const waits = allWaits(defaultRetryPolicy).filter((wait) => wait !== undefined)
  assert.equal(waits.length, 9)
  const total = waits.reduce((sum, wait) => sum + wait, 0)
  assert.equal(total, ((3 * 24 + 3) * 60 + 35) * 60_000 + 5000)
  // Even when every wait is lengthened as far as jitter can, the last attempt falls within the age limit.
  assert.ok(total * 1.5 < defaultRetryPolicy.maxAgeMs)
})

test('attempts and waits agree, whatever the policy', () => {
  const anyPolicy = fc.oneof(
    fc.array(fc.nat(1e9), { maxLength: 20 }).map((ms) => list(...ms)),
    fc
      .tuple(
        fc.integer({ min: 1, max: 1e6 }),
        fc.double({ min: 1, max: 10, noNaN: true }),
        fc.nat(1e9),
        fc.integer({ min: 1, max: 50 }),
      )
      .map(([base, factor, cap, attempts]) => exponential(base, factor, cap, attempts)),
  )
  fc.assert(
    fc.property(anyPolicy, (policy) => {
      const allowed = maxAttempts(policy)
      for (let n = 1; n < allowed; n++) assert.ok((waitAfter(policy, n) as number) >= 0)
      assert.equal(waitAfter(policy, allowed), undefined)
      assert.equal(waitAfter(policy, allowed + 1), undefined)
    }),
  )
})

test('jitter lengthens a wait up to its share and never shortens it', () => {
  const most: Record<Jitter, number> = { none: 1, equal: 1.5, full: 2 }
  const anyWait = fc.double({ min: 0, max: 1e9, noNaN: true })
  const anyRandom = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  fc.assert(
    fc.property(anyWait, fc.constantFrom<Jitter>('none', 'equal', 'full'), anyRandom, (waitMs, jitter, random) => {
      const result = jittered(waitMs, jitter, () => random)
      assert.ok(Number.isInteger(result), 'whole milliseconds')
      assert.ok(result >= waitMs, `${result} is shorter than ${waitMs}`)
      assert.ok(result <= Math.ceil(waitMs * most[jitter]), `${result} is longer than allowed`)
    }),
  )
})

test('jitter spreads evenly over its whole share', () => {
  assert.deepEqual(
    [0, 0.25, 0.5, 0.75].map((r) => jittered(1000, 'full', () => r)),
    [1000, 1250, 1500, 1750],
  )
  assert.deepEqual(
    [0, 0.25, 0.5, 0.75].map((r) => jittered(1000, 'equal', () => r)),
    [1000, 1125, 1250, 1375],
  )
  assert.deepEqual(
    [0, 0.25, 0.5, 0.75].map((r) => jittered(1000, 'none', () => r)),
    [1000, 1000, 1000, 1000],
  )
})
