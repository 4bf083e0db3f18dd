import assert from 'node:assert/strict'
import { test } from 'node:test'
import { combined, type Samples, withEnded } from '../../src/metrics/combined.ts'

const attempts = (value: number, outcome = 'delivered') => ({ labels: { outcome, status: '2xx' }, value })

const own: Samples = {
  messagesAccepted: [{ value: 5 }],
  attempts: [attempts(7)],
  inFlight: [{ value: 3 }],
  leaseAge: [{ value: 1 }],
  storeUp: [{ value: 1 }],
  waiting: [{ labels: { class: 'fresh' }, value: 100 }],
}
const sibling: Samples = {
  messagesAccepted: [{ value: 10 }],
  attempts: [attempts(1), attempts(2, 'timeout')],
  inFlight: [{ value: 4 }],
  leaseAge: [{ value: 9 }],
  storeUp: [{ value: 0 }],
  waiting: [{ labels: { class: 'fresh' }, value: 90 }],
}

test('counts and sizes add up, ages and states are those of the worst, and the store is described once', () => {
  const all = combined(own, [sibling], undefined)
  assert.deepEqual(all.messagesAccepted, [{ value: 15 }])
  assert.deepEqual(all.attempts, [attempts(8), attempts(2, 'timeout')])
  assert.deepEqual(all.inFlight, [{ value: 7 }])
  assert.deepEqual(all.leaseAge, [{ value: 9 }])
  assert.deepEqual(all.storeUp, [{ value: 0 }])
  assert.deepEqual(all.waiting, own.waiting)
})

test('the counts of processes that have ended still count, and nothing else of them does', () => {
  const ended = withEnded(withEnded(undefined, sibling), sibling)
  assert.deepEqual(ended.messagesAccepted, [{ value: 20 }])
  const all = combined(own, [], ended)
  assert.deepEqual(all.messagesAccepted, [{ value: 25 }])
  assert.deepEqual(all.attempts, [attempts(9), attempts(4, 'timeout')])
  assert.deepEqual(all.inFlight, [{ value: 3 }])
  assert.deepEqual(all.leaseAge, [{ value: 1 }])
})
