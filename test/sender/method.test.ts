import assert from 'node:assert/strict'
import { test } from 'node:test'
import { methods } from '../../src/domain/endpoint-fields.ts'
import { answer, rawReceiver } from '../hostile/raw-receiver.ts'
import { exampleMessage, send, targetAt, testSender } from './sending.ts'

for (const method of [undefined, ...methods]) {
  test(`an endpoint that asks for ${method ?? 'nothing'} gets ${method ?? 'POST'}, with the body and its length`, async (t) => {
    const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK', 'ok')))
    const { outcome } = await send(testSender(t), targetAt(receiver.url, method === undefined ? {} : { method }))
    assert.equal(outcome.code, 'delivered')
    const [request] = receiver.requests
    assert.equal(request?.head.split('\r\n')[0], `${method ?? 'POST'} /hook HTTP/1.1`)
    assert.match(request?.head ?? '', new RegExp(`^content-length: ${exampleMessage.body.length}$`, 'im'))
    assert.deepEqual(request?.body, exampleMessage.body)
  })
}

test('whatever the method, a receiver that hangs up on a fresh connection is asked once', async (t) => {
  for (const method of methods) {
    const receiver = await rawReceiver(t, (socket) => void socket.destroy())
    const { outcome } = await send(testSender(t), targetAt(receiver.url, { method }))
    assert.equal(outcome.code, 'reset', method)
    assert.equal(receiver.requests.length, 1, method)
  }
})
