import assert from 'node:assert/strict'
import { test } from 'node:test'
import { request } from 'undici'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { openPlace, type Place, pendingCount } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { startHere } from './server-here.ts'

const endpoints = 2500

/** As many endpoints as one SQL statement makes from one that exists. */
async function multiply(place: Place, count: number): Promise<void> {
  const numbers =
    place.dialect === 'sqlite'
      ? `with recursive copy (n) as (select 1 union all select n + 1 from copy where n < ${count - 1})`
      : `with copy (n) as (select generate_series(1, ${count - 1}))`
  const columns = await columnsOf(place)
  const values = columns.map((name) => {
    if (name === 'key') return 'endpoint.key + copy.n'
    if (name === 'id') return `endpoint.id || '-' || copy.n`
    return `endpoint.${name}`
  })
  await place.query(`${numbers} insert into endpoint (${columns.join(', ')})
    select ${values.join(', ')} from endpoint, copy`)
  await place.query(
    'insert into lane (endpoint, app) select key, app from endpoint where key not in (select endpoint from lane)',
  )
  await place.query(`update lane set stopped = ${place.dialect === 'sqlite' ? '1' : 'true'}`)
  await place.query('update application set version = version + 1')
}

async function columnsOf(place: Place): Promise<string[]> {
  const sql =
    place.dialect === 'sqlite'
      ? `select name from pragma_table_info('endpoint')`
      : `select column_name as name from information_schema.columns where table_name = 'endpoint'`
  return (await place.query(sql)).map(({ name }) => String(name))
}

async function waitingFanOuts(place: Place): Promise<number> {
  const [row] = await place.query('select count(*) as count from fan_out')
  return Number(row?.count)
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: a message for very many endpoints reaches each once, though its server is killed meanwhile`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    const server = await Program.start(t, 'serve', place.store)
    const client = new Client(server.api)
    atEnd(t, () => client.close())
    await client.createApplication('acme')
    // Copies cannot open what was sealed for the first, so nothing is sent here: what is queued is counted.
    await client.createEndpoint('acme', { url: `${receiver.url}/a` })
    await place.query(`update endpoint set disabled = ${dialect === 'sqlite' ? '1' : 'true'}`)
    await multiply(place, endpoints)

    const reply = await request(`${server.api}/app/acme/msg`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: '{"eventType":"a","payload":{}}',
    })
    assert.equal(reply.statusCode, 202, await reply.body.text())
    // The moment it is accepted, before or in the middle of being expanded.
    await server.kill()
    await startHere(t, 'serve', place.store)
    await eventually('it is expanded', async () => (await waitingFanOuts(place)) === 0)
    assert.equal(await pendingCount(place), endpoints)
    const [row] = await place.query('select count(distinct endpoint) as count from pending')
    assert.equal(Number(row?.count), endpoints)
  })
}
