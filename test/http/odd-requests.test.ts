import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import { adminKey, openApi } from './api.ts'

/** Sends these bytes to a real server and reads until it closes the connection. */
async function answerTo(t: { after(fn: () => unknown): void }, bytes: string): Promise<string> {
  const { app } = await openApi()
  t.after(() => app.close())
  const url = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
  const socket = connect(Number(url.port), '127.0.0.1')
  socket.write(bytes)
  return text(socket)
}

const close = 'connection: close\r\n'
const authorization = `authorization: Bearer ${adminKey}\r\n`

const odd: Readonly<Record<string, readonly [bytes: string, status: number, code: string]>> = {
  'an expectation that no server can meet': [
    `POST /api/v1/app HTTP/1.1\r\nhost: a\r\n${authorization}expect: gold\r\ncontent-length: 0\r\n\r\n`,
    417,
    'expectation_failed',
  ],
  'a tunnel to elsewhere': ['CONNECT example.com:443 HTTP/1.1\r\nhost: a\r\n\r\n', 405, 'method_not_allowed'],
  'a request without a host': [`GET /api/v1/app HTTP/1.1\r\n${close}\r\n`, 400, 'invalid_request'],
  'an upgrade to another protocol': [
    `GET /api/v1/none HTTP/1.1\r\nhost: a\r\nconnection: close, upgrade\r\nupgrade: websocket\r\n\r\n`,
    404,
    'not_found',
  ],
  'a path that cannot be decoded': [`GET /api/v1/app/%zz HTTP/1.1\r\nhost: a\r\n${close}\r\n`, 400, 'invalid_request'],
  'HTTP/2 without TLS': ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400, 'invalid_request'],
  'a method that does not exist': ['SPLICE / HTTP/1.1\r\nhost: a\r\n\r\n', 400, 'invalid_request'],
  'bytes that are no HTTP': ['\x16\x03\x01\x02\x00\r\n\r\n', 400, 'invalid_request'],
  'headers without end': [
    `GET /api/v1/app HTTP/1.1\r\nhost: a\r\nx: ${'y'.repeat(40_000)}\r\n\r\n`,
    431,
    'headers_too_large',
  ],
  'two lengths': [
    'POST /api/v1/app HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n',
    400,
    'invalid_request',
  ],
}

describe('a request that reaches no route is answered with a problem:', () => {
  for (const [name, [bytes, status, code]] of Object.entries(odd)) {
    test(name, async (t) => {
      const answer = await answerTo(t, bytes)
      const [head = '', body = ''] = answer.split('\r\n\r\n')
      assert.match(head, new RegExp(`^HTTP/1.1 ${status} `), answer)
      assert.match(head, /^content-type: application\/json/im, answer)
      assert.match(head, /^x-content-type-options: nosniff/im, answer)
      assert.match(head, /^cache-control: no-store/im, answer)
      const problem = JSON.parse(body)
      assert.deepEqual([problem.status, problem.code], [status, code])
    })
  }
})

test('OPTIONS for the server itself is answered with the methods of its first page', async (t) => {
  const answer = await answerTo(t, `OPTIONS * HTTP/1.1\r\nhost: a\r\n${close}\r\n`)
  assert.match(answer, /^HTTP\/1\.1 204 .*\r\nallow: GET, HEAD, OPTIONS\r\n/s)
})

test('every answer of the API says that its type is no guess and that no cache may keep it', async () => {
  const { app, ask } = await openApi()
  const answers = [
    await ask('POST', '/app', { name: 'a', uid: 'a' }),
    await ask('GET', '/app'),
    await ask('GET', '/app/none'),
    await ask('GET', '/app', undefined, { authorization: 'Bearer wrong' }),
    await ask('POST', '/app/a/msg', { eventType: 'a', payload: {} }),
    await ask('POST', '/app/a/msg', '{'),
    await ask('TRACE' as 'GET', '/app'),
    await ask('OPTIONS', '/app'),
    await ask('GET', '/nowhere'),
    await ask('GET', '/api/v1/health'),
    await ask('GET', '/api/v1/openapi.json'),
    await ask('DELETE', '/app/a'),
  ]
  for (const { status, headers } of answers) {
    assert.equal(headers['x-content-type-options'], 'nosniff', String(status))
    assert.equal(headers['cache-control'], 'no-store', String(status))
  }
  // Pages are code of ours and hold nothing of anybody.
  for (const path of ['/portal', '/docs']) {
    const { headers } = await app.inject(path)
    assert.equal(headers['x-content-type-options'], 'nosniff')
  }
})

describe('an empty body of the type of JSON', () => {
  const headers = { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json' }

  test('is no body for a route that takes none', async () => {
    const { app, ask } = await openApi()
    await ask('POST', '/app', { uid: 'acme', name: 'Acme' })
    await ask('POST', '/app/acme/endpoint', { uid: 'main', url: 'https://example.com/' })
    const paused = await app.inject({ method: 'POST', url: '/api/v1/app/acme/endpoint/main/pause', headers })
    assert.equal(paused.statusCode, 200, paused.body)
    const link = await app.inject({ method: 'POST', url: '/api/v1/auth/app/acme/expire-all', headers })
    assert.equal(link.statusCode, 204, link.body)
  })

  test('is refused by a route that needs one', async () => {
    const { app, ask } = await openApi()
    await ask('POST', '/app', { uid: 'acme', name: 'Acme' })
    for (const path of ['app', 'app/acme/msg', 'app/acme/schedule']) {
      const answer = await app.inject({ method: 'POST', url: `/api/v1/${path}`, headers })
      assert.equal(answer.statusCode, 422)
      assert.equal(answer.json().code, 'invalid_json')
    }
  })
})
