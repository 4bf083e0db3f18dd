import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from './eventually.ts'
import { openPlace } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'

const messages = 40

/** The address of a process's own server for metrics, from its log. */
function metricsOf(program: Program): string {
  const [, url] = /"metrics":"(http:[^"]+)"/.exec(program.logged) ?? []
  assert.ok(url, program.logged)
  return url
}

async function scrape(program: Program): Promise<(line: string) => number | undefined> {
  const lines = (await (await fetch(metricsOf(program))).text()).split('\n')
  return (line) => {
    const found = lines.find((each) => each.startsWith(`${line} `))
    return found === undefined ? undefined : Number(found.slice(line.length + 1))
  }
}

test('a server and a worker offer metrics at addresses of their own, whose counters add up', async (t) => {
  const place = await openPlace(t, 'postgres')
  // A long lease, so that no worker loses its lanes on a busy machine.
  const settings = { SLUICE_METRICS_LISTEN: '127.0.0.1:0', SLUICE_LEASE: '30s' }
  const server = await Program.start(t, 'serve', place.store, settings)
  const worker = await Program.start(t, 'worker', place.store, settings)
  const receiver = await Receiver.listen(t)
  const call = async (path: string, body: unknown) => {
    const reply = await fetch(`${server.api}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    assert.ok(reply.ok, await reply.clone().text())
  }
  await call('/app', { name: 'acme', uid: 'acme' })
  for (let i = 0; i < 4; i++) await call('/app/acme/endpoint', { url: `${receiver.url}/${i}` })
  for (let i = 0; i < messages; i++) await call('/app/acme/msg', { eventType: 'a', payload: {} })

  const delivered = 'sluice_deliveries_ended_total{end="delivered"}'
  const [ofServer, ofWorker] = await eventually('the end of all deliveries', async () => {
    const both = [await scrape(server), await scrape(worker)] as const
    return both.reduce((sum, read) => sum + (read(delivered) ?? 0), 0) === 4 * messages && both
  })
  assert.equal(receiver.arrivals.length, 4 * messages)
  assert.equal(ofServer('sluice_messages_accepted_total'), messages)
  assert.equal(ofWorker('sluice_messages_accepted_total'), 0)
  assert.equal((ofServer('sluice_leader') ?? 0) + (ofWorker('sluice_leader') ?? 0), 1, 'one of them leads')
  for (const read of [ofServer, ofWorker]) {
    assert.equal(read('sluice_store_up'), 1)
    assert.equal(read('sluice_attempts_in_flight_limit'), 1024)
    assert.ok((read('sluice_lease_age_seconds') ?? -1) >= 0)
  }
  await eventually('the facts about the whole store', async () => {
    const read = await scrape(server)
    // Circuits are counted where deliveries wait, and none does.
    return read('sluice_workers{state="alive"}') === 2 && read('sluice_circuits{state="closed"}') === 0
  })
  assert.equal(ofWorker('sluice_leader') === 1, ofWorker('sluice_workers{state="alive"}') !== undefined)

  await t.test('a port in use is refused before anything is made', async (each) => {
    const taken = new URL(metricsOf(server)).host
    const other = await openPlace(each, 'sqlite')
    const second = await Program.run(each, 'serve', other.store, { SLUICE_METRICS_LISTEN: taken })
    assert.notEqual(second.exit.code, 0)
    assert.match(second.logged, new RegExp(`Cannot listen on ${taken}`))
  })
})
