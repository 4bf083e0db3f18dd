import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { writeSnapshot } from '../../src/domain/snapshot.ts'
import { Explainer } from '../../src/features/why/service.ts'
import { Ledger } from '../../src/metrics/ledger.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { snapshot } from '../domain/a-snapshot.ts'
import { serverDefaults } from '../engine/engine-under-test.ts'
import { plainEndpoint } from '../store/conformance/harness.ts'
import { type Answer, type Api, openApi } from './api.ts'

interface Scene extends Api {
  publish(app: string, times?: number): Promise<string>
  why(path: string): ReturnType<Api['ask']>
}

/** Applications `a` with the endpoints `one`, `two` and `three`, and `b` with none. */
async function scene(): Promise<Scene> {
  const api = await openApi()
  const { ask } = api
  await ask('POST', '/app', { name: 'A', uid: 'a' })
  await ask('POST', '/app', { name: 'B', uid: 'b' })
  for (const uid of ['one', 'two', 'three']) {
    const channels = uid === 'three' ? ['third'] : null
    await ask('POST', '/app/a/endpoint', { url: `https://${uid}.example.com/`, uid, channels })
  }
  return {
    ...api,
    async publish(app, times = 1) {
      let id = ''
      for (let i = 0; i < times; i++) {
        const sent = await ask('POST', `/app/${app}/msg`, { eventType: 'x', payload: { n: i } })
        assert.equal(sent.status, 202, sent.text)
        id = sent.json.id
      }
      return id
    },
    why: (path) => ask('GET', `/app/${path}`),
  }
}

describe('why', () => {
  test('an endpoint waits comes with its waiting deliveries, and since when they wait', async () => {
    const s = await scene()
    const before = Date.now()
    await s.publish('a', 3)
    await s.ask('POST', '/app/a/endpoint/one/pause')
    const { json } = await s.why('a/endpoint/one/why')
    assert.deepEqual(
      [json.reason, json.nextAt, json.waiting.fresh, json.waiting.total, json.waiting.isExact, json.isLive],
      ['paused', null, 3, 3, true, false],
    )
    // No worker has joined: enabling it alone would not help.
    assert.deepEqual(
      json.blockers.map(({ reason }: { reason: string }) => reason),
      ['paused', 'no_worker'],
    )
    assert.ok(Date.parse(json.oldestSince) >= before - 1 && Date.parse(json.oldestSince) <= Date.now())
    assert.equal((await s.why('a/endpoint/three/why')).json.reason, 'no_worker')
    await s.store.join({ leaseMs: 60_000, description: 'test' })
    assert.equal((await s.why('a/endpoint/three/why')).json.reason, 'idle')
    assert.equal((await s.why('b/endpoint/one/why')).status, 404)
    assert.equal((await s.why('a/endpoint/four/why')).status, 404)
  })

  test('an application waits lists its endpoints with waiting deliveries, the worst first', async () => {
    const s = await scene()
    assert.deepEqual((await s.why('a/why')).json.data, [])
    await s.publish('a', 2)
    await s.store.join({ leaseMs: 60_000, description: 'test' })
    await s.ask('PATCH', '/app/a/endpoint/two', { disabled: true })
    const { json } = await s.why('a/why')
    assert.deepEqual(
      json.data.map(({ uid, reason, waiting }: { uid: string; reason: string; waiting: { total: number } }) => [
        uid,
        reason,
        waiting.total,
      ]),
      [
        ['one', 'waiting_for_worker', 2],
        ['two', 'disabled', 2],
      ],
    )
    assert.equal(json.detail, '4 deliveries wait for 2 endpoints: 1 waiting for worker, 1 disabled.')
    assert.deepEqual([json.blockers, json.done], [[], true])
    const { json: other } = await s.why('b/why')
    assert.deepEqual([other.data, other.detail, other.done], [[], 'No deliveries wait.', true])
    assert.equal((await s.why('nobody/why')).status, 404)
  })

  test('the worst endpoints of the whole application are named, by waiting deliveries or by age', async () => {
    const s = await scene()
    await s.publish('a')
    // More endpoints than one step of the survey looks at; the last ones are the worst.
    const app = (await s.store.findApplication('a'))?.key as number
    for (let i = 0; i < 300; i++)
      await s.store.createEndpoint(app, { ...plainEndpoint, channels: ['few'], uid: `few${i}` })
    const late = { url: 'https://example.com/', uid: 'late', channels: ['late'] }
    await s.ask('POST', '/app/a/endpoint', late)
    const body = { eventType: 'x', payload: {}, channels: ['late'] }
    for (let i = 0; i < 20; i++) await s.ask('POST', '/app/a/msg', body)
    const uids = ({ json }: Answer) => json.data.map(({ uid }: { uid: string }) => uid)
    // One and two got the messages without a channel, and those of the channel as well.
    const byWaiting = await s.why('a/why?limit=2')
    assert.deepEqual(uids(byWaiting), ['one', 'two'])
    const { total, endpoints, isExact } = byWaiting.json.waiting
    assert.deepEqual([total, endpoints, isExact], [2 * 21 + 20, 3, true])
    assert.match(byWaiting.json.detail, /^62 deliveries wait for 3 endpoints\. The worst 2: 2 no worker\.$/)
    assert.deepEqual([byWaiting.json.done, byWaiting.json.blockers[0].reason], [false, 'no_worker'])
    assert.equal((await s.why('a/why?limit=3')).json.done, true)
    await s.ask('DELETE', '/app/a/endpoint/one')
    assert.deepEqual(uids(await s.why('a/why')), ['two', 'late'])
    assert.deepEqual(uids(await s.why('a/why?sort=age')), ['two', 'late'])
    await s.ask('DELETE', '/app/a/endpoint/two')
    await s.ask('POST', '/app/a/endpoint', { url: 'https://example.com/', uid: 'newest' })
    await s.ask('POST', '/app/a/msg', { ...body, channels: ['other'] })
    for (let i = 0; i < 21; i++) await s.publish('a')
    assert.deepEqual(uids(await s.why('a/why')), ['newest', 'late'])
    assert.deepEqual(uids(await s.why('a/why?sort=age')), ['late', 'newest'])
    for (const query of ['limit=101', 'limit=0', 'sort=size']) {
      assert.equal((await s.why(`a/why?${query}`)).status, 422)
    }
  })

  test('the worst endpoints of all applications are named with their application, for keys that may see all', async () => {
    const s = await scene()
    await s.ask('POST', '/app/b/endpoint', { url: 'https://b.example.com/', uid: 'only' })
    await s.publish('a')
    await s.publish('b', 3)
    const { json } = await s.ask('GET', '/api/v1/why?limit=2')
    assert.deepEqual(
      json.data.map(({ appUid, uid }: { appUid: string; uid: string }) => [appUid, uid]),
      [
        ['b', 'only'],
        ['a', 'one'],
      ],
    )
    assert.deepEqual([json.waiting.total, json.waiting.endpoints, json.waiting.isExact], [5, 3, true])
    const { json: key } = await s.ask('POST', '/api/v1/api-key', { name: 'bound', scopes: ['read'], app: 'a' })
    const bound = { authorization: `Bearer ${key.token}` }
    assert.equal((await s.ask('GET', '/api/v1/why', undefined, bound)).status, 403)
    assert.equal((await s.ask('GET', '/app/a/why', undefined, bound)).status, 200)
  })

  test('an endpoint with a long queue is counted to its end, class by class', async () => {
    const s = await scene()
    const batch = (count: number, deliverAt?: string) => ({
      messages: Array.from({ length: count }, (_, n) => ({ eventType: 'x', payload: { n }, deliverAt })),
    })
    const later = new Date(Date.now() + 3_600_000).toISOString()
    for (const body of [batch(1000), batch(1000), batch(345), batch(500, later), batch(502, later)]) {
      assert.equal((await s.ask('POST', '/app/a/msg/batch', body)).status, 202)
    }
    const { json } = await s.why('a/endpoint/one/why')
    const waiting = { fresh: 2345, timed: 1002, replay: 0, total: 3347, isExact: true }
    assert.partialDeepStrictEqual(json.waiting, waiting)
    const all = await s.why('a/why')
    assert.equal(all.json.data.length, 2)
    for (const each of all.json.data) assert.partialDeepStrictEqual(each.waiting, waiting)
  })

  test('the worst by waiting and by age are named, each endpoint once', async () => {
    const s = await scene()
    await s.publish('a', 3)
    const { store } = s
    const explainer = new Explainer(store, systemClock, serverDefaults, new Ledger({ store, clock: systemClock }))
    const { totals, worst } = await explainer.worst(null, { waiting: 10, age: 10 })
    assert.deepEqual([totals.waiting, worst.map(({ endpoint }) => endpoint.uid)], [6, ['one', 'two']])
  })

  test('a lane and its deliveries are shown as the worker reports them', async () => {
    const s = await scene()
    const id = await s.publish('a', 2)
    const worker = await s.store.join({ leaseMs: 60_000, description: 'test' })
    const { lanes } = await s.store.claim(worker, 10)
    assert.equal(lanes.length, 2)
    let n = 0
    s.store.watch({
      rows() {},
      lanes() {},
      settings() {},
      asked(endpoints) {
        const word = { ...snapshot, worker, n: ++n, inFlight: 1, tokenMs: 7000, rate: 0.1, pace: 0.1 }
        const answers = endpoints.map((endpoint) => ({ endpoint, snapshot: writeSnapshot(word) }))
        void s.store.answerLanes(worker, answers)
      },
    })
    const { json: lane } = await s.why('a/endpoint/one/lane')
    assert.deepEqual([lane.live.inFlight, lane.live.concurrency, lane.live.rate, lane.live.pace], [1, 16, 0.1, 0.1])
    assert.equal(Date.parse(lane.live.nextTokenAt) - Date.parse(lane.live.asOf), 7000)
    const { json: endpoint } = await s.why('a/endpoint/one/why')
    assert.deepEqual([endpoint.reason, endpoint.isLive], ['rate_limited', true])
    assert.ok(Date.parse(endpoint.forecast.at) > Date.parse(endpoint.nextAt))
    const { json: delivery } = await s.why(`a/msg/${id}/endpoint/one/why`)
    assert.deepEqual(
      [delivery.reason, delivery.isLive, delivery.expectedAt, delivery.ahead],
      ['rate_limited', true, delivery.forecast.at, 0],
      'the one in front is under way',
    )
    const { json: application } = await s.why('a/why')
    assert.ok(application.data.every(({ isLive }: { isLive: boolean }) => isLive))
  })

  test('a worker that does not answer is named, and the stored state is shown', async () => {
    const s = await scene()
    await s.publish('a')
    const worker = await s.store.join({ leaseMs: 60_000, description: 'host 7, pid 12' })
    await s.store.claim(worker, 10)
    s.store.watch({ rows() {}, lanes() {}, settings() {}, asked() {} })
    const { json } = await s.why('a/endpoint/one/why')
    assert.deepEqual([json.reason, json.isLive, json.waiting.total], ['owner_silent', false, 1])
    assert.match(
      json.detail,
      /^Its worker \(host 7, pid 12\) does not answer\. If it does not come back, another worker takes over at /,
    )
    assert.equal((await s.why('a/endpoint/one/lane')).json.live, null)
  })
})
