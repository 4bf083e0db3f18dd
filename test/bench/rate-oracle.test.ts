import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Allowance, type Arrivals, achievedShare, worstExcess } from '../../bench/rate-oracle.ts'

test('a burst and then the exact rate breaks no window', () => {
  assert.equal(worstExcess(exactly([0, 0, 0, 100, 200, 300]), { rate: 10, burst: 3 }), 0)
})

test('one arrival beyond the burst is an excess of one', () => {
  assert.equal(worstExcess(exactly([0, 0, 0, 0]), { rate: 10, burst: 3 }), 1)
})

test('an excess in the middle of a long quiet run is found', () => {
  const quiet = Array.from({ length: 50 }, (_, i) => i * 1000)
  const arrivals = [...quiet, 49_500, 49_501, 49_502, ...quiet.map((at) => at + 60_000)]
  // In the 502 ms from 49,000: four arrivals, of which 2 + 0.502 are allowed.
  assert.ok(Math.abs(worstExcess(exactly(arrivals), { rate: 1, burst: 2 }) - 1.498) < 1e-9)
})

test('no arrivals and a single one break nothing', () => {
  assert.equal(worstExcess(exactly([]), { rate: 1, burst: 1 }), 0)
  assert.equal(worstExcess(exactly([5]), { rate: 1, burst: 1 }), 0)
})

test('one pass finds the same worst window as looking at every one of them', () => {
  const arrivals = fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 40 }).map((gaps) => {
    let at = 1e9
    return gaps.map((gap) => (at += gap))
  })
  const allowance = fc.record({ rate: fc.constantFrom(1, 10, 100), burst: fc.integer({ min: 1, max: 10 }) })
  fc.assert(
    fc.property(arrivals, allowance, (times, limit) => {
      assert.ok(Math.abs(worstExcess(exactly(times), limit) - excessOfEveryWindow(times, limit)) < 1e-6)
    }),
  )
})

function exactly(times: readonly number[]): Arrivals {
  return { readMs: times, notBeforeMs: times }
}

test('requests that piled up while the receiver slept are an excess only beyond an even flow', () => {
  const readMs = [0, 10, 20, 120, 120, 120, 120, 120, 120, 120, 120, 120, 120]
  const notBeforeMs = [0, 10, 20, ...Array(10).fill(20)]
  assert.equal(worstExcess({ readMs, notBeforeMs }, { rate: 100, burst: 1 }), 0)
  assert.equal(worstExcess({ readMs: [...readMs, 120], notBeforeMs: [...notBeforeMs, 20] }, { rate: 100, burst: 1 }), 1)
  assert.equal(worstExcess(exactly(readMs), { rate: 100, burst: 1 }), 9)
})

function excessOfEveryWindow(times: readonly number[], { rate, burst }: Allowance): number {
  let worst = 0
  for (const [i, from] of times.entries()) {
    for (const [j, to] of times.entries()) {
      if (j >= i) worst = Math.max(worst, j - i + 1 - burst - (rate * (to - from)) / 1000)
    }
  }
  return worst
}

test('the exact rate after the burst is a share of one', () => {
  assert.equal(achievedShare([0, 0, 100, 200, 300, 400], { rate: 10, burst: 2 }, 450), 1)
})

test('half the rate is a share of one half', () => {
  assert.equal(achievedShare([0, 0, 100, 300, 500, 700], { rate: 10, burst: 2 }, 750), 0.5)
})

test('a stall before the end of the run lowers the share', () => {
  assert.equal(achievedShare([0, 0, 100, 200, 300], { rate: 10, burst: 2 }, 1100), 0.2)
})

test('an endpoint that got no more than its burst achieved nothing', () => {
  assert.equal(achievedShare([0, 0, 0], { rate: 10, burst: 3 }, 10_000), 0)
})
