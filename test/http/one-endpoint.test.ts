import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Api, openApi } from './api.ts'

const url = 'http://127.0.0.1:9/'

/** An application with endpoints that want nothing of a message `a`: by type, by channel, by filter, by coalescing. */
async function apiWithEndpoints(app: object = {}): Promise<Api> {
  const api = await openApi()
  await api.ask('POST', '/app', { name: 'A', uid: 'a', ...app })
  for (const fields of [
    { uid: 'typed', eventTypes: ['b'] },
    { uid: 'channelled', channels: ['c'] },
    { uid: 'filtered', filter: 'payload.n > 5' },
    { uid: 'coalescing', coalesce: { windowMs: 60_000 } },
    { uid: 'ordered', order: 'fifo', filter: 'false' },
    { uid: 'signed', signature: 'stored', filter: 'false' },
    { uid: 'paused' },
    { uid: 'dropping', disabled: true, whileDisabled: 'drop' },
  ]) {
    const { status, json } = await api.ask('POST', '/app/a/endpoint', { url, ...fields })
    assert.equal(status, 201, JSON.stringify(json))
  }
  await api.ask('POST', '/app/a/endpoint/paused/pause')
  return api
}

async function receiversOf(api: Api, message: string): Promise<string[]> {
  const { json } = await api.ask('GET', `/app/a/msg/${message}/endpoint`)
  return json.data.map(({ uid }: { uid: string }) => uid)
}

describe('a message that names its endpoint', () => {
  test('goes to it alone, by uid and by id, whatever its filters', async () => {
    const api = await apiWithEndpoints()
    for (const uid of ['typed', 'channelled', 'filtered', 'coalescing', 'ordered', 'signed', 'paused']) {
      const { json: endpoint } = await api.ask('GET', `/app/a/endpoint/${uid}`)
      for (const name of [uid, endpoint.id]) {
        const { status, json } = await api.ask('POST', '/app/a/msg', { eventType: 'a', payload: {}, endpoint: name })
        assert.equal(status, 202, JSON.stringify(json))
        assert.deepEqual(await receiversOf(api, json.id), [uid])
      }
    }
    assert.equal((await api.store.counts()).pending, 14)
  })

  test('is dropped or held like any other while the endpoint is disabled', async () => {
    const api = await apiWithEndpoints()
    const publish = { eventType: 'a', payload: {}, endpoint: 'dropping' }
    assert.equal((await api.ask('POST', '/app/a/msg', publish)).status, 202)
    assert.equal((await api.store.counts()).dead, 1)
    await api.ask('PATCH', '/app/a/endpoint/dropping', { whileDisabled: 'hold' })
    assert.equal((await api.ask('POST', '/app/a/msg', publish)).status, 202)
    assert.deepEqual([(await api.store.counts()).dead, (await api.store.counts()).pending], [1, 1])
  })

  test('is refused when the application has no such endpoint, and leaves no trace', async () => {
    const api = await apiWithEndpoints()
    const stranger = await api.ask('POST', '/app', { name: 'B', uid: 'b' })
    const { json: foreign } = await api.ask('POST', `/app/${stranger.json.id}/endpoint`, { url, uid: 'foreign' })
    for (const name of ['nobody', 'foreign', foreign.id, `ep_${'0'.repeat(27)}`]) {
      const { status, json } = await api.ask('POST', '/app/a/msg', { eventType: 'a', payload: {}, endpoint: name })
      assert.deepEqual([status, json.detail[0].loc], [422, ['body', 'endpoint']])
      assert.match(json.detail[0].msg, new RegExp(`has none called ${name}$`))
    }
    const bad = await api.ask('POST', '/app/a/msg', { eventType: 'a', payload: {}, endpoint: 'a b' })
    assert.deepEqual([bad.status, bad.json.detail[0].loc], [422, ['body', 'endpoint']])
    assert.equal((await api.store.counts()).messages, 0)
  })

  test('reaches an endpoint that was created after the last publish, and none that was deleted since', async () => {
    const api = await apiWithEndpoints()
    const publish = { eventType: 'a', payload: {}, endpoint: 'new' }
    assert.equal((await api.ask('POST', '/app/a/msg', publish)).status, 422)
    await api.ask('POST', '/app/a/endpoint', { url, uid: 'new' })
    assert.equal((await api.ask('POST', '/app/a/msg', publish)).status, 202)
    await api.ask('DELETE', '/app/a/endpoint/new')
    assert.equal((await api.ask('POST', '/app/a/msg', publish)).status, 422)
  })

  test('is taken in batches and raw, each for its own endpoint', async () => {
    const api = await apiWithEndpoints()
    const messages = ['typed', 'filtered'].map((endpoint) => ({ eventType: 'a', payload: {}, endpoint }))
    const batch = await api.ask('POST', '/app/a/msg/batch', {
      messages: [...messages, { eventType: 'a', payload: {} }],
    })
    assert.equal(batch.status, 202, JSON.stringify(batch.json))
    const [typed, filtered, all] = await Promise.all(
      batch.json.data.map(({ id }: { id: string }) => receiversOf(api, id)),
    )
    assert.deepEqual([typed, filtered], [['typed'], ['filtered']])
    assert.deepEqual(all.toSorted(), ['coalescing', 'dropping', 'paused'])
    const type = { 'content-type': 'text/plain' }
    const raw = await api.ask('POST', '/app/a/msg/raw?event_type=a&endpoint=typed', 'text', type)
    assert.equal(raw.status, 202, JSON.stringify(raw.json))
    assert.deepEqual(await receiversOf(api, raw.json.id), ['typed'])
  })

  test('is no repetition of the same message for another endpoint', async () => {
    const api = await apiWithEndpoints({ dedupeSeconds: 60 })
    const ids = []
    for (const endpoint of ['typed', 'filtered', 'typed', null]) {
      ids.push((await api.ask('POST', '/app/a/msg', { eventType: 'a', payload: {}, endpoint })).json.id)
    }
    assert.equal(ids[2], ids[0])
    assert.equal(new Set(ids).size, 3)
  })
})
