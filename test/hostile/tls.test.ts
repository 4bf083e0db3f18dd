import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { TlsOptions } from 'node:tls'
import type { OutcomeCode } from '../../src/domain/outcome.ts'
import { assertAtDeadline, send, targetAt, testSender } from '../sender/sending.ts'
import { answer, rawReceiver } from './raw-receiver.ts'

const fixture = (name: string) => readFileSync(new URL(`../sender/fixtures/${name}.pem`, import.meta.url), 'utf8')
const authority = fixture('authority')
const withCertificate = (name: string): TlsOptions => ({ key: fixture(name), cert: fixture(name) })

interface Row {
  readonly has: string
  readonly tls: TlsOptions
  readonly host?: string
  readonly code: OutcomeCode
  readonly error: RegExp
}

const rows: readonly Row[] = [
  { has: 'a self-signed certificate', tls: withCertificate('self-signed'), code: 'tls_failed', error: /self-signed/ },
  {
    has: 'a certificate for another host',
    tls: withCertificate('wrong-host'),
    code: 'tls_failed',
    error: /another host/,
  },
  { has: 'an expired certificate', tls: withCertificate('expired'), code: 'tls_failed', error: /expired/ },
  {
    has: 'nothing newer than TLS 1.1',
    tls: { ...withCertificate('valid'), minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' },
    code: 'tls_failed',
    error: /1\.2/,
  },
  {
    has: 'HTTP/2 only',
    tls: { ...withCertificate('valid'), ALPNProtocols: ['h2'] },
    code: 'tls_failed',
    error: /HTTP\/1\.1/,
  },
]

for (const { has, tls, code, error } of rows) {
  for (const host of ['127.0.0.1', 'localhost']) {
    test(`a server at ${host} that has ${has} is ${code} and gets no byte of the request`, async (t) => {
      const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')), { tls })
      const target = targetAt(`https://${host}:${receiver.port}/hook`)
      // Twice: a session left over from the first failure must not let the second pass.
      const sender = testSender(t, { extraCa: [authority] })
      for (let i = 0; i < 2; i++) {
        const { outcome, leaves } = await send(sender, target)
        assert.equal(outcome.code, code, outcome.error)
        assert.match(outcome.error ?? '', error)
        assert.equal(leaves, 0)
      }
      assert.equal(receiver.requests.length, 0)
    })
  }
}

test('a server with a valid certificate of an added authority is delivered to, on resumed sessions too', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.end(answer('200 OK', '', ['connection: close'])), {
    tls: withCertificate('valid'),
  })
  const sender = testSender(t, { extraCa: [authority] })
  for (const host of ['127.0.0.1', 'localhost', 'localhost.', 'LOCALHOST']) {
    for (let i = 0; i < 3; i++) {
      const { outcome } = await send(sender, targetAt(`https://${host}:${receiver.port}/hook`))
      assert.equal(outcome.code, 'delivered', outcome.error)
    }
  }
})

test('a broken certificate of an added authority shows when the sender is opened', (t) => {
  const broken = authority.replace('MII', 'XXX')
  assert.throws(() => testSender(t, { extraCa: [broken] }))
})

test('without the added authority the same server is refused', async (t) => {
  const receiver = await rawReceiver(t, () => {}, { tls: withCertificate('valid') })
  const { outcome } = await send(testSender(t), targetAt(receiver.url))

  assert.equal(outcome.code, 'tls_failed')
  assert.equal(receiver.requests.length, 0)
})

test('a name is sent as server name and checked against the certificate', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')), {
    tls: withCertificate('valid'),
  })
  const sender = testSender(t, {
    extraCa: [authority],
    resolve: async () => [{ address: '127.0.0.1', family: 4, ttlSeconds: 0 }],
  })
  const at = (host: string) => targetAt(`https://${host}:${receiver.port}/hook`)

  assert.equal((await send(sender, at('receiver.test'))).outcome.code, 'delivered')
  assert.equal((await send(sender, at('receiver.test.'))).outcome.code, 'delivered')
  assert.match((await send(sender, at('impostor.test'))).outcome.error ?? '', /another host/)
  assert.match(receiver.requests[0]?.head ?? '', /^host: receiver\.test:\d+$/m)
})

test('a server that speaks plain HTTP where TLS is expected gets no request', async (t) => {
  const receiver = await rawReceiver(t, () => {}, {
    onConnect: (socket) => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n') || true,
  })
  const { outcome } = await send(testSender(t), targetAt(`https://127.0.0.1:${receiver.port}/`))

  assert.equal(outcome.code, 'tls_failed')
  assert.match(outcome.error ?? '', /does not speak TLS/)
})

for (const [how, hangUp] of [
  ['resets', 'resetAndDestroy'],
  ['closes', 'end'],
] as const) {
  test(`a server that ${how} during the handshake is tls_failed`, async (t) => {
    const receiver = await rawReceiver(t, () => {}, {
      onConnect: (socket) => {
        socket.once('data', () => socket[hangUp]())
        return true
      },
    })
    const { outcome, leaves } = await send(testSender(t), targetAt(`https://127.0.0.1:${receiver.port}/`))

    assert.equal(outcome.code, 'tls_failed')
    assert.match(outcome.error ?? '', /during the handshake/)
    assert.equal(leaves, 0)
  })
}

test('a server that never finishes the handshake is given up at the deadline', async (t) => {
  const receiver = await rawReceiver(t, () => {}, { onConnect: () => true })
  const { outcome, leaves } = await send(
    testSender(t),
    targetAt(`https://127.0.0.1:${receiver.port}/`, { timeoutMs: 150 }),
  )

  assert.equal(outcome.code, 'connect_timeout')
  assert.match(outcome.error ?? '', /handshake/)
  assertAtDeadline(outcome, 150)
  assert.equal(leaves, 0)
})
