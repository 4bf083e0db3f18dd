import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { clientAddresses } from '../../src/http/connection.ts'
import { openApi } from './api.ts'

describe('the address of a client', () => {
  const behind = clientAddresses(['10.0.0.0/8', '127.0.0.1', 'fd00::/8'])
  const cases: [string, string, string | undefined, string][] = [
    ['a stranger is itself, whatever it writes', '203.0.113.9', '1.2.3.4', '203.0.113.9'],
    ['a proxy without the header is the client', '10.1.1.1', undefined, '10.1.1.1'],
    ['an empty header names no client', '10.1.1.1', '', '10.1.1.1'],
    ['a proxy names its client', '10.1.1.1', '198.51.100.7', '198.51.100.7'],
    ['the client forged the front of the list', '10.1.1.1', '1.1.1.1, 127.0.0.1, 198.51.100.7', '198.51.100.7'],
    ['two proxies in a row', '10.1.1.1', '6.6.6.6,198.51.100.7, 10.2.2.2', '198.51.100.7'],
    ['all are proxies', '10.1.1.1', '10.3.3.3, 10.2.2.2', '10.3.3.3'],
    ['a word in place of an address', '10.1.1.1', '198.51.100.7, unknown', '10.1.1.1'],
    ['a word behind a proxy', '10.1.1.1', "' or 1=1 --, 10.2.2.2", '10.2.2.2'],
    ['nothing between two commas', '10.1.1.1', '198.51.100.7,,', '10.1.1.1'],
    ['a zone, which names an interface', '10.1.1.1', 'fe80::1%eth0', '10.1.1.1'],
    ['a port behind the address', '10.1.1.1', '198.51.100.7:4711', '198.51.100.7'],
    ['IPv6 with a port', 'fd00::1', '[2001:db8::7]:443', '2001:db8::7'],
    ['IPv6 in a longer form', 'fd00::1', '2001:0DB8:0000:0000:0000:0000:0000:0007', '2001:db8::7'],
    ['a proxy that connects over IPv6 sockets', '::ffff:10.1.1.1', '198.51.100.7', '198.51.100.7'],
    ['a client in the IPv6 form of IPv4', '10.1.1.1', '::ffff:198.51.100.7', '198.51.100.7'],
  ]
  for (const [name, peer, header, address] of cases) {
    test(`${name}: ${header}`, () => assert.equal(behind(peer, header), address))
  }

  test('no proxy is trusted by default', () => {
    assert.equal(clientAddresses([])('127.0.0.1', '1.2.3.4'), '127.0.0.1')
  })

  test('a list of ten thousand proxies is read from its end only', () => {
    const header = `198.51.100.7, ${Array.from({ length: 10_000 }, () => '10.1.1.1').join(', ')}`
    assert.equal(behind('10.1.1.1', header), '10.1.1.1')
  })
})

describe('behind a trusted proxy', () => {
  const wrong = { authorization: 'Bearer sk_wrong' }
  /** The statuses of wrong keys, each with its own X-Forwarded-For. */
  async function guess(trustedProxies: readonly string[], forwarded: (i: number) => string) {
    const { ask } = await openApi({ trustedProxies })
    const statuses: number[] = []
    for (let i = 0; i < 30; i++) {
      statuses.push((await ask('GET', '/app', undefined, { ...wrong, 'x-forwarded-for': forwarded(i) })).status)
    }
    const other = await ask('GET', '/app', undefined, { ...wrong, 'x-forwarded-for': '198.51.100.99' })
    return { refused: statuses.filter((status) => status === 429).length, other: other.status }
  }

  test('wrong keys count for the client, and another client behind the proxy is not refused', async () => {
    assert.deepEqual(await guess(['127.0.0.1'], () => '198.51.100.7'), { refused: 10, other: 401 })
  })

  test('a client that forges the header in front of the proxy is counted all the same', async () => {
    const forged = (i: number) => `9.9.9.${i}, 198.51.100.7`
    assert.deepEqual(await guess(['127.0.0.1'], forged), { refused: 10, other: 401 })
  })

  test('without trust, a forged header changes nothing', async () => {
    assert.deepEqual(await guess(['10.0.0.0/8'], (i) => `198.51.100.${i}`), { refused: 10, other: 429 })
  })

  test('the audit log has the address of the client', async () => {
    const { ask } = await openApi({ trustedProxies: ['127.0.0.0/8'] })
    await ask('POST', '/app', { name: 'A', uid: 'a' }, { 'x-forwarded-for': '9.9.9.9, 198.51.100.7' })
    await ask('PATCH', '/app/a', { name: 'B' })
    const { json } = await ask('GET', '/api/v1/audit?order=ascending')
    assert.deepEqual(
      json.data.map(({ ip }: { ip: string }) => ip),
      ['198.51.100.7', '127.0.0.1'],
    )
  })
})
