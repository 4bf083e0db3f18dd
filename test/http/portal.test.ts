import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { hashApiKey, isMade } from '../../src/operations/auth.ts'
import { type Answer, openApi } from './api.ts'

const api = '/api/v1'

async function openPortal() {
  const opened = await openApi()
  const { ask } = opened
  for (const uid of ['a', 'b']) await ask('POST', '/app', { name: uid, uid })
  await ask('POST', '/app/a/endpoint', { uid: 'one', url: 'https://example.com/' })
  const letIn = async (input: Record<string, unknown> = {}) => {
    const answer = await ask('POST', `${api}/auth/app-portal-access/a`, input)
    assert.equal(answer.status, 200, answer.text)
    const headers = { authorization: `Bearer ${answer.json.token}` }
    const as = (method: string, path: string, body?: unknown): Promise<Answer> =>
      ask(method, `${api}${path}`, body, headers)
    return { ...(answer.json as { url: string; token: string }), as }
  }
  return { ...opened, letIn }
}

describe('an application token', () => {
  test('travels in the fragment of a link to this server, never in its path or query', async () => {
    const { letIn, store } = await openPortal()
    const { url, token } = await letIn()
    const link = new URL(url)
    const app = await store.findApplication('a')
    assert.ok(isMade('appsk', token))
    assert.deepEqual([link.pathname, link.search, link.hash], ['/portal', '', `#app=${app?.id}&token=${token}`])
    const { ask } = await openApi({ publicUrl: 'https://hooks.example.com', store })
    const elsewhere = await ask('POST', `${api}/auth/app-portal-access/a`, {})
    assert.match(elsewhere.json.url, /^https:\/\/hooks\.example\.com\/portal#app=/)
  })

  test('sees event types with feature flags only if it has one of them', async () => {
    const { letIn, ask } = await openPortal()
    await ask('POST', `${api}/event-type`, { name: 'plain', description: '' })
    await ask('POST', `${api}/event-type`, { name: 'secret', description: '', featureFlag: 'beta' })
    const schemas = { 1: { type: 'object' } }
    await ask('POST', `${api}/event-type`, { name: 'both', description: '', featureFlags: ['x', 'beta'], schemas })
    const names = async (as: (method: string, path: string) => Promise<Answer>) =>
      (await as('GET', '/event-type')).json.data.map(({ name }: { name: string }) => name)
    const { as: outside } = await letIn()
    assert.deepEqual(await names(outside), ['plain'])
    assert.equal((await outside('GET', '/event-type/secret')).status, 404)
    assert.equal((await outside('POST', '/app/a/endpoint/one/send-example', { eventType: 'both' })).status, 404)
    const refused = await outside('PATCH', '/app/a/endpoint/one', { eventTypes: ['plain', 'secret'] })
    assert.match(refused.text, /unknown event type \\"secret\\"/)
    const { as: inside } = await letIn({ featureFlags: ['beta', 'other'] })
    assert.deepEqual(await names(inside), ['both', 'plain', 'secret'])
    assert.equal((await inside('GET', '/event-type/secret')).status, 200)
    assert.equal((await inside('PATCH', '/app/a/endpoint/one', { eventTypes: ['plain', 'secret'] })).status, 200)
    // A token keeps the event types that it may not see: an operator subscribed the endpoint to them.
    assert.equal((await outside('PATCH', '/app/a/endpoint/one', { eventTypes: ['secret'] })).status, 200)
    assert.equal((await ask('GET', `${api}/event-type`)).json.data.length, 3)
  })

  test('does not choose the way on which deliveries leave the network of the operator', async () => {
    const { letIn, ask } = await openPortal()
    const { as } = await letIn()
    const refused = await as('PATCH', '/app/a/endpoint/one', { egressProxy: 'direct' })
    assert.deepEqual([refused.status, refused.json.code], [403, 'insufficient_access'])
    assert.equal((await as('POST', '/app/a/endpoint', { url: 'https://example.com/', egressProxy: 'eu' })).status, 403)
    const set = await ask('PATCH', `${api}/app/a/endpoint/one`, { egressProxy: 'eu' })
    assert.deepEqual([set.status, set.json.egressProxy], [200, 'eu'])
    // A portal that saves the whole endpoint leaves it as it is.
    assert.equal((await as('PUT', '/app/a/endpoint/one', { url: 'https://example.com/2' })).json.egressProxy, 'eu')
  })

  test('may read and manage the endpoints of its application, and nothing of any other', async () => {
    const { letIn } = await openPortal()
    const { as } = await letIn()
    const allowed: [string, string, unknown, number][] = [
      ['GET', '/app/a', undefined, 200],
      ['GET', '/app/a/endpoint', undefined, 200],
      ['POST', '/app/a/endpoint', { url: 'https://example.com/2' }, 201],
      ['PATCH', '/app/a/endpoint/one', { description: 'mine' }, 200],
      ['GET', '/app/a/endpoint/one/secret', undefined, 200],
      ['GET', '/event-type', undefined, 200],
      ['GET', '/app', undefined, 403],
      ['PATCH', '/app/a', { name: 'x' }, 403],
      ['DELETE', '/app/a', undefined, 403],
      ['POST', '/app/a/msg', { eventType: 'x', payload: {} }, 403],
      ['POST', '/event-type', { name: 'x', description: '' }, 403],
      ['GET', '/api-key', undefined, 403],
      ['POST', '/auth/app-portal-access/a', {}, 403],
      ['GET', '/app/b', undefined, 404],
      ['GET', '/app/b/endpoint', undefined, 404],
    ]
    for (const [method, path, body, status] of allowed) {
      assert.equal((await as(method, path, body)).status, status, `${method} ${path}`)
    }
  })

  test('asks what it may do, and a refusal says why', async () => {
    const { letIn, ask } = await openPortal()
    const access = async (as: (method: string, path: string) => Promise<Answer>) =>
      (await as('GET', '/auth/access')).json
    const outside = { publish: false, administer: false }
    const all = { manageEndpoints: true, viewSecrets: true, changeSecrets: true, sendAgain: true, ...outside }
    const none = { manageEndpoints: false, viewSecrets: false, changeSecrets: false, sendAgain: false, ...outside }
    const whole = await letIn()
    const { permissions, readOnly, appId } = await access(whole.as)
    assert.deepEqual([permissions, readOnly, appId], [all, false, (await ask('GET', '/app/a')).json.id])
    const looking = await letIn({ readOnly: true })
    const looks = await access(looking.as)
    assert.deepEqual([looks.permissions, looks.readOnly, looks.capabilities], [none, true, ['ViewBase']])
    const some = await letIn({ capabilities: ['ViewBase', 'CreateAttempts'] })
    assert.deepEqual((await access(some.as)).permissions, { ...none, sendAgain: true })
    const { json: key } = await ask('GET', `${api}/auth/access`)
    assert.deepEqual(
      [key.scopes, key.capabilities, key.permissions],
      [['admin'], null, { ...all, publish: true, administer: true }],
    )

    const pause = '/app/a/endpoint/one/pause'
    for (const [refused, detail] of [
      [await looking.as('POST', pause), 'This portal token is read-only.'],
      [await some.as('POST', pause), 'This portal token does not have the capability ManageEndpoint.'],
      [await whole.as('PATCH', '/app/a', { name: 'x' }), 'A portal token may not do that; it takes an API key.'],
    ] as const) {
      assert.deepEqual([refused.status, refused.json.code, refused.json.detail], [403, 'insufficient_access', detail])
    }
    const { json: reader } = await ask('POST', `${api}/api-key`, { name: 'r', scopes: ['read'], app: 'a' })
    const bound = (method: string, path: string) =>
      ask(method, `${api}${path}`, undefined, { authorization: `Bearer ${reader.token}` })
    assert.match((await bound('POST', pause)).json.detail, /it takes a key with the scope admin\.$/)
    assert.match((await bound('GET', '/app')).json.detail, /it is for the application app_\w+ only\.$/)
    assert.equal((await access(bound)).readOnly, true)
  })

  test('that is read-only, or has some capabilities, has no others', async () => {
    const { letIn } = await openPortal()
    const statuses = async (input: Record<string, unknown>) => {
      const { as } = await letIn(input)
      const answers = [
        await as('GET', '/app/a/endpoint/one'),
        await as('GET', '/app/a/endpoint/one/secret'),
        await as('PATCH', '/app/a/endpoint/one', { description: 'x' }),
      ]
      return answers.map(({ status }) => status)
    }
    assert.deepEqual(await statuses({ readOnly: true }), [200, 403, 403])
    assert.deepEqual(await statuses({ capabilities: ['ViewBase', 'ViewEndpointSecret'] }), [200, 200, 403])
    assert.deepEqual(await statuses({ capabilities: ['ViewBase', 'ManageEndpoint'] }), [200, 200, 200])
  })

  test('lasts an hour by default, and a week at most', async () => {
    const { letIn, store, ask } = await openPortal()
    const lifetime = async (input: Record<string, unknown>) => {
      const found = await store.findAppToken(hashApiKey((await letIn(input)).token))
      return found && found.expiresAt - found.createdAt
    }
    assert.equal(await lifetime({}), 3_600_000)
    assert.equal(await lifetime({ expiry: 604_800 }), 604_800_000)
    const answer = await ask('POST', `${api}/auth/app-portal-access/a`, { expiry: 604_801 })
    assert.deepEqual([answer.status, answer.json.detail[0].loc], [422, ['body', 'expiry']])
  })

  test('ends by logging out, and with all of its application or of its session', async () => {
    const { letIn, ask } = await openPortal()
    const [out, first, second] = [await letIn(), await letIn({ sessionId: 's' }), await letIn()]
    const working = async () => {
      const answers = await Promise.all([out, first, second].map(({ as }) => as('GET', '/app/a')))
      return answers.map(({ status }) => status)
    }
    assert.deepEqual(await working(), [200, 200, 200])
    assert.equal((await out.as('POST', '/auth/logout')).status, 204)
    assert.deepEqual(await working(), [401, 200, 200])
    assert.equal((await ask('POST', `${api}/auth/app/a/expire-all`, { sessionIds: ['s'] })).status, 204)
    assert.deepEqual(await working(), [401, 401, 200])
    assert.equal((await ask('POST', `${api}/auth/app/a/expire-all`, {})).status, 204)
    assert.deepEqual(await working(), [401, 401, 401])
    const key = await ask('POST', `${api}/auth/logout`)
    assert.deepEqual([key.status, key.json.code], [403, 'insufficient_access'])
  })

  test('comes with its application when that does not exist yet, and under the older name', async () => {
    const { ask } = await openPortal()
    const made = await ask('POST', `${api}/auth/app-portal-access/new`, { application: { name: 'New' } })
    assert.equal(made.status, 200)
    assert.equal((await ask('GET', '/app/new')).json.name, 'New')
    assert.equal((await ask('POST', `${api}/auth/app-portal-access/none`, {})).status, 404)
    const older = await ask('POST', `${api}/auth/dashboard-access/a`)
    assert.ok(isMade('appsk', older.json.token))
  })
})

describe('the look of a portal', () => {
  const logo = `data:image/png;base64,${Buffer.from('an image').toString('base64')}`

  test('is set by an admin, read by the portal, and replaced as a whole', async () => {
    const { ask, letIn } = await openPortal()
    const { as } = await letIn({ readOnly: true })
    assert.deepEqual((await as('GET', '/app/a/portal')).json, { name: 'a', logo: null, color: null })
    const look = { name: 'Acme Webhooks', logo, color: '#3B5bdb' }
    assert.deepEqual((await ask('PUT', '/app/a/portal', look)).json, look)
    assert.deepEqual((await as('GET', '/app/a/portal')).json, look)
    assert.equal((await as('PUT', '/app/a/portal', look)).status, 403)
    assert.equal((await as('GET', '/app/b/portal')).status, 404)
    assert.deepEqual((await ask('PUT', '/app/a/portal', {})).json, { name: 'a', logo: null, color: null })
  })

  test('takes images and colours alone', async () => {
    const { ask } = await openPortal()
    for (const look of [
      { logo: 'https://example.com/logo.png' },
      { logo: 'javascript:alert(1)' },
      { logo: 'data:text/html;base64,PHNjcmlwdD4=' },
      { logo: 'data:image/svg+xml,<svg onload=alert(1)>' },
      { logo: `${logo}" onerror="alert(1)` },
      { logo: `data:image/png;base64,${'A'.repeat(48 * 1024)}` },
      { color: 'red' },
      { color: '#fff;background:url(//evil)' },
      { name: '' },
    ]) {
      assert.equal((await ask('PUT', '/app/a/portal', look)).status, 422, JSON.stringify(look).slice(0, 60))
    }
  })
})
