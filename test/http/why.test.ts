import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { writeSnapshot } from '../../src/domain/snapshot.ts'
import { snapshot } from '../domain/a-snapshot.ts'
import { type Api, openApi } from './api.ts'

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
  test('an endpoint waits is told with what waits, and since when', async () => {
    const s = await scene()
    const before = Date.now()
    await s.publish('a', 3)
    await s.ask('POST', '/app/a/endpoint/one/pause')
    const { json } = await s.why('a/endpoint/one/why')
    assert.deepEqual(
      [json.reason, json.nextAt, json.waiting.fresh, json.waiting.total, json.waiting.isExact, json.isLive],
      ['paused', null, 3, 3, true, false],
    )
    // Nobody has joined: enabling it alone would not help.
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

  test('an application waits is told for each endpoint that something waits for, the worst first', async () => {
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
        ['two', 'disabled', 2],
        ['one', 'waiting_for_worker', 2],
      ],
    )
    assert.equal(json.detail, '4 deliveries wait for 2 endpoints: 1 disabled, 1 waiting for worker.')
    assert.deepEqual([json.blockers, json.done], [[], true])
    const { json: other } = await s.why('b/why')
    assert.deepEqual([other.data, other.detail, other.done], [[], 'No deliveries wait for any of its endpoints.', true])
    assert.equal((await s.why('nobody/why')).status, 404)
  })

  test('an application with many endpoints is told page by page', async () => {
    const s = await scene()
    for (let i = 0; i < 4; i++) await s.ask('POST', '/app/a/endpoint', { url: 'https://example.com/', uid: `more${i}` })
    await s.publish('a')
    const seen: string[] = []
    let page = (await s.why('a/why?limit=4')).json
    assert.match(page.detail, /^At least 4 deliveries wait for 4 endpoints/)
    for (;;) {
      seen.push(...page.data.map(({ uid }: { uid: string }) => uid))
      assert.equal(page.blockers[0].reason, 'no_worker')
      if (page.done) break
      page = (await s.why(`a/why?limit=4&iterator=${page.iterator}`)).json
    }
    assert.deepEqual(seen.toSorted(), ['more0', 'more1', 'more2', 'more3', 'one', 'two'])
    assert.equal((await s.why('a/why?limit=101')).status, 422)
    assert.equal((await s.why('a/why?limit=0')).status, 422)
    assert.equal((await s.why('a/why?iterator=msg_x')).status, 422)
  })

  test("a lane and its deliveries are told by its owner's word when it gives one", async () => {
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
    assert.ok(Date.parse(endpoint.emptyAt) > Date.parse(endpoint.nextAt))
    const { json: delivery } = await s.why(`a/msg/${id}/endpoint/one/why`)
    assert.deepEqual(
      [delivery.reason, delivery.isLive, delivery.nextAt, delivery.ahead],
      ['behind_others', true, null, 1],
    )
    assert.ok(Date.parse(delivery.expectedAt) > Date.parse(delivery.asOf) + 10_000)
    const { json: application } = await s.why('a/why')
    assert.ok(application.data.every(({ isLive }: { isLive: boolean }) => isLive))
  })

  test('an owner that does not answer is named, and what is stored is told', async () => {
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
