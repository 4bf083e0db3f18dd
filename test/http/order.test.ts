import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { PendingRow } from '../../src/store/store.ts'
import { type Api, openApi } from './api.ts'

let api: Api
before(async () => {
  api = await openApi()
})
after(() => api.store.close())

async function newEndpoint(settings: object): Promise<{ app: string; path: string; key: number }> {
  const app = (await api.ask('POST', '/app', { name: 'Acme' })).json.id
  const made = await api.ask('POST', `/app/${app}/endpoint`, { url: 'http://127.0.0.1:1/hook', ...settings })
  assert.equal(made.status, 201, made.text)
  const appKey = (await api.store.findApplication(app))?.key as number
  const key = (await api.store.findEndpoint(appKey, made.json.id))?.key as number
  return { app, path: `/app/${app}/endpoint/${made.json.id}`, key }
}

async function publish(app: string, more: object = {}): Promise<string> {
  const answer = await api.ask('POST', `/app/${app}/msg`, { eventType: 'a.b', payload: {}, ...more })
  assert.equal(answer.status, 202, answer.text)
  return answer.json.id
}

async function rows(endpoint: number): Promise<PendingRow[]> {
  const [page] = await api.store.readDue([{ endpoint, class: 0, after: null, limit: 100 }])
  return page?.rows ?? []
}

/** Has the first in line used up its attempts, as a worker would find. */
async function blockHead(endpoint: number): Promise<void> {
  const worker = await api.store.join({ leaseMs: 60_000, description: 'a test' })
  const [row] = await rows(endpoint)
  const attempt = {
    id: `atmpt_${worker}`,
    startedAgoMs: () => 1,
    durationMs: 1,
    status: 500,
    code: 'refused' as const,
    error: null,
    response: null,
  }
  const settlement = { endpoint, app: 1, row: row as PendingRow, attempt, verdict: { state: 'blocked' as const } }
  await api.store.settle(worker, [settlement], { holds: [], disable: [], health: [] })
}

test('an endpoint says in which order it wants its messages, and what a dead head does', async () => {
  const { path } = await newEndpoint({ order: 'fifo', deadHead: 'block' })
  const made = (await api.ask('GET', path)).json
  assert.deepEqual([made.order, made.deadHead], ['fifo', 'block'])
  const changed = await api.ask('PATCH', path, { order: 'key', deadHead: null })
  assert.deepEqual([changed.json.order, changed.json.deadHead], ['key', 'skip'])
  const put = await api.ask('PUT', path, { url: 'http://127.0.0.1:1/hook' })
  assert.deepEqual([put.json.order, put.json.deadHead], ['none', 'skip'])
  const wrong = await api.ask('PATCH', path, { order: 'lifo', deadHead: 'jump' })
  assert.equal(wrong.status, 422)
  assert.deepEqual(
    wrong.json.detail.map(({ loc }: { loc: string[] }) => loc.at(-1)),
    ['order', 'deadHead'],
  )
})

test('messages carry the key they are ordered by, in each of the three ways to publish', async () => {
  const { app, key } = await newEndpoint({ order: 'key' })
  const tricky = 'Größe "x" \\ 😀'
  const one = await publish(app, { orderingKey: tricky })
  const batch = await api.ask('POST', `/app/${app}/msg/batch`, {
    messages: [
      { eventType: 'a.b', payload: {}, orderingKey: tricky },
      { eventType: 'a.b', payload: {}, orderingKey: 'other' },
    ],
  })
  assert.equal(batch.status, 202, batch.text)
  const raw = await api.ask('POST', `/app/${app}/msg/raw?event_type=a.b&ordering_key=other`, 'text', {
    'content-type': 'text/plain',
  })
  assert.equal(raw.status, 202, raw.text)
  await publish(app)
  assert.equal((await api.ask('GET', `/app/${app}/msg/${one}`)).json.orderingKey, tricky)
  const keys = (await rows(key)).map((row) => row.orderKey)
  assert.equal(keys[0], keys[1])
  assert.equal(keys[2], keys[3])
  assert.notEqual(keys[1], keys[2])
  assert.equal(keys[4], null, 'without a key it has no order')
  const long = await api.ask('POST', `/app/${app}/msg`, { eventType: 'a.b', payload: {}, orderingKey: 'x'.repeat(257) })
  assert.equal(long.status, 422)
})

test('a command retries or skips the first delivery of an ordered lane', async () => {
  const { app, path, key } = await newEndpoint({ order: 'fifo', deadHead: 'block' })
  assert.equal((await api.ask('POST', `${path}/lane/head/retry`)).status, 404, 'nothing waits')
  const first = await publish(app)
  await publish(app)
  const busy = await api.ask('POST', `${path}/lane/head/retry`)
  assert.deepEqual([busy.status, busy.json.code], [409, 'conflict'])
  await blockHead(key)
  const retried = await api.ask('POST', `${path}/lane/head/retry`)
  assert.deepEqual([retried.status, retried.json.messageId, retried.json.order], [202, first, 'retry'])
  assert.equal((await rows(key))[0]?.retryInMs, 0)
  const skipped = await api.ask('POST', `${path}/lane/head/skip`, { messageId: first })
  assert.deepEqual([skipped.status, skipped.json.messageId], [202, first])
  assert.equal((await rows(key))[0]?.retryInMs, -1, 'its owner knows')
})

test('where each key has its own queue, the delivery is named; and without an order there is no head', async () => {
  const keyed = await newEndpoint({ order: 'key' })
  await publish(keyed.app, { orderingKey: 'a' })
  const unnamed = await api.ask('POST', `${keyed.path}/lane/head/skip`, {})
  assert.deepEqual([unnamed.status, unnamed.json.detail[0].loc], [422, ['body', 'messageId']])
  assert.equal((await api.ask('POST', `${keyed.path}/lane/head/skip`, { messageId: 'msg_no' })).status, 404)
  assert.equal((await api.ask('POST', `${keyed.path}/lane/head/skip`, { messageId: 7 })).status, 422)
  const plain = await newEndpoint({})
  const refused = await api.ask('POST', `${plain.path}/lane/head/skip`)
  assert.deepEqual([refused.status, refused.json.code], [409, 'conflict'])
  // Of another application, nothing is to be found here.
  const foreign = await publish(plain.app)
  assert.equal((await api.ask('POST', `${keyed.path}/lane/head/skip`, { messageId: foreign })).status, 404)
})
