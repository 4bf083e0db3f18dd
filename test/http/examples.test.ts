import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import { apiRoot } from '../../src/domain/api.ts'
import { operations } from '../../src/features/routes.ts'
import { exampleAnswers, exampleName, examples, metaSecret, metaToken } from '../../src/operations/examples.ts'
import { type Route, urlOf } from '../../src/operations/route.ts'
import { atEnd } from '../e2e/at-end.ts'
import { type Api, adminKey, openApi } from './api.ts'
import { failOnce } from './populated.ts'
import { readReference } from './reference.ts'
import { differenceOf } from './response-check.ts'

const isRecording = process.env.UPDATE_EXAMPLES === '1'
const recorded: Record<string, { status: string; body: unknown }> = {}

const url = 'https://crm.example.com/webhooks'

/** Makes one thing that a path can name, and gives its id. */
type Make = (api: Api, route: Route | undefined) => Promise<string>

const post = (path: string, body: object): Make => {
  return async ({ ask }) => {
    const { status, text, json } = await ask('POST', apiRoot + path, body)
    assert.ok(status < 300, text)
    return json.id ?? json.sessionId ?? json.name
  }
}

/** Makers of things by the names that routes have for them, in the order in which things need each other. */
const makers: Readonly<Record<string, Make>> = {
  app: async (api, route) => {
    const isAboutSubjects = route === undefined || /\/(subject|erasure)/.test(route.path)
    const pointers = isAboutSubjects ? { subjectPointers: ['/customer/email'] } : {}
    return post('/app', { name: 'Acme', uid: 'acme', ...pointers })(api, route)
  },
  name: post('/event-type', {
    name: 'invoice.paid',
    description: 'A customer paid an invoice.',
    schemas: { 1: { type: 'object', properties: { invoice: { type: 'integer' } } } },
  }),
  endpoint: async (api, route) => {
    // A lane has a head only where the order of deliveries matters.
    const order = route?.path.includes('/lane/head/') ? { order: 'fifo', deadHead: 'block' } : {}
    return post('/app/acme/endpoint', { uid: 'crm', url, ...order })(api, route)
  },
  message: post('/app/acme/msg', {
    eventType: 'invoice.paid',
    eventId: 'invoice-1042',
    payload: { invoice: 1042, amount: '49.00', currency: 'EUR' },
  }),
  attempt: async ({ store }, route) => {
    const isBlocked = route?.path.includes('/lane/head/')
    const made = await failOnce(store, isBlocked ? { state: 'blocked' } : undefined)
    return [...made.values()][0] ?? assert.fail('no attempt was made')
  },
  operational: post('/operational-webhook/endpoint', { uid: 'on-call', url: 'https://ops.example.com/sluice' }),
  task: post('/app/acme/dead/replay', {}),
  erasure: post('/app/acme/subject/erase', { subject: 'ann@example.com' }),
  schedule: post('/app/acme/schedule', {
    uid: 'daily-digest',
    cron: '0 7 * * 1-5',
    timezone: 'Europe/Berlin',
    eventType: 'digest.due',
    payload: { kind: 'daily' },
  }),
  source: post('/app/acme/source', {
    provider: 'meta',
    uid: 'repository',
    secret: metaSecret,
    settings: { verifyToken: metaToken },
  }),
  sourceId: async ({ ask }) => (await ask('GET', `${apiRoot}/app/acme/source/repository`)).json.id,
  token: async ({ ask }) => {
    const { url } = (await ask('GET', `${apiRoot}/app/acme/source/repository`)).json
    return new URL(url).pathname.slice('/in/'.length)
  },
  region: post('/app/acme/region', { name: 'eu' }),
  key: post('/api-key', { name: 'billing service', scopes: ['publish'] }),
  view: post('/view', { uid: 'dead-in-eu', name: 'Dead in the EU', of: 'dead-letters', eventTypes: ['invoice.*'] }),
  silence: post('/alert/silence', { rule: 'waiting', seconds: 3600, reason: 'a planned move' }),
  session: async ({ ask }) => (await ask('POST', `${apiRoot}/session`)).json.sessionId,
}

/** Things that an example names in its query or body, or needs to be there. */
const needs: Readonly<Record<string, readonly string[]>> = {
  'v1.background-task.pause': ['app'],
  'v1.background-task.resume': ['app'],
  'v1.background-task.cancel': ['app'],
  'v1.message.bulk-expunge-content': ['message'],
  'v1.message-attempt.expunge-content': ['endpoint'],
  'v1.dead.replay': ['endpoint'],
  'v1.dead.import': ['endpoint'],
  'v1.dead.import-all': ['app', 'endpoint'],
  'v1.lane.retry-head': ['message', 'attempt'],
  'v1.lane.skip-head': ['message', 'attempt'],
  'v1.statistics.aggregate-app-stats': ['app'],
  'v1.api-key.create': ['app'],
  'v1.endpoint.send-example': ['name'],
  'v1.message-attempt.resend': ['attempt'],
  'v1.authentication.logout': ['app'],
  'v1.arrival.receive': ['app', 'source', 'sourceId'],
  'v1.arrival.by-token.receive': ['app', 'source', 'token'],
}

/** Operations that end what they are asked with: an application's token, or a session. */
const credentials: Readonly<Record<string, (api: Api) => Promise<Record<string, string>>>> = {
  'v1.authentication.logout': async ({ ask }) => {
    const { json } = await ask('POST', `${apiRoot}/auth/app-portal-access/acme`, {})
    return { authorization: `Bearer ${json.token}` }
  },
  'v1.session.delete': async ({ ask }) => {
    const { headers, json } = await ask('POST', `${apiRoot}/session`)
    const [cookie = ''] = String(headers['set-cookie']).split(';')
    return { cookie, 'x-sluice-token': json.csrfToken }
  },
}

let closeShared = async () => {}
after(() => closeShared())

interface World {
  readonly api: Api
  readonly serverUrl: string
  /** Ids by what the examples call them. */
  readonly ids: ReadonlyMap<string, string>
}

/** A server with what the example of a route needs; with one of everything where no route is given. */
async function openWorld(t: TestContext | undefined, route?: Route): Promise<World> {
  const api = await openApi({ publicUrl: 'https://sluice.example.com' })
  await api.app.listen({ host: '127.0.0.1', port: 0 })
  const close = async () => {
    await api.app.close()
    await api.store.close()
  }
  if (t === undefined) closeShared = close
  else atEnd(t, close)
  const ids = new Map<string, string>()
  const named = route === undefined ? Object.keys(makers) : [...neededBy(route), ...(needs[route.id] ?? [])]
  for (const [name, make] of Object.entries(makers)) {
    if (!named.includes(name)) continue
    ids.set(exampleName(name === 'operational' ? '/operational-webhook' : '', name), await make(api, route))
  }
  if (route === undefined)
    await post('/app/acme/msg', { eventType: 'invoice.paid', payload: { invoice: 1043 } })(api, route)
  const { port } = api.app.server.address() as AddressInfo
  return { api, serverUrl: `http://127.0.0.1:${port}`, ids }
}

/** Things in a path; a source and its endpoints are in an application that the path of Svix's routes does not name. */
function neededBy({ root, path }: Route): string[] {
  return root === '/ingest/api/v1' && path.includes(':') ? ['app', ...namesIn(path)] : namesIn(path)
}

function namesIn(path: string): string[] {
  if (path.startsWith('/operational-webhook')) return path.includes(':') ? ['operational'] : []
  return [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name)
}

/** Ids that a server makes cannot be known before; every other name is sent as the example has it. */
function withIds(text: string, ids: World['ids']): string {
  return [...ids].reduce((result, [example, id]) => {
    return /^(atmpt|qtask|key|sess|slnc|src|in)_/.test(example) ? result.replaceAll(example, id) : result
  }, text)
}

/** The request of an example. */
function requestOf(route: Route, ids: World['ids']) {
  const { query = {}, body, contentType = 'application/json', headers = {} } = examples[route.id] ?? {}
  const path = urlOf(route).replaceAll(/:(\w+)/g, (_, name: string) => exampleName(route.path, name))
  const search = new URLSearchParams(query as Record<string, string>).toString()
  const payload = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body)
  return {
    target: withIds(`${path}${search === '' ? '' : `?${search}`}`, ids),
    init: {
      method: route.method,
      headers: {
        ...(route.need !== 'open' && { authorization: `Bearer ${adminKey}` }),
        ...(payload !== undefined && { 'content-type': contentType }),
        ...headers,
      },
      ...(payload !== undefined && { body: withIds(payload, ids) }),
    },
  }
}

/** One server for all examples that change nothing. */
let everything: Promise<World> | undefined

describe('the example of', () => {
  for (const [name, route] of Object.entries(operations)) {
    test(`${name} is answered as the reference says`, async (t) => {
      if (route.method === 'GET') everything ??= openWorld(undefined)
      const { api, serverUrl, ids } = (await (route.method === 'GET' ? everything : openWorld(t, route))) as World
      const { target, init } = requestOf(route, ids)
      const headers = (await credentials[route.id]?.(api)) ?? init.headers
      const response = await fetch(serverUrl + target, { ...init, headers })
      const text = await response.text()
      assert.ok(response.ok, `${response.status} ${text}`)
      assert.ok(Object.hasOwn(route.answers, response.status), `${response.status} is not documented`)
      // The server's own check makes a 500 of an answer that does not fit its schema (response-check.ts).
      if (isRecording && text !== '' && route.id !== 'v1.openapi.get' && !route.id.startsWith('v1.arrival')) {
        recorded[route.id] = { status: String(response.status), body: plain(text, ids) }
      }
    })
  }

  test('no operation is missing, and none is unknown', () => {
    const all = Object.values(operations)
    const known = new Set(all.map(({ id }) => id))
    assert.deepEqual(
      Object.keys(examples).filter((id) => !known.has(id)),
      [],
    )
    const silent = all.filter(({ id, body, query }) => {
      const { required = [] } = (query ?? {}) as { required?: string[] }
      const example = examples[id]
      return (
        (body !== undefined && example?.body === undefined) ||
        required.some((name) => example?.query?.[name] === undefined)
      )
    })
    assert.deepEqual(
      silent.map(({ id }) => id),
      [],
      'give these an example in src/operations/examples.ts',
    )
  })
})

describe('the recorded answer (UPDATE_EXAMPLES=1 records all again) to the example of', { skip: isRecording }, () => {
  for (const [name, { id, answers }] of Object.entries(operations)) {
    const hasBody = Object.values(answers).some((answer) => answer !== null && !('events' in answer))
    // The answers to webhooks are those of their providers.
    if (!hasBody || id === 'v1.openapi.get' || id.startsWith('v1.arrival')) continue
    test(`${name} fits its schema`, () => {
      const answer = exampleAnswers()[id] ?? assert.fail('it is missing')
      const text = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body)
      assert.equal(differenceOf(name, Number(answer.status), text), undefined)
    })
  }

  test('is in the reference', () => {
    const { paths } = readReference()
    const { responses } = paths[`${apiRoot}/app`]?.post ?? assert.fail()
    const { content } = responses['201'] as { content: { 'application/json': { example: unknown } } }
    assert.deepEqual(content['application/json'].example, exampleAnswers()['v1.application.create']?.body)
  })
})

/** An answer as an example: short lists, and names that stay the same when the answers are recorded again. */
function plain(text: string, ids: World['ids']): unknown {
  let result = text
  for (const [example, id] of ids)
    if (/^(atmpt|qtask|key|sess|slnc|src|in)_/.test(example)) result = result.replaceAll(id, example)
  result = result
    .replaceAll(
      /\b(app|ep|msg|audit|apptok|sch|src|in|qtask|key|sess|slnc|atmpt)_[0-9A-Za-z]{27}\b/g,
      (id, kind: string) => {
        return isExample(id) ? id : `${kind}_3xKq0d4Sbf7Zp1uYcQ2mN8vRt5a`
      },
    )
    .replaceAll(/"secret":"[0-9a-f]{64}"/g, `"secret":"${'9f'.repeat(32)}"`)
    .replaceAll(/whsec_[\w+/=]+/g, 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD')
    .replaceAll(/\b(sk|appsk|signin)_\w{16,}/g, '$1_4fGh7KqLmN2pRsTuVwXyZ')
    .replaceAll(/"csrfToken":"[^"]+"/g, '"csrfToken":"9b1c7f0e2d"')
    .replaceAll(/20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (time) =>
      isExample(time) ? time : '2026-11-16T09:00:00.000Z',
    )
  try {
    return short(JSON.parse(result))
  } catch {
    return result
  }
}

const exampleText =
  JSON.stringify(examples) +
  Object.keys(makers)
    .map((name) => exampleName('', name))
    .join(' ')

function isExample(text: string): boolean {
  return exampleText.includes(text)
}

function short(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, 2).map(short)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, short(inner)]))
}

after(() => {
  if (!isRecording) return
  const lines = Object.entries(recorded).map(([id, answer]) => `  ${JSON.stringify(id)}: ${JSON.stringify(answer)}`)
  writeFileSync(
    join(import.meta.dirname, '../../src/operations/example-answers.json'),
    `{\n${lines.toSorted().join(',\n')}\n}\n`,
  )
})
