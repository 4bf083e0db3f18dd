import assert from 'node:assert/strict'
import { test } from 'node:test'
import { request } from 'undici'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { openPlace, type Place, pendingCount } from './place.ts'
import { apiKey, Program } from './program.ts'
import { startHere } from './server-here.ts'

const endpoints = 20
const messages = 300

async function rowsOf(place: Place, table: 'dead' | 'fan_out'): Promise<number> {
  const [row] = await place.query(`select count(*) as count from ${table}`)
  return Number(row?.count)
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: each delivery of a batch that filters cannot keep up with has one end, though its server is killed`, async (t) => {
    const place = await openPlace(t, dialect)
    const server = await Program.start(t, 'serve', place.store)
    const client = new Client(server.api)
    atEnd(t, () => client.close())
    await client.createApplication('acme')
    for (let i = 0; i < endpoints; i++) {
      const filter = `!payload.l.exists(x, x.y == ${i})`
      await client.createEndpoint('acme', { url: 'https://example.com/', disabled: true, filter })
    }
    const payload = { l: Array.from({ length: 300 }, () => ({ y: -1 })) }
    const reply = await request(`${server.api}/app/acme/msg/batch?with_content=false`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ messages: Array.from({ length: messages }, () => ({ eventType: 'a', payload })) }),
    })
    const text = await reply.body.text()
    assert.equal(reply.statusCode, 202, text.slice(0, 300))
    // The moment it is accepted, before or in the middle of being expanded.
    await server.kill()
    const { data } = JSON.parse(text) as { data: { unfiltered?: number }[] }
    const unfiltered = data.reduce((sum, { unfiltered = 0 }) => sum + unfiltered, 0)
    assert.ok(unfiltered > 0 && unfiltered < endpoints * messages, `${unfiltered} were not filtered`)
    const before = await rowsOf(place, 'dead')
    assert.ok(before < unfiltered, `all ${before} dead letters were stored with the answer`)
    await startHere(t, 'serve', place.store)
    await eventually('it is expanded', async () => (await rowsOf(place, 'fan_out')) === 0)
    assert.deepEqual(
      [await rowsOf(place, 'dead'), await pendingCount(place)],
      [unfiltered, endpoints * messages - unfiltered],
    )
  })
}
