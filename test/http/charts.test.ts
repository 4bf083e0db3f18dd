import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { apiRoot } from '../../src/domain/api.ts'
import {
  hourMs,
  minuteMs,
  pointsLimit,
  Sketch,
  type StoredSums,
  type SumSpan,
  serverScope,
} from '../../src/features/history/rules.ts'
import type { Harness, Open } from '../store/conformance/harness.ts'
import { openPostgresHarness } from '../store/postgres-harness.ts'
import { openSqliteHarness } from '../store/sqlite-harness.ts'
import { type Api, openApi } from './api.ts'

function durations(...values: number[]): number[] {
  const sketch = new Sketch()
  for (const value of values) sketch.add(value)
  return sketch.toJSON()
}

const now = Date.now()
const minuteAt = (ago: number) => Math.floor(now / minuteMs) * minuteMs - ago * minuteMs
const hourAt = (ago: number) => Math.floor(now / hourMs) * hourMs - ago * hourMs
const sum = (values: readonly number[]) => values.reduce((all, each) => all + each, 0)

function charts(open: Open): void {
  let harness: Harness
  let api: Api
  let keys: { app: number; other: number; endpoint: number; second: number; foreign: number }
  let ids: { endpoint: string; second: string; foreign: string }

  before(async () => {
    harness = await open()
    api = await openApi({ store: harness.store })
    const make = async (app: string, uid: string) =>
      (await api.ask('POST', `/app/${app}/endpoint`, { uid, url: 'http://127.0.0.1:9/x' })).json.id as string
    for (const uid of ['acme', 'globex']) await api.ask('POST', '/app', { name: uid, uid })
    ids = { endpoint: await make('acme', 'one'), second: await make('acme', 'two'), foreign: await make('globex', 'x') }
    const { store } = harness
    const [app, other] = [await store.findApplication('acme'), await store.findApplication('globex')]
    assert(app && other)
    const keyOf = async (of: number, id: string) => (await store.findEndpoint(of, id))?.key as number
    keys = {
      app: app.key,
      other: other.key,
      endpoint: await keyOf(app.key, ids.endpoint),
      second: await keyOf(app.key, ids.second),
      foreign: await keyOf(other.key, ids.foreign),
    }
  })
  after(() => harness.close())

  const write = (scope: number, span: SumSpan, at: number, sums: StoredSums, writer = 'a') =>
    harness.store.writeHistory(writer, [{ scope, span, at, sums }])
  const get = async (path: string, key?: string) =>
    api.ask('GET', `${apiRoot}${path}`, undefined, key === undefined ? {} : { authorization: `Bearer ${key}` })

  test('the writers of a minute add up, and each point has counts and quantiles', async () => {
    const minute = minuteAt(5)
    await write(keys.endpoint, minuteMs, minute, { delivered: 3, status2xx: 3, latency: durations(10, 10, 10) })
    await write(keys.endpoint, minuteMs, minute, { failed: 1, status5xx: 1, latency: durations(900) }, 'b')
    await write(keys.endpoint, minuteMs, minuteAt(7), { delivered: 1, wait: durations(2000) })
    const { status, json } = await get(`/history?app=acme&endpoint=one&range=15m`)
    assert.equal(status, 200)
    assert.deepEqual([json.stepSeconds, json.series.delivered.length], [60, 15])
    const place = (minute - Date.parse(json.since)) / minuteMs
    const at = (values: unknown[]) => values[place]
    const { delivered, failed, status2xx, status5xx, latencyMs, waitMs } = json.series
    assert.deepEqual([delivered, failed, status2xx, status5xx].map(at), [3, 1, 3, 1])
    assert(Math.abs(Number(at(latencyMs.p50)) - 10) <= 0.6)
    assert(Math.abs(Number(at(latencyMs.p99)) - 900) <= 46)
    assert.equal(at(waitMs.p50), null)
    assert(Math.abs(json.totals.waitMs.p95 - 2000) <= 101)
    assert.equal(json.totals.delivered, 4)
    assert.equal(sum(delivered), 4)
  })

  test('every range has at most 360 points, and ends now', async () => {
    const wanted = { '15m': [15, 60], '1h': [60, 60], '24h': [288, 300], '7d': [168, 3600], '90d': [360, 21_600] }
    for (const [range, [points, stepSeconds]] of Object.entries(wanted)) {
      const { json } = await get(`/history?range=${range}`)
      assert.deepEqual([json.series.accepted.length, json.stepSeconds], [points, stepSeconds], range)
      assert(Date.parse(json.until) > now && Date.parse(json.until) - (stepSeconds as number) * 1000 <= Date.now())
    }
    for (const days of [0.1, 1, 1.9, 3, 20, 100, 700]) {
      const since = new Date(now - days * 24 * hourMs).toISOString()
      const { status, json } = await get(`/history?since=${since}`)
      assert.equal(status, 200, `${days} days`)
      assert(json.series.accepted.length <= pointsLimit)
      assert(Date.parse(json.since) <= Date.parse(since) && Date.parse(json.until) >= now)
    }
  })

  test('days are read from hours, and a time in the past by itself', async () => {
    await write(serverScope, hourMs, hourAt(30), { accepted: 7 })
    await write(serverScope, hourMs, hourAt(100), { accepted: 5 })
    await write(serverScope, minuteMs, hourAt(30), { accepted: 7 })
    assert.equal((await get('/history?range=7d')).json.totals.accepted, 12)
    const [since, until] = [hourAt(101), hourAt(99)].map((at) => new Date(at).toISOString())
    const { json } = await get(`/history?since=${since}&until=${until}`)
    assert.deepEqual([json.since, json.until, json.stepSeconds], [since, until, 3600])
    assert.deepEqual(json.series.accepted, [0, 5])
  })

  test('an endpoint that was followed by the hour alone is shown by hours', async () => {
    await write(keys.second, hourMs, hourAt(1), { delivered: 40, byHour: true })
    await write(keys.second, minuteMs, minuteAt(2), { delivered: 2 })
    await write(keys.second, hourMs, hourAt(0), { delivered: 2 })
    const { json } = await get(`/history?endpoint=${ids.second}&range=24h`)
    assert.deepEqual([json.stepSeconds, json.totals.delivered], [3600, 42])
  })

  test('endpoints of a list come in one request, by the hour, and unknown ones are left out', async () => {
    await write(keys.foreign, hourMs, hourAt(3), { delivered: 4, failed: 2 }, 'a')
    await write(keys.foreign, hourMs, hourAt(3), { delivered: 1 }, 'b')
    const all = await get(`/history/sparkline?endpoint=${ids.foreign},ep_unknown&endpoint=${ids.second}`)
    assert.deepEqual(
      all.json.data.map(({ endpointId }: { endpointId: string }) => endpointId),
      [ids.foreign, ids.second],
    )
    const [line] = all.json.data
    const place = (hourAt(3) - Date.parse(all.json.since)) / hourMs
    assert.deepEqual([line.delivered.length, line.delivered[place], line.failed[place]], [24, 5, 2])
    assert.deepEqual([sum(line.delivered), sum(line.failed)], [5, 2])
    const week = await get('/history/sparkline?app=globex&endpoint=x&range=7d')
    assert.deepEqual([week.json.data.length, week.json.data[0].delivered.length], [1, 168])
    const many = Array.from({ length: 101 }, (_, n) => `ep_${n}`).join(',')
    assert.equal((await get(`/history/sparkline?endpoint=${many}`)).status, 422)
  })

  test('a caller of one application sees its own history, and nothing else', async () => {
    const { token } = (await api.ask('POST', `${apiRoot}/auth/app-portal-access/acme`, { readOnly: true })).json
    const bound = (await api.ask('POST', `${apiRoot}/api-key`, { name: 'k', scopes: ['read'], app: 'acme' })).json.token
    for (const key of [token, bound]) {
      for (const path of ['?app=acme', '?app=acme&endpoint=one', '?endpoint=one', `?endpoint=${ids.endpoint}`]) {
        assert.equal((await get(`/history${path}`, key)).status, 200, path)
      }
      assert.equal((await get('/history', key)).status, 403)
      for (const path of ['?app=globex', '?app=globex&endpoint=x', `?endpoint=${ids.foreign}`, '?endpoint=x']) {
        assert.equal((await get(`/history${path}`, key)).status, 404, path)
      }
      assert.equal((await get('/history/sparkline?app=globex&endpoint=x', key)).status, 404)
      const { json } = await get(`/history/sparkline?endpoint=${ids.foreign},one`, key)
      assert.deepEqual(
        json.data.map(({ endpointId }: { endpointId: string }) => endpointId),
        [ids.endpoint],
      )
    }
    const publishing = (await api.ask('POST', `${apiRoot}/api-key`, { name: 'p', scopes: ['publish'] })).json.token
    assert.equal((await get('/history', publishing)).status, 403)
  })

  test('a time that makes no sense is refused, with its name', async () => {
    const wrong = [
      ['until=2026-01-01T00:00:00Z', 'until'],
      ['range=1h&since=2026-01-01T00:00:00Z', 'range'],
      ['since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z', 'since'],
      ['since=2001-01-01T00:00:00Z', 'since'],
      ['since=2026-02-31T00:00:00Z', 'since'],
      ['range=2h', 'range'],
      ['application=acme', 'application'],
    ]
    for (const [query, name] of wrong) {
      const { status, text } = await get(`/history?${query}`)
      assert.equal(status, 422, query)
      assert.match(text, new RegExp(`"${name}"`), query)
    }
    assert.equal((await get('/history?app=nobody')).status, 404)
    assert.equal((await get('/history?endpoint=nobody')).status, 404)
  })
}

describe('sqlite', () => charts(openSqliteHarness))
describe('postgres', () => charts(openPostgresHarness))
