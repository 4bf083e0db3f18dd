import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { systemClock } from '../../src/runtime/clock.ts'
import { createConnector, type Origin } from '../../src/sender/connect.ts'
import { Egress } from '../../src/sender/egress.ts'
import { AddressPolicy, checkUrl } from '../../src/sender/guard.ts'
import { send, targetAt, testSender } from '../sender/sending.ts'
import { answer, rawReceiver } from './raw-receiver.ts'

/** Every way of writing this machine's own address that a URL parser was seen to accept. */
const loopbackSpellings = [
  '127.0.0.1',
  '2130706433',
  '0x7f000001',
  '0177.0.0.1',
  '0x7f.1',
  '127.1',
  '127.0.0.1.',
  '①②⑦.⓪.⓪.①',
  '127。0。0。1',
  '０x7f.1',
  '0',
  '0.0.0.0',
  '127.255.255.254',
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[::]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::127.0.0.1]',
  '[::ffff:0:127.0.0.1]',
  '[64:ff9b::127.0.0.1]',
  '[2002:7f00:1::]',
  'localhost',
  'localhost.',
  'LOCALHOST',
  'ⓛⓞⓒⓐⓛⓗⓞⓢⓣ',
  'anything.localhost',
]

const originAt = (host: string, port: number): Origin => {
  const url = `http://${host}:${port}`
  return { key: url, url, host, port, secure: false }
}

test('no spelling of loopback gets as far as a TCP connection when loopback is not allowed', async (t) => {
  const ok = answer('200 OK')
  const four = await rawReceiver(t, (socket) => void socket.write(ok))
  const six = await rawReceiver(t, (socket) => void socket.write(ok), { host: '::1' })
  const sender = testSender(t, { allowNetworks: [], allowHttp: true })
  for (const host of loopbackSpellings) {
    for (const [scheme, port] of [
      ['http', four.port],
      ['https', four.port],
      ['http', six.port],
    ] as const) {
      const { outcome, leaves } = await send(sender, targetAt(`${scheme}://${host}:${port}/hook`))
      assert.equal(outcome.code, 'blocked', `${scheme}://${host}: ${outcome.error}`)
      assert.ok(outcome.error)
      assert.equal(leaves, 0)
    }
  }
  assert.equal(four.connections + six.connections, 0)
})

test('the same spellings reach loopback when it is allowed, so the test above looks at something', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const sender = testSender(t)
  for (const host of ['127.0.0.1', '2130706433', '0x7f.1', '①②⑦.⓪.⓪.①', 'localhost', 'a.localhost.']) {
    const { outcome } = await send(sender, targetAt(`http://${host}:${receiver.port}/hook`))
    assert.equal(outcome.code, 'delivered', `${host}: ${outcome.error}`)
  }
  const six = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')), { host: '::1' })
  for (const host of ['[::1]', '[0:0::0:1]', 'localhost']) {
    const { outcome } = await send(sender, targetAt(`http://${host}:${six.port}/hook`))
    assert.equal(outcome.code, 'delivered', `${host}: ${outcome.error}`)
  }
})

test('one allowed network opens no other', async (t) => {
  const canary = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const sender = testSender(t, { allowNetworks: ['10.0.0.0/8', '127.0.0.2/32', '::1/128'], allowHttp: true })
  for (const host of ['127.0.0.1', '[::ffff:127.0.0.1]', '0.0.0.0']) {
    const { outcome } = await send(sender, targetAt(`http://${host}:${canary.port}/`))
    assert.equal(outcome.code, 'blocked', `${host}: ${outcome.error}`)
  }
  assert.equal(canary.connections, 0)
})

test('localhost goes only where loopback is allowed, when just one of its two addresses is', async (t) => {
  const four = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const sender = testSender(t, { allowNetworks: ['127.0.0.0/8'] })
  assert.equal((await send(sender, targetAt(`http://localhost:${four.port}/`))).outcome.code, 'delivered')
  const other = testSender(t, { allowNetworks: ['::1/128'] })
  assert.equal((await send(other, targetAt(`http://localhost:${four.port}/`))).outcome.code, 'connect_refused')
})

test('the connector itself refuses a forbidden literal from every caller', async (t) => {
  const canary = await rawReceiver(t, () => {})
  const connect = createConnector({
    policy: new AddressPolicy({ allowNetworks: [] }),
    resolve: async () => [],
    egress: new Egress(),
    extraCa: [],
    clock: systemClock,
  })
  for (const host of ['127.0.0.1', '::1', '::ffff:127.0.0.1', '0.0.0.0']) {
    const failure = await new Promise((resolve) => connect(originAt(host, canary.port), resolve))
    assert.equal((failure as { outcome?: string }).outcome, 'blocked')
  }
  // Given up at once, it says nothing any more.
  connect(originAt('127.0.0.1', canary.port), () => assert.fail('called after it was given up')).giveUp()
  await new Promise<void>((resolve) => systemClock.soon(resolve))
  assert.equal(canary.connections, 0)
})

test('a socket that reached a forbidden address after all is closed before anything is said', async (t) => {
  const canary = await rawReceiver(t, () => {})
  // Permits once, when the address is checked, and not again, when the socket tells where it is.
  class Fickle extends AddressPolicy {
    #asked = 0
    override permits(): boolean {
      return this.#asked++ === 0
    }
  }
  const connect = createConnector({
    policy: new Fickle({ allowNetworks: [] }),
    resolve: async () => [],
    egress: new Egress(),
    extraCa: [],
    clock: systemClock,
  })
  const failure = await new Promise((resolve) => connect(originAt('127.0.0.1', canary.port), resolve))

  assert.equal((failure as { outcome?: string }).outcome, 'blocked')
  for (const socket of canary.open) await once(socket, 'close')
  assert.equal(canary.requests.length, 0)
})

test('private names are refused by themselves, public ones and allowed ones are not', () => {
  const none = new AddressPolicy({ allowNetworks: [] })
  const some = new AddressPolicy({ allowNetworks: ['10.0.0.0/8'] })
  for (const host of [
    'localhost',
    'x.localhost',
    'printer.local',
    'metadata.google.internal',
    'nas.home.arpa',
    'intranet',
  ]) {
    for (const dot of ['', '.']) assert.notDeepEqual(checkUrl(`https://${host}${dot}/`, none), [], host + dot)
  }
  assert.deepEqual(checkUrl('https://intranet/', some), [])
  assert.deepEqual(checkUrl('https://svc.ns.internal:81/', some), [], 'judged by its addresses when it is connected to')
  assert.notDeepEqual(checkUrl('https://localhost/', some), [])
  assert.deepEqual(checkUrl('https://example.com/', none), [])
})

test('an internal name on a port that is no web server leads only into an allowed network', async (t) => {
  const port = 81
  const sender = testSender(t, {
    allowNetworks: ['10.0.0.0/8'],
    allowHttp: true,
    resolve: async () => [{ address: '93.184.216.34', family: 4, ttlSeconds: 1 }],
  })
  const { outcome } = await send(sender, targetAt(`http://svc.internal:${port}/`))

  assert.equal(outcome.code, 'blocked')
  assert.match(outcome.error ?? '', /Port 81/)
})
