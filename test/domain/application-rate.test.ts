import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fresh } from '../../src/domain/delivery.ts'
import type { Lane } from '../../src/domain/lane.ts'
import { Scheduler } from '../../src/domain/scheduler.ts'
import { applicationRate } from '../../src/features/endpoints/rules.ts'

const always = Number.NEGATIVE_INFINITY
const clean = { bucketDebtMs: 0, holdMs: 0 }
const plain = { rate: undefined, concurrency: 1000 }

/** Lanes of two applications with plenty queued; each attempt takes no time. Answers when each was started. */
function run(
  scheduler: Scheduler<number>,
  lanes: readonly Lane<number>[],
  forMs: number,
): { app: number; at: number }[] {
  const starts: { app: number; at: number }[] = []
  for (const lane of lanes) for (let i = 0; i < 2000; i++) scheduler.offer(lane, fresh, i, 0)
  for (let now = 0; now <= forMs; ) {
    for (const start of scheduler.plan(now, 128)) {
      starts.push({ app: start.lane.app.key, at: now })
      start.bucket?.spend(now)
      scheduler.finish(start.lane, now)
    }
    const wakeAt = scheduler.wakeAt()
    if (starts.length > 20_000) break
    now = wakeAt === undefined || wakeAt <= now ? now + 1 : wakeAt
  }
  return starts
}

test('all lanes of an application together keep to its rate, and others are not slowed', () => {
  const scheduler = new Scheduler<number>({ inFlight: 1000, inFlightPerApp: 1000 })
  const lanes = [1, 2, 3].map((key) => scheduler.add(key, 10, plain, clean, 0))
  lanes.push(scheduler.add(4, 20, plain, clean, 0))
  scheduler.throttle(10, applicationRate(50), always, 0)
  const starts = run(scheduler, lanes, 4000)
  const slow = starts.filter(({ app }) => app === 10)
  assert(slow.length >= 185 && slow.length <= 205, `${slow.length} in four seconds`)
  assert.equal(starts.length - slow.length, 2000)
})

test('in no window more is started than burst and rate allow, whatever the shares become', () => {
  const change = fc.record({ at: fc.integer({ min: 0, max: 3000 }), workers: fc.integer({ min: 1, max: 4 }) })
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 200 }), fc.array(change, { maxLength: 4 }), (rate, changes) => {
      const scheduler = new Scheduler<number>({ inFlight: 1000, inFlightPerApp: 1000 })
      const lanes = [1, 2].map((key) => scheduler.add(key, 10, plain, clean, 0))
      for (const lane of lanes) for (let i = 0; i < 1000; i++) scheduler.offer(lane, fresh, i, 0)
      scheduler.throttle(10, applicationRate(rate), always, 0)
      const times: number[] = []
      for (let now = 0; now <= 3000; now++) {
        for (const { workers } of changes.filter(({ at }) => at === now)) {
          scheduler.throttle(10, applicationRate(rate / workers), always, now)
        }
        for (const start of scheduler.plan(now, 128)) {
          times.push(now)
          scheduler.finish(start.lane, now)
        }
      }
      const { burst } = applicationRate(rate)
      for (const [i, from] of times.entries()) {
        const to = times.at(-1) as number
        const allowed = burst + (rate * (to - from)) / 1000
        assert.ok(times.length - i <= allowed + 1e-6, `${times.length - i} from ${from} to ${to}, ${allowed} allowed`)
      }
    }),
    { numRuns: 60 },
  )
})

test('nothing is started before all workers share, and a rate taken away lets everything go', () => {
  const scheduler = new Scheduler<number>({ inFlight: 1000, inFlightPerApp: 1000 })
  const lane = scheduler.add(1, 10, plain, clean, 0)
  for (let i = 0; i < 100; i++) scheduler.offer(lane, fresh, i, 0)
  scheduler.throttle(10, applicationRate(1000 / 2), 500, 0)
  assert.deepEqual(scheduler.plan(499, 128), [])
  assert.equal(scheduler.wakeAt(), 500)
  const first = scheduler.plan(500, 128)
  assert(first.length > 0 && first.length <= 50, `${first.length} at once`)
  scheduler.throttle(10, undefined, always, 501)
  assert.equal(scheduler.plan(501, 128).length, 100 - first.length)
})

test('the saved-up tokens of an application outlive its lanes', () => {
  const scheduler = new Scheduler<number>({ inFlight: 1000, inFlightPerApp: 1000 })
  const begin = (now: number) => {
    const lane = scheduler.add(1, 10, plain, clean, now)
    scheduler.throttle(10, applicationRate(10), always, now)
    for (let i = 0; i < 10; i++) scheduler.offer(lane, fresh, i, now)
    return lane
  }
  const lane = begin(0)
  assert.deepEqual(scheduler.plan(0, 128), [], 'how much was sent before is not known')
  const [start] = scheduler.plan(200, 128)
  assert(start)
  scheduler.finish(start.lane, 200)
  scheduler.remove(lane)
  begin(210)
  assert.deepEqual(scheduler.plan(210, 128), [])
  scheduler.plan(350, 128)
  assert.equal(scheduler.plan(2000, 128).length, 1)
})
