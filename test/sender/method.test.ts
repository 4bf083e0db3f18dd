import assert from 'node:assert/strict'
import { test } from 'node:test'
import { methods, signatureProfiles } from '../../src/features/endpoints/noun.ts'
import { openVerifier } from '../../src/wire/receiver.ts'
import { answer, rawReceiver } from '../hostile/raw-receiver.ts'
import { exampleMessage, exampleSecret, send, targetAt, testSender } from './sending.ts'

for (const method of [undefined, ...methods.filter((each) => each !== 'GET')]) {
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

for (const signature of signatureProfiles) {
  test(`a GET has neither body nor content type, and the ${signature} signature is of the empty body`, async (t) => {
    const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK', 'ok')))
    const message = { ...exampleMessage, signature: 'made of the body at publish' }
    const { outcome } = await send(testSender(t), targetAt(receiver.url, { method: 'GET', signature }), message)
    assert.equal(outcome.code, 'delivered')
    const [request] = receiver.requests
    const [line, ...lines] = request?.head.split('\r\n') ?? []
    assert.equal(line, 'GET /hook HTTP/1.1')
    const entries = lines.map((each) => each.split(': ')).map(([name = '', value]) => [name.toLowerCase(), value])
    const headers = Object.fromEntries(entries)
    for (const name of ['content-type', 'content-length', 'transfer-encoding']) assert.equal(headers[name], undefined)
    assert.equal(request?.body.length, 0)
    const verifier = openVerifier({ profile: signature, secret: exampleSecret })
    await verifier.verify({ headers, body: '' })
    await assert.rejects(verifier.verify({ headers, body: exampleMessage.body }), { code: 'wrong_signature' })
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
