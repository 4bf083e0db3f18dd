import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvariantError, invariant, present } from '../../src/domain/invariant.ts'
import { OrderedQueue } from '../../src/domain/queue.ts'
import { Bucket } from '../../src/domain/rate.ts'
import { Scheduler } from '../../src/domain/scheduler.ts'

test('a broken invariant throws the sentence that it breaks, and a held one is silent', () => {
  invariant(true, 'one is one')
  assert.throws(() => invariant(false, 'one is one'), new InvariantError('one is one'))
  assert.equal(present(0, 'there is a number'), 0)
  assert.throws(() => present(undefined, 'there is a number'), /broken invariant: there is a number/)
})

test('a token goes back once, a slot comes free once, and an ended delivery starts no other', () => {
  const bucket = new Bucket({ rate: 1, periodMs: 1000, burst: 1 }, 0, 0)
  bucket.reserve()
  bucket.restore()
  assert.throws(() => bucket.restore(), InvariantError)

  const scheduler = new Scheduler<string>({ inFlight: 10, inFlightPerApp: 10 })
  const limits = { rate: undefined, concurrency: 1 }
  const lane = scheduler.add(1, 1, limits, { bucketDebtMs: 0, holdMs: 0 }, 0)
  scheduler.offer(lane, 0, 'a', 0)
  assert.equal(scheduler.plan(0, 1).length, 1)
  scheduler.finish(lane, 1)
  assert.throws(() => scheduler.finish(lane, 2), InvariantError)

  const queue = new OrderedQueue<string>('fifo')
  const entry = queue.add('a', { class: 0, dueAt: 0, message: 1, orderKey: 0 }, 0, 0)
  queue.end(entry, 0)
  queue.end(entry, 0)
  assert.equal(queue.take(0), undefined)
})
