import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { Ledger, ordinal } from './ledger.ts'
import { openPlace, pendingCount } from './place.ts'
import { Program } from './program.ts'
import { Receiver } from './receiver.ts'

const producers = 12
/** Each round the server dies once this many more events were accepted: early, and in full swing. */
const acceptedPerRound = [9, 90]

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: whatever was accepted before the server was killed is delivered`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    const ledger = new Ledger()

    for (const [round, count] of acceptedPerRound.entries()) {
      const server = await Program.start(t, 'serve', place.store)
      const client = new Client(server.api)
      atEnd(t, () => client.close())
      if (round === 0) {
        await client.createApplication('acme')
        for (const path of ['/a', '/b', '/c']) await ledger.subscribe(client, receiver, 'acme', path)
      }
      if (dialect === 'sqlite')
        assert.deepEqual(await place.query('pragma integrity_check'), [{ integrity_check: 'ok' }])
      await publishUntilKilled(server, client, ledger, count)
    }
    // The last server that was killed left deliveries behind, and no worker for them.
    const server = await Program.start(t, 'serve', place.store)
    await ledger.allDelivered(receiver)
    await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)
    ledger.audit(receiver)
    assertWholeOrNotAtAll(ledger, receiver)
    const unknown = ledger.count('unknown')
    assert.ok(unknown > 0 && unknown <= producers * acceptedPerRound.length, 'producers were cut off in mid-publish')

    server.terminate()
    assert.deepEqual(await server.exited, { code: 0, signal: null })
    if (dialect === 'sqlite') assert.deepEqual(await place.query('pragma integrity_check'), [{ integrity_check: 'ok' }])
  })
}

/** Publishes from several connections at once and kills the server in the middle of it. */
async function publishUntilKilled(server: Program, client: Client, ledger: Ledger, count: number): Promise<void> {
  let accepted = 0
  const produce = async (): Promise<void> => {
    for (;;) {
      const { outcome } = await ledger.publish(client, 'acme')
      if (outcome.state !== 'accepted') return
      if (++accepted === count) void server.kill()
    }
  }
  await Promise.all(Array.from({ length: producers }, produce))
  await server.kill()
}

/** A message and all its deliveries are one transaction: one that arrived anywhere arrived everywhere. */
function assertWholeOrNotAtAll(ledger: Ledger, receiver: Receiver): void {
  const paths = new Map<number, Set<string>>()
  for (const arrival of receiver.arrivals) {
    const n = ordinal(arrival)
    paths.set(n, (paths.get(n) ?? new Set()).add(arrival.path))
  }
  for (const [n, reached] of paths) assert.equal(reached.size, ledger.destinations.length, `event ${n}`)
}
