import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openApi } from './api.ts'

const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

describe('applications', () => {
  test('are created, found by id and uid, and have every field a strict client expects', async () => {
    const { ask } = await openApi()
    const created = await ask('POST', '/app', {
      name: 'Acme',
      uid: 'acme.1',
      throttleRate: 7,
      metadata: { tier: 'gold' },
    })
    assert.equal(created.status, 201)
    const { id, createdAt, updatedAt, ...rest } = created.json
    assert.match(id, /^app_[0-9A-Za-z]{27}$/)
    assert.match(createdAt, timestamp)
    assert.equal(updatedAt, createdAt)
    const given = { uid: 'acme.1', name: 'Acme', throttleRate: 7, rateLimit: 7, metadata: { tier: 'gold' } }
    const unset = {
      defaultRate: null,
      defaultPeriodSeconds: null,
      defaultBurst: null,
      headerTemplates: null,
      maxInFlight: null,
      retentionSeconds: null,
      deadRetentionSeconds: null,
      region: null,
      eraseDelivered: null,
      payloadRetentionSeconds: null,
      subjectPointers: null,
    }
    assert.deepEqual(rest, { ...given, ...unset, dedupeSeconds: null, signatureHeaders: null })
    assert.deepEqual((await ask('GET', `/app/${id}`)).json, created.json)
    assert.deepEqual((await ask('GET', '/app/acme.1')).json, created.json)
  })

  test('with a used uid are a conflict, unless the existing one is asked for', async () => {
    const { ask } = await openApi()
    const first = await ask('POST', '/app', { name: 'A', uid: 'a' })
    const second = await ask('POST', '/app', { name: 'B', uid: 'a' })
    assert.deepEqual([second.status, second.json.code], [409, 'conflict'])
    const existing = await ask('POST', '/app?get_if_exists=true', { name: 'B', uid: 'a' })
    assert.equal(existing.status, 200)
    assert.deepEqual(existing.json, first.json)
    assert.equal((await ask('POST', '/app?get_if_exists=true', { name: 'C', uid: 'c' })).status, 201)
  })

  test('created by many at once with the same uid are one application', async () => {
    const { ask } = await openApi()
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => ask('POST', '/app?get_if_exists=true', { name: 'A', uid: 'a' })),
    )
    assert.deepEqual(answers.map(({ status }) => status).sort(), [...Array(9).fill(200), 201])
    assert.equal(new Set(answers.map(({ json }) => json.id)).size, 1)
  })
})

describe('lists', () => {
  test('are walked forwards and backwards by their iterators, in either order', async () => {
    const { ask } = await openApi()
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.push((await ask('POST', '/app', { name: `A${i}` })).json.id)

    const first = (await ask('GET', '/app?limit=2')).json
    assert.deepEqual(
      first.data.map(({ id }: { id: string }) => id),
      ids.slice(0, 2),
    )
    assert.deepEqual([first.iterator, first.prevIterator, first.done], [ids[1], `-${ids[0]}`, false])
    const second = (await ask('GET', `/app?limit=2&iterator=${first.iterator}`)).json
    assert.deepEqual(
      second.data.map(({ id }: { id: string }) => id),
      ids.slice(2, 4),
    )
    const third = (await ask('GET', `/app?limit=2&iterator=${second.iterator}`)).json
    assert.deepEqual(
      third.data.map(({ id }: { id: string }) => id),
      ids.slice(4),
    )
    assert.deepEqual([third.iterator, third.done], [ids[4], true])
    const beyond = (await ask('GET', `/app?limit=2&iterator=${third.iterator}`)).json
    assert.deepEqual(beyond, { data: [], iterator: null, prevIterator: null, done: true })

    const back = (await ask('GET', `/app?limit=2&iterator=${third.prevIterator}`)).json
    assert.deepEqual(
      back.data.map(({ id }: { id: string }) => id),
      ids.slice(2, 4),
    )
    assert.equal(back.done, false)
    const front = (await ask('GET', `/app?limit=2&iterator=${back.prevIterator}`)).json
    assert.deepEqual(
      front.data.map(({ id }: { id: string }) => id),
      ids.slice(0, 2),
    )
    assert.equal(front.done, true)

    const down = (await ask('GET', '/app?limit=3&order=descending')).json
    assert.deepEqual(
      down.data.map(({ id }: { id: string }) => id),
      ids.slice(2).reverse(),
    )
    const up = (await ask('GET', `/app?limit=3&order=descending&iterator=-${ids[2]}`)).json
    assert.deepEqual(
      up.data.map(({ id }: { id: string }) => id),
      ids.slice(3).reverse(),
    )
  })
})

describe('endpoints', () => {
  async function withApp() {
    const api = await openApi()
    await api.ask('POST', '/app', { name: 'A', uid: 'a' })
    return api
  }

  test('are created with defaults, newest first in lists, and never show their secret or headers', async () => {
    const { ask } = await withApp()
    const created = await ask('POST', '/app/a/endpoint', {
      url: 'https://example.com/hook',
      headers: { 'X-Token': 't' },
    })
    assert.equal(created.status, 201)
    const { id, createdAt, updatedAt, ...rest } = created.json
    assert.match(id, /^ep_[0-9A-Za-z]{27}$/)
    assert.match(createdAt, timestamp)
    assert.match(updatedAt, timestamp)
    assert.deepEqual(rest, {
      uid: null,
      url: 'https://example.com/hook',
      description: '',
      disabled: false,
      disabledReason: null,
      paused: false,
      method: 'POST',
      eventTypes: null,
      filterTypes: null,
      channels: null,
      throttleRate: null,
      rateLimit: null,
      throttlePeriodSeconds: 1,
      burst: null,
      concurrency: null,
      timeoutMs: null,
      connectTimeoutMs: null,
      headerTemplates: null,
      retry: null,
      retryReplays: false,
      egressProxy: null,
      propagateTrace: false,
      circuit: null,
      adaptive: true,
      disableAfterMs: null,
      maxWaiting: null,
      overflow: 'refuse',
      maxAgeSeconds: null,
      whileDisabled: 'hold',
      order: 'none',
      deadHead: 'skip',
      coalesce: null,
      filter: null,
      shape: null,
      region: null,
      signature: 'standard',
      auth: null,
      clientCertificate: null,
      damaged: [],
      metadata: {},
      version: 1,
      state: 'active',
    })
    const other = await ask('POST', '/app/a/endpoint', { url: 'https://example.com/2', uid: 'two' })
    const { data } = (await ask('GET', '/app/a/endpoint')).json
    assert.deepEqual(data, [other.json, created.json])
    assert.deepEqual((await ask('GET', '/app/a/endpoint/two')).json, other.json)
  })

  test("take Sluice's own limits and Svix's older names", async () => {
    const { ask, store } = await withApp()
    const retry = {
      waits: { kind: 'list', ms: [1, 2] },
      jitter: 'added',
      jitterMs: 7,
      maxAgeMs: 1000,
      retryAfter: 'later',
    }
    const limits = { throttlePeriodSeconds: 60, burst: 9, concurrency: 3, timeoutMs: 2500, retry }
    const body = { url: 'https://example.com', rateLimit: 5, filterTypes: ['video.*', '*'], channels: ['x'], ...limits }
    const { json } = await ask('POST', '/app/a/endpoint', body)
    const { throttleRate, eventTypes, channels, throttlePeriodSeconds, burst, concurrency, timeoutMs } = json
    assert.deepEqual([throttleRate, eventTypes, channels], [5, ['video.*', '*'], ['x']])
    assert.deepEqual({ throttlePeriodSeconds, burst, concurrency, timeoutMs, retry: json.retry }, limits)
    const [stored] = (
      await store.listEndpoints((await store.findApplication('a'))?.key ?? 0, {
        limit: 1,
        order: 'ascending',
        after: null,
      })
    ).items
    assert.deepEqual(stored?.retry, retry)
  })

  test('a retry policy gets defaults, and takes no field that it does not have', async () => {
    const { ask } = await withApp()
    const waits = { kind: 'exponential', baseMs: 10, factor: 2, capMs: 1000, maxAttempts: 5 }
    const retries = [{ waits: { ...waits, maxAtempts: 1 } }, { waits, maxAge: 2 }]
    for (const retry of retries) {
      const refused = await ask('POST', '/app/a/endpoint', { url: 'https://example.com', retry })
      assert.equal(refused.status, 422)
      assert.match(refused.json.detail[0].msg, /did you mean (maxAttempts|maxAgeMs)\?/)
    }
    const { json } = await ask('POST', '/app/a/endpoint', { url: 'https://example.com', retry: { waits } })
    const usual = { maxAgeMs: 432_000_000, retryAfter: 'receiver' }
    assert.deepEqual(json.retry, { waits, jitter: 'equal', jitterMs: null, ...usual })
    const added = await ask('POST', '/app/a/endpoint', {
      url: 'https://example.com',
      retry: { waits, jitter: 'added' },
    })
    assert.deepEqual(added.json.retry, { waits, jitter: 'added', jitterMs: 30_000, ...usual })
    const alone = await ask('POST', '/app/a/endpoint', { url: 'https://example.com', retry: { waits, jitterMs: 5 } })
    assert.deepEqual([alone.status, alone.json.detail[0].msg], [422, 'needs the jitter `added` beside it'])
  })

  test('are changed field by field: what is absent stays, null unsets', async () => {
    const { ask } = await withApp()
    const full = {
      url: 'https://example.com/',
      uid: 'e',
      throttleRate: 5,
      burst: 2,
      eventTypes: ['x'],
      channels: ['c'],
      timeoutMs: 500,
    }
    const before = (await ask('POST', '/app/a/endpoint', full)).json
    const kept = await ask('PATCH', '/app/a/endpoint/e', { description: 'new', disabled: true })
    assert.equal(kept.status, 200)
    const { updatedAt, ...changed } = kept.json
    const { updatedAt: _, ...expected } = {
      ...before,
      description: 'new',
      disabled: true,
      disabledReason: 'operator',
      state: 'disabled',
    }
    assert.deepEqual(changed, expected)
    assert.ok(updatedAt >= before.updatedAt)
    const unset = {
      uid: null,
      throttleRate: null,
      burst: null,
      eventTypes: null,
      channels: null,
      timeoutMs: null,
      throttlePeriodSeconds: null,
    }
    const after = (await ask('PATCH', '/app/a/endpoint/e', unset)).json
    assert.deepEqual(
      [
        after.uid,
        after.throttleRate,
        after.burst,
        after.eventTypes,
        after.channels,
        after.timeoutMs,
        after.throttlePeriodSeconds,
      ],
      [null, null, null, null, null, null, 1],
    )
    assert.deepEqual((await ask('GET', `/app/a/endpoint/${before.id}`)).json, after)
  })

  test('of another application are as unknown as those that do not exist', async () => {
    const { ask } = await withApp()
    await ask('POST', '/app', { name: 'B', uid: 'b' })
    const { json } = await ask('POST', '/app/b/endpoint', { url: 'https://example.com', uid: 'e' })
    for (const path of ['', '/secret']) {
      const foreign = await ask('GET', `/app/a/endpoint/${json.id}${path}`)
      const unknown = await ask('GET', `/app/a/endpoint/ep_${'0'.repeat(27)}${path}`)
      assert.equal(foreign.status, 404)
      const nameless = (problem: { detail: string }) => ({
        ...problem,
        detail: problem.detail.replace(/".*"/, ''),
        instance: '',
      })
      assert.deepEqual(nameless(foreign.json), nameless(unknown.json))
    }
    assert.equal((await ask('PATCH', `/app/a/endpoint/${json.id}`, { disabled: true })).status, 404)
  })

  test('with a used uid are a conflict within the application only', async () => {
    const { ask } = await withApp()
    await ask('POST', '/app', { name: 'B', uid: 'b' })
    const body = { url: 'https://example.com', uid: 'e' }
    const statuses = []
    for (const app of ['a', 'a', 'b']) statuses.push((await ask('POST', `/app/${app}/endpoint`, body)).status)
    assert.deepEqual(statuses, [201, 409, 201])
  })
})

describe('secrets', () => {
  // The vectors of the Standard Webhooks specification and of Svix's worker.
  const ed25519 = 'whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=='
  const publicKey = 'whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4='
  const seedAlone = `whsk_${Buffer.from(ed25519.slice(5), 'base64').subarray(0, 32).toString('base64')}`
  const given: [string, string][] = [
    ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
    ['MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
    [ed25519, publicKey],
    [seedAlone, publicKey],
  ]
  for (const [secret, key] of given) {
    test(`given as ${secret.slice(0, 12)}… (${secret.length}) is shown to receivers as ${key.slice(0, 12)}…`, async () => {
      const { ask } = await openApi()
      await ask('POST', '/app', { name: 'A', uid: 'a' })
      const { json } = await ask('POST', '/app/a/endpoint', { url: 'https://example.com', secret })
      assert.deepEqual((await ask('GET', `/app/a/endpoint/${json.id}/secret`)).json, { key })
    })
  }

  test('not given are generated, 24 bytes, different each time', async () => {
    const { ask } = await openApi()
    await ask('POST', '/app', { name: 'A', uid: 'a' })
    const keys = new Set<string>()
    for (const secret of [undefined, null]) {
      const { json } = await ask('POST', '/app/a/endpoint', { url: 'https://example.com', secret })
      keys.add((await ask('GET', `/app/a/endpoint/${json.id}/secret`)).json.key)
    }
    assert.equal(keys.size, 2)
    for (const key of keys) assert.match(key, /^whsec_[A-Za-z0-9+/]{32}$/)
  })
})
