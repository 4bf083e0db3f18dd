import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, type TestContext, test } from 'node:test'
import { type Api, adminKey, openApi } from './api.ts'

/** A server on a real port with one message that failed nowhere yet, and its names. */
async function listening(t: TestContext): Promise<Api & { readonly port: number; readonly message: string }> {
  const api = await openApi()
  t.after(async () => {
    await api.app.close()
    await api.store.close()
  })
  await api.ask('POST', '/app', { name: 'A', uid: 'a' })
  await api.ask('POST', '/app/a/endpoint', { url: 'https://example.com/', uid: 'e' })
  const { json } = await api.ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
  await api.app.listen({ host: '127.0.0.1', port: 0 })
  return { ...api, port: (api.app.server.address() as AddressInfo).port, message: json.id }
}

/** Sends these bytes and reads one answer with a body. */
async function answerTo(port: number, bytes: string): Promise<{ status: number; head: string; body: string }> {
  const socket = connect(port, '127.0.0.1')
  socket.end(bytes)
  const answer = await text(socket)
  const [head = '', body = ''] = answer.split('\r\n\r\n')
  return { status: Number(head.slice(9, 12)), head, body }
}

/** The requests of the official SDKs, byte for byte except for the names of the host, the key and the things. */
const requests = {
  'Kotlin (OkHttp), which names no content type': (path: string, body: string) =>
    `POST /api/v1${path} HTTP/1.1\r\nUser-Agent: svix-libs/1.82.0/kotlin\r\nAuthorization: Bearer ${adminKey}\r\n` +
    'idempotency-key: auto_0b5c4c2e-9c1b-4c1e-8a52-4f1e6f3c9a01\r\nsvix-req-id: 9162738201736419082\r\n' +
    `Content-Length: ${Buffer.byteLength(body)}\r\nHost: localhost\r\nConnection: Keep-Alive\r\nAccept-Encoding: gzip\r\n\r\n${body}`,
  'Go (net/http)': (path: string, body: string) =>
    `POST /api/v1${path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: svix-libs/1.82.0/go\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
    `Authorization: Bearer ${adminKey}\r\nContent-Type: application/json\r\nIdempotency-Key: auto_1b5c4c2e-9c1b-4c1e-8a52-4f1e6f3c9a02\r\n` +
    `Svix-Req-Id: 2162738201736419082\r\nAccept-Encoding: gzip\r\n\r\n${body}`,
  'Python (httpx)': (path: string, body: string) =>
    `POST /api/v1${path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n` +
    `User-Agent: svix-libs/1.82.0/python\r\nAuthorization: Bearer ${adminKey}\r\nsvix-req-id: 3062738201\r\n` +
    `idempotency-key: auto_2b5c4c2e-9c1b-4c1e-8a52-4f1e6f3c9a03\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
    `Content-Type: application/json\r\n\r\n${body}`,
  'Rust (hyper)': (path: string, body: string) =>
    `POST /api/v1${path} HTTP/1.1\r\nauthorization: Bearer ${adminKey}\r\nuser-agent: svix-libs/1.82.0/rust\r\n` +
    `idempotency-key: auto_3b5c4c2e-9c1b-4c1e-8a52-4f1e6f3c9a04\r\nsvix-req-id: 4162738201736419082\r\n` +
    `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nhost: localhost\r\n\r\n${body}`,
} as const

describe('the bytes of an SDK:', () => {
  for (const [name, bytesOf] of Object.entries(requests)) {
    test(`${name} creates an application and publishes`, async (t) => {
      const { port } = await listening(t)
      const app = await answerTo(port, bytesOf('/app', '{"name":"Other","uid":"other","metadata":{}}'))
      assert.equal(app.status, 201, app.body)
      const published = await answerTo(port, bytesOf('/app/other/msg', '{"eventType":"x.y","payload":{"a":1}}'))
      assert.equal(published.status, 202, published.body)
      assert.match(published.body, /"payload":\{"a":1\}/)
    })
  }

  test('Go posts no body as chunks without a byte', async (t) => {
    const { port, message } = await listening(t)
    const { status, body } = await answerTo(
      port,
      `POST /api/v1/app/a/msg/${message}/endpoint/e/resend HTTP/1.1\r\nHost: localhost\r\nUser-Agent: svix-libs/1.82.0/go\r\n` +
        `Transfer-Encoding: chunked\r\nAuthorization: Bearer ${adminKey}\r\n` +
        'Idempotency-Key: auto_4b5c4c2e-9c1b-4c1e-8a52-4f1e6f3c9a05\r\nSvix-Req-Id: 5162738201736419082\r\n' +
        'Accept-Encoding: gzip\r\n\r\n0\r\n\r\n',
    )
    assert.equal(status, 202, body)
  })
})

const noBody = {
  'chunks without a byte': 'transfer-encoding: chunked\r\n\r\n0\r\n\r\n',
  'chunks without a byte, as JSON': 'content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
  'chunks without a byte, as a form':
    'content-type: application/x-www-form-urlencoded\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
  'length 0 as JSON': 'content-type: application/json\r\ncontent-length: 0\r\n\r\n',
  'length 0 as text': 'content-type: text/plain\r\ncontent-length: 0\r\n\r\n',
  'length 0 of a malformed type': 'content-type: ;;;\r\ncontent-length: 0\r\n\r\n',
  'a type alone': 'content-type: application/json\r\n\r\n',
  'length 0 alone': 'content-length: 0\r\n\r\n',
  nothing: '\r\n',
} as const

describe('a request without a body is accepted with', () => {
  for (const [name, framing] of Object.entries(noBody)) {
    test(name, async (t) => {
      const { port, message, bugs } = await listening(t)
      const ask = (method: string, path: string) =>
        answerTo(
          port,
          `${method} /api/v1${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${adminKey}\r\n${framing}`,
        )
      for (const [method, path] of [
        ['POST', `/app/a/msg/${message}/endpoint/e/resend`],
        ['POST', '/app/a/endpoint/e/secret/rotate'],
        ['POST', '/auth/app-portal-access/a'],
        ['DELETE', '/app/a/endpoint/e'],
      ] as const) {
        const { status, body } = await ask(method, path)
        assert.ok(status >= 200 && status < 300, `${method} ${path}: ${status} ${body}`)
      }
      const put = await ask('PUT', '/app/a')
      assert.match(put.body, /The body is empty/)
      assert.deepEqual(bugs, [])
    })
  }
})

test('a body of another type is refused by its type, chunked or not', async (t) => {
  const { port } = await listening(t)
  const head = `POST /api/v1/app HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${adminKey}\r\ncontent-type: text/plain\r\n`
  const whole = await answerTo(port, `${head}content-length: 12\r\n\r\n{"name":"x"}`)
  const chunked = await answerTo(port, `${head}transfer-encoding: chunked\r\n\r\nc\r\n{"name":"x"}\r\n0\r\n\r\n`)
  for (const { status, body } of [whole, chunked]) {
    assert.equal(status, 415)
    assert.match(body, /text\/plain/)
  }
})

describe('an error is', () => {
  for (const [accept, type] of [
    [undefined, 'application/json'],
    ['*/*', 'application/json'],
    ['application/json, */*;q=0.8', 'application/json'],
    ['application/problem+json', 'application/problem+json'],
    ['application/json, application/problem+json;q=0.9', 'application/problem+json'],
    ['application/problem+json;q=0, application/json', 'application/json'],
  ] as const) {
    test(`${type} for accept: ${accept}`, async () => {
      const { ask } = await openApi()
      const answer = await ask('GET', '/app/none', undefined, accept === undefined ? {} : { accept })
      assert.equal(answer.status, 404)
      assert.equal(String(answer.headers['content-type']).split(';')[0], type)
    })
  }
})

const large = 8 * 1024 * 1024

/** A body far beyond the limit, sent by clients that read the answer only when they have sent all of it. */
describe('a client reads 413 after sending a body of 8 MiB:', () => {
  const path = '/api/v1/app/a/msg'

  test('Node fetch', async (t) => {
    const { port } = await listening(t)
    const headers = { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json' }
    for (let i = 0; i < 5; i++) {
      const body = Buffer.alloc(large, 'x')
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', headers, body })
      assert.equal(answer.status, 413)
      assert.equal(((await answer.json()) as { code: string }).code, 'payload_too_large')
    }
  })

  for (const framing of ['content-length', 'chunked'] as const) {
    test(`a blocking socket, ${framing}`, async (t) => {
      const { port, bugs } = await listening(t)
      const socket = connect(port, '127.0.0.1')
      const head = `POST ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${adminKey}\r\n`
      const [length, before, after] =
        framing === 'chunked'
          ? ['transfer-encoding: chunked', `${large.toString(16)}\r\n`, '\r\n0\r\n\r\n']
          : [`content-length: ${large}`, '', '']
      socket.pause()
      await new Promise<void>((resolve, reject) => {
        socket.on('error', reject)
        socket.write(`${head}${length}\r\n\r\n${before}`)
        socket.write(Buffer.alloc(large, 'x'))
        socket.write(after === '' ? Buffer.alloc(0) : after, () => resolve())
      })
      const answer = await text(socket)
      assert.match(answer, /^HTTP\/1\.1 413 /)
      assert.match(answer, /"code":"payload_too_large"/)
      assert.deepEqual(bugs, [])
    })
  }

  test('Python http.client', { skip: isInstalled('python3') ? false : 'not installed' }, async (t) => {
    const { port } = await listening(t)
    const program = `
import http.client
c = http.client.HTTPConnection('127.0.0.1', ${port}, timeout=60)
c.request('POST', '${path}', body=b'x' * ${large}, headers={'Authorization': 'Bearer ${adminKey}', 'Content-Type': 'application/json'})
r = c.getresponse()
print(r.status, r.read().decode())
`
    assert.match(await outputOf('python3', ['-c', program]), /^413 .*payload_too_large/)
  })

  test('Go net/http', { skip: isInstalled('go', ['version']) ? false : 'not installed' }, async (t) => {
    const { port } = await listening(t)
    const folder = mkdtempSync(join(tmpdir(), 'sluice-go-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    const file = join(folder, 'main.go')
    writeFileSync(
      file,
      `package main
import ("bytes"; "fmt"; "io"; "net/http")
func main() {
  req, _ := http.NewRequest("POST", "http://127.0.0.1:${port}${path}", bytes.NewReader(make([]byte, ${large})))
  req.Header.Set("Authorization", "Bearer ${adminKey}")
  req.Header.Set("Content-Type", "application/json")
  res, err := http.DefaultClient.Do(req)
  if err != nil { fmt.Println(err); return }
  body, _ := io.ReadAll(res.Body)
  fmt.Println(res.StatusCode, string(body))
}
`,
    )
    // Unoptimized: on a machine whose cache has no compiled net/http this takes 20 s of processor time in place of 29 s.
    assert.match(await outputOf('go', ['run', '-gcflags=all=-N -l', file]), /^413 .*payload_too_large/)
  })
})

function isInstalled(program: string, args: readonly string[] = ['--version']): boolean {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0
}

async function outputOf(program: string, args: readonly string[]): Promise<string> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
  return out === '' ? err : out
}
