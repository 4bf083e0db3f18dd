import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Heap } from '../../src/domain/queue.ts'

test('an empty heap has no smallest number and gives nothing', () => {
  const heap = new Heap<string>()
  assert.equal(heap.peek(), undefined)
  assert.equal(heap.popUntil(Number.POSITIVE_INFINITY), undefined)
  assert.equal(heap.size, 0)
})

test('an item comes out at its number and not before', () => {
  const heap = new Heap<string>()
  heap.push(10, 'ten')
  assert.equal(heap.popUntil(9.999), undefined)
  assert.equal(heap.size, 1)
  assert.equal(heap.popUntil(10), 'ten')
  assert.equal(heap.size, 0)
})

/** Small numbers, so that equal ones are common. */
const push = fc.record({ kind: fc.constant('push' as const), at: fc.integer({ min: 0, max: 20 }) })
const pop = fc.record({ kind: fc.constant('pop' as const), at: fc.integer({ min: 0, max: 20 }) })

test('whatever is put in and taken out, the smallest within the limit comes out, once', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(push, pop), { maxLength: 200, size: 'max' }), (steps) => {
      const heap = new Heap<{ at: number }>()
      const model = new Set<{ at: number }>()
      for (const step of steps) {
        const smallest = model.size > 0 ? Math.min(...[...model].map((item) => item.at)) : undefined
        assert.equal(heap.peek(), smallest)
        if (step.kind === 'push') {
          const item = { at: step.at }
          model.add(item)
          heap.push(item.at, item)
        } else {
          const item = heap.popUntil(step.at)
          if (smallest === undefined || smallest > step.at) assert.equal(item, undefined)
          else {
            assert.equal(item?.at, smallest)
            assert.ok(model.delete(item), 'it was in the heap')
          }
        }
        assert.equal(heap.size, model.size)
      }
    }),
  )
})
