import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Pace } from '../../src/domain/rate.ts'

/** Sends whenever it may, from `now` for so long, looking up late by what `late` says. */
function sendsOf(pace: Pace, now: number, forMs: number, late: (n: number) => number = () => 0): number[] {
  const sends: number[] = []
  for (let at = pace.readyAt(now); at < now + forMs; at = pace.readyAt(at)) {
    at += late(sends.length)
    pace.take(at)
    sends.push(at)
    if (at >= pace.endsAt) break
  }
  return sends
}

const perSecond = (n: number) => n / 1000

test('it climbs in a straight line from where it starts to the full rate, and ends there', () => {
  const pace = new Pace(perSecond(5), perSecond(100), 30_000, 1000)
  assert.equal(pace.rateAt(1000), perSecond(5))
  assert.ok(Math.abs(pace.rateAt(1000 + 15_000) - perSecond(55)) < 1e-9)
  assert.ok(Math.abs(pace.endsAt - (1000 + 28_500)) < 1e-6)
  assert.equal(pace.rateAt(1e9), perSecond(100))
  assert.equal(pace.readyAt(1e9), 1e9)
})

test('a low rate does not outlast its climb: the interval counts the gain meanwhile', () => {
  const pace = new Pace(perSecond(0.001), perSecond(1), 10_000, 0)
  assert.ok(pace.readyAt(0) <= pace.endsAt)
  assert.ok(pace.readyAt(0) < 5000, `${pace.readyAt(0)} ms for the first`)
})

test('after a silence one may leave at once, and the next an interval later', () => {
  const pace = new Pace(perSecond(10), perSecond(10_000), 1e9, 0)
  assert.equal(pace.readyAt(5000), 5000)
  pace.take(5000)
  assert.ok(pace.readyAt(5000) > 5090 && pace.readyAt(5000) <= 5100)
})

test('halving halves the current rate, never goes below the least, and climbs on from there', () => {
  const pace = new Pace(perSecond(100), perSecond(100), 120_000, 0)
  pace.halve(perSecond(30), 100_000, 0)
  assert.equal(pace.rateAt(0), perSecond(50))
  assert.ok(Math.abs(pace.rateAt(10_000) - perSecond(60)) < 1e-9)
  pace.halve(perSecond(30), 100_000, 10_000)
  assert.ok(Math.abs(pace.rateAt(10_000) - perSecond(30)) < 1e-9)
  pace.halve(perSecond(30), 100_000, 10_000)
  assert.ok(Math.abs(pace.rateAt(10_000) - perSecond(30)) < 1e-9)
})

test('in no window more leave than the line allows and one, however late the looks are', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0.0001, max: 1, noNaN: true }),
      fc.double({ min: 0.01, max: 1, noNaN: true }),
      fc.integer({ min: 10, max: 100_000 }),
      fc.array(fc.double({ min: 0, max: 50, noNaN: true }), { minLength: 1, maxLength: 20 }),
      (full, start, climbMs, lates) => {
        const pace = new Pace(full * start, full, climbMs, 0)
        const area = (from: number, to: number) => {
          const ramp = Math.min(to, pace.endsAt)
          const mean = (pace.rateAt(from) + pace.rateAt(ramp)) / 2
          return mean * Math.max(0, ramp - from) + full * Math.max(0, to - Math.max(from, ramp))
        }
        const sends = sendsOf(pace, 0, climbMs, (n) => lates[n % lates.length] as number).slice(0, 200)
        for (const [i, from] of sends.entries()) {
          const last = sends.at(-1) as number
          if (last >= pace.endsAt) return
          const sent = sends.length - 1 - i
          assert.ok(sent <= area(from, last) + 1e-6, `${sent} sent, ${area(from, last)} allowed`)
        }
      },
    ),
    { numRuns: 200 },
  )
})
