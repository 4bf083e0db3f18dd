import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { Ledger } from './ledger.ts'
import { openPlace, pendingCount } from './place.ts'
import { leaseMs, Program } from './program.ts'
import { Receiver } from './receiver.ts'

/** Longer than it takes to kill a worker, to notice and to take over, so that the silence is the circuit's. */
const openMs = 3 * leaseMs
const messages = 30

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: an open circuit outlives a killed worker, one probe closes it, and everything arrives`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    const ledger = new Ledger()
    const settings = { SLUICE_CIRCUIT_FAILURES: '5', SLUICE_CIRCUIT_OPEN: `${openMs}ms` }
    let server = await Program.start(t, 'serve', place.store, settings)
    let client = new Client(server.api)
    atEnd(t, () => client.close())
    await client.createApplication('acme')
    const retry = { waits: { kind: 'list', ms: Array.from({ length: 50 }, () => 100) }, jitter: 'none' }
    await ledger.subscribe(client, receiver, 'acme', '/down', { retry, concurrency: 4 })
    let status = 503
    receiver.behave('/down', () => ({ status }))
    await ledger.publishAll(client, 'acme', messages)

    await eventually('the circuit opens', async () => {
      const rows = await place.query(`select 1 as opened from audit where action = 'endpoint.circuit.opened'`)
      return rows.length > 0
    })
    await server.kill()
    status = 200
    const before = receiver.arrivals.length
    assert.ok(before >= 5 && before <= 5 + 4, `${before} attempts before it opened`)

    server = await Program.start(t, 'serve', place.store, settings)
    await client.close()
    client = new Client(server.api)
    await receiver.until('the probe comes', () => receiver.arrivals.length > before)
    // The circuit opens at the answer to the fifth request, or later; a busy store writes it down later still.
    const [fifth, probe] = [receiver.arrivals[4], receiver.arrivals[before]]
    const silent = (probe?.at ?? Number.NaN) - (fifth?.at ?? Number.NaN)
    assert.ok(silent >= openMs - 1, `the receiver was left alone for ${silent} of ${openMs} ms`)
    await ledger.allDelivered(receiver)
    await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)

    const rows = await place.query(`select action from audit where actor = 'sluice' order by n`)
    assert.deepEqual(
      rows.map(({ action }) => action),
      ['endpoint.circuit.opened', 'endpoint.circuit.half_open', 'endpoint.circuit.closed'],
    )
    ledger.audit(receiver)
  })
}
