import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OwnedLane } from '../../src/engine/owned-lane.ts'
import { TimedLanes } from '../../src/engine/timed-lanes.ts'

const lane = () => ({ nextTimedAt: Number.POSITIVE_INFINITY }) as OwnedLane

test('lanes come up at their instants, the earliest first, and once', () => {
  const timed = new TimedLanes()
  const [early, late] = [lane(), lane()]
  assert.equal(timed.nextAt, Number.POSITIVE_INFINITY)
  assert.deepEqual([timed.expect(late, 20), timed.expect(early, 10)], [true, true])
  assert.equal(timed.nextAt, 10)
  assert.equal(timed.takeDue(9), undefined)
  assert.equal(timed.takeDue(20), early)
  assert.equal(timed.takeDue(20), late)
  assert.equal(timed.takeDue(1000), undefined)
})

test('only what is sooner than anything known of a lane changes when it comes up', () => {
  const timed = new TimedLanes()
  const owned = lane()
  assert.equal(timed.expect(owned, 30), true)
  assert.equal(timed.expect(owned, 40), false)
  assert.equal(timed.expect(owned, 30), false)
  assert.equal(timed.expect(owned, 10), true)
  assert.equal(timed.takeDue(10), owned)
  assert.equal(owned.nextTimedAt, Number.POSITIVE_INFINITY)
  assert.equal(timed.expect(owned, 50), true)
  assert.equal(timed.takeDue(30), undefined, 'the instant of before is out of date')
  assert.equal(timed.takeDue(50), owned)
})
