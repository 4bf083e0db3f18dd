import assert from 'node:assert/strict'
import { test } from 'node:test'
import { request } from 'undici'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { worstExcess } from './oracles.ts'
import { sqlitePlace } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'

test('the default rate and burst of the server hold at the receiver, and the lane names their source', async (t) => {
  const place = await sqlitePlace(t)
  const receiver = await Receiver.listen(t)
  const server = await Program.start(t, 'serve', place.store, { SLUICE_DEFAULT_RATE: '20', SLUICE_DEFAULT_BURST: '4' })
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
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
