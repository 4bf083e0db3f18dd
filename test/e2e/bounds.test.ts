import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { Ledger } from './ledger.ts'
import { openPlace, owners, type Place } from './place.ts'
import { Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { startHere } from './server-here.ts'

const selectEnds = `
  select endpoint.url, dead.reason, dead.attempts, dead.code, count(*) as count from dead
    join endpoint on endpoint.key = dead.endpoint group by endpoint.url, dead.reason, dead.attempts, dead.code`
const selectWaiting = `
  select endpoint.url, count(*) as count from pending join endpoint on endpoint.key = pending.endpoint group by endpoint.url`

async function waitingAt(place: Place, path: string): Promise<number> {
  const rows = await place.query(selectWaiting)
  return Number(rows.find(({ url }) => new URL(url as string).pathname === path)?.count ?? 0)
}

async function deadAt(place: Place, path: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { url, reason, count } of await place.query(selectEnds)) {
    if (new URL(url as string).pathname === path) counts[String(reason)] = Number(count)
  }
  return counts
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`on ${dialect} each accepted delivery has one end, with every overflow policy and dying workers`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    const ledger = new Ledger()
    const server = await Program.start(t, 'serve', place.store)
    let client = new Client(server.api)
    atEnd(t, () => client.close())
    await client.createApplication('acme')
    const slow = { throttleRate: 20, burst: 1, concurrency: 1 }
    await ledger.subscribe(client, receiver, 'acme', '/oldest', { ...slow, maxWaiting: 30, overflow: 'drop_oldest' })
    await ledger.subscribe(client, receiver, 'acme', '/new', { ...slow, maxWaiting: 30, overflow: 'drop_new' })
    await ledger.subscribe(client, receiver, 'acme', '/aged', { ...slow, maxAgeSeconds: 2 })
    await ledger.subscribe(client, receiver, 'acme', '/off', { disabled: true, whileDisabled: 'drop' })
    await ledger.publishAll(client, 'acme', 150)

    // The worker that delivers dies in the middle of it, and another continues.
    await receiver.until('some arrived', () => receiver.at('/oldest').length > 10)
    if (dialect === 'postgres') assert.ok((await owners(place)).length > 0)
    await server.kill()
    const next = await startHere(t, 'serve', place.store)
    const before = client
    atEnd(t, () => before.close())
    client = new Client(next.api)
    await ledger.publishAll(client, 'acme', 50)

    await eventually('nothing waits', async () => {
      const paths = ['/oldest', '/new', '/aged', '/off']
      const waiting = await Promise.all(paths.map((path) => waitingAt(place, path)))
      return waiting.every((count) => count === 0)
    })
    const accepted = ledger.entries.filter(({ outcome }) => outcome.state === 'accepted').length
    assert.equal(accepted, 200)
    for (const [path, reason] of [
      ['/oldest', 'overflow'],
      ['/new', 'overflow'],
      ['/aged', 'aged'],
      ['/off', 'disabled'],
    ] as const) {
      const dead = await deadAt(place, path)
      assert.deepEqual(Object.keys(dead), [reason], path)
      const arrived = new Set(receiver.at(path).map(({ headers }) => headers['webhook-id'])).size
      // An attempt that was open when the server died may have arrived, although the next server drops its delivery.
      const both = arrived + (dead[reason] as number) - accepted
      assert.ok(both >= 0 && both <= 1, `${arrived} arrived and ${dead[reason]} are dead of ${accepted} at ${path}`)
    }
    assert.equal(receiver.at('/off').length, 0)
    for (const { code, attempts } of await place.query(selectEnds)) {
      assert.deepEqual([code, Number(attempts)], ['untried', 0])
    }
  })
}
