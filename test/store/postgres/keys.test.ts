import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Keys, ServerTime } from '../../../src/store/postgres/database.ts'
import { openSessions, type PostgresStatement } from '../../../src/store/postgres/sessions.ts'
import { VirtualClock } from '../../virtual-clock.ts'
import { newDatabase, sharedServer } from '../postgres-harness.ts'

const insertEventless: PostgresStatement = {
  name: 'insert',
  text: `
    insert into message (key, id, app, event_type, content_type, endpoints, body)
    select key, 'msg', 1, 'video.trending', 'text/plain', '{}', '' from unnest($1::bigint[]) as key`,
}

test('of two processes with the same node number, the one that meets a taken key goes on with another', async (t) => {
  const server = await sharedServer()
  const url = await newDatabase()
  const sessions = openSessions({ url, durable: true, connections: 1, onTrouble: () => {} })
  t.after(() => sessions.end())
  // Both believe that it is the same instant, so both make the same keys.
  const time = new ServerTime(new VirtualClock())
  const insert = async (next: () => number) => {
    const keys = [next(), next(), next()]
    await sessions.run(insertEventless, [keys])
    return keys
  }
  await server.query('alter sequence node restart', url)
  const first = await new Keys(sessions, time).make(insert)
  await server.query('alter sequence node restart', url)
  const second = new Keys(sessions, time)
  const made = [...first, ...(await second.make(insert)), ...(await second.make(insert))]
  assert.equal(new Set(made).size, 9)
  const { rows } = await server.query('select last_value::integer as node from node', url)
  assert.equal(rows[0].node, 1)
})

test('another unique value that is taken is not tried again', async (t) => {
  const url = await newDatabase()
  const sessions = openSessions({ url, durable: true, connections: 1, onTrouble: () => {} })
  t.after(() => sessions.end())
  const keys = new Keys(sessions, new ServerTime(new VirtualClock()))
  let tries = 0
  const insertUid = {
    name: 'insert',
    text: `insert into application values ($1, 'app', 'taken', 'Acme', null, '{}', 1, 0, 0)`,
  }
  const insert = (next: () => number) => {
    tries++
    return sessions.run(insertUid, [next()])
  }
  await keys.make(insert)
  await assert.rejects(keys.make(insert), { code: '23505', constraint: 'application_uid' })
  assert.equal(tries, 2)
})
