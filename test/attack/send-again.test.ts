import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { apiKey } from '../e2e/program.ts'
import { Receiver } from '../e2e/receiver.ts'
import { dialects, isLong, Target } from './attack.ts'

const messages = isLong ? 900 : 300
/** A page of a list has at most this many tasks. */
const tasks = isLong ? 250 : 100
const hangUps = isLong ? 40 : 10

interface Letter {
  readonly msgId: string
  readonly endpointId: string
}

/** An application whose endpoint was disabled while messages came: each is a dead letter. */
async function deadLetters(target: Target, url: string, count: number) {
  const app = await target.newApplication()
  const { id: endpointId } = await target.client.createEndpoint(app, { url, disabled: true, whileDisabled: 'drop' })
  const batch = Array.from({ length: count }, (_, i) => ({ eventType: 'x', payload: { i } }))
  const { status, text } = await target.call('POST', `/app/${app}/msg/batch?with_content=false`, {
    body: { messages: batch },
  })
  assert.equal(status, 202, text.slice(0, 300))
  const { data } = JSON.parse(text) as { data: { id: string }[] }
  const letters: Letter[] = data.map(({ id }) => ({ msgId: id, endpointId }))
  await eventually('all are dead letters', async () => (await countOf(target, app)).count === count)
  return { app, endpointId, letters }
}

async function countOf(target: Target, app: string, query = ''): Promise<{ count: number; before: string }> {
  const { status, text } = await target.call('GET', `/app/${app}/dead/count${query}`)
  assert.equal(status, 200, text)
  return JSON.parse(text)
}

for (const dialect of dialects) {
  test(`${dialect}: a replay whose client hangs up and asks again reaches the receiver once`, async (t) => {
    const target = await Target.share(t, dialect)
    const receiver = await Receiver.listen(t)
    const { app, endpointId, letters } = await deadLetters(target, receiver.url, messages)
    const { before } = await countOf(target, app)
    const body = JSON.stringify({ letters, before })
    const request = [
      `POST /api/v1/app/${app}/dead/replay HTTP/1.1`,
      'host: sluice',
      `authorization: Bearer ${apiKey}`,
      'idempotency-key: one-press',
      'content-type: application/json',
      `content-length: ${Buffer.byteLength(body)}`,
      '\r\n',
    ].join('\r\n')
    await target.measure('a replay asked for again and again', async () => {
      for (let i = 0; i < hangUps; i++) {
        const socket = await target.connect()
        // Some hang up before the last byte, some before the answer.
        const sent = request + body
        socket.write(sent.slice(0, i % 3 === 0 ? -10 : undefined), () => socket.resetAndDestroy())
      }
      const id = await eventually('the last press is answered', async () => {
        const { status, text } = await target.call('POST', `/app/${app}/dead/replay`, {
          body,
          headers: { 'idempotency-key': 'one-press' },
        })
        // A request that hung up may still be under way.
        assert.ok(status === 202 || status === 409, text)
        return status === 202 && (JSON.parse(text) as { id: string }).id
      })
      const { text } = await target.call('GET', `/app/${app}/background-task/${id}`)
      assert.equal((JSON.parse(text) as { data: { total: number } }).data.total, messages)
      await target.client.changeEndpoint(app, endpointId, { disabled: false })
      await eventually('all arrived', () => receiver.arrivals.length >= messages)
      await eventually('nothing waits', async () => {
        const { text } = await target.call('GET', `/app/${app}/endpoint/${endpointId}/lane`)
        return (JSON.parse(text) as { waiting: { total: number } }).waiting.total === 0
      })
    })
    const ids = receiver.arrivals.map(({ headers }) => headers['webhook-id'])
    assert.deepEqual([ids.length, new Set(ids).size], [messages, messages])
  })

  test(`${dialect}: counts, and tasks that name a thousand letters each, never hold the loop`, async (t) => {
    const target = await Target.share(t, dialect)
    const { app, letters } = await deadLetters(target, 'https://example.com/', messages)
    const body = { letters: Array.from({ length: 1000 }, (_, i) => letters[i % letters.length]), perSecond: 1 }
    await target.measure('many large selections', async () => {
      for (let i = 0; i < tasks; i++) {
        const { status, text } = await target.call('POST', `/app/${app}/dead/replay`, { body })
        assert.equal(status, 202, text)
      }
      const reading = Array.from({ length: 10 }, async () => {
        const { status, text } = await target.call('GET', '/background-task?limit=250')
        assert.equal(status, 200)
        assert.ok((JSON.parse(text) as { data: unknown[] }).data.length >= tasks)
        await countOf(target, app)
        await countOf(target, app, '?reason=disabled&event_types=x')
      })
      await Promise.all(reading)
    })
  })
}
