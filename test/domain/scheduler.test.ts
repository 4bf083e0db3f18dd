import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Class, fresh, replay, timed } from '../../src/domain/delivery.ts'
import type { Lane, LaneLimits, SchedulerLimits } from '../../src/domain/lane.ts'
import { Scheduler } from '../../src/domain/scheduler.ts'

const roomy: SchedulerLimits = { inFlight: 100_000, inFlightPerApp: 100_000 }
const unlimited: LaneLimits = { rate: undefined, concurrency: 100_000 }
const cleanStart = { bucketDebtMs: 0, holdMs: 0 }

let nextEndpoint = 1

function addLane(scheduler: Scheduler<number>, app: number, limits = unlimited, now = 0): Lane<number> {
  return scheduler.add(nextEndpoint++, app, limits, cleanStart, now)
}

/** A lane whose last attempt ended quickly. */
function addQuickLane(scheduler: Scheduler<number>, app: number, now = 0): Lane<number> {
  const lane = addLane(scheduler, app, unlimited, now)
  lane.use.ended(5, now)
  return lane
}

function offerMany(scheduler: Scheduler<number>, lane: Lane<number>, count: number, itsClass: Class = fresh): void {
  for (let i = 0; i < count; i++) scheduler.offer(lane, itsClass, i, 0)
}

function countBy<K>(keys: readonly K[]): Map<K, number> {
  const counts = new Map<K, number>()
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1)
  return counts
}

test('a lane gives its deliveries in the order they were offered', () => {
  const scheduler = new Scheduler<number>(roomy)
  const lane = addLane(scheduler, 1)
  offerMany(scheduler, lane, 100)
  const items = scheduler.plan(0, 1000).map((start) => start.item)
  assert.deepEqual(items, [...Array(100).keys()])
  assert.equal(lane.queued, 0)
})

test('a plan is no longer than asked and the next one goes on behind it', () => {
  const scheduler = new Scheduler<number>(roomy)
  offerMany(scheduler, addLane(scheduler, 1), 5)
  assert.deepEqual(
    scheduler.plan(0, 3).map((start) => start.item),
    [0, 1, 2],
  )
  assert.deepEqual(
    scheduler.plan(0, 3).map((start) => start.item),
    [3, 4],
  )
  assert.deepEqual(scheduler.plan(0, 3), [])
})

test('a lane has no more under way than its cap, and goes on as soon as one ends', () => {
  const scheduler = new Scheduler<number>(roomy)
  const lane = addLane(scheduler, 1, { rate: undefined, concurrency: 2 })
  offerMany(scheduler, lane, 5)
  assert.equal(scheduler.plan(0, 100).length, 2)
  assert.equal(scheduler.plan(0, 100).length, 0)
  scheduler.finish(lane, 0)
  assert.equal(scheduler.plan(0, 100).length, 1)
})

for (const lanesPerApp of [
  [1, 1, 1],
  [1, 10, 100],
  [3, 2, 1],
]) {
  test(`applications with ${lanesPerApp.join(', ')} saturated lanes get equal numbers of starts`, () => {
    const scheduler = new Scheduler<number>(roomy)
    for (const [app, count] of lanesPerApp.entries()) {
      for (let i = 0; i < count; i++) offerMany(scheduler, addLane(scheduler, app), 300)
    }
    const started: number[] = []
    for (let round = 0; round < 150; round++) {
      // A plan that ends in the middle of a round must not shift the turns.
      for (const start of scheduler.plan(0, 2)) started.push(start.lane.app.key)
      const counts = [...lanesPerApp.keys()].map((app) => countBy(started).get(app) ?? 0)
      assert.ok(Math.max(...counts) - Math.min(...counts) <= 1, counts.join(' '))
    }
  })
}

test('the lanes of an application take turns', () => {
  const scheduler = new Scheduler<number>(roomy)
  const lanes = Array.from({ length: 7 }, () => addLane(scheduler, 1))
  for (const lane of lanes) offerMany(scheduler, lane, 20)
  for (let round = 1; round <= 20; round++) {
    scheduler.plan(0, 7)
    assert.deepEqual(
      lanes.map((lane) => lane.inFlight),
      Array(7).fill(round),
    )
  }
})

test('looking at a lane again gives it no further turn', () => {
  const scheduler = new Scheduler<number>(roomy)
  const [eager, patient] = [addLane(scheduler, 1), addLane(scheduler, 1)]
  for (const lane of [eager, patient]) offerMany(scheduler, lane, 20)
  for (let i = 0; i < 10; i++) scheduler.reconsider(eager, 0)
  scheduler.plan(0, 20)
  assert.deepEqual([eager.inFlight, patient.inFlight], [10, 10])
})

test('an application that arrives in the middle of a flood waits one turn', () => {
  const scheduler = new Scheduler<number>(roomy)
  for (let i = 0; i < 50; i++) offerMany(scheduler, addLane(scheduler, 1), 100)
  scheduler.plan(0, 500)
  const late = addLane(scheduler, 2)
  offerMany(scheduler, late, 1)
  const [first, second] = scheduler.plan(0, 2)
  assert.ok(first?.lane === late || second?.lane === late)
})

test('retries get an eighth and replays a sixteenth of a lane saturated with fresh deliveries', () => {
  const scheduler = new Scheduler<number>(roomy)
  const lane = addLane(scheduler, 1)
  for (const c of [fresh, timed, replay] as const) offerMany(scheduler, lane, 1600, c)
  const counts = countBy(scheduler.plan(0, 1600).map((start) => start.class))
  assert.deepEqual([counts.get(fresh), counts.get(timed), counts.get(replay)], [1300, 200, 100])
})

test('no class waits longer than sixteen turns, whatever else is queued', () => {
  const busy: Class[][] = [[fresh, timed], [fresh], [timed]]
  for (const others of busy) {
    const scheduler = new Scheduler<number>(roomy)
    const lane = addLane(scheduler, 1)
    for (const c of others) offerMany(scheduler, lane, 100, c)
    const waiting = others.includes(timed) ? replay : timed
    offerMany(scheduler, lane, 1, waiting)
    assert.ok(
      scheduler.plan(0, 16).some((start) => start.class === waiting),
      others.join(),
    )
  }
})

test('without competition each class gets every turn, and fresh comes before timed before replay', () => {
  const scheduler = new Scheduler<number>(roomy)
  const lane = addLane(scheduler, 1)
  offerMany(scheduler, lane, 40, replay)
  assert.equal(scheduler.plan(0, 40).length, 40)
  const other = addLane(scheduler, 1)
  for (const c of [replay, timed, fresh] as const) offerMany(scheduler, other, 2, c)
  assert.deepEqual(
    scheduler.plan(0, 6).map((start) => start.class),
    [fresh, fresh, timed, timed, replay, replay],
  )
})

test('a lane without a token sleeps exactly until it has one', () => {
  const scheduler = new Scheduler<number>(roomy)
  const rate = { rate: 10, periodMs: 1000, burst: 1 }
  const lane = addLane(scheduler, 1, { rate, concurrency: 100 })
  offerMany(scheduler, lane, 3)
  const [first] = scheduler.plan(0, 10)
  first?.bucket?.spend(0)
  const wakeAt = scheduler.wakeAt() as number
  assert.ok(wakeAt >= 100 && wakeAt < 101, `${wakeAt}`)
  assert.equal(scheduler.plan(wakeAt - 0.01, 10).length, 0)
  assert.equal(scheduler.plan(wakeAt, 10).length, 1)
})

test('a held lane sleeps exactly until its hold ends, and a shorter hold does not shorten it', () => {
  const scheduler = new Scheduler<number>(roomy)
  const lane = addLane(scheduler, 1)
  offerMany(scheduler, lane, 2)
  lane.hold(5000)
  lane.hold(1000)
  assert.equal(scheduler.plan(0, 10).length, 0)
  assert.equal(scheduler.wakeAt(), 5000)
  assert.equal(scheduler.plan(4999, 10).length, 0)
  assert.equal(scheduler.plan(5000, 10).length, 2)
})

test('a hold that arrives while a lane sleeps for a token is kept too', () => {
  const scheduler = new Scheduler<number>(roomy)
  const rate = { rate: 1, periodMs: 1000, burst: 1 }
  const lane = scheduler.add(nextEndpoint++, 1, { rate, concurrency: 9 }, { bucketDebtMs: 1000, holdMs: 0 }, 0)
  offerMany(scheduler, lane, 1)
  lane.hold(5000)
  assert.equal(scheduler.plan(2000, 10).length, 0)
  assert.equal(scheduler.wakeAt(), 5000)
  assert.equal(scheduler.plan(5000, 10).length, 1)
})

test('the state of the last owner is kept: the hold and the empty bucket', () => {
  const scheduler = new Scheduler<number>(roomy)
  const held = scheduler.add(nextEndpoint++, 1, unlimited, { bucketDebtMs: 0, holdMs: 700 }, 100)
  scheduler.offer(held, fresh, 1, 100)
  assert.equal(scheduler.wakeAt(), 800)
  const rate = { rate: 1, periodMs: 1000, burst: 5 }
  const empty = scheduler.add(nextEndpoint++, 1, { rate, concurrency: 9 }, { bucketDebtMs: Infinity, holdMs: 0 }, 100)
  scheduler.offer(empty, fresh, 2, 100)
  assert.deepEqual(
    scheduler.plan(800, 9).map((start) => start.lane),
    [held],
  )
  assert.deepEqual(scheduler.plan(1100, 9), [])
  assert.deepEqual(
    scheduler.plan(1106, 9).map((start) => start.lane),
    [empty],
  )
})

test('a token that comes back wakes its lane at once', () => {
  const scheduler = new Scheduler<number>(roomy)
  const rate = { rate: 1, periodMs: 60_000, burst: 1 }
  const lane = addLane(scheduler, 1, { rate, concurrency: 9 })
  offerMany(scheduler, lane, 2)
  const [start] = scheduler.plan(0, 9)
  assert.ok(start && start.item === 0)
  scheduler.giveBack(start, 10)
  const [again] = scheduler.plan(10, 9)
  assert.equal(again?.item, 0, 'it did not leave, so it is still first and its token still there')
  // The same when an attempt ends before its request left.
  again?.bucket?.restore()
  scheduler.finish(lane, 20)
  assert.equal(scheduler.plan(20, 9)[0]?.item, 1)
})

test('starts given back last first leave the queues as they were', () => {
  const scheduler = new Scheduler<number>(roomy)
  const lane = addLane(scheduler, 1)
  offerMany(scheduler, lane, 10)
  const starts = scheduler.plan(0, 7)
  for (const start of starts.toReversed()) scheduler.giveBack(start, 0)
  assert.equal(scheduler.inFlight, 0)
  assert.deepEqual(
    scheduler.plan(0, 10).map((start) => start.item),
    [...Array(10).keys()],
  )
})

test('a closed lane starts nothing until it is opened and looked at again', () => {
  const scheduler = new Scheduler<number>(roomy)
  const lane = addLane(scheduler, 1)
  offerMany(scheduler, lane, 2)
  lane.closed = true
  assert.equal(scheduler.plan(0, 9).length, 0)
  scheduler.offer(lane, fresh, 2, 0)
  assert.equal(scheduler.plan(0, 9).length, 0)
  lane.closed = false
  scheduler.reconsider(lane, 0)
  assert.equal(scheduler.plan(0, 9).length, 3)
})

test('a lane that gets a larger cap or loses its rate limit goes on at once', () => {
  const scheduler = new Scheduler<number>(roomy)
  const rate = { rate: 1, periodMs: 60_000, burst: 1 }
  const lane = addLane(scheduler, 1, { rate, concurrency: 1 })
  offerMany(scheduler, lane, 9)
  assert.equal(scheduler.plan(0, 9).length, 1)
  lane.reshape({ rate, concurrency: 3 }, 0)
  scheduler.reconsider(lane, 0)
  assert.equal(scheduler.plan(0, 9).length, 0, 'there is no token')
  lane.reshape({ rate: undefined, concurrency: 3 }, 0)
  scheduler.reconsider(lane, 0)
  assert.equal(scheduler.plan(0, 9).length, 2)
})

test('a lane that gets a rate limit starts with an empty bucket', () => {
  const scheduler = new Scheduler<number>(roomy)
  const lane = addLane(scheduler, 1)
  offerMany(scheduler, lane, 20)
  assert.equal(scheduler.plan(0, 9).length, 9)
  lane.reshape({ rate: { rate: 10, periodMs: 1000, burst: 10 }, concurrency: 100 }, 0)
  assert.equal(scheduler.plan(0, 9).length, 0)
  assert.equal(scheduler.plan(101, 9).length, 1)
})

test('a removed lane answers its queued deliveries and is never planned again, from any place', () => {
  const scheduler = new Scheduler<number>(roomy)
  const ready = addLane(scheduler, 1)
  const asleep = addLane(scheduler, 1)
  const busy = addLane(scheduler, 1)
  offerMany(scheduler, busy, 1)
  assert.equal(scheduler.plan(0, 9).length, 1)
  asleep.hold(100)
  offerMany(scheduler, ready, 2)
  scheduler.offer(ready, replay, 7, 0)
  scheduler.offer(ready, timed, 5, 0)
  offerMany(scheduler, asleep, 3)
  assert.deepEqual(scheduler.remove(ready), [0, 1, 5, 7])
  assert.deepEqual(scheduler.remove(asleep), [0, 1, 2])
  assert.deepEqual(scheduler.remove(busy), [])
  scheduler.finish(busy, 0)
  assert.equal(scheduler.inFlight, 0)
  assert.deepEqual(scheduler.plan(1000, 9), [])
})

test('an application keeps its cap while attempts of removed lanes are still under way', () => {
  const scheduler = new Scheduler<number>({ inFlight: 1000, inFlightPerApp: 4 })
  const lost = [1, 2, 3, 4].map(() => addLane(scheduler, 1))
  for (const lane of lost) offerMany(scheduler, lane, 1)
  assert.equal(scheduler.plan(0, 99).length, 4)
  for (const lane of lost) scheduler.remove(lane)
  const anew = addLane(scheduler, 1)
  offerMany(scheduler, anew, 10)
  assert.equal(scheduler.plan(0, 99).length, 0)
  for (const lane of lost) scheduler.finish(lane, 0)
  assert.ok(scheduler.plan(0, 99).length > 0)
})

test('an application has no more under way than its own cap, over its lanes, and a lone lane may use all of it', () => {
  const scheduler = new Scheduler<number>({ inFlight: 1000, inFlightPerApp: 512 })
  const [one, two, other] = [addLane(scheduler, 1), addLane(scheduler, 1), addLane(scheduler, 2)]
  scheduler.limitInFlight(1, 10)
  for (const lane of [one, two, other]) offerMany(scheduler, lane, 100)
  const starts = scheduler.plan(0, 999)
  const byApp = countBy(starts.map(({ lane }) => lane.app.key))
  assert.ok((byApp.get(1) ?? 0) <= 10 && (byApp.get(1) ?? 0) > 5, `${byApp.get(1)} of 10`)
  assert.ok((byApp.get(2) ?? 0) > 50, 'other applications keep to the limit of all')

  scheduler.remove(two)
  for (const { lane } of starts) if (lane === two) scheduler.finish(two, 0)
  scheduler.plan(0, 999)
  assert.equal(one.inFlight, 10)
  scheduler.limitInFlight(1, 3)
  for (let i = 0; i < 7; i++) scheduler.finish(one, 0)
  assert.deepEqual(
    scheduler.plan(0, 999).filter(({ lane }) => lane === one),
    [],
  )
  scheduler.finish(one, 0)
  assert.equal(scheduler.plan(0, 999).filter(({ lane }) => lane === one).length, 1)
  scheduler.limitInFlight(1, 5)
  scheduler.plan(0, 999)
  assert.equal(one.inFlight, 5)
})

for (const lanes of [1, 3, 12]) {
  test(`an application's own cap of 10 is used up by ${lanes} busy lanes, evenly, also while attempts end`, () => {
    const scheduler = new Scheduler<number>({ inFlight: 1024, inFlightPerApp: 512 })
    const busy = Array.from({ length: lanes }, () => addLane(scheduler, 1, { rate: undefined, concurrency: 16 }))
    for (const lane of busy) offerMany(scheduler, lane, 500)
    scheduler.limitInFlight(1, 10)
    const underWay = scheduler.plan(0, 999).map(({ lane }) => lane)
    for (let ended = 0; ended < 300; ended++) {
      assert.equal(underWay.length, 10)
      const counts = busy.map((lane) => lane.inFlight)
      assert.ok(Math.max(...counts) <= Math.ceil(10 / lanes) + 1, `${counts}`)
      scheduler.finish(underWay.shift() as Lane<number>, ended, { slotMs: 1500, result: 'delivered' })
      underWay.push(...scheduler.plan(ended, 999).map(({ lane }) => lane))
    }
    const [waiting] = busy
    assert.ok(waiting)
    assert.equal(scheduler.slotsOf(waiting, 300).crowded, 'application')
  })
}

test('a lane that hangs within the own cap of its application leaves the even parts of the others to them', () => {
  const scheduler = new Scheduler<number>({ inFlight: 1024, inFlightPerApp: 512 })
  const [hanging, quick, other] = [addLane(scheduler, 1), addQuickLane(scheduler, 1), addQuickLane(scheduler, 1)]
  for (const lane of [hanging, quick, other]) offerMany(scheduler, lane, 500)
  scheduler.limitInFlight(1, 10)
  const underWay = scheduler.plan(0, 999).map(({ lane }) => lane)
  for (let ended = 0; ended < 300; ended++) {
    const at = underWay.findIndex((lane) => lane !== hanging)
    const [lane] = underWay.splice(at, 1)
    scheduler.finish(lane as Lane<number>, ended, { slotMs: 5, result: 'delivered' })
    underWay.push(...scheduler.plan(ended, 999).map((start) => start.lane))
    assert.ok(hanging.inFlight <= 4, `${hanging.inFlight} of 10 hang`)
  }
})

test('50 lanes that hang leave room for the other lanes of their application', () => {
  const scheduler = new Scheduler<number>({ inFlight: 1024, inFlightPerApp: 512 })
  const hanging = Array.from({ length: 50 }, () => addLane(scheduler, 1))
  for (const lane of hanging) offerMany(scheduler, lane, 600)
  assert.equal(scheduler.plan(0, 10_000).length, 494)
  assert.deepEqual(
    countBy(hanging.map((lane) => lane.inFlight)),
    new Map([
      [10, 44],
      [9, 6],
    ]),
  )

  const healthy = addLane(scheduler, 1)
  offerMany(scheduler, healthy, 600)
  assert.equal(scheduler.plan(0, 10_000).length, 6, 'of the 18 slots left, a lane may take 6 at once')
  for (let i = 0; i < 200; i++) {
    scheduler.finish(healthy, 0)
    assert.deepEqual(
      scheduler.plan(0, 10_000).map((start) => start.lane),
      [healthy],
      'and keeps them while it answers',
    )
  }
})

test('an application kept out by others goes on when they have given enough back', () => {
  const scheduler = new Scheduler<number>({ inFlight: 10, inFlightPerApp: 10 })
  const others = [addQuickLane(scheduler, 1), addQuickLane(scheduler, 1)]
  for (const lane of others) offerMany(scheduler, lane, 1)
  assert.equal(scheduler.plan(0, 100).length, 2)
  for (let i = 0; i < 10; i++) offerMany(scheduler, addQuickLane(scheduler, 2), 1)
  assert.equal(scheduler.plan(0, 100).length, 6, 'more than twice what is free')
  scheduler.finish(others[0] as Lane<number>, 0)
  assert.equal(scheduler.plan(0, 100).length, 0, 'exactly twice what is free')
  scheduler.finish(others[1] as Lane<number>, 0)
  assert.equal(scheduler.plan(0, 100).length, 1)
})

test('applications that hang leave room for another one', () => {
  const scheduler = new Scheduler<number>({ inFlight: 1024, inFlightPerApp: 512 })
  for (let app = 0; app < 10; app++) {
    for (let i = 0; i < 30; i++) offerMany(scheduler, addLane(scheduler, app), 100)
  }
  scheduler.plan(0, 10_000)
  assert.equal(scheduler.plan(0, 10_000).length, 0)
  const left = 1024 - scheduler.inFlight
  assert.ok(left >= 40, `${left} slots left`)
  for (let i = 0; i < 20; i++) offerMany(scheduler, addLane(scheduler, 99), 100)
  assert.ok(scheduler.plan(0, 10_000).length >= 20, 'each lane of the new application gets to send')
})

test('a lane with a million deliveries parked costs a plan nothing', () => {
  const scheduler = new Scheduler<number>(roomy)
  const parked = addLane(scheduler, 1)
  parked.hold(1e9)
  offerMany(scheduler, parked, 1_000_000)
  const healthy = addLane(scheduler, 1)
  let visits = 0
  // Counts how often the parked lane is looked at, which a stopwatch could only guess.
  const readyAt = parked.readyAt.bind(parked)
  parked.readyAt = (now) => {
    visits++
    return readyAt(now)
  }
  for (let i = 0; i < 1000; i++) {
    scheduler.offer(healthy, fresh, i, 0)
    assert.equal(scheduler.plan(0, 10).length, 1)
    scheduler.finish(healthy, 0)
  }
  assert.equal(visits, 0)
})
