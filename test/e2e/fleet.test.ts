import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { assertNoDuplicates, Ledger } from './ledger.ts'
import { Load } from './load.ts'
import { type Owner, openPlace, owners, type Place, pendingCount, postgresPlace } from './place.ts'
import { longLease, Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { startHere } from './server-here.ts'

/**
 * No worker dies here, and nothing may come twice: a worker keeps its lanes on a machine that stands still for some
 * seconds.
 */
const patient = { SLUICE_LEASE: '20s' }

const paths = Array.from({ length: 12 }, (_, i) => `/busy-${i}`)

test('1, 2 and 5 processes on one database share the lanes and deliver everything once', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  const ledger = new Ledger()
  for (const path of paths) receiver.behave(path, () => slowly(10))
  const server = await Program.start(t, 'serve', place.store, patient)
  const fleet = [server]
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  for (const path of paths) await ledger.subscribe(client, receiver, 'acme', path)

  const load = new Load(t, ledger, client, 'acme', 200)
  for (const size of [1, 2, 5]) {
    const joining = Array.from({ length: size - fleet.length }, () => Program.start(t, 'worker', place.store, patient))
    fleet.push(...(await Promise.all(joining)))
    await eachDelivers(place, receiver, fleet)
  }
  // One leaves under load, in good order.
  const [leaver] = fleet.splice(1, 1) as [Program]
  leaver.terminate()
  assert.deepEqual(await leaver.exited, { code: 0, signal: null })
  await eachDelivers(place, receiver, fleet)
  await load.stop()
  assert.equal(ledger.accepted.length, ledger.entries.length)

  await ledger.allDelivered(receiver)
  await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)
  ledger.audit(receiver)
  assertNoDuplicates(receiver)
  for (const program of fleet) {
    assert.ok(program.isRunning)
    program.terminate()
  }
  for (const program of fleet) assert.deepEqual(await program.exited, { code: 0, signal: null })
  // A worker that leaves in good order leaves nothing behind to be cleaned up.
  assert.deepEqual(await owners(place), [])
  assert.deepEqual(await place.query('select id from worker where ended_at is null'), [])
  const unclean = await place.query('select endpoint from lane where not clean')
  assert.deepEqual(unclean, [], 'every lane was handed back with its bucket')
  assert.equal(receiver.arrivals.length, ledger.accepted.length * paths.length)
})

test('a worker that stops hands on each lane when its own last attempt ends, not when the slowest of all does', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  const ledger = new Ledger()
  const server = await Program.start(t, 'serve', place.store, patient)
  const leaver = await Program.start(t, 'worker', place.store, patient)
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  const stuck = Promise.withResolvers<{ status: number }>()
  const slow = Array.from({ length: 6 }, (_, i) => `/slow-${i}`)
  let hangs = false
  for (const path of slow) receiver.behave(path, () => (hangs ? stuck.promise : { status: 200 }))
  // In turn, so that a worker that gets the lanes at the end of a list gets some of both kinds.
  const both = slow.flatMap((path, i) => [path, ...paths.slice(2 * i, 2 * i + 2)])
  for (const path of both) await ledger.subscribe(client, receiver, 'acme', path, { concurrency: 1 })
  const owned = async () => (await owners(place)).filter(({ pid }) => pid === leaver.pid).map(({ path }) => path)
  await eventually('the worker owns lanes of both kinds', async () => {
    await ledger.publishAll(client, 'acme', 1)
    const lanes = await owned()
    return lanes.some((path) => slow.includes(path)) && lanes.some((path) => paths.includes(path))
  })
  hangs = true
  await ledger.publishAll(client, 'acme', 1)
  await receiver.until('every slow receiver hangs', () => receiver.open.size >= slow.length)

  leaver.terminate()
  await eventually('it has only lanes with an attempt under way', async () => {
    const lanes = await owned()
    return lanes.length > 0 && lanes.every((path) => slow.includes(path))
  })
  const seen = new Map(paths.map((path) => [path, receiver.at(path).length]))
  await ledger.publishAll(client, 'acme', 3)
  await receiver.until('its other lanes go on', () =>
    paths.every((path) => receiver.at(path).length >= (seen.get(path) ?? 0) + 3),
  )
  assert.ok(leaver.isRunning, 'it waits for its slow attempt meanwhile')

  stuck.resolve({ status: 200 })
  assert.deepEqual(await leaver.exited, { code: 0, signal: null })
  await ledger.allDelivered(receiver)
  ledger.audit(receiver)
  assertNoDuplicates(receiver)
})

test('the lanes of a worker that is killed go on at another long before its lease is over', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  const ledger = new Ledger()
  const server = await Program.start(t, 'serve', place.store, longLease)
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  for (const path of paths) await ledger.subscribe(client, receiver, 'acme', path)
  // Joining tells the server, which then shares the lanes that it has: it must have them all the while.
  const load = new Load(t, ledger, client, 'acme', 100)
  await eventually('the server owns the lanes', async () => (await owners(place)).length === paths.length)
  const victim = await Program.start(t, 'worker', place.store, longLease)
  await eventually('the worker owns lanes', async () => (await owners(place)).some(({ pid }) => pid === victim.pid))
  await load.stop()
  await victim.kill()
  await ledger.publishAll(client, 'acme', 3)
  await ledger.allDelivered(receiver)
  ledger.audit(receiver)
  assert.match(server.logged, /worker \d+ \(.*\) died: its connection to the database ended/)
})

test('asked to stop a second time, it exits at once and another goes on', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  const ledger = new Ledger()
  const server = await Program.start(t, 'serve', place.store)
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  await ledger.subscribe(client, receiver, 'acme', '/stuck')
  const stuck = Promise.withResolvers<{ status: number }>()
  receiver.behave('/stuck', () => stuck.promise)
  await ledger.publishAll(client, 'acme', 1)
  await receiver.until('an attempt is under way', () => receiver.open.size === 1)

  server.terminate()
  await eventually('it waits for the attempt', () => server.logged.includes('"stopping"'))
  assert.ok(server.isRunning)
  const { outcome } = await eventually('it takes nothing in any more', async () => {
    const entry = await ledger.publish(client, 'acme')
    return entry.outcome.state === 'refused' && entry.outcome.status === 0 ? entry : undefined
  })
  assert.equal(outcome.state, 'refused')
  assert.ok(server.isRunning, 'the attempt is still being waited for')
  server.terminate()
  assert.deepEqual(await server.exited, { code: 143, signal: null })

  stuck.resolve({ status: 200 })
  await startHere(t, 'worker', place.store)
  await ledger.allDelivered(receiver)
  ledger.audit(receiver)
})

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: an application never has more under way than its own limit, over all workers`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    const ledger = new Ledger()
    const size = dialect === 'sqlite' ? 1 : 3
    const server = await Program.start(t, 'serve', place.store)
    await Promise.all(Array.from({ length: size - 1 }, () => Program.start(t, 'worker', place.store)))
    const client = new Client(server.api)
    atEnd(t, () => client.close())
    await client.createApplication('acme', { maxInFlight: 7 })
    const paths = Array.from({ length: 12 }, (_, i) => `/slow-${i}`)
    let most = 0
    for (const path of paths) {
      await ledger.subscribe(client, receiver, 'acme', path, { concurrency: 16 })
      receiver.behave(path, () => {
        most = Math.max(most, receiver.open.size)
        return slowly(40)
      })
    }
    await eachRenewed(place, size)
    await ledger.publishAll(client, 'acme', 15)
    await ledger.allDelivered(receiver)
    assert.ok(most <= 7, `${most} attempts were under way at once`)
    assert.ok(most > size, `${most} attempts at once leave most of the limit unused`)
    ledger.audit(receiver)
  })
}

/** Waits until each process has renewed its lease after all joined: it then knows how many share a limit. */
async function eachRenewed(place: Place, size: number): Promise<void> {
  const leases = async () => {
    const rows = await place.query('select id, lease_until from worker where ended_at is null')
    return new Map(rows.map((row) => [Number(row.id), Number(row.lease_until)]))
  }
  const before = await eventually('all joined', async () => {
    const found = await leases()
    return found.size === size ? found : undefined
  })
  await eventually('each renewed its lease', async () => {
    const now = await leases()
    return [...before].every(([id, until]) => (now.get(id) ?? 0) > until)
  })
}

function slowly(ms: number): Promise<{ status: number }> {
  return new Promise((resolve) => setTimeout(resolve, ms, { status: 200 }))
}

/**
 * Waits until each process has delivered something. Nothing that comes says who sent it; but a lane that has the same
 * owner and epoch at two looks was that owner's in between, and so was all that came there.
 */
async function eachDelivers(place: Place, receiver: Receiver, fleet: readonly Program[]): Promise<void> {
  const waiting = new Set(fleet.map(({ pid }) => pid))
  let before: Owner[] = []
  let seen = receiver.arrivals.length
  await eventually(`each of ${fleet.length} processes delivers`, async () => {
    const now = await owners(place)
    const reached = new Set(receiver.arrivals.slice(seen).map(({ path }) => path))
    for (const { path, pid, epoch } of now) {
      const isSame = before.some((owner) => owner.path === path && owner.epoch === epoch)
      if (isSame && reached.has(path)) waiting.delete(pid)
    }
    // Deliveries that came while the owners were read may be of any worker.
    before = await owners(place)
    seen = receiver.arrivals.length
    await receiver.until('more comes', () => receiver.arrivals.length >= seen + paths.length)
    return waiting.size === 0
  })
}
