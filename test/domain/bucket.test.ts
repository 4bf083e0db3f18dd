import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Bucket, emptyBucketDebt, type RateLimit } from '../../src/domain/rate.ts'

interface Shape {
  readonly from: number
  readonly limit: RateLimit
}

/**
 * Promise 4, judged from outside: between any two requests, and so in any window, at most burst + rate × time left.
 * Where the limit changed on the way, the time counts at the rate of its moment, and the burst is the largest there was.
 * Looks at all pairs in one pass: with credit(t) = what the rate gave until t, the excess of the window from send i to
 * send j is (j − credit(j)) − (i − credit(i)), so only the smallest earlier term matters.
 */
function largestExcess(sends: readonly number[], shapes: readonly Shape[]): number {
  const credit = (at: number) => {
    let sum = 0
    for (const [i, { from, limit }] of shapes.entries()) {
      const until = Math.min(at, shapes[i + 1]?.from ?? at)
      if (until > from) sum += ((until - from) * limit.rate) / limit.periodMs
    }
    return sum
  }
  const burst = Math.max(...shapes.map((shape) => shape.limit.burst))
  let least = Number.POSITIVE_INFINITY
  let worst = Number.NEGATIVE_INFINITY
  for (const [i, at] of sends.entries()) {
    const term = i - credit(at)
    least = Math.min(least, term)
    worst = Math.max(worst, term - least + 1 - burst)
  }
  return worst
}

function assertNeverFlooded(sends: readonly number[], shapes: readonly Shape[]): void {
  const excess = largestExcess(sends, shapes)
  // The sums above round in the tenth digit or so.
  assert.ok(excess <= 1e-6, `${excess} more than allowed: ${JSON.stringify({ sends, shapes })}`)
}

/** Sends as fast as the bucket allows, each request leaving at once, and answers when they left. */
function saturate(bucket: Bucket, from: number, untilMs: number): number[] {
  const sends: number[] = []
  let now = from
  for (;;) {
    now = bucket.readyAt(now)
    if (now > untilMs) return sends
    bucket.reserve()
    bucket.spend(now)
    sends.push(now)
  }
}

const anyLimit: fc.Arbitrary<RateLimit> = fc.record({
  rate: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 5000 })),
  periodMs: fc.constantFrom(1000, 10_000, 60_000),
  burst: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 30 })),
})

type Step =
  | { readonly kind: 'plan'; readonly gap: number }
  | { readonly kind: 'leave' | 'fail'; readonly gap: number; readonly which: number }
  | { readonly kind: 'reshape'; readonly gap: number; readonly limit: RateLimit }

/** Gaps are in intervals of the limit in force, so that a run of steps meets its bucket neither always full nor always empty. */
const anyGap = fc.oneof(
  fc.constant(0),
  fc.double({ min: 0, max: 1.5, noNaN: true }),
  fc.double({ min: 0, max: 20, noNaN: true }),
)
const howMany = fc.oneof(fc.nat(2), fc.nat(30))
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('plan' as const), gap: anyGap }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('leave' as const), gap: anyGap, which: howMany }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('fail' as const), gap: anyGap, which: howMany }) },
)
const anyReshape: fc.Arbitrary<Step> = fc.record({
  kind: fc.constant('reshape' as const),
  gap: anyGap,
  limit: anyLimit,
})

/** Plans whenever the bucket allows, lets requests leave late and out of order, and answers when each one left. */
function drive(limit: RateLimit, debtMs: number, start: number, steps: readonly Step[]) {
  const bucket = new Bucket(limit, start, debtMs)
  const shapes: Shape[] = [{ from: start, limit }]
  let interval = limit.periodMs / limit.rate
  const sends: number[] = []
  let planned = 0
  let now = start
  for (const step of steps) {
    now += step.gap * interval
    if (step.kind === 'reshape') {
      bucket.reshape(step.limit, now)
      shapes.push({ from: now, limit: step.limit })
      interval = step.limit.periodMs / step.limit.rate
    } else if (step.kind === 'plan') {
      // As many as there are tokens for: a bucket that allows one too many shows it here.
      for (let i = 0; i < 40 && bucket.readyAt(now) <= now; i++, planned++) bucket.reserve()
    } else {
      for (let i = 0; i <= step.which && planned > 0; i++, planned--) {
        if (step.kind === 'fail') bucket.restore()
        else {
          bucket.spend(now)
          sends.push(now)
        }
      }
    }
  }
  return { sends, shapes }
}

const anyDebt = fc.oneof(fc.constant(0), fc.constant(emptyBucketDebt), fc.double({ min: 0, max: 1e5, noNaN: true }))
/** An hour, and a year, of uptime: where the steady clock's numbers are large they are also coarse. */
const anyStart = fc.constantFrom(0, 3_600_000, 3.2e10)

test('no window holds more than burst plus rate times its length, however late requests leave', () => {
  fc.assert(
    fc.property(
      anyLimit,
      anyDebt,
      anyStart,
      fc.array(anyStep, { maxLength: 120, size: 'max' }),
      (limit, debtMs, start, steps) => {
        const { sends, shapes } = drive(limit, debtMs, start, steps)
        assertNeverFlooded(sends, shapes)
      },
    ),
    { numRuns: 300 },
  )
})

test('no window holds more than that while the limit changes either', () => {
  const steps = fc.array(fc.oneof({ weight: 8, arbitrary: anyStep }, { weight: 1, arbitrary: anyReshape }), {
    maxLength: 120,
    size: 'max',
  })
  fc.assert(
    fc.property(anyLimit, anyDebt, anyStart, steps, (limit, debtMs, start, list) => {
      const { sends, shapes } = drive(limit, debtMs, start, list)
      assertNeverFlooded(sends, shapes)
    }),
    { numRuns: 300 },
  )
})

test('the judge of windows itself finds a single request too many', () => {
  const shapes = [{ from: 0, limit: { rate: 10, periodMs: 1000, burst: 2 } }]
  assert.equal(largestExcess([0, 0, 100, 200], shapes), 0)
  assert.equal(largestExcess([0, 0, 0], shapes), 1)
  assert.ok(largestExcess([0, 500, 500, 590], shapes) > 0.09)
})

for (const limit of [
  { rate: 1, periodMs: 60_000, burst: 1 },
  { rate: 1, periodMs: 60_000, burst: 5 },
  { rate: 1, periodMs: 1000, burst: 1 },
  { rate: 10, periodMs: 1000, burst: 1 },
  { rate: 100, periodMs: 1000, burst: 10 },
  { rate: 5000, periodMs: 1000, burst: 1 },
  { rate: 5000, periodMs: 1000, burst: 500 },
]) {
  const { rate, periodMs, burst } = limit
  for (const start of [0, 3.2e10]) {
    test(`${rate} per ${periodMs} ms with burst ${burst} is used to 97% and never exceeded, ${start} ms after the start`, () => {
      const lengthMs = (1000 * periodMs) / rate
      const sends = saturate(new Bucket(limit, start, emptyBucketDebt), start, start + lengthMs)
      assertNeverFlooded(sends, [{ from: start, limit }])
      assert.ok(sends.length >= 970, `${sends.length} of 1000`)
    })
  }
}

test('a full bucket gives its burst less a sliver at once, an empty one nothing for an interval', () => {
  const limit = { rate: 100, periodMs: 1000, burst: 10 }
  const atOnce = (debtMs: number) => saturate(new Bucket(limit, 0, debtMs), 0, 0).length
  // 20 ms of the rate are kept back.
  assert.equal(atOnce(0), 8)
  assert.equal(atOnce(emptyBucketDebt), 0)
  const [first] = saturate(new Bucket(limit, 0, emptyBucketDebt), 0, 100) as [number]
  assert.ok(first >= 10 && first < 10.1, `${first}`)
  assert.equal(saturate(new Bucket({ ...limit, burst: 1 }, 0, 0), 0, 0).length, 1, 'one token can always be saved up')
})

test('a request that leaves late pays when it leaves', () => {
  const bucket = new Bucket({ rate: 10, periodMs: 1000, burst: 1 }, 0, 0)
  bucket.reserve()
  assert.ok(bucket.readyAt(60) > 60, 'what is reserved is not had twice')
  bucket.spend(60)
  const next = bucket.readyAt(60)
  assert.ok(next >= 160 && next < 161, `${next}`)
})

test('a token that is restored can be had at once', () => {
  const bucket = new Bucket({ rate: 1, periodMs: 60_000, burst: 1 }, 0, 0)
  bucket.reserve()
  assert.ok(bucket.readyAt(0) >= 60_000)
  bucket.restore()
  assert.equal(bucket.readyAt(0), 0)
  assert.equal(bucket.debtMs(0), 0)
})

test('a lane that sleeps until its token is ready finds it ready', () => {
  fc.assert(
    fc.property(anyLimit, anyStart, fc.array(anyGap, { maxLength: 30 }), (limit, start, gaps) => {
      const bucket = new Bucket(limit, start, emptyBucketDebt)
      let now = start
      for (const gap of gaps) {
        const readyAt = bucket.readyAt(now)
        assert.equal(bucket.readyAt(readyAt), readyAt)
        now = readyAt + (gap * limit.periodMs) / limit.rate
        bucket.reserve()
        bucket.spend(now)
      }
    }),
  )
})

test('changing the limit back and forth makes no token', () => {
  const slow = { rate: 1, periodMs: 60_000, burst: 10 }
  const fast = { rate: 1000, periodMs: 1000, burst: 100 }
  const bucket = new Bucket(slow, 0, 0)
  assert.equal(saturate(bucket, 0, 25).length, 10)
  for (const limit of [fast, slow, { ...slow, burst: 1 }, slow]) {
    bucket.reshape(limit, 25)
    assert.equal(saturate(bucket, 25, 25).length, 0, JSON.stringify(limit))
  }
})

test('saved-up tokens survive a change of the limit, up to the new burst', () => {
  const saved = (from: RateLimit, to: RateLimit) => {
    const bucket = new Bucket(from, 0, 0)
    bucket.reshape(to, 0)
    return saturate(bucket, 0, 0).length
  }
  const limit = { rate: 1, periodMs: 1000, burst: 11 }
  assert.equal(saved(limit, limit), 10)
  assert.equal(saved(limit, { ...limit, rate: 10 }), 10)
  assert.equal(saved(limit, { ...limit, burst: 5 }), 4)
  assert.equal(saved(limit, { ...limit, burst: 50 }), 10)
})

test('a bucket handed from owner to owner is the same bucket', () => {
  fc.assert(
    fc.property(
      anyLimit,
      anyDebt,
      fc.array(fc.tuple(anyGap, fc.boolean()), { maxLength: 60, size: 'max' }),
      (limit, debtMs, steps) => {
        const kept = new Bucket(limit, 0, debtMs)
        let handed = new Bucket(limit, 0, debtMs)
        const sends: number[] = []
        // Each owner counts from its own start.
        let offset = 0
        let now = 0
        for (const [gap, handOver] of steps) {
          now += (gap * limit.periodMs) / limit.rate
          if (handOver) {
            const debt = handed.debtMs(now + offset)
            offset += 12_345
            handed = new Bucket(limit, now + offset, debt)
          }
          assert.ok(Math.abs(handed.readyAt(now + offset) - offset - kept.readyAt(now)) < 1e-3)
          if (kept.readyAt(now) > now || handed.readyAt(now + offset) > now + offset) continue
          for (const [bucket, at] of [
            [kept, now],
            [handed, now + offset],
          ] as const) {
            bucket.reserve()
            bucket.spend(at)
          }
          sends.push(now)
        }
        assertNeverFlooded(sends, [{ from: 0, limit }])
      },
    ),
  )
})

test('the debt counts reserved tokens as spent', () => {
  const limit = { rate: 10, periodMs: 1000, burst: 5 }
  const bucket = new Bucket(limit, 0, 0)
  bucket.reserve()
  const reserved = bucket.debtMs(0)
  bucket.spend(0)
  assert.ok(Math.abs(reserved - bucket.debtMs(0)) < 1e-9)
  assert.ok(reserved >= 100)
  assert.equal(bucket.debtMs(10_000), 0)
})
