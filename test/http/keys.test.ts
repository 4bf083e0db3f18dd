import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isMade } from '../../src/operations/auth.ts'
import { ServerClock } from '../virtual-clock.ts'
import { type Api, openApi } from './api.ts'

const api = '/api/v1'

/** Makes a key and answers what asks with it. */
async function keyFor({ ask }: Api, input: Record<string, unknown>) {
  const made = await ask('POST', `${api}/api-key`, { name: 'k', ...input })
  assert.equal(made.status, 201, made.text)
  const headers = { authorization: `Bearer ${made.json.token}` }
  return {
    out: made.json,
    as: (method: string, path: string, body?: unknown) => ask(method, `${api}${path}`, body, headers),
  }
}

async function withTwoApplications() {
  const opened = await openApi()
  for (const uid of ['a', 'b']) {
    await opened.ask('POST', '/app', { name: uid, uid })
    await opened.ask('POST', `/app/${uid}/endpoint`, { uid: 'one', url: 'https://example.com/' })
  }
  return opened
}

describe('API keys over the API', () => {
  test('are shown once, listed without their text, and revoked for good at once', async () => {
    const opened = await openApi()
    const { ask } = opened
    const { out, as } = await keyFor(opened, { name: 'ci', scopes: ['publish', 'read'], expiresInSeconds: 3600 })
    assert.ok(isMade('sk', out.token))
    const { token, ...shown } = out
    assert.deepEqual([shown.name, shown.scopes, shown.appId, shown.revokedAt], ['ci', ['publish', 'read'], null, null])
    assert.equal(Date.parse(shown.expiresAt) - Date.parse(shown.createdAt), 3_600_000)
    assert.equal((await as('GET', '/app')).status, 200)
    const list = await ask('GET', `${api}/api-key`)
    assert.equal(list.json.data[0].id, shown.id)
    assert.ok(typeof list.json.data[0].lastUsedAt === 'string')
    assert.ok(!list.text.includes(token))

    assert.equal((await ask('DELETE', `${api}/api-key/${shown.id}`)).status, 204)
    assert.deepEqual(
      [(await as('GET', '/app')).status, (await as('GET', '/app')).json.code],
      [401, 'authentication_failed'],
    )
    assert.ok((await ask('GET', `${api}/api-key`)).json.data[0].revokedAt)
    assert.equal((await ask('DELETE', `${api}/api-key/key_unknown`)).status, 404)
  })

  test('stop working within a second of expiring, or of being revoked by another process', async () => {
    const clock = new ServerClock()
    const { store } = await openApi()
    let found = true
    const { app } = await openApi({
      clock,
      store: { ...store, findApiKey: async (hash) => (found ? store.findApiKey(hash) : undefined) },
    })
    const opened = await openApi({ store })
    const { out } = await keyFor(opened, { scopes: ['read'] })
    const status = async () =>
      (await app.inject({ url: `${api}/app`, headers: { authorization: `Bearer ${out.token}` } })).statusCode
    assert.equal(await status(), 200)
    found = false
    await clock.advance(1001)
    assert.equal(await status(), 401)
  })

  test('are refused with every mistake named', async () => {
    const { ask } = await openApi()
    const answer = await ask('POST', `${api}/api-key`, { name: '', scopes: ['root'], expiresInSeconds: 0 })
    assert.equal(answer.status, 422)
    const at = answer.json.detail.map(({ loc }: { loc: string[] }) => loc.slice(0, 2).join('.'))
    assert.deepEqual([...new Set(at)].sort(), ['body.expiresInSeconds', 'body.name', 'body.scopes'])
    assert.equal((await ask('POST', `${api}/api-key`, { name: 'k', scopes: ['read'], app: 'nope' })).status, 404)
  })

  test('permit what their scopes say and nothing else', async () => {
    const opened = await withTwoApplications()
    const message = { eventType: 'x', payload: {} }
    const calls: [string, string, unknown, read: number, publish: number][] = [
      ['GET', '/app', undefined, 200, 403],
      ['GET', '/app/a', undefined, 200, 403],
      ['GET', '/app/a/endpoint/one', undefined, 200, 403],
      ['GET', '/app/a/endpoint/one/secret', undefined, 403, 403],
      ['POST', '/app/a/msg', message, 403, 202],
      ['PATCH', '/app/a/endpoint/one', { description: 'x' }, 403, 403],
      ['POST', '/app', { name: 'x' }, 403, 403],
      ['DELETE', '/app/b', undefined, 403, 403],
      ['GET', '/api-key', undefined, 403, 403],
      ['POST', '/api-key', { name: 'x', scopes: ['admin'] }, 403, 403],
      ['GET', '/audit', undefined, 403, 403],
    ]
    const read = await keyFor(opened, { scopes: ['read'] })
    const publish = await keyFor(opened, { scopes: ['publish'] })
    for (const [method, path, body, forRead, forPublish] of calls) {
      const statuses = [(await read.as(method, path, body)).status, (await publish.as(method, path, body)).status]
      assert.deepEqual(statuses, [forRead, forPublish], `${method} ${path}`)
    }
    const refused = await read.as('POST', '/app', { name: 'x' })
    assert.equal(refused.json.code, 'insufficient_access')
  })

  test('of one application find it by id and uid, and every other exactly as unknown as one that is not', async () => {
    const opened = await withTwoApplications()
    const { as } = await keyFor(opened, { scopes: ['admin'], app: 'a' })
    const { id } = (await as('GET', '/app/a')).json
    const other = (await opened.ask('GET', '/app/b')).json.id
    assert.equal((await as('GET', `/app/${id}`)).status, 200)
    assert.equal((await as('POST', '/app/a/endpoint', { url: 'https://example.com/2' })).status, 201)
    assert.equal((await as('POST', '/app/a/msg', { eventType: 'x', payload: {} })).status, 202)
    for (const [method, path, body] of [
      ['GET', '', undefined],
      ['GET', '/endpoint', undefined],
      ['GET', '/endpoint/one/secret', undefined],
      ['PATCH', '/endpoint/one', { description: 'x' }],
      ['POST', '/msg', { eventType: 'x', payload: {} }],
      ['POST', '/msg', 'not even json'],
      ['DELETE', '', undefined],
    ] as const) {
      const unknown = await as(method, `/app/nope${path}`, body)
      assert.equal(unknown.status, 404)
      for (const ref of ['b', other]) {
        const foreign = await as(method, `/app/${ref}${path}`, body)
        assert.equal(foreign.text.replaceAll(ref, 'nope'), unknown.text)
        assert.deepEqual([foreign.status, Object.keys(foreign.headers)], [404, Object.keys(unknown.headers)])
      }
    }
    // Things of no application are not theirs either.
    for (const path of ['/app', '/api-key', '/audit']) assert.equal((await as('GET', path)).status, 403)
    assert.equal((await as('POST', '/api-key', { name: 'x', scopes: ['admin'] })).status, 403)
  })

  test('end with the application they are bound to', async () => {
    const opened = await withTwoApplications()
    const { as } = await keyFor(opened, { scopes: ['read'], app: 'a' })
    await opened.ask('DELETE', '/app/a')
    assert.equal((await as('GET', '/app/a')).status, 401)
  })
})

describe('wrong keys', () => {
  test('from one address are 401 and then 429 with Retry-After, while right keys there still work', async () => {
    const clock = new ServerClock()
    const { app, ask } = await openApi({ clock })
    const wrong = (remoteAddress: string) =>
      app.inject({ url: `${api}/app`, headers: { authorization: 'Bearer wrong' }, remoteAddress })
    for (let i = 0; i < 20; i++) assert.equal((await wrong('10.0.0.1')).statusCode, 401)
    const limited = await wrong('10.0.0.1')
    assert.deepEqual(
      [limited.statusCode, limited.json().code, limited.headers['retry-after']],
      [429, 'rate_limited', '3'],
    )
    assert.equal((await wrong('10.0.0.2')).statusCode, 401)
    assert.equal((await ask('GET', '/app', undefined)).status, 200)
    const right = await app.inject({
      url: `${api}/app`,
      headers: { authorization: 'Bearer test-key' },
      remoteAddress: '10.0.0.1',
    })
    assert.equal(right.statusCode, 200)
    await clock.advance(3000)
    assert.deepEqual([(await wrong('10.0.0.1')).statusCode, (await wrong('10.0.0.1')).statusCode], [401, 429])
  })

  test('from one IPv6 network count together', async () => {
    const { app } = await openApi({ clock: new ServerClock() })
    const statuses: number[] = []
    for (let i = 0; i < 21; i++) {
      const remoteAddress = `2001:db8:0:1::${i.toString(16)}`
      statuses.push((await app.inject({ url: `${api}/app`, remoteAddress })).statusCode)
    }
    assert.deepEqual([statuses[19], statuses[20]], [401, 429])
    assert.equal((await app.inject({ url: `${api}/app`, remoteAddress: '2001:db8:0:2::1' })).statusCode, 401)
  })
})
