import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { HttpDeps } from '../../src/http/app.ts'
import { hashApiKey, makeToken } from '../../src/operations/auth.ts'
import { systemRandomText } from '../../src/runtime/random.ts'
import { ServerClock } from '../virtual-clock.ts'
import { type Answer, adminKey, openApi } from './api.ts'

const api = '/api/v1'
const browser = { host: 'sluice.test:8484', 'user-agent': 'Browser/1 \u00e9', 'sec-fetch-site': 'same-origin' }

/** An API that a browser talks to. `signIn` answers how that browser asks afterwards: with its cookie alone. */
async function open(overrides: Partial<HttpDeps> = {}) {
  const opened = await openApi(overrides)
  const { app, ask } = opened
  /** Sends headers as they are, without the admin key. */
  const send = async (method: string, path: string, headers: Record<string, string>, body?: unknown) => {
    const response = await app.inject({
      method: method as 'GET',
      url: `${api}${path}`,
      headers: present({ ...browser, ...(body !== undefined && { 'content-type': 'application/json' }), ...headers }),
      ...(body !== undefined && { payload: JSON.stringify(body) }),
    })
    const isJson = String(response.headers['content-type']).includes('json')
    const json = isJson && response.payload !== '' ? response.json() : undefined
    return { status: response.statusCode, headers: response.headers, text: response.payload, json }
  }
  const keyWith = async (fields: Record<string, unknown>): Promise<{ id: string; token: string }> => {
    const made = await ask('POST', `${api}/api-key`, { name: 'k', ...fields })
    assert.equal(made.status, 201, made.text)
    return made.json
  }
  const signIn = async (credential: string, headers: Record<string, string> = {}) => {
    const answer = await send('POST', '/session', { authorization: `Bearer ${credential}`, ...headers })
    assert.equal(answer.status, 201, answer.text)
    return { answer, ...(await sessionOf(answer, headers)) }
  }
  const sessionOf = async (answer: Answer, headers: Record<string, string> = {}) => {
    const setCookie = String(answer.headers['set-cookie'])
    const [cookie = ''] = setCookie.split(';')
    const { csrfToken, sessionId, kind } = answer.json
    const own = { ...headers, cookie, ...(kind === 'portal' && { 'sluice-session': 'portal' }) }
    const as = (method: string, path: string, body?: unknown, more: Record<string, string> = {}) =>
      send(method, path, { ...own, ...(method !== 'GET' && { 'x-sluice-token': csrfToken }), ...more }, body)
    return { setCookie, cookie, csrfToken, sessionId, as }
  }
  return { ...opened, send, keyWith, signIn }
}

describe('a session', () => {
  test('starts with a key and works by its cookie alone, which no script can read', async () => {
    const { keyWith, signIn, send, ask } = await open()
    const { id, token } = await keyWith({ name: 'ops', scopes: ['admin'] })
    const { answer, setCookie, cookie, as, sessionId } = await signIn(token)
    assert.match(setCookie, /^sluice-dashboard-8484=websess_\w{36}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/)
    assert.ok(!answer.text.includes(cookie.split('=')[1] ?? assert.fail()))
    assert.deepEqual(answer.json.access.permissions, {
      manageEndpoints: true,
      viewSecrets: true,
      changeSecrets: true,
      sendAgain: true,
      publish: true,
      administer: true,
    })
    const current = await as('GET', '/session')
    assert.deepEqual(current.json.session, answer.json)
    assert.deepEqual([answer.json.access.id, answer.json.name, answer.json.kind], [id, 'ops', 'dashboard'])
    assert.equal((await as('POST', '/app', { name: 'A', uid: 'a' })).status, 201)
    assert.equal((await as('GET', '/app/a')).status, 200)
    const { json } = await ask('GET', `${api}/audit?limit=1`)
    assert.deepEqual([json.data[0].actor, json.data[0].action], [id, 'POST /app'])

    const list = await as('GET', '/auth/session')
    const [listed] = list.json.data
    assert.deepEqual(
      [listed.id, listed.keyId, listed.name, listed.userAgent, listed.current, listed.kind],
      [sessionId, id, 'ops', 'Browser/1 ', true, 'dashboard'],
    )
    assert.equal((await send('GET', '/session', {})).json.session, null)
  })

  test('has the scope of its key, application included', async () => {
    const { keyWith, signIn, ask, send } = await open()
    for (const uid of ['a', 'b']) await ask('POST', '/app', { name: uid, uid })
    const reader = await signIn((await keyWith({ scopes: ['read'] })).token)
    assert.equal((await reader.as('GET', '/app')).status, 200)
    assert.equal((await reader.as('POST', '/app', { name: 'x' })).json.code, 'insufficient_access')
    assert.equal(reader.answer.json.access.readOnly, true)
    assert.deepEqual(new Set(Object.values(reader.answer.json.access.permissions)), new Set([false]))
    const ofA = await signIn((await keyWith({ scopes: ['admin'], app: 'a' })).token)
    assert.equal((await ofA.as('GET', '/app/a')).status, 200)
    assert.equal((await ofA.as('GET', '/app/b')).status, 404)
    assert.equal((await ofA.as('GET', '/app')).status, 403)
    assert.equal(ofA.answer.json.access.permissions.administer, false)
    const publisher = await keyWith({ scopes: ['publish'] })
    const refused = await send('POST', '/session', { authorization: `Bearer ${publisher.token}` })
    assert.equal(refused.status, 403)
  })

  test('ends with its key, when it is signed out, and when its time is over', async () => {
    const clock = new ServerClock()
    const { keyWith, signIn, ask, send } = await open({ clock })
    const key = await keyWith({ scopes: ['admin'] })
    const ofKey = await signIn(key.token)
    const fixed = await signIn(adminKey)
    assert.equal((await ofKey.as('GET', '/app')).status, 200)
    assert.equal((await ask('DELETE', `${api}/api-key/${key.id}`)).status, 204)
    const ended = await ofKey.as('GET', '/app')
    assert.deepEqual([ended.status, ended.json.detail], [401, 'The session has ended. Sign in again.'])
    // The page asks who it is, and the browser drops the cookie.
    const asked = await ofKey.as('GET', '/session')
    assert.equal(asked.json.session, null)
    assert.match(String(asked.headers['set-cookie']), /^sluice-dashboard-8484=; Path=\/; Max-Age=0; HttpOnly/)

    assert.equal((await fixed.as('GET', '/app')).status, 200)
    const out = await fixed.as('DELETE', '/session')
    assert.equal(out.status, 204)
    assert.match(String(out.headers['set-cookie']), /Max-Age=0/)
    assert.equal((await fixed.as('GET', '/app')).status, 401)
    assert.equal((await send('DELETE', '/session', { authorization: `Bearer ${adminKey}` })).status, 403)
  })

  test('of the admin key of the settings ends when that key changes', async () => {
    const first = await open({ adminKey: 'first-admin-key' })
    const { cookie, as } = await first.signIn('first-admin-key')
    assert.equal((await as('GET', '/app')).status, 200)
    const second = await open({ adminKey: 'second-admin-key', store: first.store })
    assert.equal((await second.send('GET', '/app', { cookie })).status, 401)
    const none = await open({ adminKey: null, store: first.store })
    assert.equal((await none.send('GET', '/app', { cookie })).status, 401)
  })

  test('is listed and ended by its owner, and by an admin', async () => {
    const { keyWith, signIn } = await open()
    const mine = (await keyWith({ scopes: ['read'] })).token
    const [one, two] = [await signIn(mine), await signIn(mine)]
    const other = await signIn((await keyWith({ scopes: ['read'] })).token)
    const boss = await signIn(adminKey)
    const ids = async ({ as }: typeof one) =>
      (await as('GET', '/auth/session')).json.data.map(({ id }: { id: string }) => id)
    assert.deepEqual(await ids(one), [two.sessionId, one.sessionId])
    assert.deepEqual(
      await ids(boss),
      [boss, other, two, one].map(({ sessionId }) => sessionId),
    )
    assert.equal((await other.as('DELETE', `/auth/session/${one.sessionId}`)).status, 404)
    assert.equal((await two.as('DELETE', `/auth/session/${one.sessionId}`)).status, 204)
    assert.equal((await one.as('GET', '/app')).status, 401)
    assert.equal((await boss.as('POST', '/auth/session/end-all')).status, 204)
    assert.deepEqual(
      await Promise.all([two, other, boss].map(async ({ as }) => (await as('GET', '/app')).status)),
      [401, 401, 200],
    )
  })

  test('over https has a cookie that no other host can set or read', async () => {
    const { signIn, send } = await open({ publicUrl: 'https://hooks.example.com' })
    const { setCookie, cookie, as } = await signIn(adminKey, { host: 'hooks.example.com' })
    assert.match(setCookie, /^__Host-sluice-dashboard=\w+; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict; Secure$/)
    assert.equal((await as('GET', '/app')).status, 200)
    // A subdomain can set a cookie for the whole domain, but not under this name.
    const tossed = cookie.replace('__Host-sluice-dashboard', 'sluice-dashboard-80')
    assert.equal((await send('GET', '/app', { host: 'hooks.example.com', cookie: tossed })).status, 401)
    // Without publicUrl, the page says that a proxy ends TLS.
    const behind = await open()
    const proxied = await behind.signIn(adminKey, { host: 'x.example', origin: 'https://x.example' })
    assert.match(proxied.setCookie, /^__Host-sluice-dashboard=.*; Secure$/)
    assert.equal((await proxied.as('GET', '/app')).status, 200)
  })
})

describe('a forged request', () => {
  const forged: [string, Record<string, string>][] = [
    ['without the token', { 'x-sluice-token': '' }],
    ['with the token of another session', { 'x-sluice-token': 'x'.repeat(43) }],
    ['of another site', { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }],
    ['of another port of the host', { 'sec-fetch-site': 'same-site', origin: 'http://sluice.test:9' }],
    ['of an old browser', { 'sec-fetch-site': '', origin: 'https://evil.example' }],
    ['of a sandboxed frame', { 'sec-fetch-site': '', origin: 'null' }],
  ]
  for (const [name, headers] of forged) {
    test(`${name} changes nothing`, async () => {
      const { signIn, ask } = await open()
      const { as } = await signIn(adminKey)
      const answer = await as('POST', '/app', { name: 'forged' }, headers)
      assert.deepEqual([answer.status, answer.json.code], [403, 'forgery_suspected'], answer.text)
      assert.deepEqual((await ask('GET', '/app')).json.data, [])
    })
  }

  test('to read is refused, too, and no answer permits another origin to read under a cookie', async () => {
    const { signIn } = await open()
    const { as } = await signIn(adminKey)
    for (const path of ['/app', '/session']) {
      const answer = await as('GET', path, undefined, { 'sec-fetch-site': 'same-site', origin: 'http://sluice.test:9' })
      assert.equal(answer.status, 403)
      assert.equal(answer.headers['access-control-allow-credentials'], undefined)
    }
  })

  test('cannot sign a browser in, or carry a key in the cookie or a session in the header', async () => {
    const { send, signIn, keyWith } = await open()
    const foreign = { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }
    const refused = await send('POST', '/session', { authorization: `Bearer ${adminKey}`, ...foreign })
    assert.deepEqual([refused.status, refused.headers['set-cookie']], [403, undefined])
    const { token } = await keyWith({ scopes: ['admin'] })
    const { cookie } = await signIn(token)
    const [name, value] = cookie.split('=')
    assert.equal((await send('GET', '/app', { authorization: `Bearer ${value}` })).status, 401)
    for (const text of [token, adminKey]) {
      assert.equal((await send('GET', '/app', { cookie: `${name}=${text}` })).status, 401)
    }
  })

  test('of a proxy that names another host is recognized by publicUrl', async () => {
    const headers = { host: 'upstream:80', origin: 'https://hooks.example.com', 'sec-fetch-site': '' }
    const { signIn } = await open({ publicUrl: 'https://hooks.example.com' })
    const { as } = await signIn(adminKey, headers)
    assert.equal((await as('POST', '/app', { name: 'A' })).status, 201)
  })
})

describe('signing in', () => {
  test('gives a fresh token each time, ends the session before, and takes none from the browser', async () => {
    const { signIn, send, store } = await open()
    const planted = makeToken('websess', systemRandomText)
    const first = await signIn(adminKey, { cookie: `sluice-dashboard-8484=${planted}` })
    assert.ok(!first.cookie.includes(planted))
    assert.equal(await store.findWebSession(hashApiKey(planted)), undefined)
    const second = await signIn(adminKey, { cookie: first.cookie })
    assert.notEqual(second.cookie, first.cookie)
    assert.equal((await send('GET', '/app', { cookie: first.cookie })).status, 401)
    assert.equal((await send('GET', '/app', { cookie: second.cookie })).status, 200)
  })

  test('is limited per address, and so is guessing sessions', async () => {
    const { send } = await open({ clock: new ServerClock() })
    const statuses: number[] = []
    for (let n = 0; n < 12; n++) {
      statuses.push((await send('POST', '/session', { authorization: 'Bearer sk_wrong' })).status)
      const guess = `sluice-dashboard-8484=${makeToken('websess', systemRandomText)}`
      statuses.push((await send('GET', n % 2 === 0 ? '/app' : '/session', { cookie: guess })).status)
    }
    assert.equal(statuses.at(-1), 429)
    assert.ok(statuses.slice(0, 20).every((status) => status !== 429))
  })

  test('huge, odd and repeated cookies do no harm', async () => {
    const { signIn, send, bugs } = await open()
    const { cookie } = await signIn(adminKey)
    const cookies = [
      `${'a=b; '.repeat(2000)}${cookie}`,
      `x=${'y'.repeat(12_000)}; ${cookie}`,
      `;;;=;${cookie};`,
      `sluice-dashboard-84=1;${cookie}`,
    ]
    for (const each of cookies)
      assert.equal((await send('GET', '/app', { cookie: each })).status, 200, each.slice(0, 40))
    for (const each of [`${cookie}x`, 'sluice-dashboard-8484', `sluice-dashboard-8484=${'z'.repeat(9000)}`, '=']) {
      assert.equal((await send('GET', '/app', { cookie: each })).status, 401, each.slice(0, 40))
    }
    assert.deepEqual(bugs, [])
  })

  test('a sign-in link works once, for one caller, and for nothing but signing in', async () => {
    const { keyWith, send, signIn, ask } = await open()
    const key = await keyWith({ name: 'ops', scopes: ['read'] })
    const made = await send('POST', '/auth/sign-in-link', { authorization: `Bearer ${key.token}` })
    assert.equal(made.status, 200, made.text)
    const link = new URL(made.json.url)
    const [, token = ''] = /^#signin=(signin_\w{36})$/.exec(link.hash) ?? []
    assert.deepEqual([link.host, link.pathname, link.search], [browser.host, '/', ''])
    const authorization = `Bearer ${token}`
    assert.equal((await send('GET', '/app', { authorization })).status, 403)
    assert.equal((await send('GET', '/session', { authorization })).json.session, null)
    const tries = await Promise.all(Array.from({ length: 5 }, () => send('POST', '/session', { authorization })))
    assert.deepEqual(tries.map(({ status }) => status).sort(), [201, 401, 401, 401, 401])
    assert.equal((await send('POST', '/session', { authorization })).status, 401)
    const signedIn = tries.find(({ status }) => status === 201) ?? assert.fail()
    assert.deepEqual([signedIn.json.access.id, signedIn.json.access.readOnly], [key.id, true])
    const audit = await ask('GET', `${api}/audit`)
    assert.ok(!audit.text.includes(token))

    const { as } = await signIn(adminKey)
    assert.equal((await as('POST', '/auth/sign-in-link')).status, 403, 'a session cannot prolong itself')
    assert.equal((await as('POST', '/session')).status, 403)
  })
})

describe('a portal session', () => {
  test('starts with a portal token, beside the session of the dashboard', async () => {
    const { ask, signIn, send } = await open()
    for (const uid of ['a', 'b']) await ask('POST', '/app', { name: uid, uid })
    await ask('POST', '/app/a/endpoint', { uid: 'one', url: 'https://example.com/' })
    const { token } = (await ask('POST', `${api}/auth/app-portal-access/a`, { readOnly: true })).json
    const operator = await signIn(adminKey)
    const customer = await signIn(token, { cookie: operator.cookie })
    assert.match(
      customer.setCookie,
      /^sluice-portal-8484=websess_\w{36}; Path=\/; Max-Age=3(600|59\d); HttpOnly; SameSite=Strict$/,
    )
    assert.equal(customer.answer.json.access.readOnly, true)
    const both = { cookie: `${operator.cookie}; ${customer.cookie}` }
    const portal = { ...both, 'sluice-session': 'portal' }
    assert.equal((await send('GET', '/app/a/endpoint', portal)).status, 200)
    assert.equal((await send('GET', '/app/b/endpoint', portal)).status, 404)
    assert.equal((await send('GET', '/session', portal)).json.session.kind, 'portal')
    assert.equal((await send('GET', '/session?session=portal', both)).json.session.kind, 'portal')
    assert.equal((await send('GET', '/session', both)).json.session.kind, 'dashboard')
    const change = await customer.as('PATCH', '/app/a/endpoint/one', { description: 'x' })
    assert.deepEqual([change.status, change.json.detail], [403, 'This portal token is read-only.'])

    assert.equal((await ask('POST', `${api}/auth/app/a/expire-all`, {})).status, 204)
    assert.equal((await send('GET', '/app/a/endpoint', portal)).status, 401)
    assert.equal((await send('GET', '/app', both)).status, 200)
  })
})

/** A header without a value is left out. */
function present(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ''))
}
