import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import Fastify from 'fastify'
import { apiRoot } from '../../src/domain/api.ts'
import { operations } from '../../src/features/routes.ts'
import { guard } from '../../src/http/guard.ts'
import { Authenticator } from '../../src/operations/auth.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { type Api, openApi } from './api.ts'
import { type DeclaredRoute, declaredRoutes } from './declared-routes.ts'
import { pathOf } from './paths.ts'

const open = [
  'GET /health',
  'GET /health/ping',
  'GET /readyz',
  'GET /healthz',
  'GET /livez',
  'GET /openapi.json',
  'GET /session',
  'GET /ingress/:source',
  'POST /ingress/:source',
  'GET /in/:token',
  'POST /in/:token',
]

/** Routes that a caller of one application may use although they belong to no application. */
const shared = [
  'GET /event-type',
  'GET /event-type/:name',
  'GET /history/sparkline',
  'GET /auth/access',
  'GET /live',
  'POST /auth/logout',
]

/** Sessions of the caller's own key or token: any caller that may read starts and ends them. */
const ownSessions = [
  'POST /session',
  'GET /auth/session',
  'DELETE /auth/session/:session',
  'POST /auth/session/end-all',
]
const ownLinks = [...ownSessions, 'POST /auth/sign-in-link']

/** Routes that change nothing but messages. */
const publishing = ['/app/:app/msg', '/app/:app/msg/batch', '/app/:app/msg/raw', '/app/:app/msg/precheck/active']

describe('every route', () => {
  let api: Api
  let routes: (DeclaredRoute & { readonly path: string; readonly name: string })[]

  before(async () => {
    routes = (await declaredRoutes())
      .map((route) => ({ ...route, path: pathOf(route.url) }))
      .map((route) => ({ ...route, name: `${route.method} ${route.path}` }))
      .filter(({ name }) => !open.includes(name))
    api = await openApi()
    for (const uid of ['a', 'b']) await api.ask('POST', '/app', { name: uid, uid })
  })

  /** Asks for every route with a key, as if everything were called `x` but the application. */
  async function statuses(key: string, app: string): Promise<Map<string, number>> {
    const answers = new Map<string, number>()
    // Logging out comes last: nothing works after it.
    const ordered = routes.toSorted((a, b) => Number(a.path === '/auth/logout') - Number(b.path === '/auth/logout'))
    for (const { method, url, name } of ordered) {
      const path = url.replace(':app', app).replace(/:\w+/g, 'x')
      const body = method === 'GET' || method === 'DELETE' ? undefined : {}
      answers.set(name, (await api.ask(method, path, body, { authorization: `Bearer ${key}` })).status)
    }
    return answers
  }

  async function keyWith(fields: Record<string, unknown>): Promise<string> {
    return (await api.ask('POST', `${apiRoot}/api-key`, { name: 'k', ...fields })).json.token
  }

  test('is declared by route(), and every declaration is served', () => {
    const names = new Set(routes.map(({ name }) => name))
    const closed = Object.keys(operations).filter((name) => operations[name]?.need !== 'open')
    assert.deepEqual([...names].sort(), closed.sort())
    assert.ok(names.size > 60)
  })

  test('cannot be declared without a need', () => {
    const bare = Fastify()
    guard(
      bare,
      new Authenticator({ store: api.store, clock: systemClock, adminKey: null, publicUrl: null, onBug: () => {} }),
    )
    assert.throws(
      () => bare.get('/api/v1/anything', () => 'open to all'),
      /GET \/anything is not declared by route\(\)/,
    )
  })

  test('lets a key that may read read, and nothing else', async () => {
    for (const [name, status] of await statuses(await keyWith({ scopes: ['read'] }), 'a')) {
      if (!name.startsWith('GET ') && !ownLinks.includes(name)) assert.equal(status, 403, name)
    }
  })

  test('lets a key that may publish publish, and nothing else', async () => {
    for (const [name, status] of await statuses(await keyWith({ scopes: ['publish'] }), 'a')) {
      const allowed = publishing.some((path) => name === `POST ${path}`)
      assert.equal(status !== 403, allowed, name)
    }
  })

  test('shows a key of one application no other, and nothing that is all of theirs', async () => {
    const key = await keyWith({ scopes: ['admin'], app: 'a' })
    for (const [name, status] of await statuses(key, 'b')) {
      if (name === 'POST /auth/logout') continue
      if (name.includes('/:app')) assert.equal(status, 404, name)
      else if (!shared.includes(name) && !ownLinks.includes(name)) assert.equal(status, 403, name)
    }
  })

  test('lets a read-only application token look at its application, and nothing else', async () => {
    const { token } = (await api.ask('POST', `${apiRoot}/auth/app-portal-access/a`, { readOnly: true })).json
    for (const [name, status] of await statuses(token, 'a')) {
      if (name === 'POST /auth/logout') continue
      const looks = name.startsWith('GET /app/:app') || (name.startsWith('GET ') && shared.includes(name))
      if (!looks && !ownSessions.includes(name)) assert.equal(status, 403, name)
      if (name.endsWith('/secret')) assert.equal(status, 403, name)
    }
    // The last of them has logged it out.
    const answer = await api.ask('GET', '/app/a', undefined, { authorization: `Bearer ${token}` })
    assert.equal(answer.status, 401)
  })

  test('asks for a key', async () => {
    for (const [name, status] of await statuses('sk_nobody', 'a')) {
      assert.ok(status === 401 || status === 429, `${name}: ${status}`)
    }
  })
})
