import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import type { TLSSocket, TlsOptions } from 'node:tls'
import type { ClientCertificate } from '../../src/features/credentials/rules.ts'
import type { OpenTarget } from '../../src/sender/send.ts'
import { pemBlocks, readClientCertificate } from '../../src/wire/certificate.ts'
import { answer, rawReceiver } from '../hostile/raw-receiver.ts'
import { exampleMessage, send, targetAt, testSender } from './sending.ts'

const fixture = (name: string) => readFileSync(new URL(`fixtures/${name}.pem`, import.meta.url), 'utf8')
const server: TlsOptions = { key: fixture('valid'), cert: fixture('valid') }
const extraCa = [fixture('authority')]

export function clientCertificate(name: string, change: Partial<ClientCertificate> = {}): ClientCertificate {
  const blocks = pemBlocks(fixture(`client-${name}`))
  const pem = (wanted: boolean) =>
    blocks.filter(({ label }) => (label === 'CERTIFICATE') === wanted).map(({ text }) => text)
  const read = readClientCertificate(pem(true).join(''), pem(false).join(''))
  assert('key' in read, 'message' in read ? read.message : '')
  return { ...read, ...change }
}

/** A receiver that takes only clients with a certificate of the test authority, and notes their names. */
async function securedReceiver(t: TestContext, options: TlsOptions = {}) {
  const names: string[] = []
  const receiver = await rawReceiver(
    t,
    (socket: Socket) => {
      names.push(String((socket as TLSSocket).getPeerCertificate().subject?.CN))
      socket.write(answer('200 OK'))
    },
    { tls: { ...server, requestCert: true, rejectUnauthorized: true, ca: [fixture('client-authority')], ...options } },
  )
  return { receiver, names }
}

for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
  test(`a receiver that asks for a certificate gets that of the endpoint by ${version}`, async (t) => {
    const { receiver, names } = await securedReceiver(t, { maxVersion: version })
    const sender = testSender(t, { extraCa })
    for (const name of ['first', 'chained', 'first']) {
      const certificates = [clientCertificate(name)]
      const { outcome } = await send(sender, targetAt(receiver.url, { clientCertificates: certificates }))
      assert.equal(outcome.code, 'delivered', outcome.error)
    }
    assert.deepEqual(names, ['sluice first', 'sluice chained', 'sluice first'])
  })
}

test('a receiver that misses a certificate is client_certificate, and the error says the remedy', async (t) => {
  const { receiver } = await securedReceiver(t, { minVersion: 'TLSv1.3' })
  const { outcome } = await send(testSender(t, { extraCa }), targetAt(receiver.url))
  assert.equal(outcome.code, 'client_certificate', outcome.error)
  assert.match(outcome.error ?? '', /asks for a client certificate .*set `clientCertificate`/)
})

test('endpoints with different certificates, or none, never share a connection to one receiver', async (t) => {
  const names: string[] = []
  const sockets = new Set<Socket>()
  const receiver = await rawReceiver(
    t,
    (socket) => {
      sockets.add(socket)
      names.push(String((socket as TLSSocket).getPeerCertificate().subject?.CN))
      socket.write(answer('200 OK'))
    },
    { tls: { ...server, requestCert: true, rejectUnauthorized: false } },
  )
  const sender = testSender(t, { extraCa })
  for (let round = 0; round < 2; round++) {
    for (const name of ['first', 'second', undefined]) {
      const clientCertificates = name === undefined ? null : [clientCertificate(name)]
      const { outcome } = await send(sender, targetAt(receiver.url, { clientCertificates }))
      assert.equal(outcome.code, 'delivered', outcome.error)
    }
  }
  const expected = ['sluice first', 'sluice second', 'undefined']
  assert.deepEqual(names, [...expected, ...expected])
  assert.equal(sockets.size, 3)
})

test('a receiver that breaks off the handshake with a new certificate gets the old one in the same attempt', async (t) => {
  const { receiver, names } = await securedReceiver(t, { maxVersion: 'TLSv1.2' })
  const sender = testSender(t, { extraCa })
  const overlap = [clientCertificate('stranger'), clientCertificate('first', { replacedAt: Date.now() + 3_600_000 })]
  const target = sender.open(targetAt(receiver.url, { clientCertificates: overlap }))
  for (let i = 0; i < 3; i++) assert.equal((await sendBy(target)).outcome.code, 'delivered')
  assert.deepEqual(names, ['sluice first', 'sluice first', 'sluice first'])
  // The refused one was shown once: for a minute the receiver is not asked again.
  assert.equal(receiver.connections, 2)
})

test('a receiver that only hangs up on a new certificate costs one attempt, and the next one shows the old one', async (t) => {
  const { receiver, names } = await securedReceiver(t, { minVersion: 'TLSv1.3' })
  const sender = testSender(t, { extraCa })
  const overlap = [clientCertificate('stranger'), clientCertificate('first', { replacedAt: Date.now() + 3_600_000 })]
  const target = sender.open(targetAt(receiver.url, { clientCertificates: overlap }))
  const { outcome } = await sendBy(target)
  assert.equal(outcome.code, 'reset')
  assert.match(outcome.error ?? '', /without an answer; it may refuse the client certificate of the endpoint\.$/)
  assert.equal((await sendBy(target)).outcome.code, 'delivered')
  assert.deepEqual(names, ['sluice first'])
})

test("nginx's page about a client certificate is client_certificate, and another 400 is not", async (t) => {
  const page = (title: string) => `<html>\r\n<head><title>400 ${title}</title></head>\r\n<body>\r\n</body></html>\r\n`
  const bodies = ['No required SSL certificate was sent', 'The SSL certificate error', 'Bad Request'].map(page)
  const receiver = await rawReceiver(t, (socket) => socket.write(answer('400 Bad Request', bodies.shift())), {
    tls: { ...server, requestCert: true, rejectUnauthorized: false },
  })
  const sender = testSender(t, { extraCa })
  const outcomes = []
  for (const clientCertificates of [null, [clientCertificate('stranger')], [clientCertificate('stranger')]]) {
    const { outcome } = await send(sender, targetAt(receiver.url, { clientCertificates }))
    outcomes.push([outcome.code, outcome.status, outcome.error])
  }
  assert.deepEqual(outcomes, [
    [
      'client_certificate',
      400,
      'The receiver asks for a client certificate (400, No required SSL certificate was sent); set `clientCertificate` of the endpoint.',
    ],
    [
      'client_certificate',
      400,
      'The receiver refused the client certificate of the endpoint (400, The SSL certificate error).',
    ],
    ['refused', 400, 'The receiver answered 400.'],
  ])
})

test('a web server that answers 400 to a new certificate is shown the old one from the next attempt on', async (t) => {
  const names: string[] = []
  const receiver = await rawReceiver(
    t,
    (socket) => {
      const name = String((socket as TLSSocket).getPeerCertificate().subject?.CN)
      names.push(name)
      socket.write(answer(name === 'sluice first' ? '200 OK' : '400 Bad Request'))
    },
    { tls: { ...server, requestCert: true, rejectUnauthorized: false } },
  )
  const sender = testSender(t, { extraCa })
  const overlap = [clientCertificate('second'), clientCertificate('first', { replacedAt: Date.now() + 3_600_000 })]
  const target = sender.open(targetAt(receiver.url, { clientCertificates: overlap }))
  assert.equal((await sendBy(target)).outcome.status, 400)
  assert.equal((await sendBy(target)).outcome.status, 200)
  assert.deepEqual(names, ['sluice second', 'sluice first'])
})

test('the old certificate is not shown after the overlap', async (t) => {
  const { receiver, names } = await securedReceiver(t)
  const sender = testSender(t, { extraCa })
  const over = [clientCertificate('stranger'), clientCertificate('first', { replacedAt: Date.now() - 1 })]
  const target = sender.open(targetAt(receiver.url, { clientCertificates: over }))
  for (let i = 0; i < 2; i++) assert.notEqual((await sendBy(target)).outcome.code, 'delivered')
  assert.deepEqual(names, [])
})

test('a certificate that is not valid yet waits for its time behind the old one', async (t) => {
  const { receiver, names } = await securedReceiver(t)
  const day = 86_400_000
  const early = clientCertificate('second', { validFrom: Date.now() + day })
  const overlap = [early, clientCertificate('first', { replacedAt: Date.now() + 2 * day })]
  await send(testSender(t, { extraCa }), targetAt(receiver.url, { clientCertificates: overlap }))
  assert.deepEqual(names, ['sluice first'])
})

test('a retired target closes its idle connections at once, and those in use when their attempts end', async (t) => {
  const held: Socket[] = []
  const receiver = await rawReceiver(
    t,
    (socket, { nth }) => {
      if (nth === 1 && held.length < 1) held.push(socket)
      else socket.write(answer('200 OK'))
    },
    { tls: { ...server, requestCert: true, ca: [fixture('client-authority')] } },
  )
  const sender = testSender(t, { extraCa })
  const target = sender.open(targetAt(receiver.url, { clientCertificates: [clientCertificate('first')] }))
  const under = sendBy(target)
  while (held.length === 0) await new Promise((resolve) => setImmediate(resolve))
  assert.equal((await sendBy(target)).outcome.code, 'delivered')
  assert.equal(receiver.open.size, 2)
  const [busy] = held as [Socket]
  const idle = [...receiver.open].find((socket) => !isUnder(busy, socket)) as Socket
  const idleClosed = once(idle, 'close')
  target.retire?.()
  await idleClosed
  assert.equal(receiver.open.size, 1)
  const busyClosed = once(busy, 'close')
  busy.write(answer('200 OK'))
  assert.equal((await under).outcome.code, 'delivered')
  await busyClosed
})

test('a plain URL with a client certificate is blocked: nothing would show the certificate', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const target = targetAt(receiver.url, { clientCertificates: [clientCertificate('first')] })
  const { outcome } = await send(testSender(t), target)
  assert.equal(outcome.code, 'blocked')
  assert.equal(receiver.connections, 0)
})

/** Whether a TLS socket is on top of this TCP socket. */
function isUnder(secure: Socket, plain: Socket): boolean {
  return secure.remotePort === plain.remotePort
}

function sendBy(target: OpenTarget) {
  return send({ open: () => target, close: async () => {} }, targetAt(''), exampleMessage)
}
