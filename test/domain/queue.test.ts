import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Queue } from '../../src/domain/queue.ts'

/** Runs of pushes and shifts, long enough to cross the 32 items at which the queue forgets its front. */
const step = fc.oneof(
  fc.record({ kind: fc.constantFrom('push' as const, 'shift' as const), times: fc.integer({ min: 1, max: 50 }) }),
  fc.record({ kind: fc.constantFrom('unshift' as const), times: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ kind: fc.constant('clear' as const), times: fc.constant(1) }),
)

test('a queue behaves like an array that is pushed, unshifted and shifted', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40, size: 'max' }), (steps) => {
      const queue = new Queue<number>()
      let model: number[] = []
      let next = 0
      for (const { kind, times } of steps) {
        for (let i = 0; i < times; i++) {
          if (kind === 'push') {
            queue.push(next)
            model.push(next++)
          } else if (kind === 'unshift') {
            queue.unshift(next)
            model.unshift(next++)
          } else if (kind === 'shift') {
            assert.equal(queue.shift(), model.shift())
          } else {
            assert.deepEqual(queue.clear(), model)
            model = []
          }
          assert.equal(queue.size, model.length)
        }
      }
      assert.deepEqual(queue.clear(), model)
      assert.equal(queue.shift(), undefined)
    }),
  )
})
