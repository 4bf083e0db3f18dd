import assert from 'node:assert/strict'
import { test } from 'node:test'
import { timed } from '../../src/domain/delivery.ts'
import { Loop, TimedLanes } from '../../src/engine/loop.ts'
import type { OwnedLane } from '../../src/engine/owned-lane.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { aLane } from './a-lane.ts'

function looping() {
  const clock = new VirtualClock()
  const is = { leased: true, unsettled: 0, hasWork: true, wakeAt: undefined as number | undefined }
  /** When the pump was run. */
  const runs: { at: number }[] = []
  const due: OwnedLane[] = []
  const loop = new Loop({
    clock,
    scheduler: {
      hasWork: () => is.hasWork,
      wakeAt: () => (is.wakeAt === undefined || is.wakeAt <= clock.steady() ? undefined : is.wakeAt),
    },
    membership: { holdsLease: () => is.leased },
  })
  loop.start({
    pump: { run: () => void runs.push({ at: clock.steady() }) },
    reader: {
      request(owned, itsClass) {
        assert.equal(itsClass, timed)
        due.push(owned)
      },
    },
    queue: {
      get size() {
        return is.unsettled
      },
    },
    ownership: { turn() {}, awaitsTurn: false },
  })
  return { clock, is, runs, due, loop }
}

test('however much changes in one turn of the event loop, the pump runs once', async () => {
  const { clock, loop, runs } = looping()
  for (let i = 0; i < 5; i++) loop.wake()
  await clock.settle()
  assert.equal(runs.length, 1)
})

test('a change that lets nothing start runs no pump, and the alarm is set all the same', async () => {
  const { clock, is, runs, loop } = looping()
  is.hasWork = false
  is.wakeAt = 20
  loop.wake()
  await clock.advance(19)
  assert.equal(runs.length, 0)
  await clock.advance(1)
  assert.deepEqual(runs, [{ at: 20 }])
})

test('the pump runs again when a sleeping lane wakes or a timed row is due, whichever is first', async () => {
  const { clock, is, runs, due, loop } = looping()
  const owned = aLane()
  loop.expectTimed(owned, 30)
  is.wakeAt = 50
  loop.wake()
  await clock.advance(29)
  assert.deepEqual([runs.length, due], [1, []])
  await clock.advance(1)
  assert.deepEqual([runs.length, due], [2, [owned]])
  await clock.advance(20)
  assert.deepEqual(
    runs.map(({ at }) => at),
    [0, 30, 50],
  )
})

test('nothing is started for a moment after trouble, without the lease, or while too much is unrecorded', async () => {
  const { clock, is, runs, loop } = looping()
  loop.pause()
  loop.turn()
  await clock.advance(99)
  assert.deepEqual([runs, loop.standstill(clock.steady())], [[], 'store'])
  await clock.advance(1)
  assert.equal(runs.length, 1, 'it goes on by itself')
  is.leased = false
  loop.turn()
  await clock.settle()
  assert.deepEqual([runs.length, loop.standstill(clock.steady())], [1, 'lease'])
  is.leased = true
  is.unsettled = 4096
  loop.turn()
  await clock.settle()
  assert.deepEqual([runs.length, loop.standstill(clock.steady())], [1, 'recording'])
  is.unsettled = 4095
  loop.turn()
  await clock.settle()
  assert.equal(runs.length, 2)
})

test('a stopped loop starts nothing', async () => {
  const { clock, is, runs, loop } = looping()
  is.wakeAt = 10
  loop.wake()
  await clock.settle()
  loop.stop()
  loop.wake()
  loop.turn()
  await clock.advance(1000)
  assert.equal(runs.length, 1)
})

test('functions are called at their intervals, each for itself, until the loop stops', async () => {
  const { clock, loop } = looping()
  const done = { often: 0, seldom: 0 }
  loop.every(10, () => void done.often++)
  loop.every(25, () => void done.seldom++)
  await clock.advance(9)
  assert.deepEqual(done, { often: 0, seldom: 0 })
  await clock.advance(41)
  assert.deepEqual(done, { often: 5, seldom: 2 })
  loop.stop()
  await clock.advance(1000)
  assert.deepEqual(done, { often: 5, seldom: 2 })
})

test('a function that stops the loop is not called again', async () => {
  const { clock, loop } = looping()
  let calls = 0
  loop.every(10, () => {
    calls++
    loop.stop()
  })
  await clock.advance(1000)
  assert.equal(calls, 1)
})

test('timed lanes come up at their instants, the earliest first, and once', () => {
  const lanes = new TimedLanes()
  const [early, late] = [aLane(), aLane()]
  assert.equal(lanes.nextAt, Number.POSITIVE_INFINITY)
  assert.deepEqual([lanes.expect(late, 20), lanes.expect(early, 10)], [true, true])
  assert.equal(lanes.nextAt, 10)
  assert.equal(lanes.takeDue(9), undefined)
  assert.equal(lanes.takeDue(20), early)
  assert.equal(lanes.takeDue(20), late)
  assert.equal(lanes.takeDue(1000), undefined)
})

test('only an instant sooner than any known of a lane changes when the lane comes up', () => {
  const lanes = new TimedLanes()
  const owned = aLane()
  assert.equal(lanes.expect(owned, 30), true)
  assert.equal(lanes.expect(owned, 40), false)
  assert.equal(lanes.expect(owned, 30), false)
  assert.equal(lanes.expect(owned, 10), true)
  assert.equal(lanes.takeDue(10), owned)
  assert.equal(owned.nextTimedAt, Number.POSITIVE_INFINITY)
  assert.equal(lanes.expect(owned, 50), true)
  assert.equal(lanes.takeDue(30), undefined, 'the instant of before is out of date')
  assert.equal(lanes.takeDue(50), owned)
})

test('a lane that was dropped does not come up', () => {
  const lanes = new TimedLanes()
  const owned = aLane()
  lanes.expect(owned, 10)
  owned.drop()
  assert.equal(lanes.takeDue(10), undefined)
})
