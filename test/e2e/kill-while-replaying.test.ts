import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from './eventually.ts'
import { openPlace } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { type Server, startHere } from './server-here.ts'

const count = 200

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: a recovery that was asked for is done although the program is killed, twice`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    // It says nothing of the receiver's health, whose circuit stays closed.
    let status = 400
    receiver.behave('/hook', () => ({ status }))
    let killed = await Program.start(t, 'serve', place.store)
    let server: Server = killed

    async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
      const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
      const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) }
      const response = await fetch(`${server.api}${path}`, init)
      const text = await response.text()
      assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
      return JSON.parse(text) as T
    }

    await ask('POST', '/app', { name: 'acme', uid: 'acme' })
    const retry = { waits: { kind: 'list', ms: [] }, jitter: 'none', maxAgeMs: 3_600_000 }
    await ask('POST', '/app/acme/endpoint', { url: `${receiver.url}/hook`, uid: 'main', retry })
    const messages = Array.from({ length: count }, (_, i) => ({ eventType: 'x', payload: { i } }))
    await ask('POST', '/app/acme/msg/batch', { messages })
    const deadLetters = async () => Number((await place.query('select count(*) as n from dead'))[0]?.n)
    await eventually('every message is a dead letter', async () => (await deadLetters()) === count)

    status = 200
    const refused = receiver.arrivals.length
    const { id } = await ask<{ id: string }>('POST', '/app/acme/endpoint/main/recover', {
      since: new Date(Date.now() - 3_600_000).toISOString(),
    })
    await killed.kill()
    server = killed = await Program.start(t, 'serve', place.store)
    // The second kill comes while what was replayed is being delivered.
    await receiver.until('deliveries begin', () => receiver.arrivals.length > refused)
    await killed.kill()
    server = await startHere(t, 'serve', place.store)

    await eventually('the task is done', async () => {
      const task = await ask<{ status: string; data: { replayed: number } }>('GET', `/background-task/${id}`)
      if (task.status === 'finished') assert.equal(task.data.replayed, count)
      return task.status === 'finished'
    })
    await eventually('everything was delivered', () => {
      const ids = receiver.arrivals.slice(refused).map((arrival) => arrival.headers['webhook-id'])
      return new Set(ids).size === count
    })
    assert.equal(await deadLetters(), 0)
  })
}
