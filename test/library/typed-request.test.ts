import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openSluice } from '../../src/index.ts'

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
