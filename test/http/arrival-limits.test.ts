import assert from 'node:assert/strict'
import { createHmac, generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { SignJWT } from 'jose'
import { Arrivals } from '../../src/features/arrivals/service.ts'
import { makeSourceToken } from '../../src/features/sources/rules.ts'
import type { HttpDeps } from '../../src/http/app.ts'
import { Admission } from '../../src/intake/admission.ts'
import { Publisher } from '../../src/intake/publisher.ts'
import { Ledger } from '../../src/metrics/ledger.ts'
import { observed } from '../../src/metrics/observed-store.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { configOf } from '../../src/runtime/config.ts'
import { KeySets } from '../../src/sources/key-sets.ts'
import { type RestingEnd, type Store, StoreTrouble } from '../../src/store/store.ts'
import { eventually } from '../e2e/eventually.ts'
import { type Api, openApi } from './api.ts'

const secret = "It's a Secret to Everybody"
const small = Buffer.from('{"a":1}')
const bodyLimitBytes = 1_048_576
/** A body of this length is answered 413 when it is read. */
const tooLarge = Buffer.alloc(bodyLimitBytes + 1)

/** A clock that stands still until the test sets it forward, so that no bucket fills meanwhile. Its timers run. */
function standingClock() {
  let ahead = 0
  const now = systemClock.now()
  const clock = { ...systemClock, now: () => now + ahead, steady: () => ahead }
  const advance = (ms: number) => {
    ahead += ms
  }
  return { clock, advance }
}

/** An API behind a proxy, so that each request has the address that it names. */
async function begin(t: TestContext, limits: Partial<HttpDeps['limits']>, more: Partial<HttpDeps> = {}) {
  const { clock, advance } = standingClock()
  const api = await openApi({
    clock,
    trustedProxies: ['127.0.0.1'],
    bodyLimitBytes,
    ...more,
    limits: { ...configOf({}), ...limits },
  })
  t.after(() => api.app.close())
  return { api, advance, ...senders(api) }
}

function senders(api: Api) {
  const made = async (path: string, body: object) => {
    const { status, json } = await api.ask('POST', path, body)
    assert.equal(status, 201, JSON.stringify(json))
    return json
  }
  const makeSource = async (app: string, body: object = { provider: 'github', secret }) => {
    const { id, url } = await made(`/app/${app}/source`, body)
    return { id: id as string, path: new URL(url).pathname }
  }
  let deliveries = 0
  /** Sends an event of GitHub; the same `delivery` is the same event. */
  const send = async (path: string, from: string, options: { body?: Buffer; key?: string; delivery?: string } = {}) => {
    const { body = small, key = secret, delivery = `d${++deliveries}` } = options
    const { status, headers, json } = await api.ask('POST', path, body, {
      authorization: '',
      'content-type': 'application/json',
      'x-forwarded-for': from,
      'x-github-event': 'push',
      'x-github-delivery': delivery,
      'x-hub-signature-256': `sha256=${createHmac('sha256', key).update(body).digest('hex')}`,
    })
    return { status, retryAfter: Number(headers['retry-after'] ?? 0), code: json?.code, id: json?.id }
  }
  const statuses = async (answers: Promise<{ status: number }>[]) =>
    (await Promise.all(answers)).map(({ status }) => status)
  const messages = async (app: string) => (await api.ask('GET', `/app/${app}/msg`)).json.data.length
  return { made, makeSource, send, statuses, messages }
}

const times = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i))
const [hub, attacker, stranger] = ['192.0.2.1', '198.51.100.66', '203.0.113.7']

describe('the rate of an application', () => {
  test('a burst of its sources is answered 429, and other applications take no notice', async (t) => {
    const { api, advance, made, makeSource, send, statuses, messages } = await begin(t, { arrivalRatePerApp: 1 })
    await made('/api/v1/app', { name: 'Shop', uid: 'shop' })
    await made('/api/v1/app', { name: 'Other', uid: 'other' })
    const [one, two, other] = [await makeSource('shop'), await makeSource('shop'), await makeSource('other')]
    // Ten seconds' worth may come at once.
    const burst = await statuses(times(10, (i) => send((i % 2 === 0 ? one : two).path, hub)))
    assert.deepEqual(new Set(burst), new Set([202]))
    const late = await send(one.path, hub, { delivery: 'late' })
    assert.deepEqual([late.status, late.code, late.retryAfter], [429, 'rate_limited', 1])
    assert.equal((await send(two.path, hub, { body: tooLarge })).status, 429, 'the body is not read')
    assert.deepEqual(
      await statuses(times(5, () => send(other.path, hub))),
      times(5, () => 202),
    )
    advance(1000)
    // The sender repeats what was refused, and nothing is lost.
    assert.equal((await send(one.path, hub, { delivery: 'late' })).status, 202)
    assert.equal(await messages('shop'), 11)
    assert.deepEqual(api.bugs, [])
  })
})

describe('a flooded source', () => {
  test('lets a genuine sender through while another address floods it', async (t) => {
    const { made, makeSource, send, statuses } = await begin(t, { refusedArrivals: 6 })
    await made('/api/v1/app', { name: 'Shop', uid: 'shop' })
    const { path } = await makeSource('shop')
    const forged = { key: 'a wrong secret' }
    assert.deepEqual(
      await statuses(times(6, () => send(path, attacker, forged))),
      times(6, () => 401),
    )
    const next = await send(path, attacker, { ...forged, body: tooLarge })
    assert.deepEqual([next.status, next.retryAfter], [429, 10], 'the body is not read')
    assert.deepEqual([(await send(path, hub)).status, (await send(path, stranger)).status], [202, 202])
  })

  test('stays open for strangers when a single address sends many large forged bodies at once', async (t) => {
    const { made, makeSource, send, statuses } = await begin(t, { refusedArrivals: 6 })
    await made('/api/v1/app', { name: 'Shop', uid: 'shop' })
    const { path } = await makeSource('shop')
    const body = Buffer.alloc(1_000_000)
    // Each costs 16 of the 60 refused requests that close the source. All are read before the first is judged.
    const answers = await statuses(times(6, () => send(path, attacker, { body, key: 'a wrong secret' })))
    assert.deepEqual(new Set(answers), new Set([401]))
    assert.equal((await send(path, attacker)).status, 429)
    assert.equal((await send(path, stranger)).status, 202)
  })

  test('is closed to strangers by many addresses, and not to an address that sent a genuine request', async (t) => {
    const { made, advance, makeSource, send, statuses } = await begin(t, { refusedArrivals: 6 })
    await made('/api/v1/app', { name: 'Shop', uid: 'shop' })
    const [{ path }, other] = [await makeSource('shop'), await makeSource('shop')]
    assert.equal((await send(path, hub)).status, 202)
    for (let i = 0; i < 10; i++) {
      await statuses(times(6, () => send(path, `198.51.100.${i}`, { key: 'a wrong secret' })))
    }
    const refused = await send(path, stranger, { delivery: 'first' })
    assert.deepEqual([refused.status, refused.code, refused.retryAfter], [429, 'rate_limited', 1])
    assert.deepEqual([(await send(path, hub)).status, (await send(other.path, stranger)).status], [202, 202])
    advance(1000)
    assert.equal((await send(path, stranger, { delivery: 'first' })).status, 202)
  })
})

describe('an address that sent a genuine request', () => {
  test('is let through while forged requests come from the same address, up to a limit of its own', async (t) => {
    const { made, advance, makeSource, send, statuses } = await begin(t, { refusedArrivals: 6 })
    await made('/api/v1/app', { name: 'Shop', uid: 'shop' })
    const { path } = await makeSource('shop')
    assert.equal((await send(path, hub)).status, 202)
    // An account at the provider is enough to have it send requests here. Each costs 16 of 120 in a minute.
    const forged = () => send(path, hub, { body: Buffer.alloc(1_000_000), key: 'a wrong secret' })
    assert.deepEqual(new Set(await statuses(times(7, forged))), new Set([401]))
    assert.deepEqual([(await send(path, hub)).status, (await send(path, stranger)).status], [202, 202])
    await forged()
    const late = await send(path, hub, { body: tooLarge })
    assert.deepEqual([late.status, late.code], [429, 'rate_limited'], 'the flood is bounded')
    assert.equal((await send(path, stranger)).status, 202)
    advance(1000 * late.retryAfter)
    assert.equal((await send(path, hub)).status, 202)
  })
})

test('made-up tokens do not drive a known source out of memory', async (t) => {
  const { api, made, makeSource } = await begin(t, {})
  await made('/api/v1/app', { name: 'Shop', uid: 'shop' })
  const { id } = await makeSource('shop')
  const read: number[] = []
  const sourceAt: Store['sourceAt'] = (key) => {
    read.push(key)
    return api.store.sourceAt(key)
  }
  const { clock, publisher, limits } = api.deps
  const keySets = new KeySets(() => Promise.reject(new Error('No keys are fetched here.')))
  const store = { ...api.store, sourceAt }
  const head = { method: 'POST', url: 'https://sluice.example/in/token', headers: {} }
  const arrivals = new Arrivals({ store, publisher, clock, limits, keySets, onTrouble: assert.ifError })
  await Promise.all(times(10, () => arrivals.admit(id, head, hub)))
  assert.equal(read.length, 1, 'requests at the same time share a read')
  for (let i = 1; i <= 3000; i++) {
    const token = makeSourceToken(1_000_000_007 * i, api.deps.randomText)
    await assert.rejects(arrivals.admit(token, head, attacker), { code: i <= 20 ? 'not_found' : 'rate_limited' })
  }
  assert.equal(read.length, 3001)
  await arrivals.admit(id, head, hub)
  assert.equal(read.length, 3001)
})

describe('a source that cannot verify anything', () => {
  test('refuses all requests before their bodies are read, and takes every sender in once it has a secret', async (t) => {
    const { api, made, advance, makeSource, send, statuses, messages } = await begin(t, { refusedArrivals: 6 })
    await made('/api/v1/app', { name: 'Shop', uid: 'shop' })
    const { id, path } = await makeSource('shop', { provider: 'meta', settings: { verifyToken: 'a verify token' } })
    const early = await send(path, hub, { body: tooLarge })
    assert.deepEqual([early.status, early.code, early.retryAfter], [503, 'unavailable', 60])
    assert.deepEqual(new Set(await statuses(times(100, () => send(path, hub, { body: tooLarge })))), new Set([503]))
    // The handshake by GET needs no secret.
    const query = 'hub.mode=subscribe&hub.verify_token=a%20verify%20token&hub.challenge=42'
    assert.equal((await api.app.inject({ method: 'GET', url: `${path}?${query}` })).payload, '42')
    const rotated = await api.ask('POST', `/app/shop/source/${id}/secret/rotate`, { secret })
    assert.equal(rotated.status, 200)
    // A change works within a second.
    advance(1000)
    assert.equal((await send(path, hub)).status, 200)
    assert.equal(await messages('shop'), 1)
  })

  test('refuses tokens unread while their keys cannot be fetched, and takes their sender in once they can', async (t) => {
    const jwksUrl = 'https://keys.example/jwks?apikey=canary'
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const body = Buffer.from(JSON.stringify({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'one' }] }))
    let fails = true
    const fetchKeys = async () => (fails ? Promise.reject(new Error('down')) : { body })
    const { api, made, advance, makeSource, statuses, messages } = await begin(t, { refusedArrivals: 6 }, { fetchKeys })
    await made('/api/v1/app', { name: 'Shop', uid: 'shop' })
    const { id, path } = await makeSource('shop', { provider: 'jwt', settings: { jwksUrl } })
    const expires = Math.floor(systemClock.now() / 1000) + 3600
    const tokenOf = (kid: string) =>
      new SignJWT({}).setProtectedHeader({ alg: 'ES256', kid }).setExpirationTime(expires).sign(privateKey)
    const token = await tokenOf('one')
    const ask = (sent: string, payload = small) =>
      api.ask('POST', path, payload, { authorization: `Bearer ${sent}`, 'x-forwarded-for': hub })
    const early = await ask(token, tooLarge)
    assert.deepEqual([early.status, early.headers['retry-after']], [503, '30'])
    assert.doesNotMatch(JSON.stringify(early.json), /keys\.example|canary/)
    assert.deepEqual(new Set(await statuses(times(100, () => ask(token, tooLarge)))), new Set([503]))
    fails = false
    advance(30_000)
    assert.equal((await ask(token)).status, 202)
    // Key ids that are made up have no further keys fetched, and refuse no other request.
    advance(1000)
    const forged = await tokenOf('two')
    assert.deepEqual(new Set(await statuses(times(100, () => ask(forged, tooLarge)))), new Set([503]))
    assert.equal((await ask(token)).status, 202)
    assert.equal(await messages('shop'), 2)
    // The operator reads which keys they are.
    await eventually('a sample is written', async () => {
      const { data } = (await api.ask('GET', `/app/shop/source/${id}/sample`)).json
      return data.some(
        ({ code, reason }: Record<string, string>) => code === 'unavailable' && reason?.includes(jwksUrl),
      )
    })
  })
})

test('requests that wait for the keys of their sender hold no bodies, and other requests take no notice', async (t) => {
  const [began, keys] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  t.after(() => keys.resolve())
  const fetchKeys = async () => {
    began.resolve()
    await keys.promise
    throw new Error('down')
  }
  const { api, made, makeSource, send, statuses } = await begin(t, { maxUploadPerClient: 4_000_000 }, { fetchKeys })
  await made('/api/v1/app', { name: 'Shop', uid: 'shop' })
  const { path } = await makeSource('shop', { provider: 'jwt', settings: { jwksUrl: 'https://keys.example/jwks' } })
  const other = await makeSource('shop')
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const token = `${part({ alg: 'RS256', kid: 'forged' })}.${part({})}.${'A'.repeat(4)}`
  const forge = () =>
    api.ask('POST', path, Buffer.alloc(1_000_000), { authorization: token, 'x-forwarded-for': attacker })
  const waiting = times(40, forge)
  await began.promise
  // The bytes of the address are free: no body is read before the keys are there.
  assert.equal((await send(other.path, attacker, { body: Buffer.alloc(1_000_000) })).status, 202)
  keys.resolve()
  assert.deepEqual(new Set(await statuses(waiting)), new Set([503]))
})

test('bodies of clients that hang up give their bytes back', async (t) => {
  const { api, made, makeSource } = await begin(t, { maxUploadPerClient: 2_000_000 })
  await made('/api/v1/app', { name: 'Shop', uid: 'shop' })
  const { path } = await makeSource('shop')
  const url = new URL(path, await api.app.listen({ port: 0, host: '127.0.0.1' }))
  const body = Buffer.alloc(900_000)
  const signature = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
  const genuine = async () =>
    (await fetch(url, { method: 'POST', body, headers: { 'x-hub-signature-256': signature } })).status
  const head = `POST ${path} HTTP/1.1\r\nhost: sluice\r\ncontent-length: ${body.length}\r\n\r\n`
  for (const ends of ['destroy', 'resetAndDestroy'] as const) {
    const sockets = await Promise.all(
      times(4, async () => {
        const socket = connect(Number(url.port), '127.0.0.1').on('error', () => {})
        await once(socket, 'connect')
        socket.write(head)
        return socket
      }),
    )
    await eventually('no more fit', async () => (await genuine()) === 429)
    for (const socket of sockets) socket[ends]()
    await eventually('one fits again', async () => (await genuine()) === 202)
  }
})

test('a large forged body is hashed in turns of the event loop', async (t) => {
  const { api, made, makeSource } = await begin(t, {})
  await made('/api/v1/app', { name: 'Shop', uid: 'shop' })
  const { id } = await makeSource('shop', { provider: 'hmac', secret, settings: { header: 'X-Seal', hash: 'sha512' } })
  for (let i = 0; i < 3; i++) {
    const { status } = await api.ask('POST', `/app/shop/source/${id}/secret/rotate`, { secret: `${secret} ${i}` })
    assert.equal(status, 200)
  }
  const { store, deps } = api
  // Each look at this clock takes a millisecond.
  let [looks, turns] = [0, 0]
  const soon = (act: () => void) => {
    turns++
    deps.clock.soon(act)
  }
  const clock = { ...deps.clock, steady: () => ++looks, soon }
  const { publisher, limits } = deps
  const keySets = new KeySets(() => Promise.reject(new Error('No keys are fetched here.')))
  const arrivals = new Arrivals({ store, publisher, clock, limits, keySets, onTrouble: assert.ifError })
  const head = { method: 'POST', url: 'https://sluice.example/in/token', headers: { 'x-seal': '0'.repeat(128) } }
  await assert.rejects(arrivals.receive(id, { ...head, body: Buffer.alloc(4 * 2 ** 20) }, attacker), {
    code: 'not_verified',
  })
  assert.ok(turns > 10, `${turns} turns for four hashes of four mebibytes`)
  await arrivals.close()
})

/** Resolves after so many turns of the event loop. */
async function waitTurns(turns: number): Promise<undefined> {
  for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve))
}

describe('a source of an application that has no room', () => {
  const roomy = { perEndpoint: 1e9, perApplication: 1e9, server: 1e9, commitDelayMs: 5000 }

  /** An API over a store whose `publish` the test replaces. */
  async function over(
    t: TestContext,
    limits: Partial<typeof roomy>,
    publish?: (store: Store) => Store['publish'],
    more: Partial<HttpDeps> = {},
  ) {
    const { clock, advance } = standingClock()
    const first = await openApi({ clock })
    const { store } = first
    const ledger = new Ledger({ store, clock, isTold: true })
    const admission = new Admission({ ...roomy, ...limits }, ledger)
    const open = publish === undefined ? store : { ...store, publish: publish(store) }
    const published = observed(open, clock, [ledger, admission])
    const publisher = new Publisher({ store: published, clock, admission })
    const api = await openApi({ store, clock, publisher, ...more })
    t.after(async () => {
      await api.app.close()
      await first.app.close()
    })
    const sending = senders(api)
    await sending.made('/api/v1/app', { name: 'Shop', uid: 'shop' })
    const { id: endpoint } = await sending.made('/app/shop/endpoint', { url: 'http://127.0.0.1:1/hook' })
    const source = await sending.makeSource('shop')
    const app = (await store.findApplication('shop'))?.key ?? assert.fail()
    const key = (await store.findEndpoint(app, endpoint))?.key ?? assert.fail()
    const end = () =>
      ledger.ended([{ app, endpoint: key, row: { class: 0, dueAt: 0, message: 0 } } as unknown as RestingEnd])
    return { ...sending, advance, end, path: source.path }
  }

  test('answers 429 while the queues are full, and loses nothing when the sender repeats', async (t) => {
    const { made, makeSource, send, messages, end, path } = await over(t, { perApplication: 2 })
    await made('/api/v1/app', { name: 'Other', uid: 'other' })
    const other = await makeSource('other')
    const stored = [await send(path, hub, { delivery: 'e0' }), await send(path, hub, { delivery: 'e1' })]
    assert.deepEqual(
      stored.map(({ status }) => status),
      [202, 202],
    )
    const full = await send(path, hub, { delivery: 'e2' })
    assert.deepEqual([full.status, full.code, full.retryAfter], [429, 'overloaded', 60])
    assert.equal((await send(other.path, hub)).status, 202)
    assert.equal(await messages('shop'), 2)
    end()
    const repeated = await send(path, hub, { delivery: 'e2' })
    assert.equal(repeated.status, 202)
    end()
    assert.equal((await send(path, hub, { delivery: 'e2' })).id, repeated.id)
    assert.equal(await messages('shop'), 3)
  })

  test('answers 429 while commits are slow, and loses nothing when the sender repeats', async (t) => {
    const [began, commit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const { advance, send, messages, path } = await over(t, {}, ({ publish }) => async (...args) => {
      began.resolve()
      await commit.promise
      return publish(...args)
    })
    const first = send(path, hub, { delivery: 'e0' })
    await began.promise
    advance(6000)
    const shed = await send(path, hub, { delivery: 'e1' })
    assert.deepEqual([shed.status, shed.code, shed.retryAfter], [429, 'overloaded', 6])
    commit.resolve()
    assert.equal((await first).status, 202)
    assert.equal((await send(path, hub, { delivery: 'e1' })).status, 202)
    assert.equal(await messages('shop'), 2)
  })

  test('counts bodies until they are answered, and refuses more of the same address', async (t) => {
    const [began, commit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    t.after(() => commit.resolve())
    const limits = { ...configOf({}), maxUploadPerClient: 4_000_000 }
    const slow =
      ({ publish }: Store): Store['publish'] =>
      async (...args) => {
        began.resolve()
        await commit.promise
        return publish(...args)
      }
    const { send, statuses, path } = await over(t, {}, slow, { bodyLimitBytes, limits })
    const large = () => send(path, attacker, { body: Buffer.alloc(1_000_000) })
    const waiting = times(4, large)
    await began.promise
    const more = times(10, large)
    // The first of them is answered while the four wait for their commit, if it is refused.
    const first = await Promise.race([more[0], waitTurns(1000)])
    commit.resolve()
    assert.equal(first?.status, 429)
    assert.deepEqual(new Set(await statuses(more)), new Set([429]))
    assert.deepEqual(new Set(await statuses(waiting)), new Set([202]))
    assert.equal((await large()).status, 202, 'the bytes are given back with the answer')
  })

  test('answers 503 when the store fails after the commit, and the repeated event is the same message', async (t) => {
    let fails = true
    const { send, messages, path } = await over(t, {}, ({ publish }) => async (...args) => {
      const answer = await publish(...args)
      if (fails) throw new StoreTrouble('postgres: the connection was lost')
      return answer
    })
    const lost = await send(path, hub, { delivery: 'e0' })
    assert.deepEqual([lost.status, lost.code, lost.retryAfter], [503, 'unavailable', 2])
    fails = false
    assert.equal((await send(path, hub, { delivery: 'e0' })).status, 202)
    assert.equal(await messages('shop'), 1)
  })
})
