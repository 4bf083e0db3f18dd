import assert from 'node:assert/strict'
import { test } from 'node:test'
import { classes, fresh, replay, timed } from '../../src/domain/delivery.ts'
import { defaultFlow } from '../../src/domain/flow.ts'
import type { Outcome } from '../../src/domain/outcome.ts'
import { Delivery } from '../../src/engine/delivery.ts'
import { endOf } from '../../src/engine/ended-attempt.ts'
import type { OwnedLane } from '../../src/engine/owned-lane.ts'
import type { PendingRow } from '../../src/store/store.ts'
import { aLane, endpointOf, settingsOf } from './a-lane.ts'
import { plainRow } from './plain-row.ts'

const plain = settingsOf(endpointOf(1))
const paused = settingsOf({ ...endpointOf(1), paused: true })
const fifo = { ...endpointOf(1), flow: { ...defaultFlow, order: 'fifo' as const } }

function row(message: number): PendingRow {
  return { ...plainRow, message, class: fresh, dueAt: 1000 + message, attempts: 0, priorAttempts: 0, ageMs: 0 }
}

/** Reads every class of a lane to its end. */
function readAll({ rows }: OwnedLane, now: number): void {
  for (const c of classes) {
    rows.beginRead(c, now)
    rows.takePage(c, [], 192, now)
    rows.endRead(c, now)
  }
}

test('a lane stays closed until every reason to be closed has ended', () => {
  const lane = aLane()
  assert.equal(lane.lane.closed, false)
  lane.apply(paused, 1)
  assert.equal(lane.lane.closed, true)
  lane.apply(plain, 2)
  assert.equal(lane.lane.closed, false)
  lane.leave()
  lane.apply(paused, 3)
  lane.apply(plain, 4)
  assert.equal(lane.lane.closed, true, 'it is leaving')
})

for (const [why, close] of [
  ['its endpoint is being disabled', (lane: OwnedLane) => lane.disable()],
  ['its worker is stopping', (lane: OwnedLane) => lane.stop()],
  ['it is no longer owned', (lane: OwnedLane) => lane.drop()],
] as const) {
  test(`settings that are read again do not open a lane when ${why}`, () => {
    const lane = aLane()
    close(lane)
    lane.apply(plain, 1)
    assert.equal(lane.lane.closed, true)
  })
}

test('an endpoint that failed for too long is closed as soon as that is judged', () => {
  const lane = aLane()
  lane.apply({ ...plain, rules: { ...plain.rules, disableAfterMs: 1000 } }, 0)
  const failure: Outcome = {
    ...{ code: 'refused', status: 500, wish: 'relief', durationMs: 1 },
    ...{ retryAfterMs: undefined, response: undefined, error: undefined },
  }
  const attempt = (now: number) => lane.endAttempt(endOf(new Delivery(lane, row(1), now), failure, false, now), () => 0)
  attempt(0)
  assert.equal(lane.lane.closed, false)
  assert.equal(attempt(1000)?.disableAfterFailingMs, 1000)
  assert.equal(lane.lane.closed, true)
})

test('a lane whose ordering changed leaves, and others stay', () => {
  const lane = aLane()
  lane.apply(settingsOf(fifo), 1)
  assert.equal(lane.isLeaving, true)
  const ordered = aLane(fifo)
  ordered.apply(settingsOf({ ...fifo, description: 'renamed' }), 1)
  assert.equal(ordered.isLeaving, false)
})

test('a process that ends when it is idle does not do so while a lane leaves, which may have work for its next owner', () => {
  const lane = aLane()
  readAll(lane, 1000)
  assert.equal(lane.isIdleUntil(2000, 1000), true)
  lane.leave()
  assert.equal(lane.isIdleUntil(2000, 1000), false)
})

test('a lane is released when it was read to its end and had no work for two seconds', () => {
  const lane = aLane()
  assert.equal(lane.canRelease(60_000), false, 'it has not been read')
  readAll(lane, 0)
  assert.equal(lane.canRelease(1999), false)
  assert.equal(lane.canRelease(2000), true)
  lane.rowsAdded([fresh], 2000)
  assert.equal(lane.canRelease(60_000), false, 'rows were added')
  readAll(lane, 2000)
  lane.expectTimed(61_000)
  assert.equal(lane.canRelease(60_000), false, 'a timed row is due soon')
})

test('among many lanes, a lane without further rows is released after 100 ms', () => {
  const lane = aLane()
  readAll(lane, 0)
  assert.equal(lane.canRelease(99, true), false)
  assert.equal(lane.canRelease(100, true), true)
  lane.rowsAdded([fresh], 100)
  readAll(lane, 100)
  assert.equal(lane.canRelease(200, true), true, 'nothing had started: these may be the rows for which it was taken')
  lane.lane.begin()
  lane.rowsAdded([fresh], 200)
  readAll(lane, 200)
  assert.equal(lane.canRelease(2199, true), false, 'its application goes on publishing')
  assert.equal(lane.canRelease(2200, true), true)
})

test('a lane without work for half a second lets its target forget the prepared parts', () => {
  let rests = 0
  const lane = aLane()
  const target = { ...plain.target, rest: () => void rests++ }
  lane.apply({ ...plain, target }, 0)
  readAll(lane, 0)
  lane.rest(499)
  assert.equal(rests, 0)
  lane.rest(500)
  assert.equal(rests, 1)
  lane.beginSettle()
  lane.rest(600)
  assert.equal(rests, 1, 'it is busy')
})

test('a lane is not released while a result is unrecorded or a read is under way, even if it is closed', () => {
  const lane = aLane()
  lane.leave()
  assert.equal(lane.canRelease(0), true)
  lane.beginSettle()
  assert.equal(lane.canRelease(0), false)
  lane.settled(1, { state: 'delivered' })
  assert.equal(lane.canRelease(0), true)
  lane.rows.beginSurvey()
  assert.equal(lane.canRelease(0), false)
  lane.rows.endSurvey([], 0)
  assert.equal(lane.canRelease(0), true)
})

test('an attempt that was given up leaves memory, and its class is read again', () => {
  const lane = aLane()
  readAll(lane, 0)
  lane.rows.take(fresh, row(1))
  lane.handBack(new Delivery(lane, row(1), 1), 1)
  assert.equal(lane.rows.isInMemory(1), false)
  assert.deepEqual(lane.rows.classesToRead(fresh), [fresh])
  assert.deepEqual(lane.rows.classesToRead(timed), [])
})

test('a delivery that keeps its place in an ordered lane stays in memory', () => {
  const lane = aLane(fifo)
  lane.rows.take(fresh, row(1))
  lane.beginSettle()
  lane.settled(1, { state: 'delayed', waitMs: 1000 })
  assert.deepEqual([lane.rows.isInMemory(1), lane.ended], [true, 0])
  lane.beginSettle()
  lane.settled(1, { state: 'delivered' })
  assert.deepEqual([lane.rows.isInMemory(1), lane.ended], [false, 1])
})

test('an ordered lane reads fresh and timed rows together, and takes no fast path', () => {
  const lane = aLane(fifo)
  assert.deepEqual(lane.rows.classesToRead(fresh), [fresh, timed])
  assert.deepEqual(lane.rows.classesToRead(replay), [replay])
  lane.rows.beginRead(timed, 0)
  assert.deepEqual(lane.rows.classesToRead(fresh), [], 'one of them is being read')
  lane.rows.endRead(timed, 0)
  readAll(lane, 0)
  assert.equal(lane.acceptStored(1, 5, 5), false)
})

test('a survey takes rows that are not in memory, and leaves alone those settled meanwhile', () => {
  const lane = aLane()
  for (const message of [1, 2]) lane.rows.take(fresh, row(message))
  lane.rows.beginSurvey()
  lane.beginSettle()
  lane.settled(1, { state: 'delivered' })
  assert.equal(lane.rows.isInMemory(1), true, 'the survey may show it')
  const { taken, waiting } = lane.rows.endSurvey([row(1), row(2), row(3)], 1)
  assert.deepEqual([taken.map(({ message }) => message), waiting.map(({ message }) => message)], [[3], [2]])
  assert.deepEqual(
    [1, 2, 3].map((message) => lane.rows.isInMemory(message)),
    [false, true, true],
  )
})

test('surplus ends with the settings that made it', () => {
  const lane = aLane()
  lane.markSurplus([row(1)])
  assert.deepEqual([lane.isSurplus(1), lane.isSurplus(2)], [true, false])
  lane.apply(plain, 1)
  assert.deepEqual([lane.hasSurplus, lane.isSurplus(1)], [false, false])
})
