import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { assertAtDeadline, send, targetAt, testSender } from '../sender/sending.ts'

/** Listens with the shortest queue and sleeps until the test wakes it; then counts the requests that come. */
const sleeper = `
const { createServer } = require('node:net')
const { parentPort, workerData } = require('node:worker_threads')
const awake = new Int32Array(workerData)
let requests = 0
const server = createServer((socket) => {
  socket.on('error', () => {})
  socket.on('data', () => requests++)
})
server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
  parentPort.postMessage(server.address().port)
  setImmediate(() => Atomics.wait(awake, 0, 0, 10_000))
})
parentPort.on('message', () => parentPort.postMessage(requests))
`

test('a host that drops every SYN is given up at the deadline, and nothing arrives when it wakes up', async (t) => {
  const awake = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(sleeper, { eval: true, workerData: awake.buffer })
  t.after(() => worker.terminate())
  const [port] = await once(worker, 'message')
  // The kernel accepts what its queue holds; from then on it drops SYNs, as a host behind a silent firewall would.
  const fillers = Array.from({ length: 8 }, () => connect(port, '127.0.0.1').on('error', () => {}))
  t.after(() => {
    for (const filler of fillers) filler.destroy()
  })
  await Promise.race(fillers.map((filler) => once(filler, 'connect')))
  await new Promise((resolve) => setImmediate(resolve))

  const { outcome, leaves } = await send(testSender(t), targetAt(`http://127.0.0.1:${port}/`, { timeoutMs: 200 }))
  assert.equal(outcome.code, 'connect_timeout', outcome.error)
  assertAtDeadline(outcome, 200)
  assert.equal(leaves, 0)

  Atomics.store(awake, 0, 1)
  Atomics.notify(awake, 0)
  // The fillers' dropped SYNs come again after a second; when they have all connected, a ghost would have too.
  await Promise.all(fillers.map((filler) => (filler.connecting ? once(filler, 'connect') : undefined)))
  worker.postMessage('how many?')
  const [requests] = await once(worker, 'message')
  assert.equal(requests, 0)
})
