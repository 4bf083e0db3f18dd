import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openApi } from './api.ts'

const url = 'http://127.0.0.1:9/'

test('header templates of endpoints and applications are kept as given, and unset by null', async () => {
  const { ask } = await openApi()
  const headerTemplates = { 'X-Event': '{eventType}', 'User-Agent': 'Acme/1.0' }
  const app = await ask('POST', '/app', { name: 'A', uid: 'a', headerTemplates })
  assert.deepEqual([app.status, app.json.headerTemplates], [201, headerTemplates])
  const made = await ask('POST', '/app/a/endpoint', { url, uid: 'e', headerTemplates })
  assert.deepEqual([made.status, made.json.headerTemplates], [201, headerTemplates])
  for (const path of ['/app/a', '/app/a/endpoint/e']) {
    assert.deepEqual((await ask('GET', path)).json.headerTemplates, headerTemplates)
    assert.equal((await ask('PATCH', path, { headerTemplates: null })).json.headerTemplates, null)
  }
})

test('header templates that cannot be sent are refused for endpoints, applications and publishes', async () => {
  const { ask } = await openApi()
  await ask('POST', '/app', { name: 'A', uid: 'a' })
  const many = Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`X-${i}`, 'a']))
  for (const [headerTemplates, at] of [
    [{ 'X-A': '{payload}' }, ['X-A']],
    [{ 'webhook-id': '{messageId}' }, ['webhook-id']],
    [{ Authorization: 'Bearer a' }, ['Authorization']],
    [{ 'X-A': 'a\nb' }, ['X-A']],
    [{ 'X-A': 5 }, ['X-A']],
    [many, []],
  ] as const) {
    const loc = ['body', 'headerTemplates', ...at]
    const endpoint = await ask('POST', '/app/a/endpoint', { url, headerTemplates })
    assert.deepEqual([endpoint.status, endpoint.json.detail[0].loc], [422, loc])
    const app = await ask('PATCH', '/app/a', { headerTemplates })
    assert.deepEqual([app.status, app.json.detail[0].loc], [422, loc])
    const application = { name: 'B', headerTemplates }
    const message = await ask('POST', '/app/b/msg', { eventType: 'a', payload: {}, application })
    assert.equal(message.status, 422)
  }
  assert.equal((await ask('GET', '/app/b')).status, 404)
})
