import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { type TestContext, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { type Outcome, readTimings, type Timings, writeTimings } from '../../src/domain/outcome.ts'
import { openDns } from '../../src/sender/resolve.ts'
import { fakeDns } from '../hostile/fake-dns.ts'
import { answer, rawReceiver } from '../hostile/raw-receiver.ts'
import { send, targetAt, testSender } from './sending.ts'

const fixture = (name: string) => readFileSync(new URL(`fixtures/${name}.pem`, import.meta.url), 'utf8')

/** The timings of an attempt, whose parts never exceed its duration. */
function timingsOf({ timings, durationMs }: Outcome): Timings {
  assert.ok(timings)
  const { beforeMs = 0, dnsMs, connectMs, tlsMs, firstByteMs } = timings
  const sum = beforeMs + [dnsMs, connectMs, tlsMs, firstByteMs].reduce<number>((all, ms) => all + (ms ?? 0), 0)
  assert.ok(sum <= durationMs + 1, `${JSON.stringify(timings)} within ${durationMs} ms`)
  return timings
}

/** Asserts which parts took place, and that one of them took the time. */
function assertSlow(outcome: Outcome, slow: keyof Timings, leastMs: number, parts: readonly (keyof Timings)[]): void {
  const timings = timingsOf(outcome)
  for (const part of ['dnsMs', 'connectMs', 'tlsMs', 'firstByteMs'] as const) {
    assert.equal(timings[part] !== null, parts.includes(part), `${part} of ${JSON.stringify(timings)}`)
  }
  assert.ok((timings[slow] as number) >= leastMs, `${slow} of ${JSON.stringify(timings)}`)
}

/** A receiver of TLS behind a relay that lets the first bytes wait. */
async function slowTls(t: TestContext, waitMs: number): Promise<number> {
  const tls = { key: fixture('valid'), cert: fixture('valid') }
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')), { tls })
  const relay = createServer((socket) => {
    socket.on('error', () => {})
    setTimeout(() => {
      const inner = connect(receiver.port, '127.0.0.1').on('error', () => {})
      socket.pipe(inner).pipe(socket)
    }, waitMs)
  })
  relay.listen(0, '127.0.0.1')
  await once(relay, 'listening')
  t.after(() => relay.close())
  return (relay.address() as AddressInfo).port
}

test('a slow DNS server shows as time of DNS', async (t) => {
  // The first question gets no answer, so the resolver asks again after its limit.
  const dns = await fakeDns(t, (_name, _type, nth) => (nth === 1 ? 'silent' : ['127.0.0.1']))
  const { resolve, close } = openDns({ servers: [dns.server], timeoutMs: 300 })
  t.after(close)
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const { outcome } = await send(
    testSender(t, { resolve, allowHttp: true }),
    targetAt(`http://slow.test:${receiver.port}/`),
  )
  assert.equal(outcome.code, 'delivered', outcome.error)
  assertSlow(outcome, 'dnsMs', 250, ['dnsMs', 'connectMs', 'firstByteMs'])
})

test('a DNS failure counts as time of DNS, and no later part took place', async (t) => {
  const dns = await fakeDns(t, () => 'silent')
  const { resolve, close } = openDns({ servers: [dns.server], timeoutMs: 100 })
  t.after(close)
  const { outcome } = await send(testSender(t, { resolve, allowHttp: true }), targetAt('http://silent.test/'))
  assert.equal(outcome.code, 'dns_timeout')
  assertSlow(outcome, 'dnsMs', 90, ['dnsMs'])
})

const sleeper = `
const { createServer } = require('node:net')
const { parentPort, workerData } = require('node:worker_threads')
const server = createServer((socket) => {
  socket.on('error', () => {})
  socket.on('data', () => socket.write('HTTP/1.1 200 OK\\r\\ncontent-length: 0\\r\\n\\r\\n'))
})
server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
  parentPort.postMessage(server.address().port)
  setImmediate(() => Atomics.wait(new Int32Array(workerData), 0, 0))
})
`

test('a host that accepts late shows as time of connecting', async (t) => {
  const awake = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(sleeper, { eval: true, workerData: awake.buffer })
  t.after(() => worker.terminate())
  const [port] = await once(worker, 'message')
  // The kernel drops SYNs once its queue is full; they come again after a second.
  const fillers = Array.from({ length: 8 }, () => connect(port, '127.0.0.1').on('error', () => {}))
  t.after(() => {
    for (const filler of fillers) filler.destroy()
  })
  await Promise.race(fillers.map((filler) => once(filler, 'connect')))
  await new Promise((resolve) => setImmediate(resolve))
  const sent = send(testSender(t), targetAt(`http://127.0.0.1:${port}/`, { timeoutMs: 60_000 }))
  setTimeout(() => {
    Atomics.store(awake, 0, 1)
    Atomics.notify(awake, 0)
  }, 400)
  const { outcome } = await sent
  assert.equal(outcome.code, 'delivered', outcome.error)
  assertSlow(outcome, 'connectMs', 300, ['connectMs', 'firstByteMs'])
})

test('a slow handshake shows as time of TLS', async (t) => {
  const port = await slowTls(t, 300)
  const sender = testSender(t, { extraCa: [fixture('authority')] })
  const { outcome } = await send(sender, targetAt(`https://localhost:${port}/`))
  assert.equal(outcome.code, 'delivered', outcome.error)
  assertSlow(outcome, 'tlsMs', 150, ['dnsMs', 'connectMs', 'tlsMs', 'firstByteMs'])
})

test('a handshake that does not end in time counts as time of TLS', async (t) => {
  const receiver = await rawReceiver(t, () => {}, { onConnect: () => true })
  const target = targetAt(`https://127.0.0.1:${receiver.port}/`, { timeoutMs: 60_000, connectTimeoutMs: 400 })
  const { outcome } = await send(testSender(t), target)
  assert.equal(outcome.code, 'connect_timeout')
  assertSlow(outcome, 'tlsMs', 100, ['connectMs', 'tlsMs'])
})

test('a slow answer shows as time to the first byte, and on a reused connection that is the only part', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void setTimeout(() => socket.write(answer('200 OK')), 300))
  const sender = testSender(t)
  const first = await send(sender, targetAt(receiver.url))
  assertSlow(first.outcome, 'firstByteMs', 150, ['connectMs', 'firstByteMs'])
  assert.equal(first.outcome.timings?.reused, false)
  const second = await send(sender, targetAt(receiver.url))
  assertSlow(second.outcome, 'firstByteMs', 150, ['firstByteMs'])
  assert.equal(second.outcome.timings?.reused, true)
  assert.equal(receiver.connections, 1)
})

test('an interim answer is the first byte, however long the final answer takes', async (t) => {
  const receiver = await rawReceiver(t, (socket) => {
    socket.write('HTTP/1.1 103 Early Hints\r\n\r\n')
    setTimeout(() => socket.write(answer('200 OK')), 1500)
  })
  const { outcome } = await send(testSender(t), targetAt(receiver.url))
  assert.ok((timingsOf(outcome).firstByteMs as number) <= outcome.durationMs - 500, JSON.stringify(outcome.timings))
})

test('without an answer there is no first byte', async (t) => {
  const receiver = await rawReceiver(t, () => {})
  const { outcome } = await send(testSender(t), targetAt(receiver.url, { timeoutMs: 200 }))
  assert.equal(outcome.code, 'timeout')
  assertSlow(outcome, 'connectMs', 0, ['connectMs'])
})

test('an attempt whose idle connection was closed under it has the parts of the connection that it opened', async (t) => {
  const receiver = await rawReceiver(t, (socket, { nth }) => {
    if (nth === 1) socket.write(answer('200 OK'))
    else setTimeout(() => socket.destroy(), 100)
  })
  const sender = testSender(t)
  await send(sender, targetAt(receiver.url))
  const { outcome } = await send(sender, targetAt(receiver.url))
  assert.deepEqual([outcome.code, receiver.connections], ['delivered', 2])
  assertSlow(outcome, 'beforeMs', 90, ['connectMs', 'firstByteMs'])
})

for (const [timings, text] of [
  [{ reused: true, dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: 12 }, '12'],
  [{ reused: true, dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null }, ''],
  [{ reused: false, dnsMs: 0, connectMs: 2, tlsMs: 3, firstByteMs: 4 }, '0,2,3,4'],
  [{ reused: false, dnsMs: null, connectMs: 150, tlsMs: null, firstByteMs: null }, ',150,,'],
] as const) {
  test(`timings are stored as '${text}' and read back`, () => {
    assert.equal(writeTimings(timings), text)
    assert.deepEqual(readTimings(text), timings)
  })
}
