import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { configOf } from '../../src/runtime/config.ts'
import { type Answer, openApi } from './api.ts'

const url = 'https://example.com/hook'

async function withEndpoint(body: object = {}) {
  const api = await openApi()
  await api.ask('POST', '/app', { name: 'A', uid: 'a' })
  const { json, status } = await api.ask('POST', '/app/a/endpoint', { url, uid: 'e', ...body })
  assert.equal(status, 201, JSON.stringify(json))
  const { key: app } = (await api.store.findApplication('a')) as { key: number }
  const stored = async () => {
    const found = await api.store.findEndpoint(app, json.id)
    assert.ok(found)
    return found
  }
  return { ...api, endpoint: json, app, stored }
}

function problems({ json }: Answer): string[] {
  return json.detail.map(({ loc, type }: { loc: string[]; type: string }) => `${loc.join('.')} ${type}`)
}

describe('endpoints', () => {
  test('are made by PUT under the name they were asked for by, and then replaced', async () => {
    const { ask, store, app } = await withEndpoint()
    const made = await ask('PUT', '/app/a/endpoint/f', {
      url,
      throttleRate: 5,
      headers: { 'X-Y': 'z' },
      channels: ['c'],
    })
    assert.deepEqual([made.status, made.json.uid, made.json.throttleRate], [201, 'f', 5])
    const before = await store.findEndpoint(app, 'f')
    const replaced = await ask('PUT', '/app/a/endpoint/f', { url: 'https://example.com/new', method: 'PUT' })
    assert.equal(replaced.status, 200)
    assert.deepEqual(
      { ...replaced.json, updatedAt: '' },
      {
        ...made.json,
        url: 'https://example.com/new',
        method: 'PUT',
        throttleRate: null,
        rateLimit: null,
        channels: null,
        updatedAt: '',
      },
    )
    const after = await store.findEndpoint(app, 'f')
    assert.deepEqual([after?.secrets, after?.headers], [before?.secrets, { 'X-Y': 'z' }])
    assert.equal((await ask('PUT', `/app/a/endpoint/ep_${'0'.repeat(27)}`, { url })).status, 404)
    assert.deepEqual(problems(await ask('PUT', '/app/a/endpoint/f', {})), ['body.url required'])
  })

  test('that are deleted are unknown, and what waited for them is cancelled', async () => {
    const { ask, store, endpoint } = await withEndpoint()
    await ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
    assert.equal((await ask('DELETE', '/app/a/endpoint/e')).status, 204)
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['GET', '/secret'],
      ['GET', '/headers'],
      ['GET', '/stats'],
      ['POST', '/pause'],
    ] as const) {
      assert.equal((await ask(method, `/app/a/endpoint/${endpoint.id}${path}`)).status, 404, method + path)
    }
    assert.deepEqual(await store.sweepRemoved(), { cancelled: 1, more: false })
    const { json } = await ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
    assert.deepEqual((await ask('GET', `/app/a/msg/${json.id}/endpoint`)).json.data, [])
    assert.equal((await ask('POST', '/app/a/endpoint', { url, uid: 'e' })).status, 201)
  })

  test('are paused and resumed, which leaves disabled as it is', async () => {
    const { ask, stored } = await withEndpoint({ disabled: true })
    const paused = await ask('POST', '/app/a/endpoint/e/pause')
    assert.deepEqual([paused.status, paused.json.paused, paused.json.disabled], [200, true, true])
    assert.equal((await stored()).paused, true)
    await ask('PATCH', '/app/a/endpoint/e', { disabled: false })
    assert.equal((await ask('PUT', '/app/a/endpoint/e', { url })).json.paused, true)
    const resumed = await ask('POST', '/app/a/endpoint/e/resume', {})
    assert.deepEqual([resumed.json.paused, resumed.json.disabled], [false, false])
  })

  test('choose the method of their deliveries', async () => {
    const { ask, endpoint } = await withEndpoint({ method: 'PATCH' })
    assert.equal(endpoint.method, 'PATCH')
    assert.equal((await ask('PATCH', '/app/a/endpoint/e', { method: 'PUT' })).json.method, 'PUT')
    assert.deepEqual(problems(await ask('PATCH', '/app/a/endpoint/e', { method: 'HEAD' })), ['body.method enum'])
  })

  test('subscribe to anything while no event type is known, and then to known ones and groups', async () => {
    const { ask } = await withEndpoint({ eventTypes: ['anything'] })
    await ask('POST', '/api/v1/event-type', { name: 'video.up', description: '' })
    await ask('POST', '/api/v1/event-type', { name: 'video.old', description: '', archived: true })
    const refused = await ask('PATCH', '/app/a/endpoint/e', { eventTypes: ['video.up', 'video.down', 'video.*'] })
    assert.deepEqual([refused.status, problems(refused)], [422, ['body.eventTypes.1 event_type']])
    assert.deepEqual(problems(await ask('PUT', '/app/a/endpoint/e', { url, filterTypes: ['x'] })), [
      'body.filterTypes.0 event_type',
    ])
    assert.deepEqual(problems(await ask('POST', '/app/a/endpoint', { url, eventTypes: ['x'] })), [
      'body.eventTypes.0 event_type',
    ])
    const typo = await ask('PATCH', '/app/a/endpoint/e', { eventTypes: ['vidoe.up', 'quite.other'] })
    assert.deepEqual(
      typo.json.detail.map(({ loc, msg }: { loc: string[]; msg: string }) => [loc.join('.'), msg]),
      [
        ['body.eventTypes.0', 'unknown event type "vidoe.up"; did you mean "video.up"?'],
        ['body.eventTypes.1', 'unknown event type "quite.other"'],
      ],
    )
    const archived = await ask('PATCH', '/app/a/endpoint/e', { eventTypes: ['video.up', 'video.old'] })
    assert.deepEqual([archived.status, problems(archived)], [422, ['body.eventTypes.1 event_type']])
    assert.match(archived.text, /archived event type \\"video\.old\\"/)
    const wanted = { eventTypes: ['video.up', 'audio.*', '*'] }
    assert.equal((await ask('PATCH', '/app/a/endpoint/e', wanted)).status, 200)
    // An endpoint that subscribed before keeps an archived event type.
    await ask('DELETE', '/api/v1/event-type/video.up')
    assert.equal((await ask('PATCH', '/app/a/endpoint/e', wanted)).status, 200)
    assert.equal((await ask('PUT', '/app/a/endpoint/e', { url, ...wanted })).status, 200)
    assert.deepEqual(problems(await ask('POST', '/app/a/endpoint', { url, ...wanted })), [
      'body.eventTypes.0 event_type',
    ])
  })

  test('by the setting, subscribe to known event types always, or to anything', async () => {
    const always = await openApi({ limits: configOf({ checkEventTypes: 'always' }) })
    const never = await openApi({ limits: configOf({ checkEventTypes: 'never' }) })
    for (const { ask } of [always, never]) await ask('POST', '/app', { name: 'A', uid: 'a' })
    const refused = await always.ask('POST', '/app/a/endpoint', { url, eventTypes: ['x'] })
    assert.deepEqual([refused.status, problems(refused)], [422, ['body.eventTypes.0 event_type']])
    await never.ask('POST', '/api/v1/event-type', { name: 'video.up', description: '' })
    assert.equal((await never.ask('POST', '/app/a/endpoint', { url, eventTypes: ['x'] })).status, 201)
  })

  test('an unknown path is repeated in the answer, without its query and not for ever', async () => {
    const { ask } = await openApi()
    const { json } = await ask('GET', `/api/v1/nowhere/${'x'.repeat(300)}?secret=1`)
    assert.equal(json.detail, `There is no route GET /api/v1/nowhere/${'x'.repeat(256 - '/api/v1/nowhere/'.length)}.`)
  })

  test('keep each event type and channel once, and the version they are given', async () => {
    const { ask } = await withEndpoint()
    const given = { url, eventTypes: ['b', 'a', 'b'], channels: ['c', 'c'], version: 2 }
    const made = await ask('POST', '/app/a/endpoint', given)
    assert.deepEqual(
      [made.status, made.json.eventTypes, made.json.channels, made.json.version],
      [201, ['b', 'a'], ['c'], 2],
    )
    const changed = await ask('PATCH', `/app/a/endpoint/${made.json.id}`, { filterTypes: ['a', 'a'], version: 7 })
    assert.deepEqual([changed.json.eventTypes, changed.json.version], [['a'], 7])
    assert.equal((await ask('PUT', `/app/a/endpoint/${made.json.id}`, { url })).json.version, 7)
    assert.deepEqual(problems(await ask('POST', '/app/a/endpoint', { url, version: 0 })), ['body.version minimum'])
    assert.equal((await ask('GET', '/app/a/endpoint/e')).json.version, 1)
    const sent = await ask('POST', '/app/a/msg', {
      eventType: 'x',
      payload: {},
      channels: ['c', 'd', 'c'],
      tags: ['t', 't'],
    })
    assert.deepEqual([sent.status, sent.json.channels, sent.json.tags], [202, ['c', 'd'], ['t']])
  })
})

describe('headers of an endpoint', () => {
  test('are replaced, changed and shown, but for those that are secrets by their name', async () => {
    const { ask, stored } = await withEndpoint({ headers: { 'X-Tenant': 'acme', Authorization: 'Bearer 1' } })
    const path = '/app/a/endpoint/e/headers'
    assert.deepEqual((await ask('GET', path)).json, { headers: { 'X-Tenant': 'acme' }, sensitive: ['Authorization'] })
    const changed = await ask('PATCH', path, { headers: { 'X-API-Key': 'k', 'x-tenant': null, 'X-Region': 'eu' } })
    assert.equal(changed.status, 204)
    assert.deepEqual((await ask('GET', path)).json, {
      headers: { 'X-Region': 'eu' },
      sensitive: ['Authorization', 'X-API-Key'],
    })
    await ask('PATCH', path, { headers: {}, deleteHeaders: ['AUTHORIZATION'] })
    assert.deepEqual((await stored()).headers, { 'X-API-Key': 'k', 'X-Region': 'eu' })
    assert.equal((await ask('PUT', path, { headers: { 'X-Only': '1' } })).status, 204)
    assert.deepEqual((await stored()).headers, { 'X-Only': '1' })
    await ask('PATCH', path, { headers: { 'x-ONLY': '2' } })
    assert.deepEqual((await stored()).headers, { 'x-ONLY': '2' }, 'one header, in the case of its last value')
    const odd = { X_Tenant: '', 'x.region': 'caf\xe9', 'x-pad': ' a\tb ' }
    assert.equal((await ask('PUT', path, { headers: odd })).status, 204)
    assert.deepEqual((await ask('GET', path)).json.headers, odd)
  })

  test('that cannot be sent, or too many of them, are refused and change nothing', async () => {
    const { ask, stored } = await withEndpoint({ headers: { 'x-a': '1' } })
    const path = '/app/a/endpoint/e/headers'
    for (const [method, headers, problem] of [
      ['PUT', { host: 'x' }, 'body.headers.host header'],
      ['PATCH', { 'webhook-id': 'x' }, 'body.headers.webhook-id header'],
      ['PATCH', { 'x-b': 'line\nbreak' }, 'body.headers.x-b header'],
      ['PATCH', { 'x-b': 'snow\u2603' }, 'body.headers.x-b header'],
      ['PUT', { 'X-Amz-Date': 'x' }, 'body.headers.X-Amz-Date header'],
      ['PUT', { 'X-Googly': 'x' }, 'body.headers.X-Googly header'],
      ['PUT', { 'x-azure-ref': 'x' }, 'body.headers.x-azure-ref header'],
      ['PUT', { 'x-fd-ref': 'x' }, 'body.headers.x-fd-ref header'],
      ['PUT', undefined, 'body.headers required'],
      ['PUT', { 'x-b': null }, 'body.headers.x-b type'],
    ] as const) {
      const answer = await ask(method, path, { headers })
      assert.deepEqual([answer.status, problems(answer)], [422, [problem]])
    }
    const many = (from: number, to: number) =>
      Object.fromEntries(Array.from({ length: to - from }, (_, i) => [`x-${from + i}`, 'v']))
    assert.deepEqual(problems(await ask('PUT', path, { headers: many(0, 65) })), ['body.headers maxProperties'])
    assert.equal((await ask('PATCH', path, { headers: many(0, 63) })).status, 204)
    assert.deepEqual(problems(await ask('PATCH', path, { headers: many(60, 65) })), ['body.headers maxProperties'])
    assert.equal(Object.keys((await stored()).headers).length, 64)
  })
})

describe('secrets of an endpoint', () => {
  const path = '/app/a/endpoint/e/secret'
  const next = `whsec_${Buffer.alloc(24, 9).toString('base64')}`

  test('are rotated; the old one signs until its grace has passed', async () => {
    const { ask, stored } = await withEndpoint()
    const [first] = (await stored()).secrets
    const before = Date.now()
    const rotated = await ask('POST', `${path}/rotate`, { key: next, gracePeriodSeconds: 60 })
    assert.deepEqual([rotated.status, rotated.json], [200, { key: next }])
    assert.deepEqual((await ask('GET', path)).json, { key: next })
    const { secrets } = await stored()
    assert.deepEqual(
      secrets.map(({ secret }) => secret),
      [next, first?.secret],
    )
    const expiresAt = secrets[1]?.expiresAt ?? 0
    assert.ok(expiresAt >= before + 60_000 && expiresAt <= Date.now() + 60_000)
    await ask('POST', `${path}/rotate`, {})
    const third = (await stored()).secrets
    assert.equal(third.length, 3)
    assert.equal(third[2]?.expiresAt, expiresAt)
    assert.ok((third[1]?.expiresAt ?? 0) >= before + 24 * 3_600_000)
    await ask('POST', `${path}/rotate`, { gracePeriodSeconds: 0, key: null })
    assert.equal((await stored()).secrets.length, 1)
  })

  test('made by rotating are of the kind that was there', async () => {
    const { ask } = await withEndpoint({ secret: `whsk_${Buffer.alloc(32, 3).toString('base64')}` })
    const { key } = (await ask('GET', path)).json
    await ask('POST', `${path}/rotate`, {})
    const after = (await ask('GET', path)).json.key
    assert.match(after, /^whpk_/)
    assert.notEqual(after, key)
  })

  test('that are none, and an eleventh old one, are refused', async () => {
    const { ask, stored } = await withEndpoint()
    assert.deepEqual(problems(await ask('POST', `${path}/rotate`, { key: 'short' })), ['body.key secret'])
    assert.deepEqual(problems(await ask('POST', `${path}/rotate`, { gracePeriodSeconds: 604_801 })), [
      'body.gracePeriodSeconds maximum',
    ])
    for (let i = 0; i < 10; i++) assert.equal((await ask('POST', `${path}/rotate`, {})).status, 200)
    const refused = await ask('POST', `${path}/rotate`, {})
    assert.deepEqual([refused.status, refused.json.code], [409, 'conflict'])
    assert.equal((await stored()).secrets.length, 11)
    assert.equal((await ask('POST', `${path}/rotate`, { gracePeriodSeconds: 0 })).status, 200)
  })
})

function daysAgo(days: number): string {
  return new Date(Date.now() - days * 86_400_000).toISOString()
}

describe('stats of an endpoint', () => {
  const path = '/app/a/endpoint/e/stats'

  test('count attempts by how they went, and what waits', async () => {
    const { ask, store, app, stored } = await withEndpoint()
    for (let i = 0; i < 3; i++) await ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
    const worker = await store.join({ leaseMs: 60_000, description: 'test' })
    await store.claim(worker, 10)
    const { key: endpoint } = await stored()
    const [due] = await store.readDue([{ endpoint, class: 0, after: null, limit: 10 }])
    const attempt = { startedAgoMs: () => 1, durationMs: 1, error: null, response: null }
    const [first, second] = due?.rows ?? []
    assert.ok(first && second)
    await store.settle(
      worker,
      [
        {
          endpoint,
          app,
          row: first,
          attempt: { ...attempt, id: 'atmpt_1', status: 204, code: 'delivered' },
          verdict: { state: 'delivered' },
        },
        {
          endpoint,
          app,
          row: second,
          attempt: { ...attempt, id: 'atmpt_2', status: 503, code: 'refused' },
          verdict: { state: 'waiting', waitMs: 60_000 },
        },
      ],
      { holds: [], disable: [], health: [] },
    )
    const { status, json } = await ask('GET', path)
    assert.deepEqual([status, json], [200, { success: 1, pending: 2, sending: 0, fail: 1, canceled: 0 }])
    const before = await ask('GET', `${path}?since=${daysAgo(20)}&until=${daysAgo(19)}`)
    assert.deepEqual([before.json.success, before.json.fail], [0, 0])
    // The newer operation of Svix's clients, with the query that they send.
    const ended = await ask('GET', `/app/a/endpoint/e/attempt-stats?since=${daysAgo(1)}`)
    assert.deepEqual([ended.status, ended.json], [200, { success: 1, fail: 1, canceled: 0 }])
  })

  test('look back no further than 28 days, and not ahead', async () => {
    const { ask } = await withEndpoint()
    const refused: [string, string][] = [
      ['since=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z', 'query.since range'],
      [`since=${daysAgo(29)}`, 'query.since range'],
      ['since=yesterday', 'query.since pattern'],
      ['until=2026-13-41T00:00:00Z', 'query.until range'],
    ]
    for (const [query, problem] of refused) {
      for (const stats of [path, '/app/a/endpoint/e/attempt-stats']) {
        const answer = await ask('GET', `${stats}?${query}`)
        assert.equal(answer.status, 422, query)
        assert.ok(problems(answer).includes(problem), `${query}: ${problems(answer)}`)
      }
    }
    assert.equal((await ask('GET', `${path}?since=${daysAgo(28)}`)).status, 200)
  })
})

describe('examples', () => {
  const path = '/app/a/endpoint/e/send-example'

  test('go to the one endpoint, whatever it subscribes to', async () => {
    const { ask, store, stored } = await withEndpoint({ eventTypes: ['other'], channels: ['c'] })
    await ask('POST', '/app/a/endpoint', { url })
    const { status, json } = await ask('POST', path, { eventType: 'svix.ping' })
    assert.equal(status, 200)
    assert.deepEqual([json.eventType, json.payload, json.eventId], ['svix.ping', { success: true }, null])
    assert.deepEqual((await ask('GET', `/app/a/msg/${json.id}`)).json.payload, { success: true })
    const [due] = await store.readDue([{ endpoint: (await stored()).key, class: 0, after: null, limit: 10 }])
    assert.equal(due?.rows.length, 1)
    assert.equal((await store.counts()).pending, 1)
  })

  test('of an event type without a schema have a body all the same, and any name does while there are no event types', async () => {
    const { ask } = await withEndpoint()
    const before = Date.now()
    const { status, json } = await ask('POST', path, { eventType: 'video.trending' })
    assert.equal(status, 200)
    const { type, timestamp, data } = json.payload
    assert.deepEqual([json.eventType, type, data], ['video.trending', 'video.trending', { example: true }])
    assert.ok(Date.parse(timestamp) >= before && Date.parse(timestamp) <= Date.now())
    await ask('POST', '/api/v1/event-type', { name: 'known', description: '' })
    assert.equal((await ask('POST', path, { eventType: 'known' })).json.payload.type, 'known')
    assert.equal((await ask('POST', path, { eventType: 'video.trending' })).status, 404)
  })

  test("are made from the event type's newest schema", async () => {
    const { ask } = await withEndpoint()
    const schemas = {
      '2': { examples: [{ n: 2 }, { n: 3 }] },
      '10': {
        type: 'object',
        properties: { id: { type: 'string', format: 'uuid' }, n: { type: 'integer', minimum: 4 } },
      },
    }
    await ask('POST', '/api/v1/event-type', { name: 'x', description: '', schemas })
    const { json } = await ask('POST', path, { eventType: 'x' })
    assert.deepEqual(json.payload, { id: '00000000-0000-4000-8000-000000000000', n: 4 })
    await ask('PATCH', '/api/v1/event-type/x', { schemas: { '2': schemas['2'] } })
    assert.deepEqual((await ask('POST', path, { eventType: 'x', exampleIndex: 1 })).json.payload, { n: 3 })
  })

  test('of an unknown event type are refused, and nothing is sent', async () => {
    const { ask, store } = await withEndpoint()
    await ask('POST', '/api/v1/event-type', { name: 'x', description: '' })
    assert.equal((await ask('POST', path, { eventType: 'unknown' })).status, 404)
    assert.equal((await store.counts()).messages, 0)
  })
})
