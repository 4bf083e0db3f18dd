import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { exampleMessage, send, targetAt, testSender } from './sending.ts'

/** A receiver that answers each request once it has come whole, and keeps its bytes. */
async function recorder(t: TestContext): Promise<{ url: string; requests: Buffer[] }> {
  const requests: Buffer[] = []
  const server = createServer((socket) => {
    let come = Buffer.alloc(0)
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      come = Buffer.concat([come, chunk])
      const headEnd = come.indexOf('\r\n\r\n') + 4
      const length = Number(/content-length: (\d+)/.exec(come.toString('latin1'))?.[1])
      if (headEnd < 4 || come.length < headEnd + length) return
      requests.push(come.subarray(headEnd))
      come = Buffer.alloc(0)
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, requests }
}

/** How often a socket was given pieces in one call, and how often one piece. */
function countWrites(t: TestContext): { pieces: number; whole: number } {
  const counts = { pieces: 0, whole: 0 }
  for (const [name, count] of [
    ['_writev', 'pieces'],
    ['_write', 'whole'],
  ] as const) {
    const real = Reflect.get(Socket.prototype, name) as (...args: unknown[]) => unknown
    t.after(() => Reflect.set(Socket.prototype, name, real))
    Reflect.set(Socket.prototype, name, function (this: Socket, ...args: unknown[]) {
      if (this.remotePort !== undefined && !('server' in this && this.server)) counts[count]++
      return Reflect.apply(real, this, args)
    })
  }
  return counts
}

test('bodies of every size arrive as they are, also one after the other on one connection', async (t) => {
  const { url, requests } = await recorder(t)
  const sender = testSender(t)
  const sizes = [
    0,
    1,
    300,
    ...Array.from({ length: 40 }, (_, i) => 3600 + i * 16),
    4095,
    4096,
    4097,
    20_000,
    300_000,
    2,
  ]
  const bodies = sizes.map((size) => Buffer.from(Uint8Array.from({ length: size }, (_, i) => (i * 31 + size) % 256)))
  for (const body of bodies) {
    const { outcome } = await send(sender, targetAt(url), { ...exampleMessage, body })
    assert.equal(outcome.code, 'delivered')
  }
  assert.deepEqual(
    requests.map((body) => body.toString('latin1')),
    bodies.map((body) => body.toString('latin1')),
  )
})

test('a small request is one write, with characters beyond ASCII in its head and its body', async (t) => {
  const { url, requests } = await recorder(t)
  const sender = testSender(t)
  const counts = countWrites(t)
  const body = Buffer.from('{"name":"Zoë"}')
  const { outcome } = await send(sender, targetAt(url, { headers: { 'x-name': 'Zoë' } }), { ...exampleMessage, body })
  assert.equal(outcome.code, 'delivered')
  assert.equal(requests[0]?.toString(), '{"name":"Zoë"}')
  assert.deepEqual(counts, { pieces: 0, whole: 1 })
})
