import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import type { HttpLimits } from '../../src/http/app.ts'
import { Shares } from '../../src/http/transfers.ts'
import { configOf } from '../../src/runtime/config.ts'
import { eventually } from '../e2e/eventually.ts'
import { adminKey, openApi } from './api.ts'

const size = 60_000

async function listening(t: TestContext, limits: Partial<HttpLimits>) {
  const api = await openApi({ limits: { ...configOf({}), ...limits }, requestTimeoutMs: 60_000 })
  const sockets: Socket[] = []
  t.after(async () => {
    // A server that closes waits for requests that are still being sent.
    for (const socket of sockets) socket.destroy()
    await api.app.close()
    await api.store.close()
  })
  await api.ask('POST', '/app', { name: 'A', uid: 'a' })
  await api.app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = api.app.server.address() as AddressInfo
  /** Announces a body and sends a part of it. */
  const upload = async (part: string, type = 'application/json'): Promise<{ socket: Socket; said: () => string }> => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    sockets.push(socket)
    await once(socket, 'connect')
    let said = ''
    socket.on('data', (chunk) => {
      said += chunk
    })
    socket.write(
      `POST /api/v1/app/a/msg HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${adminKey}\r\n` +
        `content-type: ${type}\r\ncontent-length: ${size}\r\n\r\n${part}`,
    )
    return { socket, said: () => said }
  }
  return { api, upload }
}

test('a body that stalls is refused with 408 and the connection closed', async (t) => {
  const { api, upload } = await listening(t, { uploadPace: 4096 })
  // An upload that is answered without being read stalls as well, which harms no other request.
  const unread = await upload('x', 'text/plain')
  const { socket, said } = await upload('{"eventType":')
  await once(socket, 'close')
  assert.match(said(), /^HTTP\/1\.1 408 /)
  assert.match(said(), /uploadPace/)
  assert.match(unread.said(), /^HTTP\/1\.1 415 /)
  assert.match(said(), /connection: close/)
  assert.deepEqual(api.bugs, [])
})

test('bodies that are still arriving are bounded per client', async (t) => {
  const { api, upload } = await listening(t, { maxUploadPerClient: 2 * size })
  const [first, second] = [await upload('{'), await upload('{')]
  const third = await eventually('a refusal', async () => {
    const { socket, said } = await upload('{')
    await Promise.race([once(socket, 'close'), new Promise((resolve) => setTimeout(resolve, 200))])
    return said().startsWith('HTTP/1.1 429 ') && said()
  })
  assert.match(third, /retry-after: 1/)
  assert.match(third, /maxUploadPerClient/)
  assert.match(third, /connection: close/)
  // A small one is always let in, and a large one once there is room.
  assert.equal((await api.ask('POST', '/app/a/msg', { eventType: 'x.y', payload: {} })).status, 202)
  first.socket.destroy()
  second.socket.destroy()
  const large = { eventType: 'x.y', payload: { text: 'x'.repeat(40_000) } }
  await eventually('room', async () => (await api.ask('POST', '/app/a/msg', large)).status === 202)
  assert.deepEqual(api.bugs, [])
})

test('when all is taken, the client with most is refused first', () => {
  const shares = new Shares({ perClient: 100, total: 120 })
  const release = shares.take('a', 90) ?? assert.fail('refused')
  assert.ok(shares.take('b', 30))
  assert.equal(shares.take('a', 20), undefined, 'more than it may have')
  assert.equal(shares.take('a', 5), undefined, 'more than an equal share')
  assert.ok(shares.take('b', 10), 'less than an equal share')
  assert.ok(shares.take('c', 40), 'less than an equal share')
  assert.equal(shares.take('c', 1), undefined)
  release()
  release()
  assert.ok(shares.take('c', 20))
  assert.ok(new Shares({ perClient: 10, total: 20 }).take('a', 50), 'one alone that is larger than the share')
})
