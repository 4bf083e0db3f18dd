import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { openSluice, type Sluice } from '../../src/index.ts'
import { RunHere } from '../cli/program.ts'
import { newDatabase, sharedServer } from '../store/postgres-harness.ts'
import { migratedPlace } from '../store/sqlite-harness.ts'
import { atEnd } from './at-end.ts'
import { eventually } from './eventually.ts'

const local = { allowNetworks: ['127.0.0.0/8'], allowHttp: true, defaultRate: 0 }

/** Opens Sluice for a test, which ends it also when it fails. */
async function open(t: TestContext, settings: Parameters<typeof openSluice>[0]): Promise<Sluice> {
  const sluice = await openSluice({ ...local, ...settings })
  atEnd(t, () => sluice.close())
  return sluice
}

/** A receiver that takes a path down, and remembers what came. */
async function receiving(t: TestContext) {
  const came: { path: string; id: string; body: string }[] = []
  const state = { isDown: true }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      const { url = '', headers } = request
      const fails = state.isDown && url === '/down'
      if (!fails) came.push({ path: url, id: String(headers['webhook-id']), body: Buffer.concat(chunks).toString() })
      response.writeHead(url === '/gone' ? 410 : fails ? 500 : 200).end('an answer')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(t, () => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, came, state }
}

async function fill(sluice: Sluice, url: string, messages: number): Promise<void> {
  for (const name of ['order.paid', 'order.lost']) {
    await sluice.request('POST', '/event-type', { name, description: 'Paid – naïve ✓' })
  }
  await sluice.applications.create({ name: 'Acme', uid: 'acme', metadata: { plan: 'pro' } })
  await sluice.applications.create({ name: 'Other', uid: 'other' })
  await sluice.endpoints.create('acme', { url: `${url}/up`, uid: 'up', headers: { 'x-token': 'secret' } })
  await sluice.endpoints.create('acme', { url: `${url}/down`, uid: 'down', disabled: false })
  await sluice.endpoints.create('acme', { url: `${url}/gone`, uid: 'gone', eventTypes: ['order.lost'] })
  await sluice.schedules.create('other', {
    cron: '0 4 1 1 *',
    eventType: 'order.paid',
    payload: {},
    uid: 'yearly',
  } as never)
  await sluice.request('POST', '/app/other/source', { provider: 'github', uid: 'repo' })
  await sluice.request('POST', '/api-key', { name: 'ci', scopes: ['publish'] })
  await sluice.publish('acme', { eventType: 'order.lost', payload: '{"lost":true}', eventId: 'lost-1' })
  for (let n = 0; n < messages; n += 100) {
    const batch = Array.from({ length: 100 }, (_, i) => ({
      eventType: 'order.paid',
      payload: `{"n":${n + i}, "text":"tab\\t, \\u0000, ${'é'.repeat(i)}, backslash \\\\, 1.0"}`,
      tags: [`t${i % 3}`],
      channels: i % 2 === 0 ? ['a-b'] : null,
    }))
    await sluice.publishTogether('acme', batch)
  }
  await sluice.publish('acme', { eventType: 'order.paid', payload: Buffer.from([0, 1, 254, 255]), contentType: 'x/y' })
}

test('a file with work in all states moves to Postgres, and deliveries go on there', async (t) => {
  const receiver = await receiving(t)
  const place = await migratedPlace()
  atEnd(t, place.remove)
  const file = `sqlite:${place.path}`
  const messages = 500
  const before = await open(t, { store: file })
  await fill(before, receiver.url, messages)
  const secret = await before.request('GET', '/app/acme/endpoint/up/secret')
  await eventually(
    'what can be delivered was',
    () => receiver.came.filter(({ path }) => path === '/up').length >= messages + 2,
  )
  await eventually('a dead letter', async () => (await before.deadLetters.list('acme')).data.length > 0)
  await before.close()
  const delivered = new Set(receiver.came.filter(({ path }) => path === '/up').map(({ id }) => id))
  const inFile = new DatabaseSync(place.path)
  inFile.exec(`insert into sluice_inbox (app, event_type, payload) values ('acme', 'order.paid', '{"late":1}')`)
  const attempts = inFile.prepare('select id from attempt').all()
  const waiting = Number(inFile.prepare('select count(*) as n from pending').get()?.n)
  inFile.close()
  assert(waiting > 0, 'deliveries wait for the receiver that is down')

  const target = await newDatabase()
  const home = dirname(place.path)
  const moved = new RunHere(['move', '--from', file, '--to', target, '--json'], home, {})
  assert.equal(await moved.ended, 0, moved.err)
  const report = JSON.parse(moved.out)
  assert.equal(report.tables.message, messages + 2)
  assert.equal(report.tables.pending, waiting)
  assert.equal(report.tables.sluice_inbox, 1)
  assert.equal(report.resumed, false)
  const days = await (await sharedServer()).query('select count(*)::integer as rows from message_default', target)
  assert.equal(days.rows[0].rows, 0, 'messages are in the partitions of their days')

  await assert.rejects(openSluice({ store: file, ...local }), /was moved to postgres/)
  const again = new RunHere(['move', '--from', file, '--to', await newDatabase()], home, {})
  assert.notEqual(await again.ended, 0)
  assert.match(again.err, /was moved to postgres.* already/)

  const encryptionKey = readFileSync(join(home, 'encryption.key'), 'utf8').trim()
  receiver.state.isDown = false
  receiver.came.length = 0
  const after = await open(t, { store: target, encryptionKey })
  try {
    assert.deepEqual(await after.request('GET', '/app/acme/endpoint/up/secret'), secret)
    const inFileIds = new Set(attempts.map(({ id }) => id))
    const page = (await after.request('GET', '/app/acme/attempt/endpoint/up?limit=100')) as { data: { id: string }[] }
    assert.equal(page.data.length, 100)
    assert(page.data.every(({ id }) => inFileIds.has(id)))
    assert.equal((await after.deadLetters.list('acme')).data.length, 1)
    await after.request('POST', '/app/acme/endpoint/down/recover', {
      since: new Date(Date.now() - 3_600_000).toISOString(),
    })
    const toDown = () => new Set(receiver.came.filter(({ path }) => path === '/down').map(({ id }) => id))
    await eventually('all that waited came', () => toDown().size >= messages + 3)
    const late = receiver.came.filter(({ body }) => body === '{"late":1}').map(({ path }) => path)
    assert.deepEqual(late.sort(), ['/down', '/up'], 'the row of the inbox')
    const repeated = receiver.came.filter(({ path, id }) => path === '/up' && delivered.has(id))
    assert.deepEqual(repeated, [], 'nothing is delivered a second time')
    await after.publish('acme', { eventType: 'order.paid', payload: { fresh: true } })
    await eventually('a new message', () => receiver.came.some(({ body }) => body === '{"fresh":true}'))
  } finally {
    await after.close()
  }

  const undone = new RunHere(['move', '--undo', '--from', file], home, {})
  assert.equal(await undone.ended, 0, undone.err)
  await (await openSluice({ store: file, deliver: false, ...local })).close()
})

test('a move that was interrupted goes on where it was, and until then neither store starts', async (t) => {
  const receiver = await receiving(t)
  const place = await migratedPlace()
  atEnd(t, place.remove)
  const file = `sqlite:${place.path}`
  const before = await open(t, { store: file })
  await fill(before, receiver.url, 3000)
  await before.close()
  const target = await newDatabase()
  const home = dirname(place.path)
  const server = await sharedServer()
  // The server refuses the second page of messages.
  await server.query(
    `create function stop_here() returns trigger language plpgsql as $$ begin
       if (select count(*) from message) >= 1000 then raise exception 'the disk is full'; end if; return new; end $$;
     create trigger stop_here before insert on message for each row execute function stop_here()`,
    target,
  )
  const first = new RunHere(['move', '--from', file, '--to', target], home, {})
  assert.notEqual(await first.ended, 0)
  assert.match(first.err, /the disk is full/)
  await assert.rejects(openSluice({ store: file, ...local }), /is being moved to postgres/)
  const encryptionKey = readFileSync(join(home, 'encryption.key'), 'utf8').trim()
  await assert.rejects(
    openSluice({ store: target, encryptionKey, ...local }),
    /a move into this database has not finished/,
  )
  await server.query('drop trigger stop_here on message', target)
  const other = new RunHere(['move', '--from', file, '--to', await newDatabase()], home, {})
  assert.notEqual(await other.ended, 0)
  const second = new RunHere(['move', '--from', file, '--to', target, '--json'], home, {})
  assert.equal(await second.ended, 0, second.err)
  const report = JSON.parse(second.out)
  assert.equal(report.resumed, true)
  assert.equal(report.tables.message, 3002)
  await (await openSluice({ store: target, encryptionKey, deliver: false, ...local })).close()
})

test('a move is refused into a database with rows, of a file that a server owns, and of a file whose copy differs', async (t) => {
  const receiver = await receiving(t)
  const place = await migratedPlace()
  atEnd(t, place.remove)
  const file = `sqlite:${place.path}`
  const home = dirname(place.path)
  const owner = await open(t, { store: file })
  await fill(owner, receiver.url, 100)
  const owned = new RunHere(['move', '--from', file, '--to', await newDatabase()], home, {})
  assert.notEqual(await owned.ended, 0)
  assert.match(owned.err, /is owned by/)
  await owner.close()

  const encryptionKey = readFileSync(join(home, 'encryption.key'), 'utf8').trim()
  const used = await newDatabase()
  const inUse = await open(t, { store: used, encryptionKey })
  await inUse.applications.create({ name: 'There', uid: 'there' })
  await inUse.close()
  const refused = new RunHere(['move', '--from', file, '--to', used], home, {})
  assert.notEqual(await refused.ended, 0)
  assert.match(refused.err, /not empty: its table \w+ has rows/)
  await (await openSluice({ store: file, deliver: false, ...local })).close()

  const target = await newDatabase()
  const server = await sharedServer()
  await server.query(
    `create function spoil() returns trigger language plpgsql as $$ begin
       if new.status = 200 then new.duration_ms := new.duration_ms + 1; end if; return new; end $$;
     create trigger spoil before insert on attempt for each row execute function spoil()`,
    target,
  )
  const spoilt = new RunHere(['move', '--from', file, '--to', target], home, {})
  assert.notEqual(await spoilt.ended, 0)
  assert.match(spoilt.err, /attempt: the rows in Postgres differ from those of the file/)
})
