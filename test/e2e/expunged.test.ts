import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { dialects } from '../attack/attack.ts'
import { atEnd } from './at-end.ts'
import { eventually } from './eventually.ts'
import { openPlace, type Place } from './place.ts'
import { longLease } from './program.ts'
import { around, filesOf, rowsOf } from './search.ts'
import { type Server, startHere } from './server-here.ts'

// Short ones lie in the pages of tables, long ones in pages of their own.
const lengths = [20, 300, 1500, 9000]

/** Answers with all it was sent, a parrot for each canary: in the body, and in a location that an error quotes. */
async function listen(t: TestContext): Promise<{ url: string; held: (() => void)[] }> {
  const held: (() => void)[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const echo = `${Buffer.concat(chunks)} ${JSON.stringify(request.headers)}`.replaceAll('canary', 'parrot')
    if (request.url === '/held') await new Promise<void>((resolve) => held.push(resolve))
    const isMoved = request.url === '/moved'
    response.writeHead(isMoved ? 302 : 500, isMoved ? { location: `/?${encodeURIComponent(echo.slice(0, 500))}` } : {})
    response.end(echo)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, held }
}

for (const dialect of dialects) {
  // One server has an application for each way.
  test(`expunging on ${dialect}`, async (t) => {
    const place = await openPlace(t, dialect)
    const server = await startHere(t, 'serve', place.store, longLease)
    for (const way of ['single', 'bulk', 'all', 'retention'] as const) {
      await t.test(`${way}: nothing of the message is left, wherever a receiver echoed it`, (each) =>
        expunge(each, place, server, way),
      )
    }
    server.terminate()
    await server.exited
    assert.equal(around(/canary/, filesOf(place)), undefined)
  })
}

async function expunge(t: TestContext, place: Place, server: Server, way: 'single' | 'bulk' | 'all' | 'retention') {
  const receiver = await listen(t)
  const ask = server.ask.bind(server)
  const app = `/app/${way}`
  const countOf = async (rows: string) => {
    const [row] = await place.query(
      `select count(*) as n from ${rows} where app = (select key from application where uid = '${way}')`,
    )
    return Number(row?.n)
  }
  await ask('POST', '/app', { name: 'A', uid: way })
  const retry = { waits: { kind: 'list', ms: [0, 1] } }
  for (const path of ['echo', 'moved', 'held']) {
    const more = path === 'held' ? { retry: { waits: { kind: 'list', ms: [3_600_000] } } } : { retry }
    await ask('POST', `${app}/endpoint`, { uid: path, url: `${receiver.url}/${path}`, ...more })
  }
  const shape = { drop: ['/gone'] }
  const shaped = { uid: 'shaped', url: `${receiver.url}/echo`, order: 'key', shape, signature: 'stored', retry }
  await ask('POST', `${app}/endpoint`, shaped)

  const ids: string[] = []
  for (const [i, length] of lengths.entries()) {
    const { id } = await ask('POST', `${app}/msg`, {
      eventType: 'x',
      payload: { text: 'canary'.repeat(length / 6) },
      headers: { 'x-about': `canary-header-${i}` },
      orderingKey: `canary-key-${i}`,
      channels: [`canary-channel-${i}`],
      tags: [`canary-tag-${i}`],
      ...(way === 'retention' && { payloadRetentionHours: 1 }),
    })
    ids.push(id)
  }
  const dead = lengths.length * 3
  await eventually('all but those held are dead letters', async () => {
    return (await countOf('dead')) === dead && receiver.held.length === lengths.length
  })
  assert.match(await rowsOf(place), /canarycanary/, 'the search finds it while it is there')
  assert.match(await rowsOf(place), /parrotparrot/, 'and what the receiver echoed')

  if (way === 'single') for (const id of ids) await ask('DELETE', `${app}/msg/${id}/content`)
  if (way === 'bulk') await ask('POST', `${app}/msg/bulk-expunge`, { ids })
  if (way === 'all') await ask('POST', `${app}/msg/expunge-all-contents`, {})
  if (way === 'retention') {
    await place.query('update payload_end set at = 0')
    // A leader that begins a new epoch does all its duties at once.
    await place.query('update leader set epoch = epoch + 1')
  }
  await eventually('all are expunged', async () => {
    return (await countOf('(select app from message where expunged_at is not null) as gone')) === ids.length
  })
  // Attempts that were under way end now, and their receiver echoes what it got.
  for (const release of receiver.held) release()
  await eventually('the attempts under way are recorded', async () => {
    const { data } = await ask('GET', `${app}/attempt/endpoint/held`)
    return data.length === ids.length
  })
  assert.equal(around(/canary|parrot/, await rowsOf(place)), undefined)
  await eventually('the file and its log are wiped', () => !/canary/.test(filesOf(place)))

  // The facts stay.
  const page = await ask('GET', `${app}/dead`)
  assert.equal(page.data.length, dead)
  assert.doesNotMatch(JSON.stringify(page), /canary|parrot/)
  const { data } = await ask('GET', `${app}/attempt/msg/${ids[0]}`)
  assert.ok(data.length >= 3)
  assert.ok(data.every(({ responseStatusCode: status }: { responseStatusCode: number }) => status > 0))
  assert.doesNotMatch(JSON.stringify(data), /canary|parrot/)
}
