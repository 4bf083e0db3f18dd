import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { answer, rawReceiver } from '../hostile/raw-receiver.ts'
import { tokenServer } from '../sender/token-server.ts'
import { eventually } from './eventually.ts'
import { openPlace } from './place.ts'
import { longLease, Program } from './program.ts'
import { startHere } from './server-here.ts'

const fixtures = join(import.meta.dirname, '../sender/fixtures')
const fixture = (name: string) => readFileSync(join(fixtures, `${name}.pem`), 'utf8')
const certificateOf = (name: string) => {
  const [certificate, key] = fixture(name).split(/(?=-----BEGIN [A-Z ]*PRIVATE KEY)/)
  return { certificate, key }
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: a token endpoint that is down holds the lane and does not judge the receiver`, async (t) => {
    let isUp = false
    const { auth, requests } = await tokenServer(t, (response, _, nth) => {
      response.writeHead(isUp ? 200 : 503, { 'content-type': 'application/json' })
      response.end(JSON.stringify(isUp ? { access_token: `t${nth}`, expires_in: 600 } : { error: 'server_error' }))
    })
    const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
    const place = await openPlace(t, dialect)
    const server = await startHere(t, 'serve', place.store, longLease)
    const ask = server.ask.bind(server)
    await ask('POST', '/app', { name: 'Acme', uid: 'acme' })
    const { tokenUrl, clientId, secret: clientSecret } = auth
    const endpoint = '/app/acme/endpoint/orders'
    await ask('POST', '/app/acme/endpoint', {
      ...{ url: receiver.url, uid: 'orders', auth: { kind: 'oauth2', tokenUrl, clientId, clientSecret } },
      ...{ retry: { waits: { kind: 'list', ms: Array(20).fill(100) } }, circuit: { failures: 2 }, concurrency: 2 },
    })
    const publish = (n: number) => ask('POST', '/app/acme/msg', { eventType: 'a.b', payload: { n } })
    for (let n = 0; n < 30; n++) await publish(n)
    const attempts = async () => (await ask('GET', `${endpoint.replace('/endpoint', '/attempt/endpoint')}`)).data
    await eventually('attempts fail for want of a token', async () => (await attempts()).length >= 3)
    const [latest] = await attempts()
    assert.equal(latest.code, 'token_failed')
    assert.match(latest.error, /No token from the token endpoint http:\/\/127\.0\.0\.1:\d+\/token: it answered 503/)
    const { state } = await ask('GET', endpoint)
    assert.ok(state === 'held' || state === 'active', state)
    const { circuit } = await ask('GET', `${endpoint}/lane`)
    assert.equal(circuit?.state ?? circuit, 'closed')
    assert.equal(receiver.requests.length, 0)
    const tried = (await attempts()).length
    assert.ok(tried <= 2 * requests.length + 2, `${tried} attempts for ${requests.length} requests`)

    isUp = true
    await eventually('all messages arrive', () => receiver.requests.length === 30)
    assert.ok(receiver.requests.every(({ head }) => /^authorization: Bearer t\d+$/im.test(head)))
    assert.ok(requests.length < 12, `${requests.length} requests for tokens`)
  })
}

test('client certificates rotate under load without a failed attempt', async (t) => {
  const names = new Map<string, number>()
  const receiver = await rawReceiver(
    t,
    (socket) => {
      const name = String((socket as TLSSocket).getPeerCertificate().subject?.CN)
      names.set(name, (names.get(name) ?? 0) + 1)
      setImmediate(() => socket.write(answer('200 OK')))
    },
    {
      tls: {
        ...{ key: fixture('valid'), cert: fixture('valid') },
        ...{ requestCert: true, rejectUnauthorized: true, ca: [fixture('client-authority')] },
      },
    },
  )
  const place = await openPlace(t, 'sqlite')
  const settings = { ...longLease, NODE_EXTRA_CA_CERTS: join(fixtures, 'authority.pem') }
  const server = await Program.start(t, 'serve', place.store, settings)
  const ask = server.ask.bind(server)
  await ask('POST', '/app', { name: 'Acme', uid: 'acme' })
  const order = ['client-first', 'client-second', 'client-chained']
  await ask('POST', '/app/acme/endpoint', {
    ...{ url: receiver.url, uid: 'orders', clientCertificate: certificateOf('client-first') },
  })
  let published = 0
  for (const name of order) {
    await ask('PATCH', '/app/acme/endpoint/orders', { clientCertificate: certificateOf(name) })
    for (let i = 0; i < 40; i++) {
      await ask('POST', '/app/acme/msg', { eventType: 'a.b', payload: { n: published++ } })
    }
    const subject = name.replace('client-', 'sluice ')
    await eventually(`${subject} is shown`, () => (names.get(subject) ?? 0) > 0)
  }
  const total = () => [...names.values()].reduce((sum, count) => sum + count, 0)
  await eventually('all messages arrive', () => total() === published)
  const { data } = await ask('GET', '/app/acme/attempt/endpoint/orders?status=2')
  assert.deepEqual(data, [])
  assert.deepEqual([...names.keys()], ['sluice first', 'sluice second', 'sluice chained'])
})
