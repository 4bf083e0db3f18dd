import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Clock } from '../../src/domain/clock.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { openDns, type Resolve } from '../../src/sender/resolve.ts'
import { assertAtDeadline, send, targetAt, testSender } from '../sender/sending.ts'
import { type DnsAnswer, fakeDns } from './fake-dns.ts'
import { answer, rawReceiver } from './raw-receiver.ts'

const ok = answer('200 OK', '', ['connection: close'])

/** A second loopback address: allowed in these tests, while 127.0.0.1 is not and plays the private network. */
const allowed = '127.0.0.2'

const resolveWith = (t: { after(fn: () => void): void }, server: string): Resolve => {
  const dns = openDns({ servers: [server], timeoutMs: 100 })
  t.after(() => dns.close())
  return dns.resolve
}

const forbidden: readonly (readonly [string, DnsAnswer])[] = [
  ['loopback', ['127.0.0.1']],
  ['IPv6 loopback', ['::1']],
  ['loopback written as a mapped address', ['::ffff:127.0.0.1']],
  ['loopback inside NAT64', ['64:ff9b::7f00:1']],
  ['the metadata service', ['169.254.169.254']],
  ['an allowed address and a forbidden one', [allowed, '127.0.0.1']],
  ['an allowed address and a forbidden IPv6 one', [allowed, '::1']],
  ['a public address and a forbidden one', ['93.184.216.34', '127.0.0.1']],
  ['another name that leads to loopback', { alias: 'inside.test', addresses: ['127.0.0.1'] }],
]

for (const [what, said] of forbidden) {
  test(`a name that leads to ${what} is blocked, and no connection is made`, async (t) => {
    const canary = await rawReceiver(t, (socket) => void socket.write(ok))
    const dns = await fakeDns(t, () => said)
    const sender = testSender(t, {
      allowNetworks: [`${allowed}/32`],
      allowHttp: true,
      resolve: resolveWith(t, dns.server),
    })
    const { outcome, leaves } = await send(sender, targetAt(`http://hooks.test:${canary.port}/`))

    assert.equal(outcome.code, 'blocked', outcome.error)
    assert.equal(leaves, 0)
    assert.equal(canary.connections, 0)
  })
}

test('a name that is rebound to loopback after it was checked is blocked from then on', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.end(ok), { host: allowed })
  const canary = await rawReceiver(t, (socket) => void socket.write(ok))
  const dns = await fakeDns(t, (_name, type, nth) => (type === 'AAAA' ? [] : nth === 1 ? [allowed] : ['127.0.0.1']))
  let skewMs = 0
  const clock: Clock = { ...systemClock, steady: () => systemClock.steady() + skewMs }
  const sender = testSender(t, {
    clock,
    allowNetworks: [`${allowed}/32`],
    allowHttp: true,
    resolve: resolveWith(t, dns.server),
  })
  const target = targetAt(`http://hooks.test:${receiver.port}/`)

  assert.equal((await send(sender, target)).outcome.code, 'delivered')
  skewMs = 2000
  assert.equal((await send(sender, target)).outcome.code, 'blocked')
  assert.equal(canary.connections, 0)
  assert.equal(receiver.connections, 1)
})

test('exactly the addresses that were checked are connected to, however often the name is asked about', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.end(ok), { host: allowed })
  const dns = await fakeDns(
    t,
    (_name, type, nth) => (type === 'AAAA' ? [] : nth === 1 ? [allowed] : ['127.0.0.1']),
    300,
  )
  const sender = testSender(t, {
    allowNetworks: [`${allowed}/32`],
    allowHttp: true,
    resolve: resolveWith(t, dns.server),
  })
  const target = targetAt(`http://hooks.test:${receiver.port}/`)
  const all = await Promise.all(Array.from({ length: 20 }, () => send(sender, target)))

  for (const { outcome } of all) assert.equal(outcome.code, 'delivered', outcome.error)
  assert.deepEqual(dns.asked.toSorted(), ['A hooks.test', 'AAAA hooks.test'], 'twenty attempts, one lookup')
})

const failures = [
  ['nxdomain', 'dns_not_found'],
  ['servfail', 'dns_failed'],
  ['refused', 'dns_failed'],
  ['silent', 'dns_timeout'],
] as const

for (const [said, code] of failures) {
  test(`a name about which DNS says ${said} is ${code}`, async (t) => {
    const dns = await fakeDns(t, () => said)
    const sender = testSender(t, { resolve: resolveWith(t, dns.server) })
    const { outcome, leaves } = await send(sender, targetAt('https://hooks.test/', { timeoutMs: 60_000 }))

    assert.equal(outcome.code, code, outcome.error)
    assert.equal(leaves, 0)
    assert.ok(
      outcome.durationMs < 30_000,
      `took ${outcome.durationMs} ms: the deadline of the attempt, not of the lookup`,
    )
  })
}

test('a name without addresses is dns_not_found', async (t) => {
  const dns = await fakeDns(t, () => [])
  const sender = testSender(t, { resolve: resolveWith(t, dns.server) })

  assert.equal((await send(sender, targetAt('https://hooks.test/'))).outcome.code, 'dns_not_found')
})

test('a DNS server that cannot be reached is dns_failed or dns_timeout, never connect_refused', async (t) => {
  const sender = testSender(t, { resolve: resolveWith(t, '127.0.0.1:1') })
  const { outcome } = await send(sender, targetAt('https://hooks.test/'))

  assert.match(outcome.code, /^dns_(failed|timeout)$/)
})

test('fifty silent names at once fail together and hold up no other name', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(ok))
  const dns = await fakeDns(t, () => 'silent')
  const sender = testSender(t, { resolve: resolveWith(t, dns.server) })
  const silent = Array.from({ length: 50 }, (_, i) =>
    send(sender, targetAt(`https://n${i}.test/`, { timeoutMs: 60_000 })),
  )
  const fine = await send(sender, targetAt(receiver.url))

  assert.equal(fine.outcome.code, 'delivered')
  for (const { outcome } of await Promise.all(silent)) {
    assert.equal(outcome.code, 'dns_timeout')
    assert.ok(
      outcome.durationMs < 30_000,
      `took ${outcome.durationMs} ms: the deadline of the attempt, not of the lookup`,
    )
  }
})

test('a name that is resolved only after the deadline leaves no ghost', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(ok))
  const late = Promise.withResolvers<void>()
  const sender = testSender(t, {
    allowHttp: true,
    resolve: async () => {
      await late.promise
      return [{ address: '127.0.0.1', family: 4, ttlSeconds: 0 }]
    },
  })
  const url = `http://hooks.test:${receiver.port}/`
  const { outcome, leaves } = await send(sender, targetAt(url, { timeoutMs: 100 }))

  assert.equal(outcome.code, 'dns_timeout')
  assertAtDeadline(outcome, 100)
  assert.equal(leaves, 0)
  late.resolve()
  // The next attempt gets the late answer; had the first one a ghost, it would have connected before.
  assert.equal((await send(sender, targetAt(url))).outcome.code, 'delivered')
  assert.equal(receiver.connections, 1)
  assert.equal(receiver.requests.length, 1)
})

test('a resolver that fails in an unforeseen way ends the attempt like any other', async (t) => {
  for (const resolve of [
    () => Promise.reject(new Error('boom')),
    () => Promise.reject(Object.assign(new Error('odd'), { code: 'ECONNREFUSED' })),
    async () => [],
    async () => [{ address: 'not an address', family: 4, ttlSeconds: 1 }],
  ] satisfies Resolve[]) {
    const { outcome } = await send(testSender(t, { resolve }), targetAt('https://hooks.test/'))
    assert.match(outcome.code, /^(dns_failed|dns_not_found|blocked)$/, outcome.error)
  }
})
