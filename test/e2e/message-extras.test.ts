import assert from 'node:assert/strict'
import { test } from 'node:test'
import { request } from 'undici'
import { serveAcme } from './acme.ts'
import { eventually } from './eventually.ts'
import { apiKey } from './program.ts'

async function post(api: string, path: string, body: string | Buffer, headers: Record<string, string> = {}) {
  const reply = await request(`${api}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', ...headers },
    body,
  })
  return { status: reply.statusCode, headers: reply.headers, text: await reply.body.text() }
}

test('headers, raw bodies and batches arrive as they were sent, and a message for later arrives later', async (t) => {
  const { server, client, receiver } = await serveAcme(t)
  await client.createEndpoint('acme', {
    url: `${receiver.url}/a`,
    headers: { 'X-Own': 'endpoint', 'X-Both': 'endpoint' },
  })

  const headers = { 'x-both': 'message', 'X-Trace': 'abc' }
  await post(server.api, '/app/acme/msg', JSON.stringify({ eventType: 'one', payload: {}, headers }))
  const bytes = Buffer.from([0, 255, 13, 10, 128])
  await post(server.api, '/app/acme/msg/raw?event_type=two', bytes, { 'content-type': 'image/png; x=1' })
  const at = Date.now() + 700
  const deliverAt = new Date(at).toISOString()
  const messages = [
    { eventType: 'three', payload: { i: 3 } },
    { eventType: 'four', payload: { i: 4 }, deliverAt },
  ]
  await post(server.api, '/app/acme/msg/batch', JSON.stringify({ messages }))

  await eventually('all four arrived', () => receiver.arrivals.length === 4)
  const [last] = receiver.arrivals.slice(-1)
  assert.equal(String(last?.body), '{"i":4}')
  assert.ok(Date.now() >= at, 'not before it was to be delivered')
  const first = receiver.arrivals.find(({ headers }) => headers['x-trace'] !== undefined)
  assert.deepEqual(
    [first?.headers['x-own'], first?.headers['x-both'], first?.headers['x-trace']],
    ['endpoint', 'message', 'abc'],
  )
  const raw = receiver.arrivals.find(({ headers }) => headers['content-type'] === 'image/png; x=1')
  assert.deepEqual([...(raw?.body ?? [])], [...bytes])
  assert.equal(receiver.arrivals.filter(({ headers }) => headers['x-both'] === 'endpoint').length, 3)
})

test('while too much waits publishes are refused at once with a Retry-After, and taken again when it has drained', async (t) => {
  const limits = { SLUICE_MAX_WAITING_PER_ENDPOINT: '40' }
  const { place, server, client, receiver } = await serveAcme(t, 'sqlite', limits)
  const opened = Promise.withResolvers<void>()
  receiver.behave('/a', async () => {
    await opened.promise
    return { status: 200 }
  })
  await client.createEndpoint('acme', { url: `${receiver.url}/a` })
  await client.createEndpoint('acme', { url: `${receiver.url}/b` })

  const publish = () => post(server.api, '/app/acme/msg', '{"eventType":"a","payload":{}}')
  const all = await Promise.all(Array.from({ length: 200 }, publish))
  const accepted = all.filter(({ status }) => status === 202)
  const refused = all.filter(({ status }) => status === 429)
  assert.deepEqual([accepted.length, refused.length], [40, 160])
  for (const { headers, text } of refused) {
    assert.ok(Number(headers['retry-after']) >= 1)
    assert.equal(JSON.parse(text).code, 'overloaded')
  }
  const messages = JSON.stringify({ messages: [{ eventType: 'a', payload: {} }] })
  assert.equal((await post(server.api, '/app/acme/msg/batch', messages)).status, 429)
  const [row] = await place.query('select count(*) as count from message')
  assert.equal(row?.count, 40, 'what was refused left no trace')

  opened.resolve()
  await eventually('everything arrived', () => receiver.arrivals.length >= 80)
  await eventually('there is room again', async () => (await publish()).status === 202)
})
