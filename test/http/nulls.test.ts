import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { TSchema } from 'typebox'
import { routes } from '../../src/features/routes.ts'
import { openApi } from './api.ts'
import { fill, openPopulated } from './populated.ts'

/** Bodies that SDKs send when a field of theirs is null instead of absent. */
describe('null is "not given" where it has no meaning of its own:', () => {
  test('when an application is created, with the bytes of the Python SDK', async () => {
    const { ask } = await openApi()
    const created = await ask(
      'POST',
      '/app',
      '{"metadata": null, "name": "A", "rateLimit": null, "throttleRate": null, "uid": "a"}',
    )
    assert.equal(created.status, 201, created.text)
    assert.deepEqual([created.json.metadata, created.json.throttleRate], [{}, null])
  })

  test('when an application is changed', async () => {
    const { ask } = await openApi()
    await ask('POST', '/app', { name: 'A', uid: 'a', metadata: { k: 'v' }, throttleRate: 5 })
    const changed = await ask('PATCH', '/app/a', { name: null, metadata: null })
    assert.equal(changed.status, 200, changed.text)
    const { name, metadata, throttleRate } = changed.json
    assert.deepEqual({ name, metadata, throttleRate }, { name: 'A', metadata: { k: 'v' }, throttleRate: 5 })
  })

  test('PATCH still unsets a field by null where Svix does', async () => {
    const { ask } = await openApi()
    await ask('POST', '/app', { name: 'A', uid: 'a', throttleRate: 5 })
    const { json } = await ask('PATCH', '/app/a', { throttleRate: null, uid: null })
    assert.deepEqual([json.throttleRate, json.uid], [null, null])
  })

  test('within the application of a message', async () => {
    const { ask } = await openApi()
    const application = { name: 'A', uid: 'a', metadata: null }
    const published = await ask('POST', '/app/a/msg', { eventType: 'x', payload: {}, channels: null, application })
    assert.equal(published.status, 202, published.text)
    const batch = { messages: [{ eventType: 'x', payload: {}, application: { ...application, uid: 'b' } }] }
    assert.equal((await ask('POST', '/app/b/msg/batch', batch)).status, 202)
  })

  test('in every optional field of every body', async () => {
    const { ask, mine } = await openPopulated()
    let tried = 0
    for (const { method, path, body } of routes) {
      const { properties = {}, required = [] } = (body ?? {}) as {
        properties?: Record<string, TSchema>
        required?: string[]
      }
      for (const name of Object.keys(properties).filter((field) => !required.includes(field))) {
        const answer = await ask(method, `/api/v1${fill(path, mine)}`, { [name]: null })
        const wrong = (Array.isArray(answer.json?.detail) ? answer.json.detail : []).filter(
          ({ loc }: { loc: string[] }) => loc[1] === name,
        )
        assert.deepEqual(wrong, [], `${method} ${path} ${name}`)
        assert.ok(answer.status < 500, answer.text)
        tried++
      }
    }
    assert.ok(tried > 200, String(tried))
  })
})
