import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Keys, ServerTime } from '../../../src/store/postgres/database.ts'
import { openSessions, type PostgresStatement } from '../../../src/store/postgres/sessions.ts'
import { StoreTrouble } from '../../../src/store/store.ts'
import { VirtualClock } from '../../virtual-clock.ts'
import { World } from '../conformance/harness.ts'
import { newDatabase, openNewPostgresHarness, serversAt, sharedServer } from '../postgres-harness.ts'

const insertEventless: PostgresStatement = {
  name: 'insert',
  text: `
    insert into message (key, id, app, event_type, content_type, endpoints, body)
    select key, 'msg', 1, 'video.trending', 'text/plain', '{}', '' from unnest($1::bigint[]) as key`,
}

test('of two processes with the same node number, the one that meets a taken key goes on with another', async (t) => {
  const server = await sharedServer()
  const url = await newDatabase()
  const sessions = openSessions({ servers: serversAt(url), durable: true, connections: 1, onTrouble: () => {} })
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
  const sessions = openSessions({ servers: serversAt(url), durable: true, connections: 1, onTrouble: () => {} })
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

/** A group whose last message takes its turn after the others: its twin, which is refused, shares a hash with it. */
async function groupWithTwins(t: TestContext) {
  const harness = await openNewPostgresHarness()
  t.after(() => harness.close())
  const world = new World(harness)
  const endpoint = await world.endpoint(await world.application())
  await world.publish([endpoint], { eventId: 'taken' })
  const once = [{ hash: 'one window', fingerprint: '', ttlMs: 60_000 }]
  const group = [
    await world.publication([endpoint]),
    await world.publication([endpoint], { once, eventId: 'taken' }),
    await world.publication([endpoint], { once, eventType: 'video.second' }),
  ]
  /** Has the database fail with this state when it stores the last message: the first time, or each time. */
  const failWith = async (state: string, when: 'once' | 'always') => {
    const server = await sharedServer()
    const condition = when === 'once' ? "and nextval('failures') = 1" : ''
    await server.query(
      `create sequence failures;
       create function fail() returns trigger language plpgsql as $$
       begin
         if new.event_type = 'video.second' ${condition} then raise exception using errcode = '${state}'; end if;
         return new;
       end $$;
       create trigger fail before insert on message for each row execute function fail()`,
      harness.url,
    )
  }
  return { world, group, failWith }
}

test('a group that is stored once more, because another process overtook one of its twins, is stored once', async (t) => {
  const { world, group, failWith } = await groupWithTwins(t)
  await failWith('22012', 'once')
  const answers = await world.store.publish(group)
  assert.deepEqual(
    answers.map(({ state }) => state),
    ['accepted', 'conflict', 'accepted'],
  )
  assert.equal((await world.store.counts()).messages, 3)
})

test('a group with twins that is refused leaves no trace', async (t) => {
  const { world, group, failWith } = await groupWithTwins(t)
  await failWith('57P05', 'always')
  await assert.rejects(world.store.publish(group), StoreTrouble)
  const { messages, pending } = await world.store.counts()
  assert.deepEqual({ messages, pending }, { messages: 1, pending: 1 })
})
