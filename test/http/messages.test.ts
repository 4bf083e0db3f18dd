import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { encodeId } from '../../src/domain/ids.ts'
import { systemRandomText } from '../../src/runtime/random.ts'
import type { Settlement } from '../../src/store/store.ts'
import { type Api, openApi } from './api.ts'

async function withApp(): Promise<Api> {
  const api = await openApi()
  await api.ask('POST', '/app', { name: 'A', uid: 'a' })
  return api
}

/** Bodies a parser would change if it ever got hold of them. */
const delicate = [
  '{"n":1.0,"e":1E5,"neg":-0}',
  '{"big":9007199254740993,"huge":123456789012345678901234567890}',
  '{"2":"b","1":"a"}',
  '{ "a" :\t[ 1 , 2 ]\r\n}',
  '{"escaped":"\\u00e9\\/\\ud83d\\ude00","raw":"é😀"}',
  '{"nul":"\\u0000","lone":"\\ud800"}',
  '{"__proto__":{"x":1},"constructor":{"prototype":1}}',
  '{"payload":{"payload":{}}}',
  '{}',
]

describe('a published message', () => {
  for (const payload of delicate) {
    test(`keeps the very bytes of ${payload}`, async () => {
      const { ask, store } = await withApp()
      const sent = await ask('POST', '/app/a/msg', `{"eventType":"x", "payload" : ${payload} , "eventId":"e1"}`)
      assert.equal(sent.status, 202)
      assert.ok(sent.text.includes(`"payload":${payload},"eventId":"e1"`), sent.text)
      assert.ok((await ask('GET', '/app/a/msg/e1')).text.includes(`"payload":${payload},"eventId":"e1"`))
      const app = await store.findApplication('a')
      const message = await store.findMessage(app?.key ?? 0, 'e1')
      assert.equal(Buffer.from(message?.body ?? []).toString('utf8'), payload)
    })
  }

  test('keeps the bytes of any payload', async () => {
    const { ask } = await withApp()
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue({ maxDepth: 3 })), async (value) => {
        const payload = JSON.stringify(value)
        const sent = await ask('POST', '/app/a/msg', `{"payload":${payload},"eventType":"x"}`)
        assert.equal(sent.status, 202, sent.text)
        assert.ok(sent.text.includes(`,"payload":${payload},"eventId":null,`))
        assert.equal((await ask('GET', `/app/a/msg/${sent.json.id}`)).text, sent.text)
      }),
      { numRuns: 60 },
    )
  })

  test('is answered with every field a strict client expects', async () => {
    const { ask } = await withApp()
    const sent = await ask('POST', '/app/a/msg', {
      eventType: 'video.trending',
      payload: { a: 1 },
      eventId: 'e-1',
      channels: ['c1', 'c2'],
    })
    const { id, timestamp, ...rest } = sent.json
    assert.match(id, /^msg_[0-9A-Za-z]{27}$/)
    assert.ok(Math.abs(Date.parse(timestamp) - Date.now()) < 60_000)
    const head = { eventType: 'video.trending', payload: { a: 1 }, eventId: 'e-1', channels: ['c1', 'c2'] }
    assert.deepEqual(rest, { ...head, tags: null, deliverAt: null, expiresAt: null, orderingKey: null })
    assert.match(String(sent.headers['content-type']), /^application\/json/)
    assert.deepEqual((await ask('GET', `/app/a/msg/${id}`)).json, sent.json)
  })

  test('is answered without its payload when that is not asked for', async () => {
    const { ask } = await withApp()
    const sent = await ask('POST', '/app/a/msg?with_content=false', { eventType: 'x', payload: { a: 1 } })
    assert.deepEqual([sent.status, sent.json.payload], [202, {}])
    assert.deepEqual((await ask('GET', `/app/a/msg/${sent.json.id}?with_content=false`)).json.payload, {})
    assert.deepEqual((await ask('GET', `/app/a/msg/${sent.json.id}`)).json.payload, { a: 1 })
  })

  test('ignores fields it does not know, as clients of other versions send them', async () => {
    const { ask } = await withApp()
    const body = { eventType: 'x', payload: {}, tags: ['t'], payloadRetentionPeriod: 90, transformationsParams: null }
    assert.equal((await ask('POST', '/app/a/msg', body)).status, 202)
  })

  test('of another application is unknown', async () => {
    const { ask } = await withApp()
    await ask('POST', '/app', { name: 'B', uid: 'b' })
    const { json } = await ask('POST', '/app/a/msg', { eventType: 'x', payload: {}, eventId: 'mine' })
    for (const path of [`/msg/${json.id}`, '/msg/mine', `/msg/${json.id}/endpoint`]) {
      assert.equal((await ask('GET', `/app/b${path}`)).status, 404)
    }
    assert.equal((await ask('GET', `/app/b/attempt/msg/${json.id}`)).status, 404)
  })

  test('is reached with or without a slash at the end, and with two at the front', async () => {
    const { ask } = await withApp()
    for (const path of [
      '/api/v1/app/a/msg',
      '/api/v1/app/a/msg/',
      '//api/v1/app/a/msg',
      '//api/v1/app/a/msg/?with_content=true',
    ]) {
      assert.equal((await ask('POST', path, { eventType: 'x', payload: {} })).status, 202, path)
    }
  })
})

describe('the fate of a message', () => {
  /** Two endpoints and a message; `settle` plays the worker that made an attempt. */
  async function delivered() {
    const api = await withApp()
    const first = (await api.ask('POST', '/app/a/endpoint', { url: 'https://one.example.com/', uid: 'one' })).json
    const second = (await api.ask('POST', '/app/a/endpoint', { url: 'https://two.example.com/', uid: 'two' })).json
    const sent = (await api.ask('POST', '/app/a/msg', { eventType: 'x', payload: {}, eventId: 'e', channels: ['c'] }))
      .json
    const app = await api.store.findApplication('a')
    const message = await api.store.findMessage(app?.key ?? 0, 'e')
    assert.ok(app && message)
    const worker = await api.store.join({ leaseMs: 60_000, description: 'test' })
    const lanes = (await api.store.claim(worker, 10)).lanes
    const settle = async (
      uid: string,
      attempt: Partial<Settlement['attempt']>,
      verdict: Settlement['verdict'],
      itsClass: 0 | 1 = 0,
    ) => {
      const lane = lanes.find(({ endpoint }) => endpoint.uid === uid)
      assert.ok(lane)
      const [due] = await api.store.readDue([{ endpoint: lane.endpoint.key, class: itsClass, after: null, limit: 1 }])
      const row = due?.rows[0]
      assert.ok(row)
      const id = encodeId('atmpt', message.key + row.attempts * 2 + (uid === 'one' ? 0 : 1), systemRandomText)
      const full = {
        id,
        startedAgoMs: () => 5,
        durationMs: 4,
        status: 200,
        code: 'delivered' as const,
        error: null,
        response: null,
        ...attempt,
      }
      await api.store.settle(worker, [{ endpoint: lane.endpoint.key, app: app.key, row, attempt: full, verdict }], {
        holds: [],
        disable: [],
        health: [],
      })
      return id
    }
    return { ...api, sent, first, second, settle }
  }

  test('before any attempt is pending everywhere, with no attempts', async () => {
    const { ask, first, second } = await delivered()
    const { data, done } = (await ask('GET', '/app/a/msg/e/endpoint')).json
    const state = { status: 1, statusText: 'pending', nextAttempt: null, coalescedInto: null, deleted: false }
    assert.deepEqual(data, [
      { ...first, ...state },
      { ...second, ...state },
    ])
    assert.equal(done, true)
    assert.deepEqual((await ask('GET', '/app/a/attempt/msg/e')).json.data, [])
  })

  test('stays at an endpoint that was deleted: delivered if it was, else canceled', async () => {
    const { ask, first, second, settle } = await delivered()
    await settle('one', {}, { state: 'delivered' })
    await settle('two', { status: 500, code: 'refused' }, { state: 'waiting', waitMs: 60_000 })
    for (const uid of ['one', 'two']) assert.equal((await ask('DELETE', `/app/a/endpoint/${uid}`)).status, 204)
    const { data } = (await ask('GET', '/app/a/msg/e/endpoint')).json
    assert.deepEqual(
      data.map((d: Record<string, unknown>) => [d.id, d.url, d.statusText, d.nextAttempt, d.deleted, d.disabled]),
      [
        [first.id, first.url, 'success', null, true, true],
        [second.id, second.url, 'fail', null, true, true],
      ],
    )
    const attempts = (await ask('GET', '/app/a/attempt/msg/e')).json.data
    assert.deepEqual(
      attempts.map((a: Record<string, unknown>) => [a.endpointId, a.url]),
      [
        [second.id, second.url],
        [first.id, first.url],
      ],
    )
    assert.equal((await ask('GET', `/app/a/msg/e/attempt/${attempts[0].id}`)).json.endpointId, second.id)
  })

  test('is shown for each endpoint and each attempt', async () => {
    const { ask, sent, first, second, settle } = await delivered()
    const ok = await settle('one', { response: Buffer.from('fine') }, { state: 'delivered' })
    const refused = await settle(
      'two',
      {
        status: 500,
        code: 'refused',
        response: Buffer.from('oops'),
        responseHeaders: '{"server":"hook/2"}',
        timings: '3,12,,40',
      },
      { state: 'waiting', waitMs: 3_600_000 },
    )

    const destinations = (await ask('GET', '/app/a/msg/e/endpoint')).json.data
    assert.deepEqual(
      destinations.map((d: { uid: string; status: number; statusText: string }) => [d.uid, d.status, d.statusText]),
      [
        ['one', 0, 'success'],
        ['two', 3, 'sending'],
      ],
    )
    assert.equal(destinations[0].nextAttempt, null)
    assert.match(destinations[1].nextAttempt, /^\d{4}-.*Z$/)

    const attempts = (await ask('GET', '/app/a/attempt/msg/e')).json.data
    const { timestamp, ...latest } = attempts[0]
    assert.match(timestamp, /^\d{4}-.*Z$/)
    assert.deepEqual(latest, {
      id: refused,
      msgId: sent.id,
      endpointId: second.id,
      endpointUid: 'two',
      url: 'https://two.example.com/',
      response: 'oops',
      responseHeaders: { server: 'hook/2' },
      responseStatusCode: 500,
      responseDurationMs: 4,
      timings: { reused: false, dnsMs: 3, connectMs: 12, tlsMs: null, firstByteMs: 40 },
      status: 2,
      statusText: 'fail',
      triggerType: 0,
      code: 'refused',
      error: null,
      attempt: 1,
    })
    assert.equal((await ask('GET', '/app/a/attempt/msg/e?with_content=false')).json.data[0].responseHeaders, null)
    assert.deepEqual(
      [attempts[1].id, attempts[1].endpointId, attempts[1].status, attempts[1].response],
      [ok, first.id, 0, 'fine'],
    )
  })

  test('ends as failed when no attempt is left, and says what went wrong when no receiver answered', async () => {
    const { ask, settle } = await delivered()
    await settle(
      'one',
      { status: 0, code: 'connect_refused', error: 'The connection was refused.' },
      { state: 'dead', reason: 'exhausted' },
    )
    const [one] = (await ask('GET', '/app/a/msg/e/endpoint')).json.data
    assert.deepEqual([one.status, one.statusText, one.nextAttempt], [2, 'fail', null])
    const [attempt] = (await ask('GET', '/app/a/attempt/msg/e')).json.data
    assert.deepEqual(
      [attempt.responseStatusCode, attempt.response, attempt.code],
      [0, 'The connection was refused.', 'connect_refused'],
    )
  })

  test('can be filtered and walked page by page', async () => {
    const { ask, settle } = await delivered()
    const ok = await settle('one', {}, { state: 'delivered' })
    const a = await settle('two', { status: 503, code: 'refused' }, { state: 'waiting', waitMs: 0 })
    const b = await settle('two', { status: 302, code: 'redirected' }, { state: 'dead', reason: 'exhausted' }, 1)
    const list = async (query: string) => {
      const { json } = await ask('GET', `/app/a/attempt/msg/e?${query}`)
      return json.data.map(({ id }: { id: string }) => id)
    }
    assert.deepEqual(await list(''), [b, a, ok])
    assert.deepEqual(await list('order=ascending'), [ok, a, b])
    assert.deepEqual(await list('status=0'), [ok])
    assert.deepEqual(await list('status=2'), [b, a])
    assert.deepEqual(await list('status_code_class=500'), [a])
    assert.deepEqual(await list('endpoint_id=one'), [ok])
    assert.deepEqual(await list('channel=c&event_types=y,x'), [b, a, ok])
    assert.deepEqual(await list('channel=d'), [])
    assert.deepEqual(await list('event_types=y'), [])
    assert.deepEqual(await list('event_types=*'), [b, a, ok])
    assert.deepEqual(await list('before=2020-01-01T00:00:00Z'), [])
    assert.deepEqual(await list('after=2020-01-01T00:00:00Z'), [b, a, ok])
    assert.deepEqual(await list('limit=2'), [b, a])
    assert.deepEqual(await list(`limit=2&iterator=${a}`), [ok])
    assert.deepEqual(await list(`limit=1&iterator=-${ok}`), [a])
    const { json } = await ask('GET', '/app/a/attempt/msg/e?with_content=false&limit=1')
    assert.deepEqual([json.data[0].response, json.done, json.iterator], ['', false, b])
  })
})
