import assert from 'node:assert/strict'
import { test } from 'node:test'
import { request } from 'undici'
import { serveAcme } from './acme.ts'
import { eventually } from './eventually.ts'
import { worstExcess } from './oracles.ts'
import { apiKey } from './program.ts'
import { Receiver } from './receiver.ts'

test('the default rate and burst of the server hold at the receiver, and the lane names their source', async (t) => {
  const receiver = await Receiver.listen(t, { timed: true })
  const settings = { SLUICE_DEFAULT_RATE: '20', SLUICE_DEFAULT_BURST: '4' }
  const { server, client } = await serveAcme(t, 'sqlite', settings)
  const { id } = await client.createEndpoint('acme', { url: `${receiver.url}/a` })
  for (let i = 0; i < 30; i++) await client.publish('acme', 'a', Buffer.from(`{"i":${i}}`))
  const reply = await request(`${server.api}/app/acme/endpoint/${id}/lane`, {
    headers: { authorization: `Bearer ${apiKey}` },
  })
  const { limits } = (await reply.body.json()) as { limits: object }
  assert.deepEqual(limits, {
    ...{ throttleRate: 20, throttlePeriodSeconds: 1, burst: 4, concurrency: null },
    ...{ rateFrom: 'server', burstFrom: 'server' },
  })
  await eventually('all arrived', () => receiver.arrivals.length === 30)
  assert.ok(worstExcess(receiver.arrivals, { rate: 20, burst: 4 }) <= 0)
})

test('header templates name the attempt and the delivery, and follow changes of the application at once', async (t) => {
  const { server, client, receiver } = await serveAcme(t)
  const ask = async (method: 'PATCH' | 'POST', path: string, body: object) => {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    const reply = await request(`${server.api}${path}`, { method, headers, body: JSON.stringify(body) })
    assert.ok(reply.statusCode < 300, await reply.body.text())
    await reply.body.dump()
  }
  await ask('PATCH', '/app/acme', { headerTemplates: { 'X-Try': '{attempt}', 'X-By': 'application', 'X-Both': 'a' } })
  const { id } = await client.createEndpoint('acme', {
    ...{ url: `${receiver.url}/a`, headerTemplates: { 'x-both': '{deliveryId}' } },
    retry: { waits: { kind: 'list', ms: [10, 10] }, jitter: 'none' },
  })
  receiver.behave('/a', () => ({ status: receiver.arrivals.length < 3 ? 500 : 200 }))
  const published = await client.publish('acme', 'a', Buffer.from('{}'))
  assert.ok(published.state === 'accepted')
  await eventually('three attempts', () => receiver.arrivals.length === 3)
  const shown = () => receiver.arrivals.map(({ headers }) => [headers['x-try'], headers['x-by'], headers['x-both']])
  const delivery = `${published.id}.${id}`
  assert.deepEqual(
    shown(),
    ['1', '2', '3'].map((n) => [n, 'application', delivery]),
  )
  await eventually('three are recorded', async () => (await client.attempts('acme', published.id)).length === 3)
  const recorded = await client.attempts('acme', published.id)
  assert.deepEqual(recorded.map(({ attempt }) => String(attempt)).toSorted(), ['1', '2', '3'])

  await ask('PATCH', '/app/acme', { headerTemplates: { 'X-By': 'the change' } })
  await ask('POST', `/app/acme/msg/${published.id}/endpoint/${id}/resend`, {})
  await eventually('sent again', () => receiver.arrivals.length === 4)
  assert.deepEqual(shown()[3], [undefined, 'the change', delivery])
})
