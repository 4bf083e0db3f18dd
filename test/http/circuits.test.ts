import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { defaultCircuitPolicy } from '../../src/domain/health.ts'
import { type Answer, openApi } from './api.ts'

const url = 'https://example.com/hook'

async function withEndpoint(body: object = {}) {
  const api = await openApi()
  const { json: app } = await api.ask('POST', '/app', { name: 'A', uid: 'a' })
  const made = await api.ask('POST', '/app/a/endpoint', { url, uid: 'e', ...body })
  assert.equal(made.status, 201, made.text)
  const { key } = (await api.store.findApplication('a')) as { key: number }
  const endpoint = await api.store.findEndpoint(key, 'e')
  assert(endpoint)
  const lane = async () => (await api.ask('GET', '/app/a/endpoint/e/lane')).json
  return { ...api, application: app, made: made.json, endpoint, lane }
}

function problems({ json, status }: Answer): string[] {
  assert.equal(status, 422)
  return json.detail.map(({ loc }: { loc: string[] }) => loc.join('.'))
}

describe('how a receiver is judged', () => {
  test('has the policy of the server by default, and a policy fills absent fields with defaults', async () => {
    const { made, ask } = await withEndpoint()
    assert.deepEqual([made.circuit, made.adaptive, made.disableAfterMs], [null, true, null])
    const change = { circuit: { failures: 3, openMs: 1000 }, adaptive: false, disableAfterMs: 0 }
    const { json } = await ask('PATCH', '/app/a/endpoint/e', change)
    assert.deepEqual(json.circuit, { ...defaultCircuitPolicy, failures: 3, openMs: 1000 })
    assert.deepEqual([json.adaptive, json.disableAfterMs], [false, 0])
    assert.equal((await ask('PATCH', '/app/a/endpoint/e', { circuit: 'off' })).json.circuit, 'off')
    const unset = await ask('PATCH', '/app/a/endpoint/e', { circuit: null, adaptive: null, disableAfterMs: null })
    assert.deepEqual([unset.json.circuit, unset.json.adaptive, unset.json.disableAfterMs], [null, true, null])
  })

  test('shows in the state of the endpoint, wherever it is shown', async () => {
    const { ask, made, lane } = await withEndpoint()
    assert.equal(made.state, 'active')
    const { json: sent } = await ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
    for (const [act, state] of [
      ['circuit/open', 'circuit_open'],
      ['pause', 'paused'],
      ['resume', 'circuit_open'],
      ['circuit/close', 'active'],
    ]) {
      assert.equal((await ask('POST', `/app/a/endpoint/e/${act}`)).json.state, state)
      const shown = [
        (await ask('GET', '/app/a/endpoint/e')).json,
        (await ask('GET', '/app/a/endpoint')).json.data[0],
        (await ask('GET', `/app/a/msg/${sent.id}/endpoint`)).json.data[0],
        await lane(),
      ]
      assert.deepEqual(
        shown.map((each) => each.state),
        [state, state, state, state],
      )
    }
    assert.equal((await ask('PATCH', '/app/a/endpoint/e', { disabled: true })).json.state, 'disabled')
  })

  test('PUT goes back to the defaults, but not behind an operator', async () => {
    const { ask, lane } = await withEndpoint({ circuit: 'off', adaptive: false })
    await ask('POST', '/app/a/endpoint/e/circuit/open')
    const { json } = await ask('PUT', '/app/a/endpoint/e', { url })
    assert.deepEqual([json.circuit, json.adaptive], [null, true])
    assert.equal((await lane()).circuit.manual, true)
  })

  test('takes nothing that makes no sense', async () => {
    const { ask } = await withEndpoint()
    for (const [body, where] of [
      [{ circuit: 'on' }, 'body.circuit'],
      [{ circuit: { failures: 0 } }, 'body.circuit'],
      [{ circuit: { ratio: 1.5 } }, 'body.circuit'],
      [{ circuit: { openMs: 1e12 } }, 'body.circuit'],
      [{ circuit: [] }, 'body.circuit'],
      [{ adaptive: 'yes' }, 'body.adaptive'],
      [{ disableAfterMs: -1 }, 'body.disableAfterMs'],
      [{ disableAfterMs: 0.5 }, 'body.disableAfterMs'],
    ] as const) {
      const found = problems(await ask('PATCH', '/app/a/endpoint/e', body))
      assert.ok(found.every((each) => each.startsWith(where)) && found.length > 0, `${JSON.stringify(body)}: ${found}`)
    }
  })

  test('a longest time shorter than the first is the first', async () => {
    const { made } = await withEndpoint({ circuit: { openMs: 5000, maxOpenMs: 1000 } })
    assert.deepEqual([made.circuit.openMs, made.circuit.maxOpenMs], [5000, 5000])
  })
})

describe('an operator', () => {
  test('opens, closes and resets a circuit, each an order of its own and a row of the audit log', async () => {
    const { ask, lane, store, endpoint } = await withEndpoint()
    assert.deepEqual((await lane()).circuit, {
      state: 'closed',
      openUntil: null,
      manual: false,
      openings: 0,
      failures: 0,
    })
    for (const [action, state] of [
      ['open', 'open'],
      ['open', 'open'],
      ['close', 'closed'],
      ['open', 'open'],
      ['reset', 'closed'],
    ]) {
      const { status, json } = await ask('POST', `/app/a/endpoint/e/circuit/${action}`)
      assert.deepEqual([status, json.uid], [200, 'e'])
      assert.equal((await lane()).circuit.state, state)
    }
    const [stored] = await store.loadEndpoints([endpoint.key])
    assert.deepEqual(stored?.flow.circuitOrder, { n: 5, action: 'reset' })
    const { json } = await ask('GET', '/api/v1/audit?order=descending&limit=1')
    assert.equal(json.data[0].action, 'POST /app/:app/endpoint/:endpoint/circuit/reset')
  })

  test('gets 404 for an endpoint that does not exist', async () => {
    const { ask } = await withEndpoint()
    await ask('POST', '/app', { name: 'B', uid: 'b' })
    for (const path of ['/app/a/endpoint/x', '/app/b/endpoint/e', '/app/x/endpoint/e']) {
      assert.equal((await ask('POST', `${path}/circuit/open`)).status, 404)
    }
    assert.equal((await ask('POST', '/app/a/endpoint/e/circuit/burn')).status, 404)
  })
})

test('the lane shows until when its circuit is open, how slow it is and since when it fails', async () => {
  const { store, endpoint, lane, ask } = await withEndpoint({ throttleRate: 100 })
  const worker = await store.join({ leaseMs: 60_000, description: 'a worker' })
  const health = JSON.stringify({
    circuit: 'open',
    openMs: 60_000,
    openings: 2,
    failures: 5,
    failingMs: 3_600_000,
    pace: [0.01, 0.1, 1e9],
  })
  const effects = { holds: [], disable: [], health: [{ endpoint: endpoint.key, health }] }
  assert.equal(await store.settle(worker, [], effects), 'settled')
  const { circuit, failingSince, slowedTo, asOf } = await lane()
  assert.deepEqual([circuit.state, circuit.openings, circuit.failures, circuit.manual], ['open', 2, 5, false])
  const fromNow = (instant: string) => Math.round((Date.parse(instant) - Date.parse(asOf)) / 10_000) * 10_000
  assert.deepEqual([fromNow(circuit.openUntil), fromNow(failingSince), slowedTo], [60_000, -3_600_000, 10])

  await ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
  const { json: why } = await ask('GET', '/app/a/endpoint/e/why')
  assert.equal(why.reason, 'circuit_open')
  assert.equal(why.nextAt, circuit.openUntil)
})

test('the lane is limited by its rate where nothing else holds it for as long', async () => {
  for (const [circuit, isLimited] of [
    ['closed', true],
    ['open', false],
  ] as const) {
    const { store, endpoint, lane, ask } = await withEndpoint({ throttleRate: 1 })
    const worker = await store.join({ leaseMs: 60_000, description: 'a worker' })
    await ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
    assert.equal((await store.claim(worker, 10)).lanes.length, 1)
    const health = circuit === 'open' ? JSON.stringify({ circuit, openMs: 60_000, failures: 5 }) : null
    await store.release(worker, [
      { endpoint: endpoint.key, bucketDebtMs: 0, bucketLimit: null, notBeforeMs: 60_000, health },
    ])
    assert.equal((await lane()).rateLimitedUntil !== null, isLimited, circuit)
  }
})

test('changes that Sluice makes to a circuit by itself are in the audit log', async () => {
  const { store, endpoint, ask, application, made } = await withEndpoint()
  const worker = await store.join({ leaseMs: 60_000, description: 'a worker' })
  const notices = [{ type: 'endpoint.circuit.opened', endpoint: endpoint.key, data: { reason: 'failures' } }] as const
  await store.settle(worker, [], { holds: [], disable: [], health: [], notices })
  const { json } = await ask('GET', '/api/v1/audit?actor=sluice')
  assert.deepEqual(
    json.data.map(({ action, appId, target, after }: Record<string, unknown>) => [action, appId, target, after]),
    [
      [
        'endpoint.circuit.opened',
        application.id,
        `/api/v1/app/${application.id}/endpoint/${made.id}`,
        { reason: 'failures' },
      ],
    ],
  )
})
