import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sessionsPerOwner } from '../../../src/features/access/store.ts'
import { begin, type Open } from './harness.ts'

const hashOf = (byte: number) => new Uint8Array(32).fill(byte)
const numbered = (n: number) => new Uint8Array(new Uint32Array([n, 1, 2, 3, 4, 5, 6, 7]).buffer)
const all = { limit: 250, order: 'ascending', after: null } as const
const browser = { userAgent: 'Browser/1', address: '10.0.0.1' }
const minute = 60_000

export function webSessions(open: Open): void {
  test('a session is found with its key, listed for its owner, and ended', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const apiKey = await store.createApiKey({ name: 'ops', hash: hashOf(1), scopes: ['read'], app: app.key })
    const owner = { apiKey: apiKey.key }
    const made = await store.createWebSession({ hash: hashOf(9), owner, expiresInMs: minute, ...browser })
    assert.match(made.id, /^sess_/)
    const { key: _key, id: _id, createdAt, expiresAt, ...rest } = made
    assert.equal(expiresAt - createdAt, minute)
    const named = { kind: 'dashboard', ownerId: apiKey.id, ownerName: 'ops', appId: app.id, lastUsedAt: null }
    assert.deepEqual({ ...rest }, { ...named, ...browser })
    assert.deepEqual(await store.findWebSession(hashOf(9)), { session: made, owner: { apiKey } })
    assert.equal(await store.findWebSession(hashOf(1)), undefined)
    assert.equal(await store.findSignInLink(hashOf(9)), undefined)

    const other = { adminHash: hashOf(7) }
    const second = await store.createWebSession({ hash: hashOf(8), owner: other, expiresInMs: minute, ...browser })
    assert.deepEqual([second.ownerId, second.ownerName, second.appId], [null, null, null])
    const { owner: found } = (await store.findWebSession(hashOf(8))) ?? assert.fail('the session is found')
    assert.ok('adminHash' in found && Buffer.compare(found.adminHash, hashOf(7)) === 0)
    assert.deepEqual((await store.listWebSessions(all, null)).items, [made, second])
    assert.deepEqual((await store.listWebSessions({ ...all, order: 'descending' }, null)).items, [second, made])
    assert.deepEqual((await store.listWebSessions(all, owner)).items, [made])
    assert.deepEqual((await store.listWebSessions(all, other)).items, [second])

    assert.equal(await store.endWebSession(made.id, other), false, 'another owner cannot end it')
    assert.equal(await store.endWebSession('sess_nonsense', null), false)
    const guess = made.id.slice(0, -1) + (made.id.endsWith('0') ? '1' : '0')
    assert.equal(await store.endWebSession(guess, null), false)
    assert.equal(await store.endWebSession(made.id, owner), true)
    assert.equal(await store.endWebSession(made.id, owner), false)
    assert.equal(await store.findWebSession(hashOf(9)), undefined)
  })

  test('a session ends when its time is over, and its use is noted once a minute', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const owner = { adminHash: hashOf(7) }
    const made = await store.createWebSession({ hash: hashOf(2), owner, expiresInMs: minute, ...browser })
    await store.noteWebSessionUse(made.key)
    const noted = (await store.findWebSession(hashOf(2)))?.session.lastUsedAt
    assert.ok(noted)
    await world.pass(2)
    await store.noteWebSessionUse(made.key)
    const session = { ...made, lastUsedAt: noted }
    assert.deepEqual((await store.findWebSession(hashOf(2)))?.session, session)
    await store.createWebSession({ hash: hashOf(1), owner, expiresInMs: 20, ...browser })
    await world.pass(25)
    assert.equal(await store.findWebSession(hashOf(1)), undefined)
    assert.deepEqual((await store.listWebSessions(all, null)).items, [session])
  })

  test('a session ends with its key, and with its application token', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const token = { app: app.key, capabilities: ['ViewBase'], sessionId: 's' }
    const sessionOf = async (byte: number, owner: { apiKey: number } | { appToken: number }) =>
      store.createWebSession({ hash: hashOf(byte), owner, expiresInMs: minute, ...browser })
    const works = async (byte: number) => (await store.findWebSession(hashOf(byte))) !== undefined

    const revoked = await store.createApiKey({ name: 'k', hash: hashOf(1), scopes: ['admin'] })
    await sessionOf(11, { apiKey: revoked.key })
    const short = await store.createApiKey({ name: 'k', hash: hashOf(2), scopes: ['admin'], expiresInMs: 20 })
    await sessionOf(12, { apiKey: short.key })
    const ended = await store.createAppToken({ ...token, hash: hashOf(3), expiresInMs: minute })
    const portal = await sessionOf(13, { appToken: ended.key })
    assert.deepEqual([portal.kind, portal.ownerId, portal.appId], ['portal', ended.id, app.id])
    const expired = await store.createAppToken({ ...token, hash: hashOf(4), expiresInMs: minute })
    await sessionOf(14, { appToken: expired.key })
    const made = await store.createAppToken({ ...token, hash: hashOf(5), expiresInMs: minute, madeBy: revoked.key })
    await sessionOf(15, { appToken: made.key })
    for (const byte of [11, 13, 14, 15]) assert.ok(await works(byte), String(byte))

    await store.revokeApiKey(revoked.id)
    await store.endAppToken(ended.key)
    assert.deepEqual(await Promise.all([11, 13, 14, 15].map(works)), [false, false, true, false])
    await store.expireAppTokens(app.key, ['s'], 0)
    await world.pass(25)
    assert.deepEqual(await Promise.all([12, 14].map(works)), [false, false])
    const left = (await store.listWebSessions(all, null)).items.map(({ ownerId }) => ownerId)
    assert.ok(!left.includes(revoked.id) && !left.includes(ended.id) && !left.includes(expired.id))
  })

  test('all sessions of one owner end, or of all owners, except the one named', async (t) => {
    const { store } = await begin(t, open)
    const mine = { adminHash: hashOf(7) }
    const key = await store.createApiKey({ name: 'k', hash: hashOf(1), scopes: ['admin'] })
    const theirs = { apiKey: key.key }
    const keep = await store.createWebSession({ hash: hashOf(2), owner: mine, expiresInMs: minute, ...browser })
    for (const [byte, owner] of [
      [3, mine],
      [4, theirs],
      [5, theirs],
    ] as const) {
      await store.createWebSession({ hash: hashOf(byte), owner, expiresInMs: minute, ...browser })
    }
    await store.createSignInLink({ hash: hashOf(6), owner: mine, expiresInMs: minute })
    assert.equal(await store.endWebSessions(mine, keep.key), 1)
    assert.equal((await store.listWebSessions(all, null)).items.length, 3)
    assert.equal(await store.endWebSessions(null, keep.key), 2)
    assert.deepEqual((await store.listWebSessions(all, null)).items, [keep])
    assert.equal(await store.endWebSessions(null, null), 1)
    assert.ok(await store.findSignInLink(hashOf(6)), 'a link is no session')
  })

  test('a sign-in link is used by one caller, however many present it at once, and no session', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const apiKey = await store.createApiKey({ name: 'k', hash: hashOf(1), scopes: ['admin'] })
    const owner = { apiKey: apiKey.key }
    await store.createSignInLink({ hash: hashOf(2), owner, expiresInMs: minute })
    assert.deepEqual((await store.findSignInLink(hashOf(2)))?.owner, { apiKey })
    assert.equal(await store.findWebSession(hashOf(2)), undefined)
    assert.deepEqual((await store.listWebSessions(all, null)).items, [])
    const uses = await Promise.all(Array.from({ length: 8 }, () => store.useSignInLink(hashOf(2))))
    assert.equal(uses.filter(Boolean).length, 1)
    assert.equal(await store.findSignInLink(hashOf(2)), undefined)
    await store.createSignInLink({ hash: hashOf(3), owner, expiresInMs: 20 })
    await store.createSignInLink({ hash: hashOf(4), owner, expiresInMs: minute })
    await world.pass(25)
    assert.equal(await store.useSignInLink(hashOf(3)), false)
    await store.revokeApiKey(apiKey.id)
    assert.equal(await store.findSignInLink(hashOf(4)), undefined)
  })

  test('an owner keeps a bounded number of sessions, the newest', async (t) => {
    const { store } = await begin(t, open)
    const owner = { adminHash: hashOf(7) }
    for (let n = 0; n < sessionsPerOwner + 3; n++) {
      await store.createWebSession({ hash: numbered(n), owner, expiresInMs: minute, ...browser })
    }
    assert.equal((await store.listWebSessions(all, owner)).items.length, sessionsPerOwner)
    assert.equal(await store.findWebSession(numbered(2)), undefined)
    assert.ok(await store.findWebSession(numbered(3)))
  })

  test('the oldest admin key that works for all applications is found', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    assert.equal(await store.findAdminKey(), undefined)
    await store.createApiKey({ name: 'k', hash: hashOf(1), scopes: ['read'] })
    await store.createApiKey({ name: 'k', hash: hashOf(2), scopes: ['admin'], app: app.key })
    const first = await store.createApiKey({ name: 'first', hash: hashOf(3), scopes: ['admin'] })
    const second = await store.createApiKey({ name: 'second', hash: hashOf(4), scopes: ['admin'] })
    assert.equal((await store.findAdminKey())?.id, first.id)
    await store.revokeApiKey(first.id)
    assert.equal((await store.findAdminKey())?.id, second.id)
  })
}
