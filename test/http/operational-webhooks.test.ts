import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openApi } from './api.ts'

const path = '/api/v1/operational-webhook/endpoint'
const url = 'https://example.com/ops'

test('endpoints of operational webhooks are made, listed, found, replaced and deleted', async () => {
  const { ask } = await openApi()
  const made = await ask('POST', path, { url, uid: 'ops', eventTypes: ['endpoint.disabled'], metadata: { a: 'b' } })
  assert.equal(made.status, 201)
  assert.match(made.json.id, /^ep_/)
  assert.deepEqual((await ask('GET', `${path}/ops`)).json, made.json)
  const second = await ask('PUT', `${path}/second`, { url })
  assert.equal(second.status, 201)
  const listed = (await ask('GET', path)).json.data.map(({ uid }: { uid: string }) => uid)
  assert.deepEqual(listed, ['second', 'ops'])
  const replaced = await ask('PUT', `${path}/ops`, { url, description: 'new' })
  assert.deepEqual([replaced.status, replaced.json.description, replaced.json.eventTypes], [200, 'new', null])
  assert.equal((await ask('DELETE', `${path}/${made.json.id}`)).status, 204)
  assert.equal((await ask('GET', `${path}/ops`)).status, 404)
})

test('endpoints of operational webhooks have secrets and headers like any other', async () => {
  const { ask } = await openApi()
  await ask('POST', path, { url, uid: 'ops', headers: { authorization: 'x' } })
  const { key } = (await ask('GET', `${path}/ops/secret`)).json
  assert.match(key, /^whsec_/)
  assert.equal((await ask('POST', `${path}/ops/secret/rotate`, {})).status, 200)
  assert.notEqual((await ask('GET', `${path}/ops/secret`)).json.key, key)
  assert.equal((await ask('PUT', `${path}/ops/headers`, { headers: { 'x-a': '1' } })).status, 204)
  assert.deepEqual((await ask('GET', `${path}/ops/headers`)).json, { headers: { 'x-a': '1' }, sensitive: [] })
})

test('endpoints of operational webhooks subscribe to what is no event type of the callers', async () => {
  const { ask } = await openApi()
  await ask('POST', '/api/v1/event-type', { name: 'mine', description: '' })
  assert.equal((await ask('POST', path, { url, eventTypes: ['endpoint.disabled'] })).status, 201)
  assert.equal((await ask('POST', path, { url, eventTypes: ['not a name'] })).status, 422)
})

test('no caller sees the application behind them, and no application sees their endpoints', async () => {
  const { ask } = await openApi()
  const { json: ops } = await ask('POST', path, { url, uid: 'ops' })
  const { json: app } = await ask('POST', '/app', { name: 'A', uid: 'a' })
  const { json: endpoint } = await ask('POST', '/app/a/endpoint', { url, uid: 'e' })
  assert.deepEqual(
    (await ask('GET', '/app?order=descending')).json.data.map(({ id }: { id: string }) => id),
    [app.id],
  )
  for (const ref of ['management', `app_${'0'.repeat(27)}`, '0']) {
    assert.equal((await ask('GET', `/app/${ref}`)).status, 404, ref)
    assert.equal((await ask('POST', `/app/${ref}/msg`, { eventType: 'x', payload: {} })).status, 404, ref)
  }
  assert.equal((await ask('GET', `/app/a/endpoint/${ops.id}`)).status, 404)
  assert.equal((await ask('GET', `${path}/${endpoint.id}`)).status, 404)
})
