import assert from 'node:assert/strict'
import { test } from 'node:test'
import { version } from '../../src/runtime/version.ts'
import { knownMigrations } from '../../src/store/migrations.ts'
import { expansion } from '../store/conformance/upgrading.ts'
import { sharedServer } from '../store/postgres-harness.ts'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { laterVersion } from './later-version.ts'
import { assertNoDuplicates, Ledger } from './ledger.ts'
import { Load } from './load.ts'
import { owners, type Place, pendingCount, postgresPlace, sqlitePlace } from './place.ts'
import { longLease, Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { lastReleased } from './released.ts'

const paths = Array.from({ length: 12 }, (_, i) => `/lane-${i}`)
const known = knownMigrations('postgres').length
const hotTables = ['application', 'endpoint', 'message', 'pending', 'attempt', 'lane', 'worker', 'dead']
const expand = expansion(hotTables)
const contract = `-- contract since ${known + 1}: no program reads the index.\ndrop index later_x`

test('a fleet is updated worker by worker under load, and the version before restarts on the new schema', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  const ledger = new Ledger()
  const next = laterVersion(t, '98.0.0', known, [expand])
  const afterNext = laterVersion(t, '99.0.0', known, [expand, contract])
  const server = await Program.start(t, 'serve', place.store, longLease)
  const old = await Program.start(t, 'worker', place.store, longLease)
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  for (const path of paths) await ledger.subscribe(client, receiver, 'acme', path)
  const load = new Load(t, ledger, client, 'acme', 40)
  const owns = (pid: number) =>
    eventually(`process ${pid} has lanes`, async () => (await owners(place)).some((owner) => owner.pid === pid))
  await owns(old.pid)

  // Jumping over a version is not safe while the first one runs; the next version is.
  const jump = await afterNext.run(['migrate', '--check'], place.store)
  assert.equal(jump.code, 9)
  assert.match(jump.out, new RegExp(`${known + 2} later: needs processes that know ${known + 1}\\nStop every process`))
  const jumped = await afterNext.run(['migrate'], place.store)
  assert.equal(jumped.code, 1)
  assert.match(
    jumped.err,
    new RegExp(`takes away what running processes need: .*pid ${server.pid}\\b.*Stop every process`),
  )
  const check = await next.run(['migrate', '--check', '--json'], place.store)
  assert.equal(check.code, 0)
  const { safe, schema, migrations } = JSON.parse(check.out)
  assert.deepEqual([safe, schema], [true, known])
  assert.deepEqual(migrations, [{ version: known + 1, name: 'later', worksSince: 0, isSafe: true }])
  assert.equal(await newest(), known, 'a check changes nothing')

  // The first process of the next version migrates beside those of this one.
  const first = await Program.start(t, 'worker', place.store, longLease, { program: next.program })
  assert.equal(await newest(), known + 1)
  await owns(first.pid)
  old.terminate()
  assert.deepEqual(await old.exited, { code: 0, signal: null })
  const restarted = await Program.start(t, 'worker', place.store, longLease)
  assert.match(restarted.logged, new RegExp(`schema version ${known + 1}; this version of Sluice knows ${known}`))
  await owns(restarted.pid)
  await owns(server.pid)
  const delivered = receiver.arrivals.length
  await receiver.until('deliveries go on', () => receiver.arrivals.length > delivered + 100)

  await load.stop()
  await ledger.allDelivered(receiver)
  await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)
  ledger.audit(receiver)
  assertNoDuplicates(receiver)
  assert.equal(ledger.accepted.length, ledger.entries.length, 'every publish was accepted')

  // When no process of the first version runs, the version after the next may take away what only that one used.
  for (const program of [restarted, server]) {
    program.terminate()
    assert.equal((await program.exited).code, 0)
  }
  assert.equal((await afterNext.run(['migrate', '--check'], place.store)).code, 0)
  const last = await Program.start(t, 'serve', place.store, longLease, { program: afterNext.program })
  assert.equal(await newest(), known + 2)
  const refused = await Program.run(t, 'worker', place.store)
  assert.equal(refused.exit.code, 1)
  assert.match(
    refused.logged,
    /knows only up to \d+: start the version that migrated the database, or restore the backup/,
  )
  const later = new Client(last.api)
  atEnd(t, () => later.close())
  await ledger.publishAll(later, 'acme', 5)
  await ledger.allDelivered(receiver)

  async function newest(): Promise<number> {
    const [row] = await place.query('select max(version) as version from migration')
    return Number(row?.version)
  }
})

test('the last released version works and restarts beside this one, under load', async (t) => {
  const server = await sharedServer()
  const url = await server.createDatabase()
  const place: Place = { dialect: 'postgres', store: url, query: async (sql) => (await server.query(sql, url)).rows }
  const receiver = await Receiver.listen(t)
  const ledger = new Ledger()
  const released = lastReleased(t)
  const api = await Program.start(t, 'serve', url, longLease, released)
  const old = await Program.start(t, 'worker', url, longLease, released)
  const client = new Client(api.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  for (const path of paths) await ledger.subscribe(client, receiver, 'acme', path)
  const load = new Load(t, ledger, client, 'acme', 30)
  const owns = ({ pid }: Program) =>
    eventually(`process ${pid} has lanes`, async () => (await owners(place)).some((owner) => owner.pid === pid))
  await owns(old)

  const check = await Program.run(t, 'migrate', url, {}, { flags: ['--check'] })
  // A version that is not released yet may break with its own past.
  if (check.exit.code === 9 && released.version === version)
    return t.skip(`${version} has changed: scripts/released.ts`)
  assert.equal(check.exit.code, 0, check.printed + check.logged)
  const next = await Program.start(t, 'serve', url, longLease)
  const [row] = await place.query('select max(version) as version from migration')
  assert.equal(Number(row?.version), known)
  await owns(next)
  old.terminate()
  assert.deepEqual(await old.exited, { code: 0, signal: null })
  const restarted = await Program.start(t, 'worker', url, longLease, released)
  await owns(restarted)
  await owns(api)
  // Each stores messages, and either delivers those of the other.
  const other = new Client(next.api)
  atEnd(t, () => other.close())
  await ledger.publishAll(other, 'acme', 20)
  const delivered = receiver.arrivals.length
  await receiver.until('deliveries go on', () => receiver.arrivals.length > delivered + 100)

  await load.stop()
  await ledger.allDelivered(receiver)
  await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)
  ledger.audit(receiver)
  assertNoDuplicates(receiver)
  assert.equal(ledger.accepted.length, ledger.entries.length, 'every publish was accepted')
})

test('on SQLite the version before goes back to work on a file that the next one expanded', async (t) => {
  const place = await sqlitePlace(t)
  const receiver = await Receiver.listen(t)
  const ledger = new Ledger()
  const next = laterVersion(t, '98.0.0', known, [expand])
  const first = await Program.start(t, 'serve', place.store)
  const client = new Client(first.api)
  await client.createApplication('acme')
  await ledger.subscribe(client, receiver, 'acme', '/a')
  await ledger.publishAll(client, 'acme', 5)
  await client.close()
  first.terminate()
  await first.exited
  assert.equal((await next.run(['migrate', '--check'], place.store)).code, 0)
  const migrated = await next.run(['migrate'], place.store)
  assert.match(migrated.out, new RegExp(`has schema version ${known + 1} \\(later\\), the newest known`))
  const back = await Program.start(t, 'serve', place.store)
  assert.match(back.logged, /works on it/)
  const again = new Client(back.api)
  atEnd(t, () => again.close())
  await ledger.publishAll(again, 'acme', 5)
  await ledger.allDelivered(receiver)
  ledger.audit(receiver)
})
