import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { request } from 'undici'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { openPlace, pendingCount } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'

const producers = 8
const killedAfter = [15, 30]

/** Asks as an SDK does: the same bytes under the same key until there is an answer. Undefined without an answer. */
async function ask(api: string, key: string, body: string): Promise<{ status: number; text: string } | undefined> {
  try {
    const reply = await request(`${api}/app/acme/msg`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', 'idempotency-key': key },
      body,
    })
    return { status: reply.statusCode, text: await reply.body.text() }
  } catch {
    return undefined
  }
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: requests repeated over kills and restarts are stored once, and answered the same`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    let server = await Program.start(t, 'serve', place.store)
    const client = new Client(server.api)
    atEnd(t, () => client.close())
    await client.createApplication('acme')
    await client.createEndpoint('acme', { url: `${receiver.url}/a` })

    const answered = new Map<string, string>()
    const unanswered = new Set<string>()
    let n = 0
    for (const limit of killedAfter) {
      let accepted = 0
      const produce = async (): Promise<void> => {
        for (;;) {
          const key = `auto_${randomUUID()} ${n++}`
          unanswered.add(key)
          const reply = await ask(server.api, key, bodyOf(key))
          if (reply === undefined) return
          assert.equal(reply.status, 202)
          answered.set(key, reply.text)
          unanswered.delete(key)
          if (++accepted === limit) void server.kill()
        }
      }
      await Promise.all(Array.from({ length: producers }, produce))
      await server.kill()
      server = await Program.start(t, 'serve', place.store)
      // The fate of these is unknown; a repeated request finds it out, and stores nothing twice.
      for (const key of unanswered) {
        const reply = await ask(server.api, key, bodyOf(key))
        assert.equal(reply?.status, 202)
        answered.set(key, reply?.text ?? '')
      }
      unanswered.clear()
    }
    for (const [key, text] of answered) assert.equal((await ask(server.api, key, bodyOf(key)))?.text, text)
    const [firstKey = ''] = answered.keys()
    assert.equal((await ask(server.api, firstKey, bodyOf('another')))?.status, 422)

    const [row] = await place.query('select count(*) as count from message')
    assert.equal(Number(row?.count), answered.size, 'each request became one message')
    assert.equal(new Set([...answered.values()].map((text) => JSON.parse(text).id)).size, answered.size)
    await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)
    const arrived = new Set(receiver.arrivals.map(({ headers }) => headers['webhook-id']))
    assert.equal(arrived.size, answered.size)
  })
}

function bodyOf(key: string): string {
  return JSON.stringify({ eventType: 'a', payload: { key } })
}
