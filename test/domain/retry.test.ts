import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import fc from 'fast-check'
import { jitterPlot, plotPath } from '../../scripts/jitter-plot.ts'
import {
  defaultRetryPolicy,
  drawnWait,
  drawsOf,
  type Jitter,
  jitters,
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
  assert.ok(total < defaultRetryPolicy.maxAgeMs, 'the last attempt falls within the age limit')
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

const hour = 3_600_000
const anyWaits: fc.Arbitrary<RetryPolicy['waits']> = fc.oneof(
  fc
    .array(fc.nat(7 * 24 * hour), { minLength: 1, maxLength: 12 })
    .map((ms): RetryPolicy['waits'] => ({ kind: 'list', ms })),
  fc
    .tuple(
      fc.integer({ min: 1, max: 24 * hour }),
      fc.double({ min: 1, max: 100, noNaN: true }),
      fc.integer({ min: 1, max: 168 * hour }),
    )
    .map(([baseMs, factor, capMs]): RetryPolicy['waits'] => ({
      kind: 'exponential',
      baseMs,
      factor,
      capMs,
      maxAttempts: 13,
    })),
)

const addedMs = 700

/** The bounds of a wait, written out as the retry page says them. */
function boundsOf({ waits, jitter }: RetryPolicy, nominal: number, previous: number): [least: number, most: number] {
  if (jitter === 'none') return [nominal, nominal]
  if (jitter === 'equal') return [nominal / 2, nominal]
  if (jitter === 'full') return [0, nominal]
  if (jitter === 'added') return [nominal, nominal + addedMs]
  if (waits.kind === 'exponential') return [Math.min(waits.baseMs, waits.capMs), Math.min(waits.capMs, 3 * previous)]
  const base = Math.min(...waits.ms.filter((ms) => ms > 0))
  return Number.isFinite(base) ? [base, Math.min(Math.max(...waits.ms), 3 * previous)] : [0, 0]
}

function baseOf(waits: RetryPolicy['waits']): number {
  return waits.kind === 'list' ? Math.min(...waits.ms.filter((ms) => ms > 0)) : Math.min(waits.baseMs, waits.capMs)
}

test('every wait of a delivery lies within the bounds of its jitter, and below the cap', () => {
  fc.assert(
    fc.property(
      anyWaits,
      fc.constantFrom(...jitters),
      fc.maxSafeNat(),
      fc.nat(),
      (waits, jitter, message, endpoint) => {
        const policy: RetryPolicy = { waits, jitter, jitterMs: addedMs, maxAgeMs: 1e12 }
        const cap = waits.kind === 'list' ? Math.max(...waits.ms) : waits.capMs
        const ceiling = jitter === 'added' ? cap + addedMs : cap
        let previous = baseOf(waits)
        for (let n = 1; n < maxAttempts(policy); n++) {
          const drawn = drawnWait(policy, n, drawsOf(message, endpoint)) as number
          const [least, most] = boundsOf(policy, waitAfter(policy, n) as number, previous)
          assert.ok(Number.isInteger(drawn), 'whole milliseconds')
          assert.ok(drawn >= least && drawn <= most, `${jitter}: ${drawn} is not within ${least} to ${most}`)
          assert.ok(drawn <= ceiling, `${drawn} passes the cap ${ceiling}`)
          previous = drawn
        }
        assert.equal(drawnWait(policy, maxAttempts(policy), drawsOf(message, endpoint)), undefined)
      },
    ),
  )
})

test('the extremes of a wait are reached, and nothing beyond them', () => {
  const extremes = (jitter: Jitter) =>
    [0, 0.5, 1 - Number.EPSILON].map((random) => drawnWait({ ...list(1000, 1000), jitter }, 1, () => random))
  assert.deepEqual(extremes('none'), [1000, 1000, 1000])
  assert.deepEqual(extremes('equal'), [500, 750, 1000])
  assert.deepEqual(extremes('full'), [0, 500, 1000])
  assert.deepEqual(extremes('added'), [1000, 16_000, 31_000])
  const walk = { ...exponential(100, 2, 5000, 10), jitter: 'decorrelated' } as const
  assert.deepEqual(
    [1, 2, 3, 4, 5].map((n) => drawnWait(walk, n, () => 1 - Number.EPSILON)),
    [300, 900, 2700, 5000, 5000],
  )
  assert.deepEqual(
    [1, 2, 3].map((n) => drawnWait(walk, n, () => 0)),
    [100, 100, 100],
  )
})

test('a wait is uniform between its bounds, over deliveries that were published one after the other', () => {
  const deliveries = 20_000
  const shares = {
    added: [60_000, 90_000],
    full: [0, 60_000],
    equal: [30_000, 60_000],
    decorrelated: [1000, 3000],
  } as const
  for (const [jitter, [least, most]] of Object.entries(shares)) {
    const waits = jitter === 'decorrelated' ? exponential(1000, 2, 60_000, 9).waits : list(60_000).waits
    const policy: RetryPolicy = { waits, jitter: jitter as Jitter, maxAgeMs: 1e12 }
    const tenths = Array<number>(10).fill(0)
    for (let i = 0; i < deliveries; i++) {
      const drawn = drawnWait(policy, 1, drawsOf(1_790_000_000_000_000 + i, 7)) as number
      const tenth = Math.floor((10 * (drawn - least)) / (most - least + 1))
      tenths[tenth] = (tenths[tenth] as number) + 1
    }
    // The draws repeat, so this cannot fail by chance: chi-squared of nine degrees stays below its 99.9th percentile.
    const expected = deliveries / 10
    const chi = tenths.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
    assert.ok(chi < 27.9, `${jitter}: ${tenths}`)
  }
})

test('the draws of a delivery repeat, and those of its attempts, messages and endpoints have nothing in common', () => {
  const draws = (message: number, endpoint: number) => [1, 2, 3, 4].map(drawsOf(message, endpoint))
  assert.deepEqual(draws(5, 6), draws(5, 6))
  const all = [draws(5, 6), draws(6, 5), draws(5, 7), draws(5 + 2 ** 32, 6)].flat()
  assert.equal(new Set(all).size, 16)
  for (const draw of all) assert.ok(draw >= 0 && draw < 1)
  const pairs = Array.from({ length: 20_000 }, (_, i) => [drawsOf(i, 1)(1), drawsOf(i, 1)(2)] as const)
  const covariance = pairs.reduce((sum, [a, b]) => sum + (a - 0.5) * (b - 0.5), 0) / pairs.length
  assert.ok(Math.abs(covariance * 12) < 0.03, `the correlation of two waits in a row is ${covariance * 12}`)
})

test('docs/jitter.svg shows the waits of this program (node scripts/jitter-plot.ts draws it again)', () => {
  assert.equal(readFileSync(plotPath, 'utf8'), jitterPlot())
})
