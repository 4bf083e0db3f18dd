import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openApi } from './api.ts'

describe('GET /api/v1/doctor', () => {
  test('answers an operator: any key that reads all applications', async () => {
    const { ask } = await openApi()
    await ask('POST', '/app', { name: 'A', uid: 'a' })
    const keyOf = async (body: object) => {
      const { json } = await ask('POST', '/api/v1/api-key', { name: 'k', ...body })
      return { authorization: `Bearer ${json.token}` }
    }
    const statusFor = async (headers: Record<string, string>) =>
      (await ask('GET', '/api/v1/doctor', undefined, headers)).status
    assert.equal(await statusFor({}), 200)
    assert.equal(await statusFor(await keyOf({ scopes: ['read'] })), 200)
    assert.equal(await statusFor(await keyOf({ scopes: ['publish'] })), 403)
    assert.equal(await statusFor(await keyOf({ scopes: ['read'], app: 'a' })), 403)
    assert.equal(await statusFor({ authorization: '' }), 401)
  })

  test('answers 200 whatever it finds, with the totals and the instant', async () => {
    const { ask, store } = await openApi()
    await ask('POST', '/app', { name: 'A', uid: 'a' })
    await ask('POST', '/app/a/endpoint', { url: 'https://example.com/', uid: 'e' })
    await ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
    await store.join({ leaseMs: 60_000, description: 'a worker' })
    await ask('POST', '/app/a/endpoint/e/pause')
    const { status, json } = await ask('GET', '/api/v1/doctor')
    assert.equal(status, 200)
    assert.deepEqual([json.status, json.more], ['warning', 0])
    assert.partialDeepStrictEqual(json.waiting, { total: 1, endpoints: 1, isExact: true })
    assert.ok(Math.abs(Date.parse(json.asOf) - Date.now()) < 60_000)
    const [{ code, command, app, endpoint, evidence }] = json.findings
    assert.deepEqual([code, app, endpoint, evidence.waiting], ['endpoint_paused', 'a', 'e', 1])
    assert.equal(command, 'sluice endpoint resume a e')
  })

  test('examines the system once for many callers', async () => {
    const base = await openApi()
    let examined = 0
    const store = {
      ...base.store,
      condition: () => {
        examined++
        return base.store.condition()
      },
    }
    const { ask } = await openApi({ store })
    await Promise.all(Array.from({ length: 50 }, () => ask('GET', '/api/v1/doctor')))
    assert.ok(examined <= 3, `${examined} times`)
  })
})
