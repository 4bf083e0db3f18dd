import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { copies, deliveryOf, Ledger } from './ledger.ts'
import { openPlace, owners, type Place, pendingCount, unsettled } from './place.ts'
import { leaseMs, Program } from './program.ts'
import { Receiver } from './receiver.ts'

const paths = Array.from({ length: 6 }, (_, i) => `/slow-${i}`)
const rounds = 2
const perRound = 40
/** From a kill to the first delivery by the next owner: the lease, and as much as a crowded machine may add. */
const recoveryMs = leaseMs + 60_000
/** How long an answer may stay unrecorded: a batch waits 5 ms and a commit takes as many; the rest is for the machine. */
const recordingMs = 30_000

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: a killed worker's deliveries are made by the next, and only open ones twice`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    const ledger = new Ledger()
    // Answers wait for the gate, so that every kill falls into the middle of attempts.
    let gate = Promise.withResolvers<void>()
    gate.resolve()
    for (const path of paths) receiver.behave(path, () => gate.promise.then(() => ({ status: 200 })))

    // On Postgres only workers are killed. The server would repeat its own attempts, should its lease run out.
    const settings = dialect === 'postgres' ? { SLUICE_LEASE: '6s' } : {}
    let server = await Program.start(t, 'serve', place.store, settings)
    let client = new Client(server.api)
    atEnd(t, () => client.close())
    await client.createApplication('acme')
    for (const path of paths) await ledger.subscribe(client, receiver, 'acme', path, { concurrency: 4 })

    /** How often each delivery may have come: once, and once more for every kill that met it unrecorded. */
    const allowed = new Map<string, number>()
    for (let round = 0; round < rounds; round++) {
      const victim = dialect === 'sqlite' ? server : await Program.start(t, 'worker', place.store)
      await eventually('the worker that is to die has a lane', async () => {
        await ledger.publishAll(client, 'acme', 5)
        return (await owners(place)).some(({ pid }) => pid === victim.pid)
      })
      gate = Promise.withResolvers()
      await ledger.publishAll(client, 'acme', perRound)
      const worker = await hasSomethingOpen(place, receiver, victim)
      // In every other round the answers reach the worker in its last moment, and it may or may not record them.
      if (round % 2 === 1) await release(receiver, gate)
      const killedAt = performance.now()
      await victim.kill()
      const met = await unrecordedAt(killedAt, place, receiver, worker)
      for (const delivery of met) allowed.set(delivery, (allowed.get(delivery) ?? 1) + 1)
      if (round % 2 === 0) assert.ok(met.size > 0, 'the kill met open attempts')
      gate.resolve()

      if (dialect === 'sqlite') {
        server = await Program.start(t, 'serve', place.store)
        client = await reconnect(t, client, server)
      }
      const seen = receiver.arrivals.length
      await receiver.until('deliveries go on', () => receiver.arrivals.length > seen)
      await ledger.allDelivered(receiver)
      const last = receiver.arrivals.at(-1) as { at: number }
      t.diagnostic(
        `round ${round}: ${met.size} were unrecorded; all delivered ${Math.round(last.at - killedAt)} ms later`,
      )
      assert.ok(last.at - killedAt < recoveryMs, 'the dead worker was replaced in time')
      await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)
    }

    ledger.audit(receiver)
    for (const [delivery, count] of copies(receiver)) {
      assert.ok(count <= (allowed.get(delivery) ?? 1), `${delivery} came ${count} times, its end being recorded before`)
    }
    await assertEachEndedOnce(client, ledger)
  })
}

/**
 * Deliveries that had come and whose end was not on record when the worker died. Each was open, or had been answered so
 * shortly before that its end was still on the way to the store.
 */
async function unrecordedAt(killedAt: number, place: Place, receiver: Receiver, worker: number): Promise<Set<string>> {
  const pending = await unsettled(place, worker)
  const latest = new Map(receiver.arrivals.map((arrival) => [deliveryOf(arrival), arrival]))
  const met = [...latest].filter(([delivery]) => pending.has(delivery))
  for (const [delivery, { end, endedAt = killedAt }] of met) {
    assert.ok(end !== 'answered' || killedAt - endedAt < recordingMs, `${delivery} was not recorded in time`)
  }
  return new Set(met.map(([delivery]) => delivery))
}

/** Waits until a request is open that this very process made: one for a lane it owns. Answers its id as a worker. */
async function hasSomethingOpen(place: Place, receiver: Receiver, program: Program): Promise<number> {
  return eventually('the worker that is to die has something under way', async () => {
    const owned = (await owners(place)).filter(({ pid }) => pid === program.pid)
    const isOpen = owned.some(({ path }) => [...receiver.open].some((arrival) => arrival.path === path))
    return isOpen && owned[0]?.worker
  })
}

/** Lets every answer out and waits until the first ones are. */
async function release(receiver: Receiver, gate: PromiseWithResolvers<void>): Promise<void> {
  const open = [...receiver.open]
  gate.resolve()
  await receiver.until('answers are out', () => open.some((arrival) => arrival.end === 'answered'))
}

async function reconnect(t: TestContext, old: Client, server: Program): Promise<Client> {
  await old.close()
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  return client
}

/** By the API, which knows only what was recorded: one attempt for each delivery that was made, and it succeeded. */
async function assertEachEndedOnce(client: Client, ledger: Ledger): Promise<void> {
  for (const { outcome } of ledger.accepted.filter(({ n }) => n % 10 === 0)) {
    const attempts = await client.attempts('acme', outcome.state === 'accepted' ? outcome.id : '')
    assert.deepEqual(
      attempts.map(({ code }) => code),
      paths.map(() => 'delivered'),
    )
    assert.equal(new Set(attempts.map(({ endpointId }) => endpointId)).size, paths.length)
  }
}
