import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Clock } from '../../src/domain/clock.ts'
import { Deadlines, Timed } from '../../src/sender/deadline.ts'

/** Time without promises, because these tests pass hours of it in steps of 25 ms. */
class PlainClock implements Clock {
  timersSet = 0
  #now = 0
  #timers: { readonly at: number; readonly fn: () => void }[] = []

  now(): number {
    return this.#now
  }

  steady(): number {
    return this.#now
  }

  after(ms: number, fn: () => void): () => void {
    const timer = { at: this.#now + ms, fn }
    this.timersSet++
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer)
    }
  }

  soon(fn: () => void): void {
    this.after(0, fn)
    this.timersSet--
  }

  afterPromises(fn: () => void): void {
    queueMicrotask(fn)
  }

  advance(ms: number): void {
    const until = this.#now + ms
    for (;;) {
      const [next] = this.#timers.toSorted((a, b) => a.at - b.at)
      if (next === undefined || next.at > until) break
      this.#timers = this.#timers.filter((other) => other !== next)
      this.#now = next.at
      next.fn()
    }
    this.#now = until
  }
}

class Probe extends Timed {
  expiredAt: number | undefined
  readonly #expired: () => number

  constructor(expired: () => number) {
    super()
    this.#expired = expired
  }

  expire(): void {
    assert.equal(this.expiredAt, undefined, 'expires once')
    this.expiredAt = this.#expired()
  }
}

test('whatever is added and removed when, each deadline fires once, never early and at most 50 ms late', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({ waitMs: fc.nat(40), timeoutMs: fc.integer({ min: 1, max: 60_000 }), endsAfterMs: fc.nat(60_000) }),
        { minLength: 1, maxLength: 40 },
      ),
      (attempts) => {
        const clock = new PlainClock()
        const deadlines = new Deadlines(clock)
        const all: { probe: Probe; dueAt: number; endsAt: number }[] = []
        for (const { waitMs, timeoutMs, endsAfterMs } of attempts) {
          clock.advance(waitMs)
          const probe = new Probe(() => clock.steady())
          const now = clock.steady()
          deadlines.add(probe, now, timeoutMs)
          all.push({ probe, dueAt: now + timeoutMs, endsAt: now + endsAfterMs })
          clock.after(endsAfterMs, () => deadlines.remove(probe))
        }
        clock.advance(130_000)
        for (const { probe, dueAt, endsAt } of all) {
          if (endsAt < dueAt) assert.equal(probe.expiredAt, undefined)
          if (endsAt > dueAt + 50) assert.ok(probe.expiredAt !== undefined && probe.expiredAt - dueAt <= 50)
          if (probe.expiredAt !== undefined) assert.ok(probe.expiredAt >= dueAt)
        }
        assert.deepEqual(deadlines.all(), [])
      },
    ),
    { numRuns: 50 },
  )
})

test('an expiry may end others, and add a new deadline', () => {
  const clock = new PlainClock()
  const deadlines = new Deadlines(clock)
  const second = new Probe(() => clock.steady())
  const third = new Probe(() => clock.steady())
  const first = new Probe(() => {
    deadlines.remove(second)
    deadlines.add(third, clock.steady(), 100)
    return clock.steady()
  })
  deadlines.add(first, clock.steady(), 100)
  deadlines.add(second, clock.steady(), 100)
  clock.advance(1000)

  assert.ok(first.expiredAt)
  assert.equal(second.expiredAt, undefined)
  assert.ok(third.expiredAt && third.expiredAt >= first.expiredAt + 100)
})

test('no timer runs while nothing is under way', () => {
  const clock = new PlainClock()
  const deadlines = new Deadlines(clock)
  const probe = new Probe(() => clock.steady())
  deadlines.add(probe, clock.steady(), 1000)
  deadlines.remove(probe)
  clock.advance(10_000)
  assert.equal(clock.timersSet, 1)

  deadlines.add(probe, clock.steady(), 1000)
  clock.advance(900)
  assert.equal(clock.timersSet, 1 + 37)
  deadlines.close()
  clock.advance(10_000)
  assert.equal(clock.timersSet, 1 + 37)
  assert.equal(probe.expiredAt, undefined)
})
