import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { apiRoot } from '../../src/domain/api.ts'
import { operations } from '../../src/features/routes.ts'
import type { Answer } from './api.ts'
import { leastBody, leastQuery } from './from-schema.ts'
import { urlAt } from './paths.ts'
import { fill, type Ids, openPopulated, type Populated, takesJson } from './populated.ts'

/** One API for all tests that leave nothing behind in it. */
let shared: Promise<Populated> | undefined
function sharedApi(): Promise<Populated> {
  shared ??= openPopulated()
  return shared
}

/** A key that may do everything in one of the two applications. */
let ofMine: Promise<string> | undefined
function keyOfMine(): Promise<string> {
  ofMine ??= sharedApi().then(async ({ ask, mine }) => {
    return (await ask('POST', `${apiRoot}/api-key`, { name: 'mine', scopes: ['admin'], app: mine.app })).json.token
  })
  return ofMine
}

const routes = Object.entries(operations).map(([route, operation]) => {
  const [method = '', path = ''] = route.split(' ')
  return { route, method, path, operation }
})

/** A problem, whatever path it was met at and whatever name it echoes. */
function withoutInstance({ status, json }: Answer): unknown {
  const detail = typeof json?.detail === 'string' ? json.detail.replace(/"[^"]*"/g, '"…"') : json?.detail
  return { status, ...json, detail, instance: '' }
}

/** The names of what a path has ids for. */
function partsOf(path: string): string[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name)
}

/** An id of the same kind that does not exist. */
function unknownLike(id: string): string {
  return id.replace(/[0-9A-Za-z]{18}$/, 'z'.repeat(18))
}

/** Wrong keys are counted by where they come from; each test comes from somewhere else. */
let callers = 0

describe('every route', () => {
  for (const { route, method, path, operation } of routes) {
    if (operation.need !== 'open') {
      test(`${route} asks for a key before it looks at anything else`, async () => {
        const { app, mine } = await sharedApi()
        const answer = await app.inject({
          method: method as 'GET',
          url: urlAt(fill(path, mine)),
          remoteAddress: `10.0.0.${++callers}`,
          headers: { 'content-type': 'application/json' },
          ...(method === 'GET' ? {} : { payload: '{not json' }),
        })
        assert.deepEqual([answer.statusCode, answer.json().code], [401, 'authentication_failed'])
      })
    }

    for (const part of path.startsWith('/app/') ? partsOf(path).filter((name) => name !== 'app') : []) {
      test(`${route} knows the ${part} of another application as little as one that never was`, async () => {
        const { ask, mine, theirs } = await sharedApi()
        const at = (ids: Ids) => {
          const url = urlAt(fill(path, { ...mine, ...ids })) + leastQuery(operation.query)
          return ask(method, url, leastBody(operation.body))
        }
        const foreign = await at({ [part]: theirs[part] as string })
        const unknown = await at({ [part]: unknownLike(mine[part] as string) })
        assert.equal(foreign.status, 404, foreign.text)
        assert.deepEqual(withoutInstance(foreign), withoutInstance(unknown))
      })
    }

    if (path.includes(':app')) {
      test(`${route} of an application that never was is 404`, async () => {
        const { ask, mine } = await sharedApi()
        const app = unknownLike(mine.app as string)
        const url = urlAt(fill(path, { ...mine, app })) + leastQuery(operation.query)
        const answer = await ask(method, url, leastBody(operation.body))
        assert.deepEqual([answer.status, answer.json.code], [404, 'not_found'], answer.text)
      })

      test(`${route} is the same 404 to whose key is for another application`, async () => {
        const { ask, mine, theirs } = await sharedApi()
        const headers = { authorization: `Bearer ${await keyOfMine()}` }
        const at = (ids: Ids) => {
          const url = urlAt(fill(path, ids)) + leastQuery(operation.query)
          return ask(method, url, leastBody(operation.body), headers)
        }
        const foreign = await at(theirs)
        const unknown = await at({ ...theirs, app: unknownLike(mine.app as string) })
        assert.ok(foreign.status === 404 || foreign.status === 403, foreign.text)
        assert.deepEqual(withoutInstance(foreign), withoutInstance(unknown))
      })
    }
  }
})

/** Whether a path is one of those a route has: where it has a word, the route may have any name. */
function covers(pattern: string, path: string): boolean {
  const [theirs, ours] = [pattern.split('/'), path.split('/')]
  return theirs.length === ours.length && theirs.every((part, i) => part === ours[i] || part.startsWith(':'))
}

describe('a path', () => {
  for (const path of new Set(routes.map((route) => route.path))) {
    const own = [...new Set(routes.filter((route) => covers(route.path, path)).map(({ method }) => method))]
    const taken = [...own, ...(own.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].sort()

    test(`${path} answers ${taken.join(', ')} and 405 to every other method`, async () => {
      const { app, mine } = await sharedApi()
      const url = urlAt(fill(path, mine))
      for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const) {
        if (taken.includes(method)) continue
        const { statusCode, headers, payload } = await app.inject({ method, url, payload: 'anything' })
        assert.equal(statusCode, 405, method)
        assert.deepEqual(String(headers.allow).split(', ').sort(), taken)
        if (method !== 'HEAD') assert.equal(JSON.parse(payload).code, 'method_not_allowed')
      }
      const options = await app.inject({ method: 'OPTIONS', url })
      assert.deepEqual([options.statusCode, options.payload], [204, ''])
      assert.deepEqual(String(options.headers.allow).split(', ').sort(), taken)
    })
  }

  test('may be asked for by a page of any origin, which can read the answer', async () => {
    const { app, ask, mine } = await sharedApi()
    const url = `${apiRoot}/app/${mine.app}/msg`
    const headers = {
      origin: 'https://somewhere.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization, content-type, idempotency-key, svix-req-id',
    }
    const preflight = await app.inject({ method: 'OPTIONS', url, headers })
    assert.equal(preflight.statusCode, 204)
    assert.equal(preflight.headers['access-control-allow-origin'], '*')
    assert.equal(preflight.headers['access-control-allow-headers'], '*, authorization')
    assert.match(String(preflight.headers['access-control-allow-methods']), /\bPOST\b/)
    for (const path of ['/app', '/app/nobody', '/nowhere']) {
      const answer = await ask('GET', `${apiRoot}${path}`, undefined, { origin: headers.origin })
      assert.equal(answer.headers['access-control-allow-origin'], '*', path)
    }
    const refused = await app.inject({ url, headers: { origin: headers.origin } })
    assert.equal(refused.headers['access-control-allow-origin'], '*')
    assert.equal((await ask('GET', '/app')).headers['access-control-allow-origin'], undefined)
  })

  test('answers HEAD as it answers GET, without a body', async () => {
    const { app, mine } = await sharedApi()
    const headers = { authorization: 'Bearer test-key' }
    for (const url of [
      `${apiRoot}/app`,
      `${apiRoot}/app/${mine.app}`,
      `${apiRoot}/openapi.json`,
      `${apiRoot}/app/nobody`,
    ]) {
      const [get, head] = [await app.inject({ url, headers }), await app.inject({ method: 'HEAD', url, headers })]
      assert.deepEqual([head.statusCode, head.payload], [get.statusCode, ''])
      assert.equal(head.headers['content-type'], get.headers['content-type'])
    }
  })
})

/** Bodies that are refused before their fields are read, each with its exact answer. */
describe('a body on any route that takes one', () => {
  const json = { 'content-type': 'application/json' }
  const deep = `${'{"a":'.repeat(104)}1${'}'.repeat(104)}`
  const table: [string, string | Buffer, Record<string, string>, number, string][] = [
    ['that is cut off', '{"name":', json, 422, 'invalid_json'],
    ['with a byte order mark', '\ufeff{}', json, 422, 'invalid_json'],
    ['with a trailing comma', '{"name":"x",}', json, 422, 'invalid_json'],
    ['with NaN', '{"name":NaN}', json, 422, 'invalid_json'],
    ['with a single quote', "{'name':'x'}", json, 422, 'invalid_json'],
    ['with a comment', '{/**/}', json, 422, 'invalid_json'],
    ['with a key twice', '{"name":"a","name":"b"}', json, 422, 'duplicate_key'],
    ['with a key twice deep inside', '{"x":[{"a":1,"\\u0061":2}]}', json, 422, 'duplicate_key'],
    ['104 levels deep', deep, json, 422, 'too_deep'],
    ['100,000 levels deep', '['.repeat(60_000), json, 422, 'too_deep'],
    [
      'with 10,001 keys',
      `{${Array.from({ length: 10_001 }, (_, i) => `"${i}":1`).join()}}`,
      json,
      422,
      'too_many_keys',
    ],
    ['that is not UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), json, 422, 'invalid_utf8'],
    ['with __proto__', '{"__proto__":{"x":1}}', json, 422, 'forbidden_key'],
    ['with constructor', '{"a":{"constructor":{"prototype":{}}}}', json, 422, 'forbidden_key'],
    ['of 128 KiB', `{"a":"${'x'.repeat(128 * 1024)}"}`, json, 413, 'payload_too_large'],
    ['that is compressed', '{}', { ...json, 'content-encoding': 'gzip' }, 415, 'unsupported_media_type'],
    ['in UTF-16', '{}', { 'content-type': 'application/json; charset=utf-16' }, 415, 'unsupported_media_type'],
    ['of another type', '{}', { 'content-type': 'text/plain' }, 415, 'unsupported_media_type'],
    ['that is a form', 'a=b', { 'content-type': 'application/x-www-form-urlencoded' }, 415, 'unsupported_media_type'],
    ['that is a list', '[]', json, 422, 'validation'],
    ['that is a text', '"{}"', json, 422, 'validation'],
    ['that is null', 'null', json, 422, 'validation'],
  ]
  // One API for the whole table: each test shows that it stored nothing.
  let opened: Promise<Populated> | undefined
  // A batch may have as many keys as many messages have.
  const mayHaveManyKeys = 'POST /app/:app/msg/batch'
  for (const [name, body, headers, status, code] of table) {
    const taking = routes.filter(
      ({ operation, route }) => takesJson(operation) && !(code === 'too_many_keys' && route === mayHaveManyKeys),
    )
    test(`${name} is ${status} ${code} on all ${taking.length}, and nothing is stored`, async () => {
      opened ??= openPopulated({ bodyLimitBytes: 127 * 1024 })
      const { ask, mine, store } = await opened
      const before = await store.counts()
      for (const { method, path, route } of taking) {
        const answer = await ask(method, urlAt(fill(path, mine)), body, headers)
        assert.deepEqual([answer.status, answer.json?.code], [status, code], `${route}: ${answer.text}`)
        assert.match(String(answer.headers['content-type']), /^application\/json/)
        assert.doesNotMatch(answer.text, /node_modules|\.ts:\d/)
        assert.ok(status !== 422 || Array.isArray(answer.json.detail))
      }
      assert.deepEqual(await store.counts(), before)
    })
  }
})

describe('a query on any route that lists', () => {
  const queries = ['limit=0', 'limit=251', 'limit=x', 'limit=1&limit=2', 'iterator=%00', 'iterator=zz', 'iterator=-']
  for (const query of queries) {
    const name = query.split('=', 1)[0] as string
    const listing = routes.filter(
      ({ operation }) => name in ((operation.query as { properties?: object })?.properties ?? {}),
    )
    test(`?${query} is 422 on all ${listing.length}`, async () => {
      const { ask, mine } = await sharedApi()
      for (const { method, path, route } of listing) {
        const answer = await ask(method, `${urlAt(fill(path, mine))}?${query}`)
        assert.deepEqual([answer.status, answer.json?.code], [422, 'validation'], `${route}: ${answer.text}`)
        assert.equal(answer.json.detail[0].loc[0], 'query')
      }
    })
  }
})
