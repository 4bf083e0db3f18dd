import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answer, rawReceiver } from '../hostile/raw-receiver.ts'
import { send, targetAt, testSender } from './sending.ts'

const minute = 60_000

test('a receiver that does not open the connection in time is given up long before the deadline', async (t) => {
  const receiver = await rawReceiver(t, () => {}, { onConnect: () => true })
  const target = targetAt(`https://127.0.0.1:${receiver.port}/`, { timeoutMs: minute, connectTimeoutMs: 150 })
  const { outcome, leaves } = await send(testSender(t), target)
  assert.deepEqual([outcome.code, leaves], ['connect_timeout', 0])
  assert.match(outcome.error ?? '', /handshake did not finish within 150 ms/)
  assert.ok(outcome.durationMs >= 150 && outcome.durationMs < minute / 2, `took ${outcome.durationMs} ms`)
})

test('a host name that is not resolved in time is given up long before the deadline', async (t) => {
  const sender = testSender(t, { resolve: () => new Promise(() => {}), allowHttp: true })
  const target = targetAt('http://slow.example/', { timeoutMs: minute, connectTimeoutMs: 150 })
  const { outcome } = await send(sender, target)
  assert.equal(outcome.code, 'dns_timeout')
  assert.match(outcome.error ?? '', /within 150 ms/)
})

test('an answer may take longer than connecting, on a new connection and on a used one', async (t) => {
  const receiver = await rawReceiver(t, (socket) => {
    setTimeout(() => socket.write(answer('200 OK', 'ok')), 700)
  })
  const sender = testSender(t)
  const target = targetAt(receiver.url, { timeoutMs: minute, connectTimeoutMs: 300 })
  for (let i = 0; i < 2; i++) assert.equal((await send(sender, target)).outcome.code, 'delivered')
  assert.equal(receiver.connections, 1)
})

test('the deadline holds for an open connection, whatever the limit of connecting', async (t) => {
  const receiver = await rawReceiver(t, () => {})
  for (const connectTimeoutMs of [200, 400, minute]) {
    const { outcome } = await send(testSender(t), targetAt(receiver.url, { timeoutMs: 400, connectTimeoutMs }))
    assert.equal(outcome.code, 'timeout')
    assert.match(outcome.error ?? '', /within 400 ms/)
    assert.ok(outcome.durationMs >= 400, `took ${outcome.durationMs} ms`)
  }
})
