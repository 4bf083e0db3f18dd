import assert from 'node:assert/strict'
import { test } from 'node:test'
import { request } from 'undici'
import { openSluice } from '../../src/index.ts'
import { placeFor } from '../store/sqlite-harness.ts'
import { testEncryptionKey } from '../store/test-vault.ts'
import { serveAcme } from './acme.ts'
import { eventually } from './eventually.ts'
import { apiKey } from './program.ts'
import { Receiver } from './receiver.ts'

const parent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const state = 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE'

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`the trace of a publish reaches the receivers that ask for it, with every attempt (${dialect})`, async (t) => {
    const { server, client, receiver, place } = await serveAcme(t, dialect)
    let answers = 0
    receiver.behave('/asks', () => ({ status: ++answers === 1 ? 500 : 200 }))
    const retry = { waits: { kind: 'list', ms: [50] }, jitter: 'none' }
    const headers = { traceparent: 'its-own', tracestate: 'its-own' }
    await client.createEndpoint('acme', { url: `${receiver.url}/asks`, propagateTrace: true, retry, headers })
    await client.createEndpoint('acme', { url: `${receiver.url}/asks-not` })
    const post = async (path: string, body: string, traced: Record<string, string>) => {
      const common = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
      const reply = await request(`${server.api}${path}`, { method: 'POST', headers: { ...common, ...traced }, body })
      assert.equal(reply.statusCode, 202, await reply.body.text())
    }
    const message = JSON.stringify({ eventType: 'a', payload: {} })
    const traced = { traceparent: parent, tracestate: state }
    await post('/app/acme/msg', message, traced)
    await post('/app/acme/msg/batch', `{"messages":[${message},${message}]}`, traced)
    await post('/app/acme/msg/raw?event_type=a', message, traced)
    await post('/app/acme/msg', message, { traceparent: parent.toUpperCase(), tracestate: state })
    await post('/app/acme/msg', message, {})
    const seen = (path: string) =>
      receiver.at(path).map(({ headers: { traceparent, tracestate } }) => `${traceparent} ${tracestate}`)
    await eventually('all arrived', () => seen('/asks').length === 7 && seen('/asks-not').length === 6)
    // A message without a trace of its own gets the headers of the endpoint.
    assert.deepEqual(seen('/asks').sort(), [
      ...Array(5).fill(`${parent} ${state}`),
      ...Array(2).fill('its-own its-own'),
    ])
    assert.deepEqual(new Set(seen('/asks-not')), new Set(['undefined undefined']))
    const rows = await place.query('select trace from message order by key')
    assert.deepEqual(rows.map(({ trace }) => trace).filter(Boolean), Array(4).fill(`${parent} ${state}`))
    assert.equal(rows.length, 6)
  })
}

test('the library publishes within a trace, and ignores an invalid one', async (t) => {
  const receiver = await Receiver.listen(t)
  const settings = { store: `sqlite:${placeFor(t).path}`, encryptionKey: testEncryptionKey, local: true }
  await using sluice = await openSluice(settings)
  await sluice.applications.create({ uid: 'acme', name: 'Acme' })
  await sluice.endpoints.create('acme', { url: `${receiver.url}/`, propagateTrace: true })
  const event = { eventType: 'a', payload: {} }
  await sluice.publish('acme', { ...event, traceparent: parent, tracestate: state })
  await sluice.publish('acme', { ...event, traceparent: 'invalid' })
  await receiver.until('both', () => receiver.arrivals.length === 2)
  assert.deepEqual(receiver.arrivals.map(({ headers }) => headers.traceparent ?? 'none').sort(), [parent, 'none'])
})
