import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../../src/domain/app-error.ts'
import { routes } from '../../src/features/routes.ts'
import { inProcess, type Method } from '../../src/operations/in-process.ts'
import { servicesOf } from '../../src/operations/services.ts'
import { openApi } from './api.ts'

async function createWorld() {
  const api = await openApi()
  const request = inProcess(servicesOf(api.deps))
  /** Calls in process and returns the answer, or the code and fields of the refusal. */
  const get = async (method: Method, path: string, body?: unknown) => {
    try {
      return await request(method, path, body)
    } catch (error) {
      assert(error instanceof AppError, String(error))
      const fields = error.fields.map(({ at }) => at.map(String))
      // Over HTTP, a body that is no JSON is one problem of the body.
      return { code: error.code, fields: error.code === 'invalid_json' ? [['body']] : fields }
    }
  }
  /** The same over HTTP. */
  const ask = async (method: Method, path: string, body?: unknown) => {
    const { status, json, text } = await api.ask(method, `/api/v1${path}`, body)
    if (status < 400) return json ?? (status === 204 ? undefined : text)
    const fields = Array.isArray(json.detail) ? json.detail.map(({ loc }: { loc: string[] }) => loc) : []
    return { code: json.code, fields }
  }
  return { ...api, request, get, ask }
}

test('an operation in process has the answer, and the refusal, that it has over HTTP', async () => {
  const { request, get, ask, bugs } = await createWorld()
  await request('POST', '/app', { uid: 'acme', name: 'Acme' })
  await request('POST', '/app/acme/endpoint', { uid: 'main', url: 'https://127.0.0.1/' })
  const schedule = { uid: 'daily', cron: '0 0 * * *', eventType: 'a', payload: { big: 1 } }
  await request('POST', '/app/acme/schedule', schedule)
  const { id } = await request<{ id: string }>('POST', '/app/acme/msg', { eventType: 'a', payload: { n: 1 } })
  const asked: [Method, string, unknown?][] = [
    ['GET', '/app?limit=1'],
    ['GET', '/app/acme'],
    ['GET', '/app/acme/endpoint/main'],
    ['GET', `/app/acme/msg/${id}`],
    ['GET', '/app/acme/msg?with_content=true'],
    ['GET', '/app/acme/schedule/daily'],
    ['GET', '/app/acme/dead/export'],
    ['GET', '/app/nobody'],
    ['GET', '/app/%2e%2e%2f'],
    ['GET', '/app?limit=many'],
    ['GET', '/no/such/route'],
    ['PATCH', '/app'],
    ['POST', '/app'],
    ['POST', '/app', { name: 1 }],
    ['POST', '/app', { name: 'Acme', metadata: { text: '\0' } }],
    ['POST', '/app/acme/schedule', { ...schedule, payload: 'text' }],
    ['POST', '/app/acme/msg', { eventType: 'a', payload: { text: 'x'.repeat(70_000) } }],
    ['POST', '/app/acme/msg/batch', { messages: [] }],
    ['DELETE', '/app/acme/schedule/daily'],
  ]
  for (const [method, path, body] of asked) {
    if (method === 'DELETE') assert.deepEqual(await get(method, path, body), undefined)
    else assert.deepEqual(await get(method, path, body), await ask(method, path, body), `${method} ${path}`)
  }
  assert.deepEqual(bugs, [])
})

test('a change in process leaves a row in the audit log', async () => {
  const { request } = await createWorld()
  await request('POST', '/app', { uid: 'acme', name: 'Acme' })
  await request('PATCH', '/app/acme', { name: 'Other' })
  await request('GET', '/app/acme')
  const { data } = await request<{ data: { action: string; target: string }[] }>('GET', '/audit?order=ascending')
  assert.deepEqual(
    data.map(({ action, target }) => [action, target]),
    [
      ['POST /app', '/api/v1/app'],
      ['PATCH /app/:app', '/api/v1/app/acme'],
    ],
  )
})

test('every route is reached in process by a path of its own', async () => {
  const { get } = await createWorld()
  for (const { method, path, root } of routes) {
    if (root !== undefined) continue
    const answer = await get(method, path.replace(/:\w+/g, 'no-such-thing'))
    const code = (answer as { code?: string } | undefined)?.code
    assert.notEqual(code, 'method_not_allowed', `${method} ${path}`)
  }
})
