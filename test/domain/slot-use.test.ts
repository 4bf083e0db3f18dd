import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fresh } from '../../src/domain/delivery.ts'
import type { Lane, Start } from '../../src/domain/lane.ts'
import { FailureBudget } from '../../src/domain/rate.ts'
import { Scheduler } from '../../src/domain/scheduler.ts'
import { SlotUse } from '../../src/domain/slot-use.ts'

const second = 1000
const minute = 60 * second
const cleanStart = { bucketDebtMs: 0, holdMs: 0 }
const limits = { rate: undefined, concurrency: 10 }

/** A worker in virtual time whose receivers answer after a time of their own. */
class Worker {
  readonly scheduler: Scheduler<number>
  readonly answersAfterMs = new Map<Lane<number>, number>()
  readonly ended = new Map<Lane<number>, number>()
  now = 0
  mostWaitMs = 0
  #flights: { start: Start<number>; endsAt: number; at: number }[] = []
  #nextEndpoint = 1

  constructor(inFlight = 1024) {
    this.scheduler = new Scheduler({ inFlight, inFlightPerApp: inFlight / 2 })
  }

  add(app: number, answersAfterMs: number): Lane<number> {
    const lane = this.scheduler.add(this.#nextEndpoint++, app, limits, cleanStart, this.now)
    this.answersAfterMs.set(lane, answersAfterMs)
    return lane
  }

  /** Every item is the instant at which it was offered. */
  offer(lane: Lane<number>, count = 1): void {
    for (let i = 0; i < count; i++) this.scheduler.offer(lane, fresh, this.now, this.now)
  }

  tick(ms: number): void {
    this.now += ms
    for (const { start, endsAt, at } of this.#flights.filter((flight) => flight.endsAt <= this.now)) {
      const slotMs = endsAt - at
      this.scheduler.finish(start.lane, this.now, { slotMs, result: slotMs < 15 * second ? 'delivered' : 'failed' })
      this.ended.set(start.lane, (this.ended.get(start.lane) ?? 0) + 1)
    }
    this.#flights = this.#flights.filter((flight) => flight.endsAt > this.now)
    for (let starts = this.plan(); starts > 0; starts = this.plan()) {}
  }

  plan(): number {
    const starts = this.scheduler.plan(this.now, 32)
    for (const start of starts) {
      const takes = this.answersAfterMs.get(start.lane) as number
      if (takes < second) this.mostWaitMs = Math.max(this.mostWaitMs, this.now - start.item)
      this.#flights.push({ start, at: this.now, endsAt: this.now + takes })
    }
    return starts.length
  }
}

test('5,000 applications that hang keep no endpoint waiting that answers quickly', () => {
  const worker = new Worker()
  const healthy = Array.from({ length: 20 }, (_, app) => worker.add(app, 30))
  for (const lane of healthy) worker.offer(lane)
  for (let i = 0; i < 10; i++) worker.tick(10)
  worker.mostWaitMs = 0

  const hanging = Array.from({ length: 5000 }, (_, i) => worker.add(1000 + i, 15 * second))
  for (const lane of hanging) worker.offer(lane, 50)
  for (let i = 0; i < 6000; i++) {
    // 20 endpoints, each 100 a second, for a minute.
    for (const lane of healthy) worker.offer(lane)
    worker.tick(10)
    const held = hanging.reduce((sum, lane) => sum + lane.inFlight, 0)
    assert.ok(held <= 896, `${held} slots are held by lanes that hang`)
  }
  assert.ok(worker.mostWaitMs <= 50, `a healthy endpoint waited for ${worker.mostWaitMs} ms`)
  const sent = healthy.reduce((sum, lane) => sum + (worker.ended.get(lane) ?? 0), 0)
  assert.ok(sent >= 119_000, `${sent} of 120,000 were delivered`)
  // Those that hang have their turns, too: some 800 slots of 15 s each, for a minute.
  const tried = hanging.filter((lane) => worker.ended.has(lane)).length
  assert.ok(tried >= 2400, `${tried} of those that hang were tried`)
})

test('a new endpoint finds a slot beside those that are known to hang', () => {
  const worker = new Worker()
  const hanging = Array.from({ length: 5000 }, (_, i) => worker.add(i, 15 * second))
  for (const lane of hanging) worker.offer(lane, 50)
  // Each of them is known after its first attempt.
  while (hanging.some((lane) => !worker.ended.has(lane))) worker.tick(500)
  const anew = worker.add(9999, 30)
  worker.offer(anew)
  worker.tick(20)
  assert.equal(anew.inFlight, 1)
  const slot = worker.scheduler.slotsOf(hanging.find((lane) => lane.inFlight === 0) as Lane<number>, worker.now)
  assert.equal(slot.crowded, 'slow')
})

test('where nothing but slow receivers is there, they have three quarters of the slots', () => {
  const worker = new Worker(64)
  const slow = Array.from({ length: 40 }, (_, i) => worker.add(i, 3 * second))
  for (const lane of slow) worker.offer(lane, 100)
  for (let i = 0; i < 100; i++) worker.tick(100)
  const { inFlight } = worker.scheduler
  assert.ok(inFlight >= 40 && inFlight <= 48, `${inFlight} of 64 slots`)
})

test('a lane that comes back is known by how it used slots before', () => {
  const worker = new Worker()
  const lane = worker.add(1, 15 * second)
  worker.offer(lane)
  for (let i = 0; i < 20; i++) worker.tick(second)
  assert.equal(lane.slotUser, 'slow')
  worker.scheduler.remove(lane)
  const again = worker.scheduler.add(lane.endpoint, 1, limits, cleanStart, worker.now)
  assert.equal(again.slotUser, 'slow')
})

test('an endpoint is slow until it has answered quickly, and for a while: answers alone do not repay', () => {
  const use = new SlotUse()
  assert.equal(use.userAt(0), 'untried')
  use.ended(20, 0)
  assert.equal(use.userAt(0), 'quick')
  use.ended(15 * second, 15 * second)
  assert.equal(use.userAt(100 * minute), 'slow', 'time alone does not repay')
  for (let i = 1; i <= 1000; i++) use.ended(5, 15 * second + i)
  assert.equal(use.userAt(17 * second), 'slow', 'nor does a flood of answers')
  for (let i = 1; i <= 60; i++) use.ended(5, 16 * second + i * second)
  assert.equal(use.userAt(77 * second), 'quick')
  assert.equal(use.userAt(77 * second + 11 * minute), 'untried')
})

test('an answer of a second and a half now and then does not make an endpoint slow', () => {
  const use = new SlotUse()
  let slow = 0
  for (let i = 0; i < 10_000; i++) {
    use.ended(i % 100 === 0 ? 1500 : 50, i * 100)
    if (use.userAt(i * 100) === 'slow') slow++
  }
  assert.ok(slow < 3000, `slow after ${slow} of 10,000`)
})

test('an endpoint fails at most as often as it may: half at once, and then evenly', () => {
  const budget = new FailureBudget(60)
  const failed: number[] = []
  let now = 0
  for (; now < 10 * minute; now += 10) {
    if (budget.readyAt(now, 0) > now) continue
    budget.failed(now)
    failed.push(now)
  }
  assert.equal(failed.filter((at) => at === 0).length, 1)
  assert.equal(failed.filter((at) => at < second).length, 30)
  assert.ok(failed.length >= 300 + 29, `${failed.length} failures in ten minutes`)
  budget.failed(now)
  const readyAt = budget.readyAt(now, 0)
  assert.ok(readyAt > now && readyAt <= now + 4 * second, `ready after ${readyAt - now} ms`)
})

test('whenever attempts end, no minute has more failures than the limit', () => {
  const attempts = fc.array(fc.record({ waitMs: fc.nat(3000), takesMs: fc.nat(20_000) }), { maxLength: 400 })
  fc.assert(
    fc.property(
      fc.integer({ min: 2, max: 120 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      attempts,
      (limit, share, all) => {
        const concurrency = Math.max(1, Math.floor((share * limit) / 2))
        const budget = new FailureBudget(limit)
        const failedAt: number[] = []
        let underWay: number[] = []
        let now = 0
        const endUntil = (until: number) => {
          for (const at of underWay.filter((each) => each <= until).sort((a, b) => a - b)) {
            budget.failed(at)
            failedAt.push(at)
          }
          underWay = underWay.filter((each) => each > until)
        }
        for (const { waitMs, takesMs } of all) {
          now += waitMs
          endUntil(now)
          // It starts as soon as a slot and the budget allow.
          for (;;) {
            const at = underWay.length < concurrency ? budget.readyAt(now, underWay.length) : Number.POSITIVE_INFINITY
            if (at <= now) break
            now = Math.min(at, ...underWay)
            endUntil(now)
          }
          underWay.push(now + takesMs)
        }
        endUntil(Number.POSITIVE_INFINITY)
        for (const [i, from] of failedAt.entries()) {
          const inMinute = failedAt.slice(i).filter((at) => at < from + minute).length
          assert.ok(inMinute <= limit, `${inMinute} of ${limit} in the minute from ${from}`)
        }
      },
    ),
  )
})

test('attempts under way count as failures after a failure, and not before', () => {
  const budget = new FailureBudget(60)
  assert.equal(budget.readyAt(0, 1000), 0)
  for (let i = 0; i < 10; i++) budget.failed(0)
  assert.equal(budget.readyAt(0, 19), 0)
  assert.equal(budget.readyAt(0, 20), 2 * second)
  for (let i = 0; i < 5; i++) budget.succeeded()
  assert.equal(budget.readyAt(0, 1000), 0)
})

test('a busy endpoint with errors among its successes is never slowed down, and one that recovers is soon fast', () => {
  const budget = new FailureBudget(60)
  for (let now = 0; now < 10 * minute; now += 1) {
    assert.ok(budget.readyAt(now, 0) <= now)
    if (now % 3 === 0) budget.failed(now)
    else budget.succeeded()
  }
  const recovering = new FailureBudget(60)
  for (let i = 0; i < 100; i++) recovering.failed(0)
  let now = recovering.readyAt(0, 0)
  const began = now
  for (let i = 0; i < 60; i++) {
    now = recovering.readyAt(now, 0)
    recovering.succeeded()
  }
  assert.ok(now - began < 2 * second, `it took ${now - began} ms`)
})
