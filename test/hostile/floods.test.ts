import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import type { OutcomeCode } from '../../src/domain/outcome.ts'
import { send, targetAt, testSender } from '../sender/sending.ts'
import { answer, flood, rawReceiver } from './raw-receiver.ts'

const fixture = (name: string) => readFileSync(new URL(`../sender/fixtures/${name}.pem`, import.meta.url), 'utf8')
const secure = { server: { key: fixture('valid'), cert: fixture('valid') }, ca: fixture('authority') }

/** Long enough that an attempt that takes in everything takes in gigabytes. */
const timeoutMs = 20_000
/** Sluice reads at most 160 KiB of each. The rest is what the kernel of this machine takes in for both ends. */
const mostBytes = 32 * 1024 * 1024

/** Resolves when the socket is closed, by whatever. */
function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (socket.closed) resolve()
    else socket.once('close', () => resolve())
  })
}

interface Flood {
  /** The bytes outside headers and body that never end. */
  readonly of: string
  readonly begins: string
  readonly repeats: string
  readonly code: OutcomeCode
  readonly status?: number
}

const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'
const floods: readonly Flood[] = [
  { of: 'empty lines before its status', begins: '', repeats: '\r\n'.repeat(32_768), code: 'invalid_http' },
  { of: 'reason phrase', begins: 'HTTP/1.1 200 ', repeats: 'a'.repeat(65_536), code: 'invalid_http' },
  { of: 'interim reason', begins: 'HTTP/1.1 103 ', repeats: 'a'.repeat(65_536), code: 'invalid_http' },
  { of: 'chunk extension', begins: `${chunked}2;`, repeats: 'x'.repeat(65_536), code: 'delivered', status: 200 },
  {
    of: 'chunk extensions, a byte of body each',
    begins: chunked,
    repeats: `1;${'x'.repeat(8000)}\r\na\r\n`,
    code: 'delivered',
    status: 200,
  },
  {
    of: 'chunk extensions of an error',
    begins: chunked.replace('200 OK', '500 Oops'),
    repeats: `1;${'x'.repeat(8000)}\r\na\r\n`,
    code: 'refused',
    status: 500,
  },
  { of: 'trailers', begins: `${chunked}0\r\n`, repeats: 'x: y\r\n'.repeat(10_000), code: 'delivered', status: 200 },
]

for (const { of, begins, repeats, code, status = 0 } of floods) {
  for (const tls of [undefined, secure]) {
    test(`an endless ${of}${tls ? ' over TLS' : ''} is cut off by its bytes and is ${code}`, async (t) => {
      const floodSockets: Socket[] = []
      const receiver = await rawReceiver(
        t,
        (socket) => {
          floodSockets.push(socket)
          socket.write(begins)
          flood(socket, repeats)
        },
        tls ? { tls: tls.server } : {},
      )
      const sender = testSender(t, tls ? { extraCa: [tls.ca] } : {})
      const { outcome } = await send(sender, targetAt(receiver.url, { timeoutMs }))

      assert.equal(outcome.code, code, outcome.error)
      assert.equal(outcome.status, status)
      assert.ok(outcome.durationMs < timeoutMs / 2, 'cut off by its length, not by the deadline')
      const [socket] = floodSockets as [Socket]
      await closed(socket)
      assert.ok(socket.bytesWritten - socket.writableLength < mostBytes, `${socket.bytesWritten} bytes were taken`)
      assert.equal(receiver.requests.length, 1)
    })
  }
}

test('an idle connection that is flooded with empty lines is closed', async (t) => {
  const receiver = await rawReceiver(t, (socket) => {
    socket.write(answer('200 OK', 'ok'), () => flood(socket, '\r\n'.repeat(32_768)))
  })
  const { outcome } = await send(testSender(t), targetAt(receiver.url, { timeoutMs }))
  assert.equal(outcome.code, 'delivered')
  while (receiver.open.size > 0) await closed([...receiver.open][0] as Socket)
})

test('an honest answer in chunks of one byte is kept whole', async (t) => {
  const body = 'abcdefgh'.repeat(2048)
  const chunks = [...body].map((byte) => `1\r\n${byte}\r\n`).join('')
  const receiver = await rawReceiver(t, (socket) => void socket.write(`${chunked}${chunks}0\r\n\r\n`))
  const { outcome } = await send(testSender(t), targetAt(receiver.url, { timeoutMs }))
  assert.equal(outcome.code, 'delivered')
  assert.equal(Buffer.from(outcome.response ?? []).toString(), body)
})

test('every attempt on one connection may take in as much as the first', async (t) => {
  const padding = Array.from({ length: 10 }, (_, i) => `x-${i}: ${'y'.repeat(1000)}`)
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK', 'ok', padding)))
  const sender = testSender(t)
  for (let i = 0; i < 40; i++) {
    const { outcome } = await send(sender, targetAt(receiver.url, { timeoutMs }))
    assert.equal(outcome.code, 'delivered')
  }
  assert.equal(receiver.connections, 1, 'one connection carried them all')
})
