import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { type Api, adminKey, openApi } from './api.ts'

/** Behaviour that only a real socket shows. */
describe('on the wire', () => {
  let api: Api
  let port: number

  before(async () => {
    api = await openApi({ requestTimeoutMs: 300, bodyLimitBytes: 2048 })
    await api.ask('POST', '/app', { name: 'A', uid: 'a' })
    await api.app.listen({ host: '127.0.0.1', port: 0 })
    port = (api.app.server.address() as AddressInfo).port
  })
  after(async () => {
    await api.app.close()
    await api.store.close()
  })

  const head = (extra: string) =>
    `POST /api/v1/app/a/msg HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${adminKey}\r\ncontent-type: application/json\r\n${extra}\r\n`

  async function open(): Promise<Socket> {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    return socket
  }

  /** Everything the server says until it closes the connection. */
  async function conversation(text: string): Promise<{ status: number; text: string; code: string }> {
    const socket = await open()
    socket.on('error', () => {})
    socket.write(text)
    let said = ''
    socket.on('data', (chunk) => {
      said += chunk
    })
    await once(socket, 'close')
    const body = said.slice(said.indexOf('\r\n\r\n') + 4)
    return { status: Number(said.slice(9, 12)), text: said, code: body.startsWith('{') ? JSON.parse(body).code : '' }
  }

  const refused: [string, string, number, string][] = [
    ['a body that is announced too large', head('content-length: 5000\r\n'), 413, 'payload_too_large'],
    [
      'a body that turns out too large',
      `${head('transfer-encoding: chunked\r\n')}a00\r\n${'x'.repeat(2560)}\r\n0\r\n\r\n`,
      413,
      'payload_too_large',
    ],
    ['a body that never arrives', `${head('content-length: 100\r\n')}{"eventType"`, 408, 'request_timeout'],
    ['headers that never end', 'GET /api/v1/app HTTP/1.1\r\nhost: x\r\nx-slow: ', 408, 'request_timeout'],
    ['two lengths', head('content-length: 5\r\ncontent-length: 6\r\n'), 400, 'invalid_request'],
    ['a length and chunks', head('content-length: 5\r\ntransfer-encoding: chunked\r\n'), 400, 'invalid_request'],
    ['headers of 20 KB', head(`x-large: ${'x'.repeat(20_000)}\r\n`), 431, 'headers_too_large'],
    ['what is no HTTP at all', 'hello\r\n\r\n', 400, 'invalid_request'],
  ]
  for (const [name, text, status, code] of refused) {
    test(`${name} is ${status}, and the connection is closed`, async () => {
      const answer = await conversation(text)
      assert.deepEqual([answer.status, answer.code], [status, code], answer.text)
      assert.match(answer.text, /content-type: application\/json/i)
    })
  }

  test('a client that goes away in the middle of its body leaves no trace', async () => {
    const socket = await open()
    socket.write(`${head('content-length: 100\r\n')}{"eventType"`)
    socket.resetAndDestroy()
    const other = await conversation(
      `${head('connection: close\r\ncontent-length: 30\r\n')}{"eventType":"x","payload":{}}`,
    )
    assert.equal(other.status, 202)
    assert.equal((await api.store.counts()).messages, 1)
    assert.deepEqual(api.bugs, [])
  })

  test('closing answers what is under way, ends its connection and takes no new ones', async () => {
    const own = await openApi()
    await own.ask('POST', '/app', { name: 'A', uid: 'a' })
    await own.app.listen({ host: '127.0.0.1', port: 0 })
    const socket = connect((own.app.server.address() as AddressInfo).port, '127.0.0.1')
    let said = ''
    socket.on('data', (chunk) => {
      said += chunk
    })
    const asked = once(own.app.server, 'request')
    socket.write(head('content-length: 30\r\n'))
    await asked
    const closed = own.app.close()
    socket.write('{"eventType":"x","payload":{}}')
    await Promise.all([closed, once(socket, 'close')])
    assert.match(said, /^HTTP\/1\.1 202 /)
    assert.equal((await own.store.counts()).messages, 1)
  })
})
