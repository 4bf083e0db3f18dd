import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { openPlace } from './place.ts'
import { Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { startHere } from './server-here.ts'

// Programs in other languages publish by inserting rows, in transactions of their own.

function runs(command: string, ...args: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0
}

/** Runs a program to its end, with a text on its standard input. */
function run(command: string, args: readonly string[], input = ''): string {
  const { status, stdout, stderr } = spawnSync(command, args, { input, encoding: 'utf8' })
  assert.equal(status, 0, `${command} failed: ${stderr}`)
  return stdout
}

const has = {
  psql: runs('psql', '--version'),
  sqlite3: runs('sqlite3', '--version'),
  python: runs('python3', '-c', 'import sqlite3'),
  psycopg: runs('python3', '-c', 'import psycopg'),
}

async function setUp(t: TestContext, dialect: 'sqlite' | 'postgres') {
  const place = await openPlace(t, dialect)
  const receiver = await Receiver.listen(t)
  const program = await startHere(t, 'serve', place.store)
  const client = new Client(program.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  await client.createEndpoint('acme', { url: `${receiver.url}/in`, order: 'fifo' })
  return { place, receiver, program, client }
}

async function arrivals(receiver: Receiver, count: number): Promise<unknown[]> {
  await receiver.until(`${count} messages came`, () => receiver.arrivals.length >= count)
  return receiver.arrivals.map(({ body }) => JSON.parse(body.toString()))
}

const insert = (payload: string, options = 'null', app = 'acme', type = 'video.trending') =>
  `insert into sluice_inbox (app, event_type, payload, options) values ('${app}', '${type}', '${payload}', ${options})`

for (const dialect of ['sqlite', 'postgres'] as const) {
  describe(`the inbox on ${dialect}`, () => {
    test('rows become messages in their order, and a refused row says why in its row', async (t) => {
      const { place, receiver, program } = await setUp(t, dialect)
      for (let n = 0; n < 5; n++) await place.query(insert(`{"n": ${n}}`))
      assert.deepEqual(
        await arrivals(receiver, 5),
        [0, 1, 2, 3, 4].map((n) => ({ n })),
      )
      assert.equal(receiver.arrivals[0]?.body.toString(), '{"n": 0}', 'the same bytes')
      await place.query(insert('{"n":5}', `'{"eventId":"e5","tags":["a"]}'`))
      await place.query(insert('{"n":6}', `'{"eventId":"e5"}'`))
      await place.query(insert('{"n":7}', 'null', 'nobody'))
      await place.query(insert('{"n":8,"n":9}'))
      await place.query(insert('[10]'))
      await place.query(insert('{"n":11}', `'{"chanels":["a"]}'`))
      await place.query(insert('{"n":12}', 'null', 'acme', 'no spaces'))
      await place.query(insert('{"n":13}'))
      assert.deepEqual((await arrivals(receiver, 7)).slice(5), [{ n: 5 }, { n: 13 }], 'the others go on')
      const refused = await eventually('each refused row says why', async () => {
        const rows = await place.query('select app, code, error from sluice_inbox where code is not null order by id')
        return rows.length === 6 && rows
      })
      assert(refused)
      assert.deepEqual(
        refused.map(({ code }) => code),
        ['conflict', 'not_found', 'duplicate_key', 'validation', 'validation', 'validation'],
      )
      assert.match(String(refused[1]?.error), /There is no application "nobody"/)
      assert.match(String(refused[4]?.error), /chanels is an unknown field; did you mean channels\?/)
      assert.deepEqual(await place.query('select id from sluice_inbox where code is null'), [])

      const listed = await program.ask('GET', '/inbox')
      assert.deepEqual([listed.waiting, listed.refused, listed.data.length], [0, 6, 6])
      // Its program, or an operator, has removed the cause.
      await new Client(program.api).createApplication('nobody')
      await place.query(`update sluice_inbox set refused_at = null, code = null, error = null where app = 'nobody'`)
      const ofNobody = `select id from sluice_inbox where app = 'nobody'`
      await eventually('the row was taken', async () => (await place.query(ofNobody)).length === 0)
    })

    test('rows wait while the server is away and are published once, however often it is killed', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      let program = await Program.start(t, 'serve', place.store)
      const client = new Client(program.api)
      await client.createApplication('acme')
      await client.createEndpoint('acme', { url: `${receiver.url}/in` })
      await client.close()
      const rows = 400
      for (let killed = 0; killed < 2; killed++) {
        for (let from = 0; from < rows / 2; from += 50) {
          const values = Array.from({ length: 50 }, (_, i) => killed * (rows / 2) + from + i)
          const list = values.map((n) => `('acme', 'video.trending', '{"n":${n}}')`).join(', ')
          await place.query(`insert into sluice_inbox (app, event_type, payload) values ${list}`)
        }
        await receiver.until('some came', () => receiver.arrivals.length > killed * 100)
        await program.kill()
        program = await Program.start(t, 'serve', place.store)
      }
      const anyRow = 'select id from sluice_inbox limit 1'
      await eventually('each row became a message', async () => (await place.query(anyRow)).length === 0)
      const stored = await place.query('select body from message order by key')
      const numbers = stored.map(({ body }) => JSON.parse(Buffer.from(body as Uint8Array).toString()).n)
      assert.deepEqual(
        numbers,
        Array.from({ length: rows }, (_, n) => n),
      )
      await program.terminate()
      await program.exited
    })
  })
}

describe('programs in other languages', () => {
  const scripts = mkdtempSync(join(tmpdir(), 'sluice-inbox-'))
  after(() => rmSync(scripts, { recursive: true }))
  before(() => writeFileSync(join(scripts, 'publish.py'), psycopgProgram))
  before(() => writeFileSync(join(scripts, 'sqlite.py'), sqliteProgram))

  test('psql calls the function, which a role may once it is granted', { skip: !has.psql && 'no psql' }, async (t) => {
    const { place, receiver } = await setUp(t, 'postgres')
    const psql = (url: string, sql: string) =>
      spawnSync('psql', ['-XqAt', '-v', 'ON_ERROR_STOP=1', url], { input: sql, encoding: 'utf8' })
    const web = new URL(place.store)
    ;[web.username, web.password] = [`web_${process.pid}`, 'secret']
    atEnd(t, () => place.query(`drop owned by web_${process.pid}; drop role web_${process.pid}`))
    await place.query(`create role web_${process.pid} login password 'secret'`)
    const call = `select sluice.publish('acme', 'video.trending', '{"id":1}');`
    assert.match(psql(web.href, call).stderr, /permission denied for schema sluice/)
    await place.query(`grant usage on schema sluice to web_${process.pid}`)
    assert.match(psql(web.href, call).stderr, /permission denied for function publish/)
    await place.query(`grant execute on function sluice.publish to web_${process.pid}`)
    const undone = psql(web.href, `begin; ${call.replace('1', '0')} rollback;`)
    assert.equal(undone.status, 0, undone.stderr)
    const done = psql(web.href, `begin; ${call} ${call.replace('1', '2')} commit;`)
    assert.match(done.stdout, /^\d+\n\d+\n$/, done.stderr)
    assert.match(psql(web.href, 'select * from sluice_inbox').stderr, /permission denied/)
    assert.deepEqual(await arrivals(receiver, 2), [{ id: 1 }, { id: 2 }])
  })

  test('psycopg', { skip: !has.psycopg && 'no psycopg for python3' }, async (t) => {
    const { place, receiver } = await setUp(t, 'postgres')
    run('python3', [join(scripts, 'publish.py'), place.store])
    assert.deepEqual(await arrivals(receiver, 3), [{ id: 1 }, { id: 2 }, { id: 3 }])
  })

  test("Python's sqlite3", { skip: !has.python && 'no python3' }, async (t) => {
    const { place, receiver } = await setUp(t, 'sqlite')
    run('python3', [join(scripts, 'sqlite.py'), place.store.slice('sqlite:'.length)])
    assert.deepEqual(await arrivals(receiver, 3), [{ id: 1 }, { id: 2 }, { id: 3 }])
  })

  test('the sqlite3 shell', { skip: !has.sqlite3 && 'no sqlite3' }, async (t) => {
    const { place, receiver } = await setUp(t, 'sqlite')
    run('sqlite3', [place.store.slice('sqlite:'.length)], `.timeout 5000\nbegin; ${insert('{"id":1}')}; commit;\n`)
    assert.deepEqual(await arrivals(receiver, 1), [{ id: 1 }])
  })
})

const psycopgProgram = `
import json, sys
import psycopg
from psycopg.types.json import Json

with psycopg.connect(sys.argv[1]) as connection:
    connection.execute("create table video (id int primary key)")
    connection.execute("insert into video values (1)")
    connection.execute("select sluice.publish(%s, %s, %s)", ("acme", "video.trending", json.dumps({"id": 1})))
    connection.execute("select sluice.publish(%s, %s, %s, %s)", ("acme", "video.trending", json.dumps({"id": 2}), Json({"eventId": "two"})))
try:
    with psycopg.connect(sys.argv[1]) as connection:
        connection.execute("select sluice.publish(%s, %s, %s)", ("acme", "video.trending", json.dumps({"id": 99})))
        connection.execute("insert into video values (1)")
except psycopg.errors.UniqueViolation:
    pass
with psycopg.connect(sys.argv[1]) as connection:
    connection.execute("select sluice.publish('acme', 'video.trending', %s)", (json.dumps({"id": 3}),))
`

const sqliteProgram = `
import json, sqlite3, sys

connection = sqlite3.connect(sys.argv[1], timeout=10)
insert = "insert into sluice_inbox (app, event_type, payload, options) values (?, ?, ?, ?)"
with connection:
    connection.execute(insert, ("acme", "video.trending", json.dumps({"id": 1}), None))
    connection.execute(insert, ("acme", "video.trending", json.dumps({"id": 2}).encode(), json.dumps({"eventId": "two"})))
try:
    with connection:
        connection.execute(insert, ("acme", "video.trending", json.dumps({"id": 99}), None))
        raise ValueError("the program changed its mind")
except ValueError:
    pass
with connection:
    connection.execute(insert, ("acme", "video.trending", json.dumps({"id": 3}), None))
connection.close()
`
