import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from './eventually.ts'
import { openPlace } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { type Server, startHere } from './server-here.ts'

const count = 100
const perSecond = 20
/** The number of deliveries that a paced replay queues at once. */
const atOnce = 5

interface Task {
  readonly id: string
  readonly state: string
  readonly data: { readonly replayed: number; readonly scanned: number; readonly total: number }
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: a paced replay keeps its pace and its place over a kill and a pause, and replays each once`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    // It says nothing of the receiver's health, whose circuit stays closed.
    let status = 400
    receiver.behave('/hook', () => ({ status }))
    let killed = await Program.start(t, 'serve', place.store)
    let server: Server = killed

    async function ask<T>(method: string, path: string, body: unknown = {}): Promise<T> {
      const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
      const init = method === 'GET' ? { method, headers } : { method, headers, body: JSON.stringify(body) }
      const response = await fetch(`${server.api}${path}`, init)
      const text = await response.text()
      assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
      return JSON.parse(text) as T
    }
    const deadLetters = async () => Number((await place.query('select count(*) as n from dead'))[0]?.n)

    await ask('POST', '/app', { name: 'acme', uid: 'acme' })
    const retry = { waits: { kind: 'list', ms: [] }, jitter: 'none' }
    await ask('POST', '/app/acme/endpoint', { url: `${receiver.url}/hook`, uid: 'main', retry })
    const messages = Array.from({ length: count }, (_, i) => ({ eventType: 'x', payload: { i } }))
    await ask('POST', '/app/acme/msg/batch', { messages })
    await eventually('every message is a dead letter', async () => (await deadLetters()) === count)

    status = 200
    const failed = receiver.arrivals.length
    const again = () => receiver.arrivals.slice(failed)
    const askedAt = performance.now()
    const { id } = await ask<Task>('POST', '/app/acme/dead/replay', { perSecond })
    const order = (word: string) => ask<Task>('POST', `/background-task/${id}/${word}`)
    await receiver.until('20 are replayed', () => again().length >= 20)
    await killed.kill()
    server = killed = await Program.start(t, 'serve', place.store)
    await receiver.until('50 are replayed', () => again().length >= 50)
    const { data } = await order('pause')
    await killed.kill()
    server = await startHere(t, 'serve', place.store)
    assert.deepEqual(await ask<Task>('GET', `/background-task/${id}`).then((task) => [task.state, task.data]), [
      'paused',
      data,
    ])
    // Whatever was queued is delivered, and nothing is queued any more.
    await eventually('what was queued is delivered', async () => {
      return Number((await place.query('select count(*) as n from pending'))[0]?.n) === 0
    })
    assert.equal(await deadLetters(), count - data.replayed)
    assert.ok(data.replayed < count, 'it was over before it was paused')
    await order('resume')
    await eventually('the task is done', async () => {
      return (await ask<Task>('GET', `/background-task/${id}`)).state === 'finished'
    })
    await receiver.until('all are replayed', () => new Set(again().map(idOf)).size === count)

    const ended = await ask<Task>('GET', `/background-task/${id}`)
    assert.deepEqual(ended.data, { scanned: count, replayed: count, total: count })
    assert.equal(await deadLetters(), 0)
    const tookMs = (again().at(-1)?.at ?? 0) - askedAt
    // A slow machine only makes it longer; a pace forgotten at a restart would make it shorter.
    const leastMs = ((count - atOnce) / perSecond) * 1000
    assert.ok(tookMs >= leastMs, `${tookMs} ms, not ${leastMs}`)
  })
}

function idOf({ headers }: { readonly headers: Readonly<Record<string, string>> }): string | undefined {
  return headers['webhook-id']
}
