import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { hashApiKey, isMade, makeToken } from '../../src/operations/auth.ts'
import { systemRandomText } from '../../src/runtime/random.ts'
import { type Store, StoreTrouble } from '../../src/store/store.ts'
import { ServerClock } from '../virtual-clock.ts'
import { adminKey, openApi } from './api.ts'

const someKey = {
  key: 1,
  id: 'key_1',
  name: 'k',
  scopes: ['admin'],
  app: null,
  createdAt: 0,
  expiresAt: null,
  revokedAt: null,
}

describe('an API key', () => {
  test('has a prefix, 30 random characters and a checksum that finds every single typo', () => {
    const key = makeToken('sk', systemRandomText)
    assert.match(key, /^sk_[0-9A-Za-z]{36}$/)
    assert.ok(isMade('sk', key))
    for (let i = 3; i < key.length; i++) {
      const typo = `${key.slice(0, i)}${key[i] === 'x' ? 'y' : 'x'}${key.slice(i + 1)}`
      assert.ok(!isMade('sk', typo), typo)
    }
    assert.notEqual(makeToken('sk', systemRandomText), key)
  })

  const refused: [string, string | undefined][] = [
    ['missing', undefined],
    ['empty', ''],
    ['of another scheme', `Basic ${adminKey}`],
    ['without a scheme', adminKey],
    ['wrong', 'Bearer wrong'],
    ['well-formed but unknown', `Bearer ${makeToken('sk', systemRandomText)}`],
    ['nearly right', `Bearer ${adminKey}x`],
    ['of 10 KB', `Bearer ${'x'.repeat(10_000)}`],
  ]
  for (const [name, header] of refused) {
    test(`${name} is 401 with a challenge, on every route but health`, async () => {
      const { app } = await openApi()
      const headers = header === undefined ? {} : { authorization: header }
      for (const url of ['/api/v1/app', '/api/v1/app/a/endpoint', '/api/v1/app/a/msg/m']) {
        const answer = await app.inject({ url, headers })
        assert.equal(answer.statusCode, 401)
        assert.equal(answer.headers['www-authenticate'], 'Bearer realm="sluice"')
        assert.equal(answer.json().code, 'authentication_failed')
      }
      const publish = await app.inject({ method: 'POST', url: '/api/v1/app/a/msg', headers, payload: 'not even json' })
      assert.equal(publish.statusCode, 401)
      assert.equal((await app.inject({ url: '/api/v1/health', headers })).statusCode, 200)
    })
  }

  test('in the store is admitted, asked for once and believed for one second', async () => {
    const clock = new ServerClock()
    const key = makeToken('sk', systemRandomText)
    let asked = 0
    let known = true
    const { store } = await openApi()
    const watched: Store = {
      ...store,
      findApiKey: async (hash) => {
        asked++
        return known && Buffer.from(hash).equals(hashApiKey(key)) ? { ...someKey, lastUsedAt: clock.now() } : undefined
      },
    }
    const { app } = await openApi({ store: watched, clock, adminKey: null })
    const status = async () =>
      (await app.inject({ url: '/api/v1/app', headers: { authorization: `bearer ${key}` } })).statusCode
    assert.deepEqual([await status(), await status(), asked], [200, 200, 1])
    known = false
    await clock.advance(999)
    assert.deepEqual([await status(), asked], [200, 1])
    await clock.advance(2)
    assert.deepEqual([await status(), await status(), asked], [401, 401, 2])
    known = true
    await clock.advance(1001)
    assert.deepEqual([await status(), asked], [200, 3])
  })

  test('is kept in a real store only as its hash', async () => {
    const { app, store } = await openApi({ adminKey: null })
    const key = makeToken('sk', systemRandomText)
    await store.createApiKey({ name: 'admin', hash: hashApiKey(key), scopes: ['admin'] })
    const answer = await app.inject({ url: '/api/v1/app', headers: { authorization: `Bearer ${key}` } })
    assert.equal(answer.statusCode, 200)
  })
})

describe('a store in trouble', () => {
  /** The API over a store that fails from now on, in the named ways. */
  async function inTrouble(error: Error) {
    const { store, ask } = await openApi()
    await ask('POST', '/app', { name: 'A', uid: 'a' })
    const fail = async () => {
      throw error
    }
    return openApi({ store: { ...store, findApplication: fail, listApplications: fail, ping: fail, findApiKey: fail } })
  }

  test('is 503 with Retry-After on every route, and unhealthy', async () => {
    const { ask, app, bugs } = await inTrouble(new StoreTrouble('disk full'))
    const published = await ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
    const unknownKey = { authorization: `Bearer ${makeToken('sk', systemRandomText)}` }
    for (const answer of [published, await ask('GET', '/app'), await ask('GET', '/app', undefined, unknownKey)]) {
      assert.deepEqual([answer.status, answer.json.code, answer.headers['retry-after']], [503, 'unavailable', '2'])
      assert.doesNotMatch(answer.text, /disk full/)
    }
    const health = await app.inject('/api/v1/health')
    assert.deepEqual([health.statusCode, health.json().database.status], [503, 'unhealthy'])
    assert.deepEqual([(await app.inject('/readyz')).statusCode, (await app.inject('/healthz')).statusCode], [503, 503])
    for (const live of ['/api/v1/health/ping', '/livez']) assert.equal((await app.inject(live)).statusCode, 204)
    assert.deepEqual(bugs, [])
  })

  test('of an unexpected kind is 500, shows the caller nothing and the log everything', async () => {
    const bug = new TypeError('secret detail')
    const { ask, bugs } = await inTrouble(bug)
    const answer = await ask('GET', '/app')
    assert.deepEqual([answer.status, answer.json.code], [500, 'internal'])
    assert.doesNotMatch(answer.text, /secret detail/)
    assert.deepEqual(bugs, [bug])
  })
})

describe('health', () => {
  test('answers GET and HEAD, without a key', async () => {
    const { app } = await openApi()
    const health = await app.inject('/api/v1/health')
    const healthy = { status: 'healthy' }
    assert.deepEqual([health.statusCode, health.json()], [200, { database: healthy, queue: healthy, cache: healthy }])
    for (const url of ['/readyz', '/healthz']) assert.deepEqual((await app.inject(url)).json(), health.json())
    const statuses = []
    for (const [method, url] of [
      ['HEAD', '/health'],
      ['GET', '/health/ping'],
      ['HEAD', '/health/ping/'],
    ] as const) {
      statuses.push((await app.inject({ method, url: `/api/v1${url}` })).statusCode)
    }
    assert.deepEqual(statuses, [200, 204, 204])
  })
})
