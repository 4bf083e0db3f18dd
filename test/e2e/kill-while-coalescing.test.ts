import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { openPlace, type Place, pendingCount } from './place.ts'
import { Program } from './program.ts'
import { Receiver } from './receiver.ts'

const producers = 8
const subjects = ['a', 'b', 'c']
const paths = ['/calm', '/keen']
/** The server dies once this many events were accepted. */
const acceptedBefore = 80

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: over a kill, what was accepted arrives or gave way to something newer that does`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    const accepted: { id: string; subject: string }[] = []

    const first = await Program.start(t, 'serve', place.store)
    const client = new Client(first.api)
    atEnd(t, () => client.close())
    await client.createApplication('acme')
    const coalesce = { windowMs: 2000, key: '/subject' }
    await client.createEndpoint('acme', { url: `${receiver.url}/calm`, coalesce })
    await client.createEndpoint('acme', { url: `${receiver.url}/keen` })
    let left = acceptedBefore
    const produce = async (): Promise<void> => {
      for (;;) {
        const subject = subjects[accepted.length % subjects.length] as string
        const outcome = await client.publish('acme', 'video.trending', Buffer.from(JSON.stringify({ subject })))
        if (outcome.state !== 'accepted') return
        accepted.push({ id: outcome.id, subject })
        if (--left === 0) void first.kill()
      }
    }
    await Promise.all(Array.from({ length: producers }, produce))
    await first.kill()
    const server = await Program.start(t, 'serve', place.store)
    await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)
    server.terminate()
    assert.deepEqual(await server.exited, { code: 0, signal: null })

    const [calm, keen] = paths.map((path) => arrivedAt(receiver, path)) as [Map<string, string>, Map<string, string>]
    const successors = await gaveWay(place)
    for (const { id, subject } of accepted) {
      assert.ok(keen.has(id), `${id} did not arrive where nothing is coalesced`)
      let last: string | undefined = id
      while (last !== undefined && !calm.has(last)) last = successors.get(last)
      assert.ok(last, `${id} neither arrived nor gave way to anything that did`)
      assert.equal(calm.get(last), subject, `${id} gave way to another kind`)
    }
    // How many give way depends on how many fit into a window, which a slow machine decides.
    assert.ok(calm.size < accepted.length, `${accepted.length} became ${calm.size}`)
  })
}

/** The arrived messages by id, each with its key. */
function arrivedAt(receiver: Receiver, path: string): Map<string, string> {
  const arrivals = receiver.arrivals.filter((arrival) => arrival.path === path)
  return new Map(
    arrivals.map(({ headers, body }) => [headers['webhook-id'] as string, JSON.parse(body.toString()).subject]),
  )
}

/** Which message gave way to which, wherever that happened. */
async function gaveWay(place: Place): Promise<Map<string, string>> {
  const rows = await place.query(`
    select message.id, successor.id as successor from coalesced
      join message on message.key = coalesced.message
      join message successor on successor.key = coalesced.successor`)
  return new Map(rows.map(({ id, successor }) => [id as string, successor as string]))
}
