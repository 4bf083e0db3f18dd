import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { anyCharacter } from '../any-character.ts'
import { type Api, openApi } from './api.ts'

async function withApp(): Promise<Api> {
  const api = await openApi()
  await api.ask('POST', '/app', { name: 'A', uid: 'a' })
  await api.ask('POST', '/app/a/endpoint', { url: 'https://example.com/', uid: 'e' })
  return api
}

/** One API for all tests that leave nothing behind in it. */
let shared: Promise<Api> | undefined
function sharedApi(): Promise<Api> {
  shared ??= withApp()
  return shared
}

/** An answer in the one shape every error has. */
function assertProblem(answer: Awaited<ReturnType<Api['ask']>>, status: number, code: string): void {
  assert.deepEqual([answer.status, answer.json?.code], [status, code], answer.text)
  assert.match(String(answer.headers['content-type']), /^application\/json/)
  const { type, title, status: told, detail, instance } = answer.json
  assert.equal(type, `urn:sluice:error:${code}`)
  assert.equal(told, status)
  assert.ok(title.length > 0 && instance.startsWith('/') && instance.length <= 512)
  if (status === 422) {
    assert.ok(detail.length > 0)
    for (const { loc, msg, type: kind } of detail) assert.ok(loc.length > 0 && msg.length > 0 && kind.length > 0)
  } else assert.equal(typeof detail, 'string')
  assert.doesNotMatch(answer.text, /node_modules|\.ts:\d/)
}

const event = '{"eventType":"x","payload":{}}'

describe('a body that is not acceptable JSON', () => {
  const bodies: [string, string | Buffer, string][] = [
    ['malformed', '{"eventType":"x","payload":{}', 'invalid_json'],
    ['empty', '', 'invalid_json'],
    ['blank', '  ', 'invalid_json'],
    ['with a byte order mark', `\ufeff${event}`, 'invalid_json'],
    ['with a trailing comma', '{"eventType":"x","payload":{},}', 'invalid_json'],
    ['with NaN', '{"eventType":"x","payload":{"a":NaN}}', 'invalid_json'],
    ['with a key twice in the envelope', '{"eventType":"x","eventType":"y","payload":{}}', 'duplicate_key'],
    ['with a key twice in the payload', '{"eventType":"x","payload":{"a":{"b":1,"\\u0062":2}}}', 'duplicate_key'],
    ['with two payloads', '{"eventType":"x","payload":{},"payload":{}}', 'duplicate_key'],
    [
      'with a payload nested 101 deep',
      `{"eventType":"x","payload":${'{"a":'.repeat(101)}1${'}'.repeat(101)}}`,
      'too_deep',
    ],
    ['nested 10,000 deep', `{"eventType":"x","payload":${'['.repeat(10_000)}`, 'too_deep'],
    [
      'with 10,001 keys',
      `{"payload":{${Array.from({ length: 10_000 }, (_, i) => `"${i}":1`).join()}},"eventType":"x"}`,
      'too_many_keys',
    ],
    [
      'in invalid UTF-8',
      Buffer.concat([Buffer.from('{"eventType":"x","payload":{"a":"'), Buffer.from([0xff]), Buffer.from('"}}')]),
      'invalid_utf8',
    ],
  ]
  for (const [name, body, code] of bodies) {
    test(`${name} is 422 ${code}, and nothing is stored`, async () => {
      const api = await openApi({ bodyLimitBytes: 1024 * 1024 })
      await api.ask('POST', '/app', { name: 'A', uid: 'a' })
      assertProblem(await api.ask('POST', '/app/a/msg', body), 422, code)
      assertProblem(await api.ask('POST', '/app', body), 422, code)
      assert.equal((await api.store.counts()).messages, 0)
      assert.equal((await api.ask('GET', '/app')).json.data.length, 1)
    })
  }

  test('missing altogether is 422 as well', async () => {
    const { ask } = await withApp()
    for (const path of ['/app', '/app/a/msg', '/app/a/endpoint'])
      assertProblem(await ask('POST', path), 422, 'invalid_json')
    assertProblem(await ask('PATCH', '/app/a/endpoint/e'), 422, 'invalid_json')
  })

  for (const key of ['__proto__', 'constructor', 'prototype']) {
    test(`with the key ${key} is 400 where it describes something to keep`, async () => {
      const { ask } = await withApp()
      assertProblem(await ask('POST', '/app', `{"name":"x","metadata":{"${key}":"y"}}`), 422, 'forbidden_key')
      assertProblem(await ask('PATCH', '/app/a/endpoint/e', `{"${key}":{"disabled":true}}`), 422, 'forbidden_key')
      assertProblem(await ask('POST', '/app/a/msg', `{"eventType":"x","payload":{},"${key}":1}`), 422, 'forbidden_key')
      assert.equal((await ask('POST', '/app/a/msg', `{"eventType":"x","payload":{"${key}":1}}`)).status, 202)
    })
  }
})

describe('a body in another form', () => {
  const headers: [Record<string, string>, number][] = [
    [{ 'content-type': 'text/plain' }, 415],
    [{ 'content-type': 'application/xml' }, 415],
    [{ 'content-type': 'nonsense' }, 415],
    [{ 'content-type': 'application/json; charset=utf-16' }, 415],
    [{ 'content-type': 'application/json; charset=latin1' }, 415],
    [{ 'content-encoding': 'gzip' }, 415],
    [{ 'content-encoding': 'br' }, 415],
    [{ 'content-type': 'application/json; charset=utf-8' }, 202],
    [{ 'content-type': 'application/json;charset="UTF-8"' }, 202],
    [{ 'content-encoding': 'identity' }, 202],
  ]
  for (const [given, status] of headers) {
    test(`${JSON.stringify(given)} is ${status}`, async () => {
      const { ask } = await sharedApi()
      const answer = await ask('POST', '/app/a/msg', event, given)
      if (status === 415) assertProblem(answer, 415, 'unsupported_media_type')
      else assert.equal(answer.status, status, answer.text)
    })
  }

  test('over the limit is 413 and closes the connection', async () => {
    const { ask } = await sharedApi()
    const answer = await ask('POST', '/app/a/msg', { eventType: 'x', payload: { a: 'x'.repeat(64 * 1024) } })
    assertProblem(answer, 413, 'payload_too_large')
    assert.equal(answer.headers.connection, 'close')
  })
})

describe('a field that is wrong', () => {
  const name = 'may contain only letters, digits, -, _ and ., and must not be . or ..'
  const uid = 'may contain only letters, digits, -, _ and ., must not be . or .., and must not begin with'
  const cases: [string, string, unknown, (string | number)[], string][] = [
    ['POST', '/app', {}, ['name'], 'is required'],
    ['POST', '/app', [], [], 'must be object'],
    ['POST', '/app', '"x"', [], 'must be object'],
    ['POST', '/app', 'null', [], 'must be object'],
    ['POST', '/app', { name: '' }, ['name'], 'must not have fewer than 1 characters'],
    ['POST', '/app', { name: 'a\u0000b' }, ['name'], 'must not contain U+0000 or lone surrogates'],
    ['POST', '/app', '{"name":"\\ud800"}', ['name'], 'must not contain U+0000 or lone surrogates'],
    ['POST', '/app', { name: 'x', uid: 'a b' }, ['uid'], `${uid} app_`],
    ['POST', '/app', { name: 'x', uid: 'app_x' }, ['uid'], `${uid} app_`],
    ['POST', '/app', { name: 'x', uid: 'u'.repeat(257) }, ['uid'], 'must not have more than 256 characters'],
    ['POST', '/app', { name: 'x', metadata: { a: 1 } }, ['metadata', 'a'], 'must be string'],
    [
      'POST',
      '/app',
      { name: 'x', metadata: { a: 'x'.repeat(4096) } },
      ['metadata'],
      'must not take up more than 4096 bytes as JSON',
    ],
    ['POST', '/app/a/msg', { payload: {} }, ['eventType'], 'is required'],
    ['POST', '/app/a/msg', { eventType: 'x' }, ['payload'], 'is required'],
    ['POST', '/app/a/msg', { eventType: 'x', payload: 7 }, ['payload'], 'must be an object, a list or a text'],
    ['POST', '/app/a/msg', { eventType: 'x', payload: true }, ['payload'], 'must be an object, a list or a text'],
    ['POST', '/app/a/msg', { eventType: 'x', payload: null }, ['payload'], 'must be an object, a list or a text'],
    ['POST', '/app/a/msg', '[]', [], 'must be object'],
    ['POST', '/app/a/msg', { eventType: 'a b', payload: {} }, ['eventType'], name],
    ['POST', '/app/a/msg', { eventType: "x'; drop table message;--", payload: {} }, ['eventType'], name],
    [
      'POST',
      '/app/a/msg',
      { eventType: 'x', payload: {}, eventId: 'a.b' },
      ['eventId'],
      'may contain only letters, digits, - and _, and must not begin with msg_',
    ],
    [
      'POST',
      '/app/a/msg',
      { eventType: 'x', payload: {}, eventId: 'msg_1' },
      ['eventId'],
      'may contain only letters, digits, - and _, and must not begin with msg_',
    ],
    [
      'POST',
      '/app/a/msg',
      { eventType: 'x', payload: {}, eventId: 'e'.repeat(257) },
      ['eventId'],
      'must not have more than 256 characters',
    ],
    [
      'POST',
      '/app/a/msg',
      { eventType: 'x', payload: {}, channels: [] },
      ['channels'],
      'must not have fewer than 1 items',
    ],
    [
      'POST',
      '/app/a/msg',
      '{"eventType":"\\ud800","payload":{}}',
      ['eventType'],
      'must not contain U+0000 or lone surrogates',
    ],
    ['POST', '/app/a/endpoint', {}, ['url'], 'is required'],
    ['POST', '/app/a/endpoint', endpoint({ eventTypes: [] }), ['eventTypes'], 'must not have fewer than 1 items'],
    [
      'POST',
      '/app/a/endpoint',
      endpoint({ eventTypes: ['ok', 'vid*'] }),
      ['eventTypes', 1],
      'must be an event type such as video.trending, a group such as video.*, or *',
    ],
    ['POST', '/app/a/endpoint', endpoint({ channels: ['a b'] }), ['channels', 0], name],
    ['POST', '/app/a/endpoint', endpoint({ headers: { host: 'evil' } }), ['headers', 'host'], 'is a reserved header'],
    [
      'POST',
      '/app/a/endpoint',
      endpoint({ headers: { 'Webhook-Id': 'x' } }),
      ['headers', 'Webhook-Id'],
      'is a reserved header',
    ],
    ['POST', '/app/a/endpoint', endpoint({ headers: { 'x y': 'z' } }), ['headers', 'x y'], 'is not a header name'],
    [
      'POST',
      '/app/a/endpoint',
      endpoint({ headers: { x: 'a\r\nb: c' } }),
      ['headers', 'x'],
      'must be Latin-1 without control characters',
    ],
    [
      'POST',
      '/app/a/endpoint',
      endpoint({ secret: 'whsec_c2hvcnQ=' }),
      ['secret'],
      'must be whsec_ and 24 to 75 bytes in base64, raw: and a text, hex: and hex digits, or whsk_ and an ed25519 key in base64',
    ],
    [
      'POST',
      '/app/a/endpoint',
      endpoint({ secret: `whsk_${Buffer.alloc(64, 1).toString('base64')}` }),
      ['secret'],
      'must be whsec_ and 24 to 75 bytes in base64, raw: and a text, hex: and hex digits, or whsk_ and an ed25519 key in base64',
    ],
    [
      'POST',
      '/app/a/endpoint',
      endpoint({ burst: 5, throttleRate: null }),
      ['burst'],
      'needs a throttleRate beside it',
    ],
    [
      'POST',
      '/app/a/endpoint',
      endpoint({ retry: { waits: { kind: 'list', ms: [1, -1] } } }),
      ['retry', 'waits', 'ms', 1],
      'must be >= 0',
    ],
    [
      'POST',
      '/app/a/endpoint',
      endpoint({ retry: { waits: { kind: 'never' } } }),
      ['retry', 'waits'],
      'must be an object with kind "list" or an object with kind "exponential"',
    ],
    ['PATCH', '/app/a/endpoint/e', { retry: { waits: 5 } }, ['retry', 'waits'], 'must be an object'],
    ['PATCH', '/app/a/endpoint/e', { circuit: 'on' }, ['circuit'], 'must be "off", an object or null'],
    ['PATCH', '/app/a/endpoint/e', { circuit: { failures: 0 } }, ['circuit', 'failures'], 'must be >= 1'],
    ['PATCH', '/app/a/endpoint/e', { circuit: { ratio: 'half' } }, ['circuit', 'ratio'], 'must be number'],
    [
      'PATCH',
      '/app/a/endpoint/e',
      { circuit: { failure: 3 } },
      ['circuit', 'failure'],
      'is an unknown field; did you mean failures?',
    ],
    [
      'PATCH',
      '/app/a/endpoint/e',
      { shape: { pseudonymise: ['/a'] } },
      ['shape', 'pseudonymise'],
      'is an unknown field; did you mean pseudonymize?',
    ],
    [
      'PATCH',
      '/app/a/endpoint/e',
      { coalesce: { windowMs: 5000, pointer: '/a' } },
      ['coalesce', 'pointer'],
      'is an unknown field; the fields are windowMs, key',
    ],
    [
      'PATCH',
      '/app/a',
      { signatureHeaders: { Signature: 'x-s' } },
      ['signatureHeaders', 'Signature'],
      'is an unknown field; did you mean signature?',
    ],
    [
      'PATCH',
      '/app/a/endpoint/e',
      { shape: { drop: ['user.id'] } },
      ['shape', 'drop', 0],
      'must be a JSON pointer such as /user/id',
    ],
    ['POST', '/app/a/dead/replay', { endpoint: 'e' }, ['endpoint'], 'is an unknown field; did you mean endpointId?'],
    [
      'POST',
      '/api/v1/dead/replay',
      { endpointId: 'e' },
      ['endpointId'],
      'is an unknown field; the fields are eventTypes, reason, before, after, letters, perSecond',
    ],
    [
      'POST',
      '/app/a/msg',
      { eventType: 'x', payload: {}, expiresAt: 'soon' },
      ['expiresAt'],
      'must be an instant such as 2026-11-15T09:40:00Z',
    ],
    [
      'POST',
      '/app/a/msg',
      { eventType: 'x', payload: {}, deliverAt: '2026-02-31T00:00:00Z' },
      ['deliverAt'],
      'is not an instant',
    ],
    ['PATCH', '/app/a/endpoint/e', { order: 'lifo' }, ['order'], 'must be "none", "fifo", "key" or null'],
    [
      'POST',
      '/app/a/endpoint',
      endpoint({ retry: { waits: { kind: 'exponential', baseMs: 1, factor: 2, capMs: 9 } } }),
      ['retry', 'waits', 'maxAttempts'],
      'is required',
    ],
    ['PATCH', '/app/a/endpoint/e', { disabled: 'no' }, ['disabled'], 'must be boolean'],
    [
      'PATCH',
      '/app/a/endpoint/e',
      { uid: 'ep_x' },
      ['uid'],
      'may contain only letters, digits, -, _ and ., must not be . or .., and must not begin with ep_',
    ],
    ['PATCH', '/app/a/endpoint/e', { url: 'ftp://example.com' }, ['url'], 'The URL does not begin with https://.'],
  ]
  for (const [method, path, body, at, message] of cases) {
    test(`${method} ${path} ${JSON.stringify(body).slice(0, 90)} is 422 at ${at.join('.') || 'the top'}`, async () => {
      const { ask, store } = await sharedApi()
      const before = await store.counts()
      const answer = await ask(method, path, body)
      assertProblem(answer, 422, 'validation')
      assert.deepEqual(
        answer.json.detail.map(({ loc, msg }: { loc: unknown; msg: string }) => ({ loc, msg })),
        [{ loc: ['body', ...at.map(String)], msg: message }],
      )
      assert.deepEqual(await store.counts(), before)
    })
  }

  const numbers = ['0', '-1', '1.5', '1e400', '"10"', '9007199254740993', 'true', '[]']
  for (const field of [
    'throttleRate',
    'throttlePeriodSeconds',
    'burst',
    'concurrency',
    'timeoutMs',
    'connectTimeoutMs',
  ]) {
    test(`${field} takes only whole numbers within its bounds`, async () => {
      const { ask } = await sharedApi()
      for (const number of numbers) {
        const answer = await ask('POST', '/app/a/endpoint', `{"url":"https://example.com/","${field}":${number}}`)
        assertProblem(answer, 422, 'validation')
        for (const { loc } of answer.json.detail) assert.deepEqual(loc, ['body', field], number)
      }
      assert.equal((await ask('POST', '/app/a/endpoint', `{"url":"https://example.com/","${field}":null}`)).status, 201)
    })
  }

  test('is listed together with all other mistakes', async () => {
    const { ask } = await sharedApi()
    const answer = await ask('POST', '/app/a/msg', { eventType: 1, payload: 2, eventId: 'a.b', channels: 'c' })
    assertProblem(answer, 422, 'validation')
    const locations = answer.json.detail.map(({ loc }: { loc: string[] }) => loc[1])
    assert.deepEqual(locations.sort(), ['channels', 'eventId', 'eventType', 'payload'])
  })

  const targets = ['http://example.com/', 'https://10.0.0.1/', 'https://[::1]/', 'https://169.254.169.254/']
  const tricks = [
    'https://user:pw@example.com/',
    'https://example.com:0/',
    'https://example.com:22/',
    'http:example.com',
    'nonsense',
    'https://exa mple.com/',
  ]
  for (const url of [...targets, ...tricks]) {
    test(`an endpoint at ${url} is refused, when created and when changed`, async () => {
      const { ask } = await sharedApi()
      for (const answer of [
        await ask('POST', '/app/a/endpoint', { url }),
        await ask('PATCH', '/app/a/endpoint/e', { url }),
      ]) {
        assertProblem(answer, 422, 'validation')
        assert.deepEqual(answer.json.detail[0].loc, ['body', 'url'])
      }
    })
  }

  function endpoint(fields: Record<string, unknown>): Record<string, unknown> {
    return { url: 'https://example.com/', ...fields }
  }
})

describe('a query that is wrong', () => {
  for (const query of [
    'limit=0',
    'limit=251',
    'limit=x',
    'limit=1.5',
    'limit=1&limit=2',
    'order=sideways',
    'iterator=zz',
    'iterator=-',
    'iterator=ep_x',
  ]) {
    test(`?${query} is 422`, async () => {
      const { ask } = await sharedApi()
      const answer = await ask('GET', `/app?${query}`)
      assertProblem(answer, 422, 'validation')
      assert.equal(answer.json.detail[0].loc[0], 'query')
    })
  }
  test('?with_content=maybe is 422, and nothing is published', async () => {
    const { ask, store } = await sharedApi()
    const before = await store.counts()
    assertProblem(await ask('POST', '/app/a/msg?with_content=maybe', event), 422, 'validation')
    assert.deepEqual(await store.counts(), before)
  })
})

describe('a query that says which dead letters are meant', () => {
  for (const [method, path] of [
    ['DELETE', '/app/a/dead?endpoint=e'],
    ['DELETE', '/app/a/dead?endpointId=e'],
    ['DELETE', '/api/v1/dead?endpoint_id=e'],
    ['DELETE', '/api/v1/dead?msg_id=m'],
    ['GET', '/app/a/dead/export?type=x'],
    ['DELETE', '/app/a/dead?before=2026-02-31T00:00:00Z'],
  ] as const) {
    test(`${method} ${path} is 422 instead of all of them`, async () => {
      const { ask } = await sharedApi()
      const answer = await ask(method, path)
      assertProblem(answer, 422, 'validation')
      assert.equal(answer.json.detail[0].loc[1], path.split(/[?=]/)[1])
    })
  }
})

describe('a path that leads nowhere', () => {
  const cases: [string, string, number, string][] = [
    ['GET', '/nowhere', 404, 'not_found'],
    ['GET', '/api/v2/app', 404, 'not_found'],
    ['GET', '/app/nobody', 404, 'not_found'],
    ['GET', `/app/app_${'0'.repeat(27)}`, 404, 'not_found'],
    ['GET', '/app/nobody/endpoint', 404, 'not_found'],
    ['GET', '/app/a/endpoint/nobody', 404, 'not_found'],
    ['GET', '/app/a/msg/nobody', 404, 'not_found'],
    ['GET', '/app/%2e%2e', 404, 'not_found'],
    ['GET', '/app/%00', 404, 'not_found'],
    ['GET', "/app/a'%20or%201=1", 404, 'not_found'],
    ['GET', '/app/%25_', 404, 'not_found'],
    ['GET', '/app/%zz', 400, 'invalid_request'],
    ['GET', `/app/${'x'.repeat(10_000)}`, 400, 'invalid_request'],
    ['DELETE', '/app', 405, 'method_not_allowed'],
    ['PUT', '/app/a/msg', 405, 'method_not_allowed'],
    ['POST', '/api/v1/health', 405, 'method_not_allowed'],
  ]
  for (const [method, path, status, code] of cases) {
    test(`${method} ${path.slice(0, 60)} is ${status}`, async () => {
      const { ask } = await sharedApi()
      assertProblem(await ask(method, path), status, code)
    })
  }

  test('with the wrong method says which ones it takes, without reading the body', async () => {
    const { ask } = await sharedApi()
    const answer = await ask('PUT', '/app', 'not json', { 'content-type': 'text/plain' })
    assertProblem(answer, 405, 'method_not_allowed')
    assert.equal(answer.headers.allow, 'GET, HEAD, POST, OPTIONS')
  })

  test('to publish for an unknown application is 404', async () => {
    const { ask } = await sharedApi()
    assertProblem(await ask('POST', '/app/nobody/msg', event), 404, 'not_found')
    assertProblem(await ask('POST', '/app/no%20body/msg', event), 404, 'not_found')
  })
})

describe('any body at all', () => {
  test('is answered with 202 or a problem, never with a fault of our own', async () => {
    const { ask, bugs } = await withApp()
    const mutated = fc
      .tuple(
        fc.constantFrom(
          event,
          '{"url":"https://example.com/","retry":{"waits":{"kind":"list","ms":[1]}}}',
          '{"name":"x","metadata":{}}',
        ),
        fc.nat(),
        fc.string({ unit: anyCharacter, maxLength: 3 }),
      )
      .map(([text, at, insert]) => text.slice(0, at % text.length) + insert + text.slice((at % text.length) + (at % 3)))
    const body = fc.oneof(
      mutated,
      fc.json(),
      fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
    )
    const route = fc.constantFrom(
      ['POST', '/app'],
      ['POST', '/app/a/msg'],
      ['POST', '/app/a/endpoint'],
      ['PATCH', '/app/a/endpoint/e'],
    )
    await fc.assert(
      fc.asyncProperty(route, body, async ([method, path], bytes) => {
        const answer = await ask(method as string, path as string, bytes)
        if (answer.status < 300) return
        assert.ok([400, 409, 422].includes(answer.status), `${answer.status} ${answer.text}`)
        assertProblem(answer, answer.status, answer.json.code)
      }),
      { numRuns: 400 },
    )
    assert.deepEqual(bugs, [])
  })
})
