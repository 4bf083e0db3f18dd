import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import type { Clock } from '../../src/domain/clock.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { atEnd } from '../e2e/at-end.ts'
import { adminKey as apiKey, runHere, served, workplace } from './program.ts'

const where = workplace()
const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`

type Json = Record<string, unknown>

interface Server {
  readonly api: string
}

async function server(): Promise<Server> {
  const { url } = await served(workplace())
  return { api: `${url}/api/v1` }
}

async function call({ api }: Server, method: string, path: string, body?: object): Promise<Json & { data: Json[] }> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  const answer = await fetch(`${api}${path}`, {
    method,
    headers,
    body: body === undefined ? null : JSON.stringify(body),
  })
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${await answer.clone().text()}`)
  const text = await answer.text()
  return JSON.parse(text === '' ? '{}' : text) as Json & { data: Json[] }
}

/** Copies from a server; the answer is the report. */
async function copy(from: string, to: Server, line = '', code = 0) {
  const args = `import svix --from ${from} --token ${apiKey} --per-second 1000 --json ${line}`.trim().split(/\s+/)
  const env = { SLUICE_URL: new URL(to.api).origin, SLUICE_API_KEY: apiKey }
  const { out, err, ended } = await runHere(args, where, env)
  assert.equal(ended, code, err)
  return { report: code === 0 || out !== '' ? JSON.parse(out) : undefined, err }
}

const counts = ({ eventTypes, applications, endpoints }: Json) =>
  [eventTypes, applications, endpoints].map((each) => Object.values(each as Record<string, number>).join('/')).join(' ')

test('a copy takes everything that Svix shows, and a second one changes nothing', async () => {
  const [from, to] = await Promise.all([server(), server()])
  await call(from, 'POST', '/event-type', {
    name: 'invoice.paid',
    description: 'Paid',
    schemas: { 1: { type: 'object', required: ['b', 'a'] } },
    featureFlag: 'beta',
  })
  await call(from, 'POST', '/event-type', {
    name: 'invoice.gone',
    description: 'Gone',
    archived: true,
    deprecated: true,
  })
  await call(from, 'POST', '/app', { uid: 'acme', name: 'Acme', throttleRate: 50, metadata: { plan: 'gold' } })
  const { id } = await call(from, 'POST', '/app', { name: 'Without a name of its own' })
  const given = {
    uid: 'main',
    url: 'http://127.0.0.1:9/',
    description: 'The first',
    secret,
    eventTypes: ['invoice.paid', 'invoice.*'],
    channels: ['eu', 'us'],
    metadata: { team: 'a' },
    throttleRate: 7,
    headers: { 'X-Tenant': '1', Authorization: 'Bearer hidden' },
  }
  await call(from, 'POST', '/app/acme/endpoint', given)
  await call(from, 'POST', `/app/${id}/endpoint`, { url: 'http://127.0.0.1:9/two', disabled: true })

  const dry = await copy(new URL(from.api).origin, to, '--dry-run')
  assert.equal(counts(dry.report), '2/0/0 2/0/0 2/0/0')
  assert.deepEqual((await call(to, 'GET', '/app')).data, [])
  assert.deepEqual((await call(to, 'GET', '/event-type')).data, [])

  const first = await copy(new URL(from.api).origin, to)
  assert.equal(counts(first.report), '2/0/0 2/0/0 2/0/0')
  assert.deepEqual(first.report.notes, [
    { object: 'acme/main', problem: 'values of secret headers cannot be read: set Authorization again', failed: false },
  ])
  const main = await call(to, 'GET', '/app/acme/endpoint/main')
  const { secret: _, headers, ...fields } = given
  for (const [name, value] of Object.entries(fields)) assert.deepEqual(main[name], value, name)
  assert.deepEqual(await call(to, 'GET', '/app/acme/endpoint/main/secret'), { key: secret })
  assert.deepEqual((await call(to, 'GET', '/app/acme/endpoint/main/headers')).headers, {
    'X-Tenant': headers['X-Tenant'],
  })
  const { throttleRate, metadata, signatureHeaders } = await call(to, 'GET', '/app/acme')
  assert.deepEqual(
    { throttleRate, metadata, signatureHeaders },
    { throttleRate: 50, metadata: { plan: 'gold' }, signatureHeaders: 'both' },
  )
  const [two] = (await call(to, 'GET', `/app/from-${id}/endpoint`)).data
  assert.equal(two?.disabled, true)
  const gone = await call(to, 'GET', '/event-type/invoice.gone')
  assert.deepEqual([gone.archived, gone.deprecated], [true, true])
  assert.deepEqual((await call(to, 'GET', '/event-type/invoice.paid')).schemas, {
    1: { type: 'object', required: ['b', 'a'] },
  })

  // The operator sets the secret header again; later copies leave it alone and need no word about it.
  await call(to, 'PATCH', '/app/acme/endpoint/main/headers', { headers: { Authorization: 'Bearer again' } })
  const second = await copy(new URL(from.api).origin, to)
  assert.equal(counts(second.report), '0/0/2 0/0/2 0/0/2')
  assert.deepEqual(second.report.notes, [])

  // Customers go on changing things at the old server.
  const newSecret = `whsec_${Buffer.alloc(24, 8).toString('base64')}`
  await call(from, 'POST', '/app/acme/endpoint/main/secret/rotate', { key: newSecret })
  await call(from, 'PATCH', '/app/acme/endpoint/main', { url: 'http://127.0.0.1:9/moved' })
  await call(from, 'PUT', '/app/acme/endpoint/main/headers', { headers: { 'X-Other': '2', Authorization: 'x' } })
  const kept = await copy(new URL(from.api).origin, to, '--keep')
  assert.equal(counts(kept.report), '0/0/2 0/0/2 0/0/2')
  const third = await copy(new URL(from.api).origin, to)
  assert.equal(counts(third.report), '0/0/2 0/0/2 0/1/1')
  assert.equal((await call(to, 'GET', '/app/acme/endpoint/main')).url, 'http://127.0.0.1:9/moved')
  assert.deepEqual(await call(to, 'GET', '/app/acme/endpoint/main/secret'), { key: newSecret })
  assert.deepEqual(await call(to, 'GET', '/app/acme/endpoint/main/headers'), {
    headers: { 'X-Other': '2' },
    sensitive: ['Authorization'],
  })
})

/** A server with the shapes of Svix's own, older and hosted, over a list of applications. It can fail on purpose. */
async function svixServer(
  t: TestContext,
  applications: readonly Json[],
  hindrance: (request: IncomingMessage, response: ServerResponse) => boolean,
) {
  const times = { createdAt: '2024-01-01T00:00:00Z', updatedAt: '2024-01-01T00:00:00Z' }
  const page = (items: readonly Json[], url: URL) => {
    const after = url.searchParams.get('iterator')
    const start = after === null ? 0 : items.findIndex(({ id }) => id === after) + 1
    const data = items.slice(start, start + 2)
    return { data, done: start + 2 >= items.length, iterator: (data.at(-1)?.id as string) ?? null, prevIterator: null }
  }
  const listener = createServer((request, response) => {
    if (hindrance(request, response)) return
    const url = new URL(request.url ?? '', 'http://svix')
    const answer = (body: unknown, status = 200) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (request.headers.authorization !== `Bearer ${apiKey}`)
      return answer({ code: 'authentication_failed', detail: 'Invalid token.' }, 401)
    const [, kind, app, , endpoint, detail] = url.pathname.slice('/api/v1'.length).split('/')
    if (kind === 'event-type') {
      return answer({
        data: [
          {
            name: 'user.signup',
            description: 'A user has signed up',
            archived: false,
            deprecated: false,
            featureFlag: null,
            schemas: null,
            ...times,
          },
        ],
        done: true,
        iterator: null,
      })
    }
    if (app === undefined)
      return answer(
        page(
          applications.map(({ endpoints: _, ...rest }) => ({ ...rest, ...times })),
          url,
        ),
      )
    const found = applications.find(({ id }) => id === app)
    const endpoints = (found?.endpoints ?? []) as Json[]
    if (endpoint === undefined)
      return answer(
        page(
          endpoints.map(({ key: _, code: __, ...rest }) => ({ ...rest, ...times })),
          url,
        ),
      )
    const one = endpoints.find(({ id }) => id === endpoint)
    if (detail === 'secret') return answer({ key: one?.key })
    if (detail === 'headers') return answer({ headers: {}, sensitive: [] })
    if (detail === 'transformation' && one?.code !== undefined) return answer({ code: one.code, enabled: true })
    answer({ code: 'not_found', detail: 'Entity not found' }, 404)
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  atEnd(t, async () => {
    listener.closeAllConnections()
    listener.close()
    await once(listener, 'close')
  })
  return `http://127.0.0.1:${(listener.address() as AddressInfo).port}`
}

const endpointOf = (n: number, more: Json = {}): Json => ({
  id: `ep_${n}`,
  uid: null,
  url: `http://127.0.0.1:9/${n}`,
  version: 1,
  description: '',
  filterTypes: ['user.signup'],
  channels: null,
  disabled: false,
  rateLimit: 10,
  metadata: {},
  key: secret,
  ...more,
})

test('a copy reads the shapes of older and hosted Svix servers, page by page, and waits when asked to', async (t) => {
  const to = await server()
  /** The instants of the requests for each path. */
  const asked = new Map<string, number[]>()
  let isBusy = true
  const from = await svixServer(
    t,
    [
      {
        id: 'app_1',
        uid: 'one',
        name: 'One',
        rateLimit: 0,
        metadata: {},
        endpoints: [1, 2, 3, 4, 5].map((n) => endpointOf(n)),
      },
      {
        id: 'app_2',
        uid: null,
        name: 'Two',
        rateLimit: null,
        metadata: {},
        endpoints: [endpointOf(6, { code: 'function handler(w) { return w }' })],
      },
      {
        id: 'app_3',
        uid: 'three',
        name: 'Three',
        endpoints: [
          endpointOf(7, {
            key: 'whpk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==',
          }),
        ],
      },
    ],
    ({ url = '' }, response) => {
      const times = [...(asked.get(url) ?? []), performance.now()]
      asked.set(url, times)
      // The first request of each page is refused, as Svix does it.
      if (!isBusy || times.length > 1 || !/\/endpoint(\?|$)|\/app\?/.test(url)) return false
      response
        .writeHead(429, { 'retry-after': '0', 'content-type': 'application/json' })
        .end('{"code":"rate_limit","detail":"Rate limited"}')
      return true
    },
  )
  const { report } = await copy(from, to)
  assert.equal(counts(report), '1/0/0 3/0/0 7/0/0')
  assert.deepEqual(
    report.notes.map(({ object, problem }: Json) => `${object}: ${String(problem).split(' ').slice(0, 3).join(' ')}`),
    ['from-app_2/from-ep_6: its transformation is', 'three/from-ep_7: its ed25519 key'],
  )
  const { data } = await call(to, 'GET', '/app/one/endpoint')
  assert.deepEqual(
    data
      .map(({ url, eventTypes, throttleRate }) => ({ url, eventTypes, throttleRate }))
      .sort((a, b) => String(a.url).localeCompare(String(b.url))),
    [1, 2, 3, 4, 5].map((n) => ({ url: `http://127.0.0.1:9/${n}`, eventTypes: ['user.signup'], throttleRate: 10 })),
  )
  // One refusal and one answer for each page of a list: the second request came when Retry-After and the first wait were over.
  for (const [url, [first = 0, second = 0]] of asked) {
    if (second > 0) assert(second - first > 900, `${url} was asked again after ${second - first} ms`)
  }

  asked.clear()
  isBusy = false
  const began = performance.now()
  assert.equal(counts((await copy(from, to, '--per-second 50')).report), '0/0/1 0/0/3 0/0/7')
  const requests = [...asked.values()].flat().length
  const leastMs = (requests - 1) * 20
  // Event types, two pages of applications, five of endpoints, and three requests for each endpoint.
  assert.equal(requests, 1 + 2 + 5 + 3 * 7)
  assert(performance.now() - began > leastMs * 0.9, `${requests} requests in ${performance.now() - began} ms`)
})

test('a copy that stops says how to go on; an object that is refused does not stop it', async (t) => {
  const to = await server()
  let broken = true
  const from = await svixServer(
    t,
    [
      {
        id: 'app_1',
        uid: 'one',
        name: 'One',
        endpoints: [endpointOf(1), endpointOf(2, { url: 'http://10.0.0.1/private' }), endpointOf(3)],
      },
      { id: 'app_2', uid: 'two', name: 'Two', endpoints: [endpointOf(4)] },
      { id: 'app_3', uid: 'three', name: 'Three', endpoints: [] },
    ],
    ({ url = '' }, response) => {
      if (!broken || !url.includes('/app_2/')) return false
      response.writeHead(500).end('oops')
      return true
    },
  )
  const { err } = await copy(from, to, '', 1)
  assert.match(err, /Stopped\. Run the same command again, or go on with --start-after app_1/)
  broken = false
  const { report } = await copy(from, to, '', 1)
  assert.equal(counts(report), '0/0/1 1/0/2 1/0/2')
  assert.equal(report.notes.length, 1)
  assert.match(report.notes[0].object, /^one\/from-ep_2$/)
  assert.equal(report.notes[0].failed, true)
  const rest = await copy(from, to, '--start-after one')
  assert.equal(counts(rest.report), '0/0/0 0/0/2 0/0/1')
  assert.match((await copy(from, to, '--start-after nobody', 4)).err, /There is no application nobody/)
})

test('a copy refuses a wrong token, no token, itself, and servers that talk nonsense', async (t) => {
  const to = await server()
  const origin = new URL(to.api).origin
  const env = { SLUICE_URL: origin, SLUICE_API_KEY: apiKey }
  const from = await svixServer(t, [], () => false)
  const attempt = async (line: string) => runHere(line.split(' '), where, env)
  assert.match((await attempt(`import svix --from ${from}`)).err, /A token of the Svix server is required/)
  assert.match((await attempt(`import svix --from ${from} --token wrong`)).err, /refuses the token/)
  // The command gives a server that cannot be reached two minutes, which no test waits for. The limit of a request is as
  // long as the longest wait, and comes before each wait.
  const waits: number[] = []
  let isAsked = false
  const hasty: Clock = {
    ...systemClock,
    after: (ms, then) => {
      if (ms < 1000) return systemClock.after(ms, then)
      isAsked = ms === 60_000 && !(isAsked && waits.length > 0)
      if (isAsked) return systemClock.after(ms, then)
      waits.push(ms)
      return systemClock.after(0, then)
    },
  }
  const unreachable = 'import svix --from http://127.0.0.1:9 --token x'.split(' ')
  assert.match(
    (await runHere(unreachable, where, env, '', undefined, hasty)).err,
    /^Cannot reach the server at http:\/\/127\.0\.0\.1:9: .*, and is --from right\?$/m,
  )
  assert.deepEqual(waits, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000])
  assert.match((await attempt('import svix --from svix --token x')).err, /^--from must be a server's address/)
  assert.match((await attempt('import svix --token testsk_x')).err, /Name the Svix server with --from/)
  assert.match((await attempt(`import svix --from ${origin} --token ${apiKey}`)).err, /are the same server/)
  for (const nonsense of [
    '<html>',
    '[]',
    '{"data": 7}',
    '{"data": [], "done": false, "iterator": "same"}',
    'null',
    '{"data": [null], "done": true}',
  ]) {
    const strange = await svixServer(t, [], (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(nonsense)
      return true
    })
    const { ended, err } = await attempt(`import svix --from ${strange} --token x --per-second 1000`)
    assert.equal(ended, 1, `${nonsense}: ${err}`)
    assert.match(err, /Stopped/)
  }
})
