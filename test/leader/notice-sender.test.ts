import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type Endpoint, managementApplication } from '../../src/features/endpoints/rules.ts'
import { sendNotices } from '../../src/features/notices/job.ts'
import type { Notice } from '../../src/features/notices/rules.ts'
import { Preparer } from '../../src/intake/preparer.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import type { NewEndpoint } from '../../src/store/store.ts'
import { begin, noEffects, plainEndpoint, type World } from '../store/conformance/harness.ts'
import { openSqliteHarness } from '../store/sqlite-harness.ts'

const preparer = new Preparer({ clock: systemClock })

/** An application's endpoint that things happen to, and what tells of them. */
async function scene(t: TestContext) {
  const world = await begin(t, openSqliteHarness)
  const app = await world.application('acme')
  const endpoint = await world.endpoint(app, { uid: 'main' })
  const worker = await world.join()
  const tell = (...notices: Notice[]) => world.store.settle(worker, [], { ...noEffects, notices })
  const listen = (change: Partial<NewEndpoint> = {}) =>
    world.store.createEndpoint(managementApplication, { ...plainEndpoint, ...change })
  return { world, app, endpoint, tell, listen }
}

function opened({ key }: Endpoint): Notice {
  return { type: 'endpoint.circuit.opened', endpoint: key, data: { failures: 5 } }
}

/** The deliveries that wait for an endpoint of operational webhooks. */
async function waitingFor(world: World, listener: Endpoint) {
  const rows = await world.rows(listener)
  const messages = await world.store.loadMessages(rows.map(({ message }) => message))
  return messages.map(({ body }) => JSON.parse(Buffer.from(body).toString()))
}

test('a notice becomes a message for each operational endpoint that wants it, and is forgotten', async (t) => {
  const { world, app, endpoint, tell, listen } = await scene(t)
  const [all, circuits, other] = [
    await listen(),
    await listen({ eventTypes: ['endpoint.circuit.*'] }),
    await listen({ eventTypes: ['endpoint.deleted'] }),
  ]
  await tell(opened(endpoint))
  const [{ at } = { at: 0 }] = await world.store.listNotices(1)
  assert.deepEqual(await sendNotices(world.store, preparer), { more: false, published: 1 })
  const expected = {
    type: 'endpoint.circuit.opened',
    timestamp: new Date(at).toISOString(),
    data: { appId: app.id, appUid: 'acme', endpointId: endpoint.id, endpointUid: 'main', failures: 5 },
  }
  assert.deepEqual(await waitingFor(world, all), [expected])
  assert.deepEqual(await waitingFor(world, circuits), [expected])
  assert.deepEqual(await waitingFor(world, other), [])
  assert.deepEqual(await world.store.listNotices(10), [])
  assert.deepEqual(await sendNotices(world.store, preparer), { more: false, published: 0 })
})

test('a notice without a subscription is removed, and so is one about an operational endpoint', async (t) => {
  const { world, endpoint, tell, listen } = await scene(t)
  await tell(opened(endpoint))
  assert.deepEqual(await sendNotices(world.store, preparer), { more: false, published: 0 })
  assert.deepEqual(await world.store.listNotices(10), [])
  const listener = await listen()
  await tell(opened(listener))
  assert.deepEqual(await sendNotices(world.store, preparer), { more: false, published: 0 })
  assert.deepEqual(await world.store.listNotices(10), [])
  assert.equal((await world.store.counts()).messages, 0)
})

test('a notice is sent once, though a process dies before its removal or two send at once', async (t) => {
  const { world, endpoint, tell, listen } = await scene(t)
  const listener = await listen()
  for (let i = 0; i < 130; i++) await tell(opened(endpoint))
  const dying = { ...world.store, removeNotices: () => Promise.reject(new Error('died')) }
  await assert.rejects(sendNotices(dying, preparer), /died/)
  const answers = await Promise.all([
    sendNotices(world.store, preparer),
    sendNotices(world.store, preparer),
    sendNotices(world.store, preparer),
  ])
  assert.equal(answers[0]?.more, true)
  while ((await sendNotices(world.store, preparer)).more);
  assert.equal((await world.store.counts()).messages, 130)
  assert.equal((await world.store.counts()).pending, 130)
  assert.equal((await waitingFor(world, listener)).length, 100)
  assert.deepEqual(await world.store.listNotices(10), [])
})

test('a notice that meets a change of subscriptions is matched again', async (t) => {
  const { world, endpoint, tell, listen } = await scene(t)
  const first = await listen()
  await tell(opened(endpoint))
  let second: Endpoint | undefined
  const changing = {
    ...world.store,
    subscriptions: async (app: number) => {
      const found = await world.store.subscriptions(app)
      second ??= await listen()
      return found
    },
  }
  assert.deepEqual(await sendNotices(changing, preparer), { more: true, published: 0 })
  assert.deepEqual(await sendNotices(changing, preparer), { more: false, published: 1 })
  for (const listener of [first, second as Endpoint]) assert.equal((await waitingFor(world, listener)).length, 1)
})

test('a notice about a message names it, and says nothing when it no longer exists', async (t) => {
  const { world, endpoint, tell, listen } = await scene(t)
  const listener = await listen()
  const { key, id } = await world.publish([endpoint], { eventId: 'e1' })
  const lastAttempt = { id: 'atmpt_1', responseStatusCode: 500, timestamp: '2026-11-15T00:00:00.000Z' }
  const exhausted = (message: number): Notice => {
    return { type: 'message.attempt.exhausted', endpoint: endpoint.key, message, data: { lastAttempt } }
  }
  await tell(exhausted(key), exhausted(key + 1))
  assert.equal((await sendNotices(world.store, preparer)).published, 1)
  const [told] = await waitingFor(world, listener)
  assert.deepEqual([told.data.msgId, told.data.msgEventId, told.data.lastAttempt], [id, 'e1', lastAttempt])
  assert.deepEqual(await world.store.listNotices(10), [])
})
