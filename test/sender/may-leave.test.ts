import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Outcome } from '../../src/domain/outcome.ts'
import { answer, rawReceiver } from '../hostile/raw-receiver.ts'
import { exampleParcel, send, targetAt, testSender } from './sending.ts'

test('an attempt that may no longer leave once it is connected ends as aborted, and nothing is written', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK', 'ok')))
  const sender = testSender(t)
  const line = sender.open(targetAt(receiver.url))
  let left = false
  const attempt = (mayLeave: () => boolean) =>
    new Promise<Outcome>((resolve) => {
      line.send(exampleParcel, () => (left = true), resolve, mayLeave)
    })

  // On a fresh connection, and on one that has carried a request before.
  assert.equal((await attempt(() => false)).code, 'aborted')
  assert.deepEqual([receiver.requests.length, left], [0, false])
  assert.equal((await attempt(() => true)).code, 'delivered')
  left = false
  assert.equal((await attempt(() => false)).code, 'aborted')
  assert.deepEqual([receiver.requests.length, left], [1, false])

  // The sender is as good as before.
  assert.equal((await send(sender, targetAt(receiver.url))).outcome.code, 'delivered')
  assert.equal(receiver.requests.length, 2)
})
