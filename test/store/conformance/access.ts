import assert from 'node:assert/strict'
import { test } from 'node:test'
import { begin, type Open } from './harness.ts'

const hashOf = (byte: number) => new Uint8Array(32).fill(byte)

export function access(open: Open): void {
  test('an API key is found by its hash, with everything but the hash', async (t) => {
    const { store } = await begin(t, open)
    const made = await store.createApiKey({ name: 'first', hash: hashOf(7), scopes: ['read', 'publish'] })
    assert.match(made.id, /^key_/)
    const { key: _key, id: _id, createdAt: _createdAt, ...rest } = made
    const blank = { app: null, expiresAt: null, lastUsedAt: null, revokedAt: null }
    assert.deepEqual(rest, { name: 'first', scopes: ['read', 'publish'], ...blank })
    assert.deepEqual(await store.findApiKey(hashOf(7)), made)
    assert.equal(await store.findApiKey(hashOf(0)), undefined)
    await assert.rejects(store.createApiKey({ name: 'second', hash: hashOf(7), scopes: [] }))
  })

  test('admin keys that work are counted, so that there is always one', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    await store.createApiKey({ name: 'k', hash: hashOf(1), scopes: ['read', 'publish'] })
    await store.createApiKey({ name: 'k', hash: hashOf(2), scopes: ['admin'], app: app.key })
    await store.createApiKey({ name: 'k', hash: hashOf(3), scopes: ['admin'], expiresInMs: 20 })
    const last = await store.createApiKey({ name: 'k', hash: hashOf(4), scopes: ['read', 'admin'] })
    await world.pass(25)
    assert.equal(await store.countAdminKeys(), 1)
    await store.revokeApiKey(last.id)
    assert.equal(await store.countAdminKeys(), 0)
  })

  test('an API key stops working when it expires, and not before', async (t) => {
    const world = await begin(t, open)
    const long = await world.store.createApiKey({ name: 'k', hash: hashOf(2), scopes: ['read'], expiresInMs: 60_000 })
    const short = await world.store.createApiKey({ name: 'k', hash: hashOf(1), scopes: ['read'], expiresInMs: 20 })
    assert.equal(long.expiresAt, long.createdAt + 60_000)
    assert.equal(short.expiresAt, short.createdAt + 20)
    await world.pass(25)
    assert.equal(await world.store.findApiKey(hashOf(1)), undefined)
    assert.deepEqual(await world.store.findApiKey(hashOf(2)), long)
  })

  test('a revoked API key is found no more, stays in the list, and is revoked once', async (t) => {
    const world = await begin(t, open)
    const made = await world.store.createApiKey({ name: 'k', hash: hashOf(1), scopes: ['admin'] })
    const revoked = await world.store.revokeApiKey(made.id)
    assert(revoked?.revokedAt)
    assert.deepEqual(revoked, { ...made, revokedAt: revoked.revokedAt })
    assert.equal(await world.store.findApiKey(hashOf(1)), undefined)
    assert.ok(await world.store.knowsApiKey(hashOf(1)))
    assert.ok(!(await world.store.knowsApiKey(hashOf(2))))
    await world.pass(5)
    assert.deepEqual(await world.store.revokeApiKey(made.id), revoked)
    const page = await world.store.listApiKeys({ limit: 10, order: 'ascending', after: null })
    assert.deepEqual(page, { items: [revoked], done: true })
    const guess = made.id.slice(0, -1) + (made.id.endsWith('0') ? '1' : '0')
    assert.equal(await world.store.revokeApiKey(guess), undefined)
    assert.equal(await world.store.revokeApiKey('nonsense'), undefined)
  })

  test('pages of API keys visit each once, in both orders', async (t) => {
    const { store } = await begin(t, open)
    const ids: string[] = []
    for (let i = 0; i < 3; i++) ids.push((await store.createApiKey({ name: 'k', hash: hashOf(i), scopes: [] })).id)
    for (const order of ['ascending', 'descending'] as const) {
      const first = await store.listApiKeys({ limit: 2, order, after: null })
      const second = await store.listApiKeys({ limit: 2, order, after: first.items[1]?.key ?? null })
      assert.deepEqual([first.done, second.done], [false, true])
      const seen = [...first.items, ...second.items].map(({ id }) => id)
      assert.deepEqual(seen, order === 'ascending' ? ids : ids.toReversed())
    }
  })

  test('an API key of one application knows it by id and uid', async (t) => {
    const world = await begin(t, open)
    const app = await world.application('acme')
    await world.store.createApiKey({ name: 'k', hash: hashOf(1), scopes: ['read'], app: app.key })
    const found = await world.store.findApiKey(hashOf(1))
    assert.deepEqual(found?.app, { key: app.key, id: app.id, uid: 'acme' })
    // Of an application that is not there it is worth nothing.
    await world.store.createApiKey({ name: 'k', hash: hashOf(2), scopes: ['read'], app: 12345 })
    assert.equal(await world.store.findApiKey(hashOf(2)), undefined)
  })

  test("an API key's use is noted, at most once a minute", async (t) => {
    const world = await begin(t, open)
    const { key } = await world.store.createApiKey({ name: 'k', hash: hashOf(1), scopes: ['read'] })
    await world.store.noteApiKeyUse(key)
    const first = (await world.store.findApiKey(hashOf(1)))?.lastUsedAt
    assert(typeof first === 'number')
    await world.pass(5)
    await world.store.noteApiKeyUse(key)
    assert.equal((await world.store.findApiKey(hashOf(1)))?.lastUsedAt, first)
    await world.harness.sql('update api_key set last_used_at = last_used_at - 60001')
    await world.store.noteApiKeyUse(key)
    assert(((await world.store.findApiKey(hashOf(1)))?.lastUsedAt ?? 0) >= first)
  })

  test('an application token works until it expires', async (t) => {
    const world = await begin(t, open)
    const app = await world.application('acme')
    const input = { app: app.key, capabilities: ['ViewBase'], featureFlags: ['beta'], sessionId: 's', expiresInMs: 20 }
    const made = await world.store.createAppToken({ ...input, hash: hashOf(1) })
    assert.equal(made.expiresAt, made.createdAt + 20)
    assert.deepEqual([made.capabilities, made.featureFlags, made.sessionId], [['ViewBase'], ['beta'], 's'])
    assert.deepEqual(made.app, { key: app.key, id: app.id, uid: 'acme' })
    const longer = await world.store.createAppToken({ ...input, hash: hashOf(2), expiresInMs: 60_000 })
    await world.pass(25)
    assert.equal(await world.store.findAppToken(hashOf(1)), undefined)
    assert.deepEqual(await world.store.findAppToken(hashOf(2)), longer)
    assert.equal(await world.store.findApiKey(hashOf(2)), undefined)
  })

  test('an application token ends with the key that made it', async (t) => {
    const world = await begin(t, open)
    const app = await world.application('acme')
    const key = (byte: number, expiresInMs: number | null) =>
      world.store.createApiKey({ name: 'k', hash: hashOf(byte), scopes: ['admin'], expiresInMs })
    const [revoked, expired, kept] = [await key(1, null), await key(2, 20), await key(3, null)]
    const makers = [revoked.key, expired.key, kept.key, null]
    for (const [i, madeBy] of makers.entries()) {
      const token = { app: app.key, hash: hashOf(10 + i), capabilities: [], sessionId: null, expiresInMs: 60_000 }
      await world.store.createAppToken({ ...token, madeBy })
    }
    await world.store.revokeApiKey(revoked.id)
    await world.pass(25)
    const found = await Promise.all(makers.map((_, i) => world.store.findAppToken(hashOf(10 + i))))
    assert.deepEqual(
      found.map((token) => token !== undefined),
      [false, false, true, true],
    )
  })

  test('an application token made while its application is deleted never works', async (t) => {
    const world = await begin(t, open)
    const app = await world.application('acme')
    await world.store.deleteApplication(app.key)
    const token = { app: app.key, hash: hashOf(1), capabilities: [], sessionId: null, expiresInMs: 60_000 }
    await world.store.createAppToken(token)
    assert.equal(await world.store.findAppToken(token.hash), undefined)
  })

  test("an application's tokens are expired together, by session, or one by one", async (t) => {
    const world = await begin(t, open)
    const [app, other] = [await world.application(), await world.application()]
    const make = (of: { key: number }, byte: number, sessionId: string | null) =>
      world.store.createAppToken({ app: of.key, hash: hashOf(byte), capabilities: [], sessionId, expiresInMs: 60_000 })
    const ended = await make(app, 1, null)
    await make(app, 2, 'a')
    await make(app, 3, 'b')
    await make(app, 4, null)
    await make(other, 5, 'a')
    const working = async () => {
      const found = await Promise.all([1, 2, 3, 4, 5].map((byte) => world.store.findAppToken(hashOf(byte))))
      return found.flatMap((token, i) => (token ? [i + 1] : []))
    }
    await world.store.endAppToken(ended.key)
    assert.deepEqual(await working(), [2, 3, 4, 5])
    assert.equal(await world.store.expireAppTokens(app.key, ['a', 'x'], 0), 1)
    assert.deepEqual(await working(), [3, 4, 5])
    assert.equal(await world.store.expireAppTokens(app.key, null, 30_000), 2)
    assert.deepEqual(await working(), [3, 4, 5])
    assert.equal(await world.store.expireAppTokens(app.key, null, 0), 2)
    assert.deepEqual(await working(), [5])
  })
}
