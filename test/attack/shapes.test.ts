import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { atEnd } from '../e2e/at-end.ts'
import { isLong, Target } from './attack.ts'

const megabyte = 900_000
const levels = 24

const repeated = (text: string, times: number) => Array.from({ length: times }, () => text).join(',')
const nested = (inner: string) => `${'{"a":'.repeat(levels)}${inner}${'}'.repeat(levels)}`

/** Payloads that are slow to shape: many small containers, below many levels, each of which the shape names. */
const payloads: Readonly<Record<string, string>> = {
  objects: `{"l":[${repeated('{}', megabyte / 3)}]}`,
  lists: `{"l":[${repeated('[0]', megabyte / 4)}]}`,
  nested: nested(`{"l":[${repeated('[[]]', megabyte / 5)}]}`),
  members: `{"l":[${Array.from({ length: 9_900 }, (_, i) => `{"m${i}":"${'x'.repeat(70)}"}`).join(',')}]}`,
}

const steps = (count: number) => '/a'.repeat(count)
const shapes = [
  { drop: ['/l/*/x', '/l/*/1', '/l/1', '/l/7/y'] },
  { drop: [`${steps(levels)}/l/*/*/x`], rename: Object.fromEntries(range(levels, (i) => [steps(i + 1), 'a'])) },
  { keep: ['/l/*/m0', `${steps(levels)}/l/*/0`] },
  { drop: ['/l/*', `${steps(levels)}/l/*`] },
]

function range<T>(count: number, each: (i: number) => T): T[] {
  return Array.from({ length: count }, (_, i) => each(i))
}

async function publish(target: Target, app: string, payload: string, statuses = [202]): Promise<number> {
  const body = `{"eventType":"x","payload":${payload}}`
  const { status, text } = await target.call('POST', `/app/${app}/msg?with_content=false`, { body })
  assert.ok(statuses.includes(status), text)
  return status
}

test('shapes that name every part of a megabyte never hold the loop', async (t) => {
  const target = await Target.share(t, 'sqlite')
  const app = await target.newApplication()
  for (const shape of shapes) {
    await target.client.createEndpoint(app, { url: 'https://example.com/', disabled: true, shape })
  }
  for (const [name, payload] of Object.entries(payloads)) {
    await target.measure(`shapes: ${name}`, () => publish(target, app, payload))
  }
  await target.measure('shapes: many at once', async () => {
    // A server on a starved machine refuses some of them: they wait longer than messages may wait to be stored.
    const each = () => publish(target, app, payloads.objects as string, [202, 429])
    const statuses = await Promise.all(range(isLong ? 24 : 8, each))
    assert.ok(statuses.includes(202))
  })
})

test('pseudonyms of many members never hold the loop', async (t) => {
  const target = await Target.share(t, 'sqlite')
  const app = await target.newApplication()
  await target.call('POST', `/app/${app}/region`, { body: { name: 'eu' } })
  const pointers = range(100, (i) => `/l/*/m${i}`)
  for (const n of range(4, (i) => i)) {
    const shape = { pseudonymize: n === 0 ? ['/l/*'] : pointers.slice(n) }
    const endpoint = { url: 'https://example.com/', disabled: true, region: 'eu', shape }
    await target.client.createEndpoint(app, endpoint)
  }
  await target.measure('pseudonyms', async () => {
    for (const payload of Object.values(payloads)) await publish(target, app, payload)
  })
})

test('messages that are shaped as they are sent never hold the loop', async (t) => {
  const received: number[] = []
  const server = createServer((request, response) => {
    let bytes = 0
    request.on('data', (chunk: Buffer) => (bytes += chunk.length))
    request.on('end', () => {
      received.push(bytes)
      response.end()
      server.emit('received')
    })
  }).listen(0, '127.0.0.1')
  atEnd(t, () => server.close())
  await once(server, 'listening')
  const target = await Target.share(t, 'sqlite')
  const app = await target.newApplication()
  const url = `http://127.0.0.1:${(server.address() as { port: number }).port}/`
  const { id } = await target.client.createEndpoint(app, { url, disabled: true, whileDisabled: 'hold' })
  const count = isLong ? 12 : 4
  for (const payload of range(count, () => payloads.lists as string)) await publish(target, app, payload)
  await target.measure('shaped as they are sent', async () => {
    const change = { disabled: false, shape: { drop: ['/l/*/x', '/l/*/1', '/l/0', '/l/7/y'] } }
    const { status, text } = await target.call('PATCH', `/app/${app}/endpoint/${id}`, { body: change })
    assert.equal(status, 200, text)
    while (received.length < count) await once(server, 'received')
  })
  // The first element is gone, and its comma.
  assert.deepEqual(new Set(received), new Set([(payloads.lists as string).length - 4]))
})
