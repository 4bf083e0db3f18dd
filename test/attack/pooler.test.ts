import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from '../e2e/at-end.ts'
import { Client } from '../e2e/client.ts'
import { eventually } from '../e2e/eventually.ts'
import { Ledger } from '../e2e/ledger.ts'
import { Load } from '../e2e/load.ts'
import { pendingCount, postgresPlace } from '../e2e/place.ts'
import { Program } from '../e2e/program.ts'
import { Receiver } from '../e2e/receiver.ts'
import { pgbouncerVersion, startPgBouncer } from '../store/pgbouncer.ts'
import { sharedServer, useOwnServer } from '../store/postgres-harness.ts'
import { TransactionPooler } from '../store/transaction-pooler.ts'
import { isLong, reportLine } from './attack.ts'

useOwnServer()
const notOurs = (process.env.DATABASE_URL ?? '') !== '' && 'the server at DATABASE_URL is not ours to crash'
const notInstalled = pgbouncerVersion === undefined && 'PgBouncer is not installed'
const kills = isLong ? 50 : 2

const poolers = [
  { name: 'a pooler of this test', skip: false, start: (url: string) => TransactionPooler.start(url, 8) },
  {
    name: `PgBouncer ${pgbouncerVersion}`,
    skip: notInstalled,
    start: (url: string) => startPgBouncer(url, { pool_mode: 'transaction' }),
  },
]

// Before a transaction brought its settings along, 20 to 40 % of the messages were committed without waiting for the disk, and
// one of seven crashes took accepted messages with it.
for (const { name, skip, start } of poolers) {
  test(`Postgres crashes under load behind ${name} in transaction mode: nothing accepted is lost`, {
    skip: notOurs || skip,
  }, async (t) => {
    const database = await sharedServer()
    const place = await postgresPlace()
    const pooler = await start(place.store)
    atEnd(t, () => pooler.close())
    const receiver = await Receiver.listen(t)
    const ledger = new Ledger()
    const server = await Program.start(t, 'serve', pooler.url)
    const worker = await Program.start(t, 'worker', pooler.url, { SLUICE_STORE_DIRECT: place.store })
    assert.match(server.logged, /connection pooler answers/)
    const client = new Client(server.api)
    atEnd(t, () => client.close())
    await client.createApplication('acme')
    for (let i = 0; i < 3; i++) await ledger.subscribe(client, receiver, 'acme', `/${i}`)
    const load = new Load(t, ledger, client, 'acme', 60)
    for (let killed = 0; killed < kills; killed++) {
      const before = ledger.count('accepted')
      await eventually('messages are accepted', () => ledger.count('accepted') >= before + 30)
      await database.stop('at once')
      await database.start()
    }
    const before = ledger.count('accepted')
    await eventually('messages are accepted again', () => ledger.count('accepted') >= before + 30)
    await load.stop()
    await ledger.allDelivered(receiver)
    await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)
    assert.ok(server.isRunning && worker.isRunning, 'nobody had to be started again')
    const accepted = ledger.count('accepted')
    reportLine(t, { attack: 'crashes behind a pooler', store: 'postgres', pooler: name, kills, accepted, lost: 0 })
    for (const { logged } of [server, worker]) assert.doesNotMatch(logged, /"stack"/)
  })
}
