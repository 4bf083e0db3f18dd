import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sharedServer, useOwnServer } from '../store/postgres-harness.ts'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { copies, Ledger, ordinal } from './ledger.ts'
import { Load } from './load.ts'
import { pendingCount, postgresPlace } from './place.ts'
import { Program } from './program.ts'
import { Receiver } from './receiver.ts'

useOwnServer()
const skip = (process.env.DATABASE_URL ?? '') === '' ? false : 'the server at DATABASE_URL is not ours to crash'

test('a database that crashes and comes back under load costs nothing that was accepted', {
  skip,
}, async (t) => {
  const database = await sharedServer()
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  const ledger = new Ledger()
  const server = await Program.start(t, 'serve', place.store)
  const worker = await Program.start(t, 'worker', place.store)
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  for (let i = 0; i < 6; i++) {
    receiver.behave(`/${i}`, () => new Promise((resolve) => setTimeout(resolve, 15, { status: 200 })))
    await ledger.subscribe(client, receiver, 'acme', `/${i}`)
  }
  const load = new Load(t, ledger, client, 'acme', 60)
  await eventually('everything runs', () => ledger.count('accepted') >= 30)

  await database.stop('at once')
  const stoppedAt = performance.now()
  const meanwhile = () => ledger.entries.filter((entry) => entry.askedAt > stoppedAt && entry.knownAt > entry.askedAt)
  await eventually('producers are told', () => meanwhile().length >= 20)
  for (const { outcome } of meanwhile()) assert.deepEqual(outcome, { state: 'refused', status: 503 })
  // Each asks the store twice before it calls it lost.
  const saysLost = ({ logged }: Program) => logged.includes('store lost: postgres: ')
  await eventually('both say that the store is lost', () => saysLost(server) && saysLost(worker))
  const refused = meanwhile()
  await database.start()

  const before = ledger.count('accepted')
  await eventually('events are accepted again', () => ledger.count('accepted') >= before + 30)
  await load.stop()
  await ledger.allDelivered(receiver)
  await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)

  // A commit that the crash met halfway may have been made although no answer could be sent.
  const came = new Set(receiver.arrivals.map(ordinal))
  assert.ok(
    refused.every(({ n }) => !came.has(n)),
    'what was refused while there was no database never came',
  )
  const inDoubt = ledger.entries.filter(({ n, outcome }) => outcome.state === 'refused' && came.has(n))
  assert.ok(inDoubt.every(({ askedAt, knownAt }) => askedAt < stoppedAt && knownAt > stoppedAt - 60_000))
  t.diagnostic(`${inDoubt.length} in doubt, ${refused.length} refused meanwhile, ${again()} came again`)
  for (const entry of inDoubt) entry.outcome = { state: 'unknown' }
  ledger.audit(receiver)
  assert.ok(server.isRunning && worker.isRunning, 'nobody had to be started again')
  for (const { logged } of [server, worker]) {
    const lines = logged.split('\n').filter((line) => /store|postgres|trouble/.test(line))
    t.diagnostic(lines.join('\n'))
    assert.equal(lines.filter((line) => line.includes('store lost: postgres: ')).length, 1)
    assert.equal(lines.filter((line) => line.includes('store back after ')).length, 1)
    // Beside these, a line every ten seconds of the outage.
    assert.ok(
      lines.every((line) => /store (lost|still lost|back)/.test(line)),
      lines.join('\n'),
    )
    assert.doesNotMatch(logged, /"stack"/)
  }

  function again(): number {
    return [...copies(receiver).values()].filter((count) => count > 1).length
  }
})

test('asked to stop while the database is away, it gives up after a while and loses nothing', {
  skip,
}, async (t) => {
  const database = await sharedServer()
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  const ledger = new Ledger()
  const server = await Program.start(t, 'serve', place.store)
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  await ledger.subscribe(client, receiver, 'acme', '/late')
  const late = Promise.withResolvers<{ status: number }>()
  receiver.behave('/late', () => late.promise)
  await ledger.publishAll(client, 'acme', 3)
  await receiver.until('attempts are under way', () => receiver.open.size === 3)

  // The worker can neither record the receiver's answers nor release the lane.
  await database.stop('at once')
  late.resolve({ status: 200 })
  await receiver.until('they are answered', () => receiver.open.size === 0)
  server.terminate()
  assert.deepEqual(await server.exited, { code: 1, signal: null })
  assert.match(server.logged, /stopped without releasing lanes: the store cannot be reached/)

  await database.start()
  const next = await Program.start(t, 'worker', place.store)
  await eventually('what was not recorded is sent again', async () => (await pendingCount(place)) === 0)
  assert.ok(next.isRunning)
  ledger.audit(receiver)
  assert.deepEqual([...copies(receiver).values()], [2, 2, 2])
})
