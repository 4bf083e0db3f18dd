import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { openPlace, owners, type Place, pendingCount, postgresPlace } from './place.ts'
import { Program } from './program.ts'
import { type Arrival, Receiver } from './receiver.ts'

const keys = ['red', 'green', 'blue']
const retry = { waits: { kind: 'list', ms: Array(20).fill(100) }, jitter: 'none', maxAgeMs: 600_000 }
const strict = { order: 'fifo', retry }
const byKey = { order: 'key', concurrency: 4, retry }

/** A receiver that refuses every fifth message the first time, and takes so long for each. */
function fussy(receiver: Receiver, ms: number, ...paths: string[]): void {
  for (const path of paths) {
    const seen = new Set<number>()
    receiver.behave(path, async (arrival) => {
      const n = numberOf(arrival)
      const status = n % 5 === 0 && !seen.has(n) ? 500 : 200
      seen.add(n)
      await new Promise((resolve) => setTimeout(resolve, ms))
      return { status }
    })
  }
}

function numberOf({ body }: Arrival): number {
  return JSON.parse(body.toString()).n
}

/** Publishes one after the other, each by the next of the servers, and not before the one before it was answered. */
async function publishInTurn(clients: readonly Client[], from: number, to: number): Promise<void> {
  for (let n = from; n <= to; n++) {
    const client = clients[n % clients.length] as Client
    const { state } = await client.publish('acme', 'a.b', Buffer.from(`{"n":${n}}`), keys[n % keys.length])
    assert.equal(state, 'accepted')
  }
}

/** None comes before one of the same file that was accepted earlier has come for the last time, and none is missing. */
function assertOrder(arrivals: readonly Arrival[], isSameFile: (n: number) => boolean, last: number): void {
  const file = arrivals.map(numberOf).filter(isSameFile)
  assert.deepEqual(
    file,
    file.toSorted((a, b) => a - b),
  )
  const expected = Array.from({ length: last }, (_, i) => i + 1).filter(isSameFile)
  assert.deepEqual([...new Set(file)], expected)
}

function assertBoth(receiver: Receiver, last: number): void {
  const at = (path: string) => receiver.arrivals.filter((arrival) => arrival.path === path)
  assertOrder(at('/strict'), () => true, last)
  for (const k of keys.keys()) assertOrder(at('/by-key'), (n) => n % keys.length === k, last)
  for (const [i, arrival] of at('/strict').entries()) {
    const before = at('/strict')[i - 1]
    assert.ok(before === undefined || (before.endedAt ?? Infinity) <= arrival.at, `${numberOf(arrival)} overlapped`)
  }
}

async function ownerOf(place: Place, path: string, fleet: readonly Program[]): Promise<Program> {
  return eventually(`${path} has an owner`, async () => {
    const owner = (await owners(place)).find((each) => each.path === path)
    return fleet.find(({ pid, isRunning }) => isRunning && pid === owner?.pid)
  })
}

test('postgres: published by two processes, delivered by four of which two are killed, order is kept', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  fussy(receiver, 30, '/strict', '/by-key')
  const servers = [await Program.start(t, 'serve', place.store), await Program.start(t, 'serve', place.store)]
  const clients = servers.map((server) => new Client(server.api))
  atEnd(t, async () => void (await Promise.all(clients.map((client) => client.close()))))
  await clients[0]?.createApplication('acme')
  await clients[0]?.createEndpoint('acme', { url: `${receiver.url}/strict`, ...strict })
  await clients[0]?.createEndpoint('acme', { url: `${receiver.url}/by-key`, ...byKey })

  const workers = [await Program.start(t, 'worker', place.store), await Program.start(t, 'worker', place.store)]
  let published = 0
  for (const path of ['/strict', '/by-key']) {
    const left = clients.filter((_, i) => servers[i]?.isRunning)
    await publishInTurn(left, published + 1, published + 30)
    published += 30
    const victim = await ownerOf(place, path, [...servers, ...workers])
    await receiver.until('something is being sent', () => receiver.open.size > 0)
    await victim.kill()
  }
  await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)
  assertBoth(receiver, published)
})

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: over restarts, order is kept`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    fussy(receiver, 5, '/strict', '/by-key')
    let server = await Program.start(t, 'serve', place.store)
    let client = new Client(server.api)
    atEnd(t, () => client.close())
    await client.createApplication('acme')
    await client.createEndpoint('acme', { url: `${receiver.url}/strict`, ...strict })
    await client.createEndpoint('acme', { url: `${receiver.url}/by-key`, ...byKey })
    for (let round = 0; round < 2; round++) {
      const seen = receiver.arrivals.length
      await publishInTurn([client], round * 40 + 1, (round + 1) * 40)
      await receiver.until('some of them came', () => receiver.arrivals.length > seen + 20)
      await server.kill()
      await client.close()
      server = await Program.start(t, 'serve', place.store)
      client = new Client(server.api)
    }
    await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)
    assertBoth(receiver, 80)
  })
}
