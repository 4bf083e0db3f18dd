import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Rhythm } from '../../src/engine/rhythm.ts'
import { VirtualClock } from '../virtual-clock.ts'

test('things are done as often as said, each for itself, until all are stopped', async () => {
  const clock = new VirtualClock()
  const rhythm = new Rhythm(clock)
  const done = { often: 0, seldom: 0 }
  rhythm.every(10, () => void done.often++)
  rhythm.every(25, () => void done.seldom++)
  await clock.advance(9)
  assert.deepEqual(done, { often: 0, seldom: 0 })
  await clock.advance(41)
  assert.deepEqual(done, { often: 5, seldom: 2 })
  rhythm.stop()
  await clock.advance(1000)
  assert.deepEqual(done, { often: 5, seldom: 2 })
})
