import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Api, openApi } from './api.ts'

const key = (text: string) => ({ 'idempotency-key': text })
const replayed = ({ headers }: { headers: Record<string, unknown> }) => headers['idempotent-replayed']
const message = { eventType: 'a', payload: { n: 1 } }

async function apiWith(): Promise<Api> {
  const api = await openApi()
  await api.ask('POST', '/app', { name: 'Acme', uid: 'acme' })
  return api
}

describe('a publish under an Idempotency-Key', () => {
  test('is answered the same, byte for byte, and stored once', async () => {
    const api = await apiWith()
    const body = { ...message, eventId: 'e1', deliverAt: new Date(Date.now() + 60_000).toISOString() }
    const first = await api.ask('POST', '/app/acme/msg', body, key('k1'))
    const again = await api.ask('POST', '/app/acme/msg', body, key('k1'))
    assert.deepEqual([again.status, again.text], [202, first.text])
    assert.deepEqual([first, again].map(replayed), [undefined, 'true'])
    assert.equal((await api.store.counts()).messages, 1)
    assert.equal((await api.ask('POST', '/app/acme/msg', body, key('k2'))).status, 409, 'its eventId is used')
  })

  test('is marked as replayed, like a batch, a raw publish and every other POST', async () => {
    const api = await apiWith()
    for (const [path, body] of [
      ['/app/acme/msg/batch', { messages: [message, message] }],
      ['/app/acme/msg/raw?event_type=a', 'text'],
      ['/app', { name: 'Other' }],
    ] as const) {
      const first = await api.ask('POST', path, body, key('k'))
      const again = await api.ask('POST', path, body, key('k'))
      assert.deepEqual([again.status, again.text], [first.status, first.text])
      assert.deepEqual([first, again].map(replayed), [undefined, 'true'], path)
    }
  })

  test('is one publish by whatever spelling of the path it comes', async () => {
    const api = await apiWith()
    const { id } = (await api.ask('GET', '/app/acme')).json
    const answers = []
    for (const path of [
      '/app/acme/msg',
      '/app/acme/msg/',
      '/api/v1//app/acme/msg',
      '//api/v1/app/acme//msg',
      '/app/%61cme/msg',
      '/app/acme/%6dsg',
      `/app/${id}/msg`,
    ]) {
      answers.push(await api.ask('POST', path, message, key('k1')))
    }
    for (const { status, text } of answers) assert.deepEqual([status, text], [202, answers[0]?.text])
    assert.equal((await api.store.counts()).messages, 1)
  })

  test('that makes its application is one publish, too', async () => {
    const api = await apiWith()
    const making = { ...message, application: { name: 'New' } }
    const first = await api.ask('POST', '/app/new/msg', making, key('k1'))
    const again = await api.ask('POST', '/app/new/msg', making, key('k1'))
    assert.deepEqual([again.status, again.text], [202, first.text])
    assert.equal((await api.store.counts()).messages, 1)
  })

  test('with another body is refused with a list, as the SDKs expect', async () => {
    const api = await apiWith()
    await api.ask('POST', '/app/acme/msg', message, key('k1'))
    const { status, json } = await api.ask('POST', '/app/acme/msg', { ...message, payload: { n: 2 } }, key('k1'))
    assert.equal(status, 422)
    assert.deepEqual(json.detail[0].loc, ['header', 'idempotency-key'])
    assert.equal((await api.store.counts()).messages, 1)
  })

  test('that was refused can be made good under the same key', async () => {
    const api = await apiWith()
    assert.equal((await api.ask('POST', '/app/acme/msg', { eventType: 'a' }, key('k1'))).status, 422)
    assert.equal((await api.ask('POST', '/app/later/msg', message, key('k1'))).status, 404)
    await api.ask('POST', '/app', { name: 'Later', uid: 'later' })
    assert.equal((await api.ask('POST', '/app/later/msg', message, key('k1'))).status, 202)
    assert.equal((await api.ask('POST', '/app/acme/msg', message, key('k1'))).status, 202)
    assert.equal((await api.store.counts()).messages, 2)
  })

  test('while the first is under way gets 409', async () => {
    const api = await apiWith()
    const both = await Promise.all([1, 2].map(() => api.ask('POST', '/app/acme/msg', message, key('k1'))))
    assert.deepEqual(both.map(({ status }) => status).sort(), [202, 409])
    assert.equal(both.find(({ status }) => status === 409)?.json.code, 'request_in_flight')
    assert.equal((await api.ask('POST', '/app/acme/msg', message, key('k1'))).status, 202)
    assert.equal((await api.store.counts()).messages, 1)
  })

  test('is separate for each application and each caller', async () => {
    const api = await apiWith()
    await api.ask('POST', '/app', { name: 'Other', uid: 'other' })
    const { json } = await api.ask('POST', '/api/v1/api-key', { name: 'second', scopes: ['publish'] })
    const other = { authorization: `Bearer ${json.key ?? json.token}`, ...key('k1') }
    const ids = [
      await api.ask('POST', '/app/acme/msg', message, key('k1')),
      await api.ask('POST', '/app/other/msg', message, key('k1')),
      await api.ask('POST', '/app/acme/msg', message, other),
    ].map(({ status, json }) => (status === 202 ? json.id : `${status}`))
    assert.equal(new Set(ids).size, 3)
    assert.equal((await api.store.counts()).messages, 3)
  })

  test('a key may be as long as a header, and an empty one is none', async () => {
    const api = await apiWith()
    const publish = (text: string) => api.ask('POST', '/app/acme/msg', message, key(text))
    const create = (text: string) => api.ask('POST', '/app', { name: 'A' }, key(text))
    for (const [ask, status] of [
      [publish, 202],
      [create, 201],
    ] as const) {
      const [long, again, other] = [
        await ask('k'.repeat(8000)),
        await ask('k'.repeat(8000)),
        await ask(`${'k'.repeat(8000)}x`),
      ]
      assert.deepEqual(
        [long.status, again.json.id === long.json.id, other.json.id === long.json.id],
        [status, true, false],
      )
      const [none, more] = [await ask(''), await ask('')]
      assert.deepEqual([none.status, none.json.id === more.json.id], [status, false])
    }
  })

  test('a raw publish is another one when its type or its query is', async () => {
    const api = await apiWith()
    const ask = (query: string, type: string, body = 'x') =>
      api.ask('POST', `/app/acme/msg/raw?${query}`, body, { 'content-type': type, ...key('k1') })
    const first = await ask('event_type=a', 'text/plain')
    assert.equal((await ask('event_type=a', 'text/plain')).text, first.text)
    assert.equal((await ask('event_type=b', 'text/plain')).status, 422)
    assert.equal((await ask('event_type=a', 'text/html')).status, 422)
    assert.equal((await ask('event_type=a', 'text/plain', 'y')).status, 422)
    const beside = { 'content-type': 'text/plain', 'sluice-header-x-a': '1', ...key('k1') }
    assert.equal((await api.ask('POST', '/app/acme/msg/raw?event_type=a', 'x', beside)).status, 422)
  })
})

describe('any other POST under an Idempotency-Key', () => {
  test('is carried out once by whatever name it calls the application and the endpoint', async () => {
    const api = await apiWith()
    const app = (await api.ask('GET', '/app/acme')).json.id
    const endpoint = (await api.ask('POST', '/app/acme/endpoint', { url: 'https://example.com/', uid: 'ep' })).json.id
    const since = { since: new Date(Date.now() - 3_600_000).toISOString() }
    const tasks = new Set<string>()
    for (const path of [
      '/app/acme/endpoint/ep/recover',
      `/app/${app}/endpoint/${endpoint}/recover`,
      `/app/acme//endpoint/%65p/recover/`,
    ]) {
      const { status, json } = await api.ask('POST', path, since, key('k1'))
      assert.equal(status, 202)
      tasks.add(json.id)
    }
    assert.equal(tasks.size, 1)
  })

  test('happens once, and is answered the same with the same status', async () => {
    const api = await apiWith()
    const first = await api.ask('POST', '/app', { name: 'New' }, key('k1'))
    const again = await api.ask('POST', '/app', { name: 'New' }, key('k1'))
    assert.deepEqual([first.status, again.status, again.text], [201, 201, first.text])
    assert.match(String(again.headers['content-type']), /json/)
    assert.equal((await api.ask('POST', '/app', { name: 'Other' }, key('k1'))).status, 422)
    assert.equal((await api.ask('GET', '/app')).json.data.length, 2)
  })

  test('that was refused leaves its key free', async () => {
    const api = await apiWith()
    assert.equal((await api.ask('POST', '/app', { name: 'Dup', uid: 'acme' }, key('k1'))).status, 409)
    assert.equal((await api.ask('POST', '/app', { name: '' }, key('k1'))).status, 422)
    assert.equal((await api.ask('POST', '/app', { name: 'Fine' }, key('k1'))).status, 201)
  })

  test('twice at once happens once', async () => {
    const api = await apiWith()
    const all = await Promise.all(Array.from({ length: 5 }, () => api.ask('POST', '/app', { name: 'New' }, key('k1'))))
    const made = new Set(all.filter(({ status }) => status === 201).map(({ text }) => text))
    assert.equal(made.size, 1)
    assert.ok(all.every(({ status }) => status === 201 || status === 409))
    assert.equal((await api.ask('GET', '/app')).json.data.length, 2)
  })

  test('without a key, and for any other method, is carried out each time', async () => {
    const api = await apiWith()
    for (let i = 0; i < 2; i++) assert.equal((await api.ask('POST', '/app', { name: 'New' })).status, 201)
    for (const name of ['B', 'C'])
      assert.equal((await api.ask('PATCH', '/app/acme', { name }, key('k1'))).json.name, name)
  })
})
