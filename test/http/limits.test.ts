import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { HttpLimits } from '../../src/http/app.ts'
import { configOf } from '../../src/runtime/config.ts'
import { type Api, openApi } from './api.ts'

async function open(t: TestContext, limits: Partial<HttpLimits>): Promise<Api> {
  const api = await openApi({ limits: { ...configOf({}), ...limits } })
  t.after(async () => {
    await api.app.close()
    await api.store.close()
  })
  await api.ask('POST', '/app', { name: 'A', uid: 'a' })
  return api
}

async function portalOf(api: Api): Promise<Record<string, string>> {
  const { token } = (await api.ask('POST', '/api/v1/auth/app-portal-access/a', {})).json
  return { authorization: `Bearer ${token}` }
}

const endpoint = { url: 'http://127.0.0.1:9/' }

test('a portal token that asks too often gets 429, and no other caller does', async (t) => {
  const api = await open(t, { portalRate: 1 })
  const portal = await portalOf(api)
  const statuses: number[] = []
  for (let i = 0; i < 12; i++) {
    const { status, json, headers } = await api.ask('GET', '/app/a/endpoint', undefined, portal)
    statuses.push(status)
    if (status !== 429) continue
    assert.equal(json.code, 'rate_limited')
    assert.match(json.detail, /portalRate/)
    assert.equal(headers['retry-after'], '1')
  }
  assert.deepEqual(statuses.slice(0, 10), Array(10).fill(200))
  assert.ok(statuses.includes(429))
  assert.equal((await api.ask('GET', '/app/a/endpoint', undefined, await portalOf(api))).status, 200)
  assert.equal((await api.ask('GET', '/app/a/endpoint')).status, 200)
})

test('the callers of one application share a limit, and so do their changes', async (t) => {
  const api = await open(t, { apiRatePerApp: 1, changesPerMinute: 3 })
  const portals = [await portalOf(api), await portalOf(api)]
  const created = []
  for (let i = 0; i < 4; i++) created.push(await api.ask('POST', '/app/a/endpoint', endpoint, portals[i % 2]))
  assert.deepEqual(
    created.map(({ status }) => status),
    [201, 201, 201, 429],
  )
  assert.match(created[3]?.json.detail, /changesPerMinute/)
  assert.ok(Number(created[3]?.headers['retry-after']) > 1)
  assert.equal((await api.ask('POST', '/app/a/endpoint', endpoint)).status, 201, 'the operator may')
  const read = []
  for (let i = 0; i < 10; i++) read.push((await api.ask('GET', '/app/a', undefined, portals[i % 2])).status)
  assert.equal(read[0], 200)
  assert.ok(read.includes(429))
  const audit = (await api.ask('GET', '/api/v1/audit?limit=250')).json.data
  const rows = audit.filter(({ action }: { action: string }) => action === 'POST /app/:app/endpoint')
  assert.equal(rows.length, 4)
})

test('publishing has a limit of its own, which is off unless set', async (t) => {
  const message = { eventType: 'x.y', payload: {} }
  const api = await open(t, { apiRate: 1 })
  const statuses = async (of: Api, count: number) => {
    const all = await Promise.all(Array.from({ length: count }, () => of.ask('POST', '/app/a/msg', message)))
    return new Set(all.map(({ status }) => status))
  }
  assert.deepEqual(await statuses(api, 50), new Set([202]))
  const limited = await open(t, { publishRate: 1 })
  assert.deepEqual(await statuses(limited, 30), new Set([202, 429]))
})

test('an application has no more endpoints and schedules, and an endpoint no more event types, than allowed', async (t) => {
  const api = await open(t, { maxEndpointsPerApp: 3, maxSchedulesPerApp: 1, maxEventTypesPerEndpoint: 2 })
  const made = await Promise.all(Array.from({ length: 8 }, () => api.ask('POST', '/app/a/endpoint', endpoint)))
  assert.equal(made.filter(({ status }) => status === 201).length, 3)
  const [refused] = made.filter(({ status }) => status !== 201)
  assert.deepEqual([refused?.status, refused?.json.code], [409, 'quota_exceeded'])
  assert.match(refused?.json.detail, /maxEndpointsPerApp/)
  assert.equal((await api.ask('PUT', '/app/a/endpoint/another', endpoint)).json.code, 'quota_exceeded')
  assert.equal((await api.ask('POST', '/api/v1/operational-webhook/endpoint', endpoint)).status, 201)
  const id = made.find(({ status }) => status === 201)?.json.id
  assert.equal((await api.ask('DELETE', `/app/a/endpoint/${id}`)).status, 204)
  assert.equal((await api.ask('POST', '/app/a/endpoint', endpoint)).status, 201)

  const schedule = { cron: '0 0 1 1 *', eventType: 'x.y', payload: {} }
  assert.equal((await api.ask('POST', '/app/a/schedule', schedule)).status, 201)
  const more = await api.ask('POST', '/app/a/schedule', schedule)
  assert.deepEqual([more.status, more.json.code], [409, 'quota_exceeded'])
  assert.match(more.json.detail, /maxSchedulesPerApp/)

  const wide = await api.ask('PUT', '/app/a/endpoint/wide', { ...endpoint, eventTypes: ['a.*', 'b.*', 'c.*'] })
  assert.match(wide.json.detail, /maxEventTypesPerEndpoint/)
})
