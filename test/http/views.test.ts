import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openApi } from './api.ts'

test('a view is made, listed, read, changed, audited and deleted', async () => {
  const { ask } = await openApi()
  await ask('POST', '/app', { name: 'Acme', uid: 'acme' })
  const made = await ask('POST', '/api/v1/view', {
    name: 'Slow in the EU',
    uid: 'slow',
    of: 'endpoints',
    search: 'eu.',
  })
  assert.equal(made.status, 201)
  const { id, createdAt, updatedAt, ...rest } = made.json
  const empty = { app: null, sort: null, reason: null, eventTypes: null, withinSeconds: null }
  assert.deepEqual(rest, { ...empty, uid: 'slow', name: 'Slow in the EU', of: 'endpoints', search: 'eu.' })
  assert.deepEqual((await ask('GET', '/api/v1/view')).json.data, [made.json])
  assert.deepEqual((await ask('GET', `/api/v1/view/${id}`)).json, made.json)
  const changed = await ask('PATCH', '/api/v1/view/slow', { sort: 'waiting', search: null, app: 'acme' })
  assert.deepEqual([changed.json.sort, changed.json.search, changed.json.app], ['waiting', null, 'acme'])
  assert.equal((await ask('DELETE', '/api/v1/view/slow')).status, 204)
  assert.equal((await ask('GET', '/api/v1/view/slow')).status, 404)
  const { data } = (await ask('GET', '/api/v1/audit')).json
  const rows = data.filter(({ action }: { action: string }) => action.includes('/view'))
  assert.deepEqual(
    rows.map(({ action }: { action: string }) => action),
    ['DELETE /view/:view', 'PATCH /view/:view', 'POST /view'],
  )
  assert.equal(rows[1].before.filter.search, 'eu.')
})

test('a part of the other list, an unknown application and another list are refused', async () => {
  const { ask } = await openApi()
  const refused = async (body: object, status = 422) => {
    const answer = await ask('POST', '/api/v1/view', { name: 'x', of: 'endpoints', ...body })
    assert.equal(answer.status, status, answer.text)
    return answer.text
  }
  assert.match(await refused({ reason: 'gone', withinSeconds: 3600 }), /reason.*belongs to views of dead-letters/)
  assert.match(await refused({ of: 'dead-letters', sort: 'failing' }), /sort.*belongs to views of endpoints/)
  assert.match(await refused({ app: 'nowhere' }, 404), /nowhere/)
  await refused({ of: 'messages' })
  await refused({ serach: 'eu' })
  await refused({ of: 'dead-letters', withinSeconds: 1 })
  assert.deepEqual((await ask('GET', '/api/v1/view')).json.data, [])
  const { json } = await ask('POST', '/api/v1/view', { name: 'Gone', of: 'dead-letters', reason: 'gone' })
  const patched = await ask('PATCH', `/api/v1/view/${json.id}`, { search: 'eu' })
  assert.equal(patched.status, 422)
  assert.match(patched.text, /belongs to views of endpoints/)
  assert.equal(
    (await ask('PATCH', `/api/v1/view/${json.id}`, { of: 'endpoints' })).status,
    422,
    'a view keeps its list',
  )
})

test('only a key of the whole server sees views, and only an admin changes them', async () => {
  const { ask } = await openApi()
  await ask('POST', '/app', { name: 'Acme', uid: 'acme' })
  const { json: view } = await ask('POST', '/api/v1/view', { name: 'All', of: 'endpoints' })
  const keyOf = async (body: object) => {
    const { json } = await ask('POST', '/api/v1/api-key', { name: 'k', ...body })
    return { authorization: `Bearer ${json.token}` }
  }
  const reader = await keyOf({ scopes: ['read'] })
  const bound = await keyOf({ scopes: ['admin'], app: 'acme' })
  assert.equal((await ask('GET', `/api/v1/view/${view.id}`, undefined, reader)).status, 200)
  assert.equal((await ask('DELETE', `/api/v1/view/${view.id}`, undefined, reader)).status, 403)
  assert.equal((await ask('GET', '/api/v1/view', undefined, bound)).status, 403)
})
