import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { plainEndpoint } from '../store/conformance/harness.ts'
import { type Api, openApi } from './api.ts'

async function apiWith(uid = 'acme'): Promise<Api> {
  const api = await openApi()
  await api.ask('POST', '/app', { name: 'Acme', uid })
  return api
}

function count(api: Api) {
  return api.store.counts()
}

describe('the fields of a message', () => {
  test('tags, headers and deliverAt are kept and answered', async () => {
    const api = await apiWith()
    const deliverAt = new Date(Date.now() + 3_600_000).toISOString()
    const body = { eventType: 'a', payload: {}, tags: ['x', 'y'], headers: { 'X-Trace': 'abc' }, deliverAt }
    const { status, json } = await api.ask('POST', '/app/acme/msg', body)
    assert.equal(status, 202)
    assert.deepEqual([json.tags, json.deliverAt], [['x', 'y'], deliverAt])
    const { json: got } = await api.ask('GET', `/app/acme/msg/${json.id}`)
    assert.deepEqual(got.tags, ['x', 'y'])
    assert.ok(Math.abs(Date.parse(got.deliverAt) - Date.parse(deliverAt)) < 1000)
  })

  test('a deliverAt that has passed means now; one that is none, or too far off, is refused', async () => {
    const api = await apiWith()
    await api.ask('POST', '/app/acme/endpoint', { url: 'http://127.0.0.1:9/' })
    const at = (deliverAt: unknown) => api.ask('POST', '/app/acme/msg', { eventType: 'a', payload: {}, deliverAt })
    assert.equal((await at('2020-01-01T00:00:00Z')).status, 202)
    assert.equal((await at(null)).status, 202)
    for (const wrong of ['tomorrow', '2026-13-01T00:00:00Z', '2126-01-01T00:00:00Z', '2026-01-01', 5]) {
      const { status, json } = await at(wrong)
      assert.equal(status, 422, String(wrong))
      assert.deepEqual(json.detail[0].loc, ['body', 'deliverAt'])
    }
    assert.equal((await count(api)).messages, 2)
  })

  test('reserved headers and impossible ones are refused', async () => {
    const api = await apiWith()
    for (const name of ['webhook-id', 'Content-Encoding', 'host', 'user-agent', 'a b', '']) {
      const { status } = await api.ask('POST', '/app/acme/msg', {
        eventType: 'a',
        payload: {},
        headers: { [name]: 'x' },
      })
      assert.equal(status, 422, name)
    }
    const { status } = await api.ask('POST', '/app/acme/msg', { eventType: 'a', payload: {}, headers: { a: 'x\r\ny' } })
    assert.equal(status, 422)
    assert.equal((await count(api)).messages, 0)
  })

  test('a rawPayload is delivered instead of the payload, as its own type', async () => {
    const api = await apiWith()
    const transformationsParams = { rawPayload: '<a/>', headers: { 'content-type': 'application/xml' } }
    const { status, json } = await api.ask('POST', '/app/acme/msg', {
      eventType: 'a',
      payload: {},
      transformationsParams,
    })
    assert.equal(status, 202)
    const app = await api.store.findApplication('acme')
    const message = await api.store.findMessage(app?.key as number, json.id)
    assert.equal(Buffer.from(message?.body ?? []).toString(), '<a/>')
    assert.equal(message?.contentType, 'application/xml')
    const { json: got } = await api.ask('GET', `/app/acme/msg/${json.id}`)
    assert.equal(Buffer.from(got.payload.base64, 'base64').toString(), '<a/>')
  })

  test('an application that is missing is made from the message, under the uid in the path', async () => {
    const api = await openApi()
    const body = { eventType: 'a', payload: {}, application: { name: 'New', uid: 'fresh' } }
    assert.equal((await api.ask('POST', '/app/fresh/msg', { eventType: 'a', payload: {} })).status, 404)
    const other = await api.ask('POST', '/app/fresh/msg', { ...body, application: { name: 'New', uid: 'other' } })
    assert.deepEqual([other.status, other.json.detail[0].loc], [422, ['body', 'application', 'uid']])
    assert.equal((await api.ask('POST', '/app/fresh/msg', body)).status, 202)
    assert.equal((await api.ask('POST', '/app/fresh/msg', { ...body, application: { name: 'Other' } })).status, 202)
    assert.equal((await api.ask('GET', '/app/fresh')).json.name, 'New')
    const named = await api.ask('POST', `/app/app_${'0'.repeat(27)}/msg`, body)
    assert.equal(named.status, 404)
    assert.equal((await count(api)).messages, 2)
  })
})

describe('a batch', () => {
  const message = (i: number) => ({ eventType: 'a.b', eventId: `e-${i}`, payload: { i } })

  test('is stored whole, byte for byte, and answered as a list in its order', async () => {
    const api = await apiWith()
    await api.ask('POST', '/app/acme/endpoint', { url: 'http://127.0.0.1:9/' })
    const raw =
      '{ "messages" : [ {"eventType":"a","payload":{"n":1.0, "s":"],}\\""}} , {"payload": {}, "eventType":"b"}]}'
    const { status, json, text } = await api.ask('POST', '/app/acme/msg/batch', raw)
    assert.equal(status, 202, text)
    assert.deepEqual(
      json.data.map((m: { eventType: string }) => m.eventType),
      ['a', 'b'],
    )
    assert.equal(json.done, true)
    const app = await api.store.findApplication('acme')
    const stored = await api.store.findMessage(app?.key as number, json.data[0].id)
    assert.equal(Buffer.from(stored?.body ?? []).toString(), '{"n":1.0, "s":"],}\\""}')
    assert.equal((await count(api)).pending, 2)
  })

  test('of a thousand is one transaction', async () => {
    const api = await apiWith()
    const messages = Array.from({ length: 1000 }, (_, i) => ({ eventType: 'a', payload: { i } }))
    const { status, json } = await api.ask('POST', '/app/acme/msg/batch', { messages })
    assert.equal(status, 202)
    assert.equal(new Set(json.data.map((m: { id: string }) => m.id)).size, 1000)
    assert.equal((await count(api)).messages, 1000)
  })

  test('with anything wrong in it stores nothing and names the message', async () => {
    const api = await apiWith()
    const good = message(1)
    const cases: [unknown, number, unknown][] = [
      [{ messages: [good, { ...message(2), eventType: 'a b' }] }, 422, ['body', 'messages', '1', 'eventType']],
      [{ messages: [good, { eventType: 'a' }] }, 422, ['body', 'messages', '1', 'payload']],
      [{ messages: [good, 5] }, 422, ['body', 'messages', '1']],
      [{ messages: [] }, 422, ['body', 'messages']],
      [{ messages: {} }, 422, ['body', 'messages']],
      [{}, 422, ['body', 'messages']],
      [{ messages: Array.from({ length: 1001 }, (_, i) => message(i)) }, 422, ['body', 'messages']],
    ]
    for (const [body, expected, loc] of cases) {
      const { status, json } = await api.ask('POST', '/app/acme/msg/batch', body)
      assert.equal(status, expected, JSON.stringify(body).slice(0, 80))
      assert.deepEqual(json.detail[0].loc, loc)
    }
    for (const body of ['', '[', '{"messages":[{"eventType":"a","eventType":"b","payload":{}}]}', '5']) {
      const { status } = await api.ask('POST', '/app/acme/msg/batch', body)
      assert.ok(status === 400 || status === 422, body)
    }
    assert.equal((await count(api)).messages, 0)
  })

  test('with a used eventId is a conflict that names the message, and stores nothing', async () => {
    const api = await apiWith()
    const { json: first } = await api.ask('POST', '/app/acme/msg', message(7))
    const { status, json } = await api.ask('POST', '/app/acme/msg/batch', { messages: [message(8), message(7)] })
    assert.equal(status, 409)
    assert.match(json.detail, new RegExp(`Message 1: .*${first.id}`))
    const twice = await api.ask('POST', '/app/acme/msg/batch', { messages: [message(9), message(9)] })
    assert.equal(twice.status, 409)
    assert.equal((await count(api)).messages, 1)
  })

  test('repeated under its key is answered the same and stored once', async () => {
    const api = await apiWith()
    const headers = { 'idempotency-key': 'batch-1' }
    const body = { messages: [message(1), message(2)] }
    const first = await api.ask('POST', '/app/acme/msg/batch', body, headers)
    const again = await api.ask('POST', '/app/acme/msg/batch', body, headers)
    assert.equal(again.status, 202)
    assert.equal(again.text, first.text)
    const other = await api.ask('POST', '/app/acme/msg/batch', { messages: [message(3)] }, headers)
    assert.equal(other.status, 422)
    assert.equal((await count(api)).messages, 2)
  })
})

describe('a payload that is a list or a text', () => {
  test('is stored byte for byte, and shown as a member of an object', async () => {
    const api = await apiWith()
    const app = await api.store.findApplication('acme')
    for (const payload of ['[ 1.0, {"a":[]} ]', '"a\\u00e9"', '[]', '""']) {
      const { status, text, json } = await api.ask('POST', '/app/acme/msg', `{"eventType":"a","payload":${payload}}`)
      assert.equal(status, 202, text)
      const shown = `"payload":{"contentType":"application/json","json":${payload}}`
      assert.ok(text.includes(shown), text)
      const message = await api.store.findMessage(app?.key as number, json.id)
      assert.equal(Buffer.from(message?.body ?? []).toString(), payload)
      const got = await api.ask('GET', `/app/acme/msg/${json.id}`)
      assert.ok(got.text.includes(shown), got.text)
      const batch = await api.ask(
        'POST',
        '/app/acme/msg/batch',
        `{"messages":[{"eventType":"a","payload":${payload}}]}`,
      )
      assert.ok(batch.text.includes(shown), batch.text)
    }
    const active = await api.ask('POST', '/app/acme/msg/precheck/active', { eventType: 'a', payload: [1] })
    assert.equal(active.status, 200, active.text)
  })
})

describe('a raw publish', () => {
  test('takes any bytes of any type, and answers them as base64 only when asked', async () => {
    const api = await apiWith()
    const bytes = Buffer.from([0, 255, 254, 1])
    const brief = await api.ask('POST', '/app/acme/msg/raw?event_type=pic.new', bytes, { 'content-type': 'image/png' })
    assert.deepEqual([brief.status, brief.json.payload], [202, {}])
    const path = '/app/acme/msg/raw?event_type=pic.new&event_id=e1&channels=a,b&tags=t1,t2&with_content=true'
    const { status, json } = await api.ask('POST', path, bytes, { 'content-type': 'image/png' })
    assert.equal(status, 202)
    assert.deepEqual(json.payload, { contentType: 'image/png', base64: bytes.toString('base64') })
    assert.deepEqual(
      [json.eventType, json.eventId, json.channels, json.tags],
      ['pic.new', 'e1', ['a', 'b'], ['t1', 't2']],
    )
    const app = await api.store.findApplication('acme')
    const message = await api.store.findMessage(app?.key as number, json.id)
    assert.deepEqual([...(message?.body ?? [])], [...bytes])
    assert.equal(message?.contentType, 'image/png')
    const { json: got } = await api.ask('GET', `/app/acme/msg/${json.id}`)
    assert.deepEqual(got.payload, json.payload)
  })

  test('has the headers of the message among its own', async () => {
    const api = await apiWith()
    const send = (headers: Record<string, string>) =>
      api.ask('POST', '/app/acme/msg/raw?event_type=a', 'x', { 'content-type': 'text/plain', ...headers })
    const { json } = await send({ 'Sluice-Header-X-Region': 'eu', 'sluice-header-content-type': 'text/x-own' })
    const app = await api.store.findApplication('acme')
    const message = await api.store.findMessage(app?.key as number, json.id)
    assert.deepEqual(message?.headers, { 'x-region': 'eu', 'content-type': 'text/x-own' })
    const refused = await send({ 'sluice-header-webhook-id': 'x' })
    assert.deepEqual([refused.status, refused.json.detail[0].loc], [422, ['header', 'sluice-header-webhook-id']])
    assert.equal((await send({ 'sluice-header-': 'x' })).status, 422)
  })

  test('of JSON shows the JSON, and of broken JSON does not break the answer', async () => {
    const api = await apiWith()
    const good = await api.ask('POST', '/app/acme/msg/raw?event_type=a&with_content=true', '{"a":1.0}')
    assert.match(good.text, /"payload":\{"a":1\.0\}/)
    const broken = await api.ask('POST', '/app/acme/msg/raw?event_type=a&with_content=true', '{"a":')
    assert.equal(broken.status, 202)
    assert.equal(Buffer.from(broken.json.payload.base64, 'base64').toString(), '{"a":')
    const { json } = await api.ask('GET', `/app/acme/msg/${broken.json.id}`)
    assert.deepEqual(json.payload, broken.json.payload)
  })

  test('names what is wrong in the query, and takes nothing compressed', async () => {
    const api = await apiWith()
    for (const [query, field] of [
      ['', 'event_type'],
      ['event_type=a%20b', 'event_type'],
      ['event_type=a&channels=,', 'channels'],
      ['event_type=a&tags=a%20b', 'tags'],
      ['event_type=a&deliver_at=soon', 'deliver_at'],
      ['event_type=a&event_id=msg_1', 'event_id'],
    ]) {
      const { status, json } = await api.ask('POST', `/app/acme/msg/raw?${query}`, 'x', {
        'content-type': 'text/plain',
      })
      assert.equal(status, 422, query)
      assert.deepEqual(json.detail[0].loc.slice(0, 2), ['query', field])
    }
    const gzip = { 'content-type': 'text/plain', 'content-encoding': 'gzip' }
    assert.equal((await api.ask('POST', '/app/acme/msg/raw?event_type=a', 'x', gzip)).status, 415)
    assert.equal((await count(api)).messages, 0)
  })
})

describe('a precheck', () => {
  test('says whether anyone would get such a message', async () => {
    const api = await apiWith()
    const active = async (body: unknown) => (await api.ask('POST', '/app/acme/msg/precheck/active', body)).json.active
    assert.equal(await active({ eventType: 'a.b' }), false)
    const app = await api.store.findApplication('acme')
    await api.store.createEndpoint(app?.key as number, { ...plainEndpoint, eventTypes: ['a.*'], channels: ['x'] })
    assert.equal(await active({ eventType: 'a.b', channels: ['x'] }), true)
    assert.equal(await active({ eventType: 'a.b' }), false)
    assert.equal(await active({ eventType: 'b', channels: ['x'] }), false)
    assert.equal((await api.ask('POST', '/app/nobody/msg/precheck/active', { eventType: 'a' })).status, 404)
    assert.equal((await api.ask('POST', '/app/acme/msg/precheck/active', {})).status, 422)
  })
})

describe('within an application’s dedupe window', () => {
  const publish = (api: Api, body: object, headers = {}) =>
    api.ask('POST', '/app/acme/msg', { eventType: 'a', payload: { n: 1 }, ...body }, headers)

  test('the same content is one message, and anything else is another', async () => {
    const api = await openApi()
    await api.ask('POST', '/app', { name: 'Acme', uid: 'acme', dedupeSeconds: 60 })
    await api.ask('POST', '/app/acme/endpoint', { url: 'http://127.0.0.1:9/' })
    const first = await publish(api, {})
    const again = await publish(api, {}, { 'idempotency-key': 'other request' })
    assert.deepEqual([again.status, again.json.id], [202, first.json.id])
    const headed = [{ headers: { 'x-shop': 'berlin' } }, { headers: { 'x-shop': 'paris' } }]
    const others = [{ payload: { n: 2 } }, { eventType: 'b' }, { channels: ['x'] }, { dedupeKey: 'k' }, ...headed]
    const ids = new Set([first.json.id])
    for (const other of [...others, ...headed]) ids.add((await publish(api, other)).json.id)
    assert.equal(ids.size, 7)
    assert.deepEqual(await count(api), { pending: 7, dead: 0, messages: 7, attempts: 0 })
  })

  test('a given key decides instead of the content', async () => {
    const api = await openApi()
    await api.ask('POST', '/app', { name: 'Acme', uid: 'acme', dedupeSeconds: 60 })
    const first = await publish(api, { dedupeKey: 'order-1' })
    assert.equal((await publish(api, { dedupeKey: 'order-1', payload: { n: 2 } })).json.id, first.json.id)
    assert.notEqual((await publish(api, { dedupeKey: 'order-2' })).json.id, first.json.id)
    const messages = [{ eventType: 'a', payload: {}, dedupeKey: 'order-1' }]
    const batch = await api.ask('POST', '/app/acme/msg/batch', { messages })
    assert.equal(batch.json.data[0].id, first.json.id)
  })

  test('the window can be set and unset, and counts from the next message on', async () => {
    const api = await apiWith()
    const ids = async () => [(await publish(api, {})).json.id, (await publish(api, {})).json.id]
    const [a, b] = await ids()
    assert.notEqual(a, b)
    await api.ask('PATCH', '/app/acme', { dedupeSeconds: 60 })
    const [c, d] = await ids()
    assert.equal(c, d)
    assert.equal((await api.ask('PATCH', '/app/acme', { dedupeSeconds: null })).json.dedupeSeconds, null)
    assert.notEqual((await publish(api, {})).json.id, d)
    assert.equal((await api.ask('PATCH', '/app/acme', { dedupeSeconds: 0 })).status, 422)
  })
})
