import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openSluice } from '../../src/index.ts'
import { type Request, routeCalls } from '../../src/operations/in-process.ts'

// The checks are those of the compiler: the test fails to compile when `request` loses a type.

/** Whether two types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
function same<A, B>(_: Same<A, B>): void {}

test('request() answers with the type of the operation, without casts', async () => {
  await using sluice = await openSluice({ store: 'sqlite::memory:', deliver: false })
  const app = await sluice.request('POST', '/app', { name: 'A', uid: 'acme' })
  const name: string = app.name
  const uid: string | null = app.uid
  assert.deepEqual([name, uid], ['A', 'acme'])
  // @ts-expect-error: an application has no such field.
  assert.equal(app.url, undefined)

  const made = await sluice.request('POST', `/app/${app.id}/endpoint`, { url: 'https://example.com/', uid: 'main' })
  const url: string = made.url
  assert.equal(url, 'https://example.com/')
  const { data, done } = await sluice.request('GET', `/app/${app.id}/endpoint?limit=5`)
  const ids: readonly string[] = data.map(({ id }) => id)
  assert.deepEqual([ids, done], [[made.id], true])
  const { key } = await sluice.request('GET', '/app/acme/endpoint/main/secret')
  same<typeof key, string>(true)
  assert.match(key, /^whsec_/)
  const nothing = await sluice.request('DELETE', '/app/acme/endpoint/main')
  same<typeof nothing, undefined>(true)
  const lines = await sluice.request('GET', '/app/acme/dead/export')
  same<typeof lines, string>(true)
  assert.equal(lines, '')

  // Known only at run time: the caller names the type, or checks the answer.
  const path: string = '/app/acme'
  const unknown = await sluice.request('GET', path)
  same<typeof unknown, unknown>(true)
  const named = await sluice.request<{ name: string }>('GET', path)
  assert.equal(named.name, 'A')
})

test('a function of a route takes the names of its path and then its input, and escapes them', async () => {
  const asked: unknown[] = []
  const request: Request = async <T>(...given: unknown[]) => {
    asked.push(given)
    return { key: 'whsec_x' } as T
  }
  const call = routeCalls(request)
  const { key } = await call('GET', '/app/:app/endpoint/:endpoint/secret')('a/b', 'é?')
  same<typeof key, string>(true)
  await call('GET', '/app/:app/msg')('acme', { limit: 5, iterator: null, before: new Date(0), event_types: ['a', 'b'] })
  await call('POST', '/app', { get_if_exists: true })({ name: 'A' })
  assert.deepEqual(asked, [
    ['GET', '/app/a%2Fb/endpoint/%C3%A9%3F/secret'],
    ['GET', '/app/acme/msg?limit=5&before=1970-01-01T00%3A00%3A00.000Z&event_types=a%2Cb'],
    ['POST', '/app?get_if_exists=true', { name: 'A' }],
  ])
  // @ts-expect-error: no route has this path.
  call('GET', '/app/:app/endpoints')
  // @ts-expect-error: the path has two names.
  await call('DELETE', '/app/:app/endpoint/:endpoint')('acme')
})
