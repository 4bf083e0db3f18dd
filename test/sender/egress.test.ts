import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createSecure } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { Egress } from '../../src/sender/egress.ts'
import { readEgressProxy, shownProxy } from '../../src/wire/egress-proxy.ts'
import { connectProxy, socksProxy } from './proxies.ts'
import { send, targetAt, testSender } from './sending.ts'

const proxyAt = (text: string) => {
  const proxy = readEgressProxy(text)
  assert.ok(proxy, text)
  return proxy
}
const through = (text: string, more: { noProxy?: string[]; resolvedBy?: 'sluice' | 'proxy' } = {}) => ({
  egress: { proxies: text.split(',').map(proxyAt), noProxy: [], resolvedBy: 'sluice' as const, ...more },
})

async function receiver(t: TestContext, server: Server = createServer()): Promise<number> {
  server.on('request', (_request, response) => response.end('ok'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  return (server.address() as AddressInfo).port
}

describe('settings of an egress proxy', () => {
  test('a proxy is read with its name, its kind, its port and its credentials', () => {
    assert.deepEqual(readEgressProxy('eu=http://u:p%40ss@proxy.internal'), {
      ...{ name: 'eu', kind: 'http', host: 'proxy.internal', port: 3128, username: 'u', password: 'p@ss' },
    })
    assert.equal(shownProxy(proxyAt('eu=socks5://u:p@[::1]:9')), 'eu=socks5://[::1]:9')
    for (const wrong of ['proxy.internal:3128', 'ftp://x', 'http://x/path', 'http://x?y', 'http://', 'a b=http://x']) {
      assert.equal(readEgressProxy(wrong), undefined, wrong)
    }
  })

  test('the endpoint chooses first, then its region, then the proxy of all others; listed hosts are reached directly', () => {
    const proxies = ['http://all', 'eu=http://eu', 'audit=http://audit'].map(proxyAt)
    const noProxy = ['internal.example', '.corp', '10.0.0.0/8', 'fd00::/8']
    const egress = new Egress({ proxies, noProxy, resolvedBy: 'sluice' })
    const hostOf = (host: string, chosen?: string | null, region?: string | null) => {
      const proxy = egress.proxyOf(host, chosen, region)
      return proxy === null || typeof proxy === 'string' ? proxy : proxy.host
    }
    assert.equal(hostOf('example.com'), 'all')
    assert.equal(hostOf('example.com', null, 'eu'), 'eu')
    assert.equal(hostOf('example.com', null, 'us'), 'all')
    assert.equal(hostOf('example.com', 'audit', 'eu'), 'audit')
    assert.equal(hostOf('example.com', 'direct', 'eu'), null)
    assert.match(String(hostOf('example.com', 'typo')), /names the egress proxy typo/)
    for (const host of ['internal.example', 'a.internal.example', 'x.corp', '10.1.2.3', 'fd00::1']) {
      assert.equal(hostOf(host, null, 'eu'), null, host)
    }
    for (const host of ['notinternal.example', '11.0.0.1']) assert.equal(hostOf(host), 'all', host)
  })
})

describe('a delivery through an egress proxy', () => {
  const fixture = (name: string) => readFileSync(join(import.meta.dirname, 'fixtures', name), 'utf8')

  test('goes through CONNECT to an address that was checked, with the credentials of the proxy', async (t) => {
    const port = await receiver(t)
    const proxy = await connectProxy(t)
    const sender = testSender(t, through(`http://user:secret@127.0.0.1:${proxy.port}`))
    const { outcome, leaves } = await send(sender, targetAt(`http://localhost:${port}/hook`))
    assert.deepEqual([outcome.code, leaves], ['delivered', 1])
    assert.deepEqual(proxy.asked, [{ to: `127.0.0.1:${port}`, login: 'user:secret' }])
  })

  test('has TLS with the receiver, not with the proxy: the certificate is that of the name in the URL', async (t) => {
    const port = await receiver(t, createSecure({ key: fixture('valid.pem'), cert: fixture('valid.pem') }))
    const proxy = await connectProxy(t)
    const egress = through(`http://127.0.0.1:${proxy.port}`)
    const trusting = testSender(t, { ...egress, extraCa: [fixture('authority.pem')] })
    assert.equal((await send(trusting, targetAt(`https://localhost:${port}/`))).outcome.code, 'delivered')
    const plain = testSender(t, egress)
    assert.equal((await send(plain, targetAt(`https://localhost:${port}/`))).outcome.code, 'tls_failed')
    assert.equal(proxy.asked.length, 2)
  })

  test('goes through SOCKS5 with and without a login, and one connection serves several attempts', async (t) => {
    const port = await receiver(t)
    for (const login of [undefined, 'user:secret']) {
      const proxy = await socksProxy(t, login)
      const at = login === undefined ? '' : `${login}@`
      const sender = testSender(t, through(`socks5://${at}127.0.0.1:${proxy.port}`))
      const target = targetAt(`http://127.0.0.1:${port}/`)
      for (let i = 0; i < 3; i++) assert.equal((await send(sender, target)).outcome.code, 'delivered')
      assert.deepEqual(proxy.asked, [{ to: `127.0.0.1:${port}`, login }])
    }
  })

  test('leaves names to the proxy only where the operator says so; an address stays checked', async (t) => {
    const port = await receiver(t)
    const proxy = await connectProxy(t)
    const at = `http://127.0.0.1:${proxy.port}`
    const resolve = async () => [{ address: '10.9.9.9', family: 4 as const, ttlSeconds: 60 }]
    const here = testSender(t, { ...through(at), resolve })
    const refused = await send(here, targetAt(`http://hooks.example.com:${port}/`))
    assert.equal(refused.outcome.code, 'blocked')
    assert.deepEqual(proxy.asked, [])
    const there = testSender(t, { ...through(at, { resolvedBy: 'proxy' }), resolve, allowHttp: true })
    await send(there, targetAt('http://hooks.example.invalid/'))
    assert.deepEqual(proxy.asked, [{ to: 'hooks.example.invalid:80', login: undefined }])
    assert.equal((await send(there, targetAt('http://10.9.9.9/'))).outcome.code, 'blocked')
    assert.equal(proxy.asked.length, 1)
  })

  test('says which proxy refused it and why, and does not blame the receiver for it', async (t) => {
    const cases: [answer: string, code: string, words: RegExp][] = [
      [
        'HTTP/1.1 403 Forbidden\r\n\r\n',
        'proxy_failed',
        /^The egress proxy http:\/\/127\.0\.0\.1:\d+ .* 403 Forbidden/,
      ],
      ['HTTP/1.1 407 Login\r\n\r\n', 'proxy_failed', /refused the user name and password/],
      ['HTTP/1.1 502 Bad Gateway\r\n\r\n', 'connect_failed', /says: 502 Bad Gateway/],
      ['HTTP/1.1 504 Late\r\n\r\n', 'connect_timeout', /says: 504 Late/],
      ['SSH-2.0-OpenSSH\r\n\r\n', 'proxy_failed', /is not HTTP\/1\.1/],
      [`HTTP/1.1 403 ${'x'.repeat(20_000)}`, 'proxy_failed', /longer than 16 KiB/],
      ['HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n', 'proxy_failed', /before the request/],
      ['', 'proxy_failed', /closed the connection/],
    ]
    for (const [answer, code, words] of cases) {
      const proxy = await connectProxy(t, answer)
      const sender = testSender(t, through(`http://user:hidden@127.0.0.1:${proxy.port}`))
      const { outcome, leaves } = await send(sender, targetAt('http://127.0.0.1:9/'))
      assert.deepEqual([outcome.code, leaves], [code, 0], answer)
      assert.match(outcome.error ?? '', words)
      assert.doesNotMatch(outcome.error ?? '', /hidden/)
    }
  })

  test('ends as proxy_failed when the proxy is down, and within its time when the proxy is silent', async (t) => {
    const silent = createServer()
    const port = await receiver(t, silent)
    silent.close()
    const down = testSender(t, through(`http://127.0.0.1:${port}`))
    const { outcome } = await send(down, targetAt('http://127.0.0.1:9/'))
    assert.deepEqual([outcome.code, /ECONNREFUSED/.test(outcome.error ?? '')], ['proxy_failed', true])

    const { createServer: createTcp } = await import('node:net')
    const hanging = createTcp((socket) => socket.on('error', () => {}).resume())
    await new Promise<void>((resolve) => hanging.listen(0, '127.0.0.1', resolve))
    t.after(() => hanging.close())
    const sender = testSender(t, through(`http://127.0.0.1:${(hanging.address() as AddressInfo).port}`))
    const late = await send(sender, targetAt('http://127.0.0.1:9/', { timeoutMs: 300 }))
    assert.equal(late.outcome.code, 'connect_timeout')
  })

  test('that names a proxy which is not there is blocked with the remedy', async (t) => {
    const sender = testSender(t, through('http://127.0.0.1:9'))
    const { outcome } = await send(sender, targetAt('http://127.0.0.1:9/', { egressProxy: 'typo' }))
    assert.deepEqual([outcome.code, /SLUICE_EGRESS_PROXY/.test(outcome.error ?? '')], ['blocked', true])
  })
})
