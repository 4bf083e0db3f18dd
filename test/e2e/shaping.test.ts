import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { request } from 'undici'
import { eventually } from './eventually.ts'
import { openPlace } from './place.ts'
import { apiKey, Program } from './program.ts'
import { type Arrival, Receiver } from './receiver.ts'
import { type Server, startHere } from './server-here.ts'

const payload = '{ "user": {"id":"u-1","email":"a@b.c"}, "views": 1.0, "n": 9007199254740993 }'
const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
const shape = { drop: ['/user/email'], pseudonymize: ['/user/id'] }
const retry = { waits: { kind: 'list', ms: [50, 50] }, jitter: 'none' }

const hex = (key: string, text: string | Buffer) => createHmac('sha256', key).update(text).digest('hex')

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: each endpoint gets its own form, the same on every attempt, over a kill and a replay`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    const first = await Program.start(t, 'serve', place.store)
    let server: Server = first
    const ask = async (method: 'POST' | 'PATCH', path: string, body: object | string) => {
      const reply = await request(`${server.api}${path}`, {
        method,
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      })
      const text = await reply.body.text()
      assert.ok(reply.statusCode < 300, `${path}: ${reply.statusCode} ${text}`)
      return text === '' ? {} : JSON.parse(text)
    }
    const at = (path: string) => receiver.arrivals.filter((arrival) => arrival.path === path)
    const failing = new Set(['/stored', '/shaped-a'])
    for (const path of failing) receiver.behave(path, () => ({ status: failing.has(path) ? 500 : 200 }))

    await ask('POST', '/app', { name: 'A', uid: 'acme', signatureHeaders: { signature: 'X-VVV-Signature' } })
    await ask('POST', '/app/acme/region', { name: 'eu' })
    const make = (path: string, fields: object) =>
      ask('POST', '/app/acme/endpoint', { url: `${receiver.url}${path}`, uid: path.slice(1), secret, retry, ...fields })
    await make('/plain', {})
    await make('/stored', { signature: 'stored', shape: { drop: ['/user'] } })
    await make('/shaped-a', { shape, region: 'eu', signature: 'github' })
    await make('/shaped-b', { shape, region: 'eu', signature: 'stripe' })
    const secretOfPartners = 'the-secret-that-partners-know'
    await ask('POST', '/app/acme/region', { name: 'partners', secret: secretOfPartners })
    const joined = { shape: { keep: ['/user/id'], pseudonymize: ['/user/id'], pseudonymForm: 'hmac-hex' } }
    await make('/joined-a', { ...joined, region: 'partners' })
    await make('/joined-b', { ...joined, region: 'partners' })
    await make('/filtered', { filter: 'payload.views > 1' })
    const { id } = await ask('POST', '/app/acme/msg', `{"eventType":"x","payload":${payload}}`)

    await eventually('both have failed for good', () => at('/stored').length === 3 && at('/shaped-a').length === 3)
    // Changes from now on hold for messages that are published from now on.
    await ask('POST', '/app/acme/endpoint/stored/secret/rotate', { gracePeriodSeconds: 0 })
    await ask('PATCH', '/app/acme/endpoint/shaped-a', { shape: { keep: ['/n'] } })
    await first.kill()
    failing.clear()
    server = await startHere(t, 'serve', place.store)
    for (const endpoint of ['stored', 'shaped-a'])
      await ask('POST', `/app/acme/msg/${id}/endpoint/${endpoint}/resend`, {})
    await eventually('both have got it', () => at('/stored').length === 4 && at('/shaped-a').length === 4)

    const same = (arrivals: Arrival[], header: string) =>
      new Set(arrivals.map(({ body, headers }) => `${body} ${headers[header]}`))
    assert.equal(String(at('/plain')[0]?.body), payload)
    const rest = '{ "views": 1.0, "n": 9007199254740993 }'
    assert.deepEqual([...same(at('/stored'), 'x-vvv-signature')], [`${rest} ${hex(secret, rest)}`])
    const [one] = at('/shaped-a')
    assert.match(
      String(one?.body),
      /^\{ "user": \{"id":"psn_[A-Za-z0-9_-]{43}"\}, "views": 1\.0, "n": 9007199254740993 \}$/,
    )
    assert.deepEqual(
      [...same(at('/shaped-a'), 'x-hub-signature-256')],
      [`${one?.body} sha256=${hex(secret, one?.body ?? '')}`],
    )
    const [other] = at('/shaped-b')
    assert.notEqual(String(other?.body), String(one?.body), 'nobody can link the two')
    const time = /^t=(\d+),/.exec(other?.headers['stripe-signature'] ?? '')?.[1]
    assert.equal(other?.headers['stripe-signature'], `t=${time},v1=${hex(secret, `${time}.${other?.body}`)}`)
    assert.deepEqual(at('/filtered'), [])
    const token = `{ "user": {"id":"${hex(secretOfPartners, 'u-1')}"} }`
    assert.deepEqual(
      [at('/joined-a'), at('/joined-b')].map(([first]) => String(first?.body)),
      [token, token],
    )

    await ask('POST', '/app/acme/msg', `{"eventType":"x","payload":${payload}}`)
    await eventually(
      'the next has its new form',
      () => String(at('/shaped-a').at(-1)?.body) === '{ "n": 9007199254740993 }',
    )

    // Accepted before there was a shape, and sent after: shaped as it is sent.
    await ask('POST', '/app/acme/endpoint/plain/pause', {})
    await ask('POST', '/app/acme/msg', `{"eventType":"x","payload":${payload}}`)
    await ask('PATCH', '/app/acme/endpoint/plain', { shape: { keep: ['/views'] } })
    await ask('POST', '/app/acme/endpoint/plain/resume', {})
    await eventually('what waited has arrived', () => at('/plain').length === 3)
    assert.deepEqual(
      at('/plain').map(({ body }) => String(body)),
      [payload, payload, '{ "views": 1.0 }'],
    )
  })
}
