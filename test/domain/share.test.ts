import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { shareOf } from '../../src/features/regions/rules.ts'

test('a worker alone may keep everything', () => {
  assert.ok(shareOf({ workers: 1, activeLanes: 1000, fewestLanes: 1000 }).most >= 1000)
})

test('a tenth above the share stays while no worker is short', () => {
  assert.deepEqual(shareOf({ workers: 4, activeLanes: 400, fewestLanes: 95 }), { content: 100, most: 110 })
})

test('a worker without lanes makes the others give away all above the common least', () => {
  assert.deepEqual(shareOf({ workers: 5, activeLanes: 12, fewestLanes: 0 }), { content: 2, most: 2 })
  assert.deepEqual(shareOf({ workers: 10, activeLanes: 11, fewestLanes: 0 }), { content: 1, most: 1 })
})

test('with fewer lanes than workers no worker gives up its only lane', () => {
  assert.deepEqual(shareOf({ workers: 5, activeLanes: 3, fewestLanes: 0 }), { content: 1, most: 2 })
})

test('from any distribution, giving and taking comes to rest with no worker short', () => {
  const lanes = fc.array(fc.integer({ min: 0, max: 60 }), { minLength: 2, maxLength: 8 })
  fc.assert(
    fc.property(lanes, (start) => {
      const owned = [...start]
      const active = owned.reduce((sum, count) => sum + count, 0)
      const least = Math.min(Math.floor(active / owned.length), Math.ceil((active / owned.length) * 0.9))
      let moves = 0
      for (let round = 0; round < 20; round++) {
        moves = 0
        for (const [worker, count] of owned.entries()) {
          const share = shareOf({ workers: owned.length, activeLanes: active, fewestLanes: Math.min(...owned) })
          const surplus = Math.max(0, count - share.most)
          owned[worker] = count - surplus
          moves += surplus
          // A worker with its share lets the others choose first; the one with the fewest lanes takes all that are free.
          owned[owned.indexOf(Math.min(...owned))] = Math.min(...owned) + surplus
        }
      }
      assert.equal(moves, 0, `still moving: ${owned}`)
      assert.ok(Math.min(...owned) >= least, `somebody is poor: ${owned}`)
    }),
  )
})
