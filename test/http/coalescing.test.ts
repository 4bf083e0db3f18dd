import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Answer, openApi } from './api.ts'

const url = 'https://example.com/hook'
const coalesce = { windowMs: 5000, key: '/video/id' }

async function withEndpoint(fields: object = { coalesce }) {
  const api = await openApi()
  await api.store.join({ leaseMs: 60_000, description: 'a worker' })
  await api.ask('POST', '/app', { name: 'A', uid: 'a' })
  const made = await api.ask('POST', '/app/a/endpoint', { url, uid: 'e', ...fields })
  assert.equal(made.status, 201, made.text)
  const send = async (payload: object, more: object = {}): Promise<string> => {
    const sent = await api.ask('POST', '/app/a/msg', { eventType: 'video.trending', payload, ...more })
    assert.equal(sent.status, 202, sent.text)
    return sent.json.id
  }
  const standing = async (id: string) => (await api.ask('GET', `/app/a/msg/${id}/endpoint`)).json.data[0]
  const why = async (id: string) => (await api.ask('GET', `/app/a/msg/${id}/endpoint/e/why`)).json
  return { ...api, made, send, standing, why }
}

function problems({ status, json }: Answer): string[] {
  assert.equal(status, 422, JSON.stringify(json))
  return json.detail.map(({ loc, type }: { loc: string[]; type: string }) => `${loc.join('.')} ${type}`)
}

describe('an endpoint that coalesces', () => {
  test('says so, and can be changed', async () => {
    const { ask, made } = await withEndpoint()
    assert.deepEqual(made.json.coalesce, coalesce)
    const path = '/app/a/endpoint/e'
    const byType = await ask('PATCH', path, { coalesce: { windowMs: 2000 } })
    assert.deepEqual(byType.json.coalesce, { windowMs: 2000, key: null })
    assert.deepEqual((await ask('PATCH', path, { description: 'x' })).json.coalesce, { windowMs: 2000, key: null })
    assert.equal((await ask('PATCH', path, { coalesce: null })).json.coalesce, null)
    await ask('PATCH', path, { coalesce })
    assert.equal((await ask('PUT', path, { url })).json.coalesce, null, 'replacing it goes back to the default')
  })

  test('refuses windows and pointers that cannot be', async () => {
    const { ask } = await withEndpoint({})
    const patch = (value: unknown) => ask('PATCH', '/app/a/endpoint/e', { coalesce: value })
    assert.deepEqual(problems(await patch({ windowMs: 1999 })), ['body.coalesce.windowMs minimum'])
    assert.deepEqual(problems(await patch({ windowMs: 86_400_001 })), ['body.coalesce.windowMs maximum'])
    assert.deepEqual(problems(await patch({ key: '/id' })), ['body.coalesce.windowMs required'])
    for (const key of ['id', '/a~', '/a~2']) {
      assert.deepEqual(problems(await patch({ windowMs: 5000, key })), ['body.coalesce.key pattern'])
    }
    assert.deepEqual(problems(await patch([])), ['body.coalesce type'])
    assert.equal((await patch({ windowMs: 5000, key: '' })).status, 200, 'the whole payload is a value, too')
  })

  test('keeps no order beside it, whichever was there first', async () => {
    const { ask } = await withEndpoint()
    const path = '/app/a/endpoint/e'
    assert.deepEqual(problems(await ask('PATCH', path, { order: 'fifo' })), ['body.coalesce coalesce'])
    assert.deepEqual(problems(await ask('PUT', path, { url, coalesce, order: 'key' })), ['body.coalesce coalesce'])
    assert.deepEqual(problems(await ask('POST', '/app/a/endpoint', { url, coalesce, order: 'fifo' })), [
      'body.coalesce coalesce',
    ])
    assert.equal((await ask('PATCH', path, { order: 'fifo', coalesce: null })).status, 200)
    assert.deepEqual(problems(await ask('PATCH', path, { coalesce })), ['body.coalesce coalesce'])
  })

  test('gets the newest of what is alike; what gave way says to what', async () => {
    const { send, standing, why, store } = await withEndpoint()
    const first = await send({ video: { id: 'a' }, views: 1 })
    const waiting = await why(first)
    assert.equal(waiting.reason, 'coalescing')
    assert.match(waiting.detail, /for newer messages of the same kind/)
    const second = await send({ video: { id: 'a' }, views: 2 })
    const other = await send({ video: { id: 'b' }, views: 2 })
    const [gone, kept] = [await standing(first), await standing(second)]
    assert.deepEqual([gone.statusText, gone.coalescedInto, gone.nextAttempt], ['fail', second, null])
    assert.deepEqual([kept.statusText, kept.coalescedInto], ['pending', null])
    const ended = await why(first)
    assert.deepEqual([ended.reason, ended.expectedAt], ['coalesced', null])
    assert.ok(ended.detail.includes(second))
    assert.equal((await why(second)).expectedAt, waiting.expectedAt)
    assert.equal((await why(other)).reason, 'coalescing')
    assert.equal((await store.counts()).pending, 2)
  })

  test('gets at once what has no such value, and what is for later at its instant', async () => {
    const { send, why, ask, store } = await withEndpoint()
    const plain = await Promise.all([send({}), send({ video: 7 }), send({ video: { ID: 'a' } })])
    for (const id of plain) assert.notEqual((await why(id)).reason, 'coalescing')
    const deliverAt = new Date(Date.now() + 60_000).toISOString()
    const delayed = [
      await send({ video: { id: 'a' } }, { deliverAt }),
      await send({ video: { id: 'a' } }, { deliverAt }),
    ]
    for (const id of delayed) assert.equal((await why(id)).reason, 'scheduled')
    const raw = await ask('POST', '/app/a/msg/raw?event_type=video.trending', 'not JSON', {
      'content-type': 'text/plain',
    })
    assert.equal(raw.status, 202, raw.text)
    assert.equal((await store.counts()).pending, 6)
  })

  test('can be sent again what gave way', async () => {
    const { ask, send, standing, why } = await withEndpoint()
    const first = await send({ video: { id: 'a' } })
    await send({ video: { id: 'a' } })
    assert.equal((await ask('POST', `/app/a/msg/${first}/endpoint/e/resend`, {})).status, 202)
    const again = await standing(first)
    assert.deepEqual([again.statusText, again.coalescedInto], ['pending', null])
    assert.notEqual((await why(first)).reason, 'coalesced')
  })

  test('coalesces a batch like messages one by one', async () => {
    const { ask, store, standing } = await withEndpoint({ coalesce: { windowMs: 5000 } })
    const message = { eventType: 'video.trending', payload: {} }
    const batch = await ask('POST', '/app/a/msg/batch', { messages: [message, message, message] })
    assert.equal(batch.status, 202, batch.text)
    assert.equal((await store.counts()).pending, 1)
    const ids: string[] = batch.json.data.map(({ id }: { id: string }) => id)
    const into = await Promise.all(ids.map(async (id) => (await standing(id)).coalescedInto))
    assert.equal(into[2], null)
    for (const id of into.slice(0, 2)) assert.ok(ids.includes(id))
  })
})
