import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { replay } from '../../src/domain/delivery.ts'
import { keyTime } from '../../src/domain/ids.ts'
import { TaskRunner } from '../../src/engine/worker-jobs.ts'
import type { Endpoint } from '../../src/features/endpoints/rules.ts'
import { type DeadFilter, packLetters, type TaskWork } from '../../src/features/tasks/rules.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { StoreTrouble } from '../../src/store/store.ts'
import { begin, type World } from '../store/conformance/harness.ts'
import { openSqliteHarness } from '../store/sqlite-harness.ts'

const ever = { since: 0, until: Number.MAX_SAFE_INTEGER / 4096 }
const wholeRange = { from: 0, until: Number.MAX_SAFE_INTEGER, after: null }
const anyDead: DeadFilter = {
  endpoint: null,
  message: null,
  eventTypes: null,
  reason: null,
  after: 0,
  before: Number.MAX_SAFE_INTEGER,
}

function world(t: TestContext): Promise<World> {
  return begin(t, openSqliteHarness)
}

/** Publishes many at once and answers their keys. */
async function publishMany(world: World, endpoint: Endpoint, count: number, eventType = 'x'): Promise<number[]> {
  const publication = await world.publication([endpoint], { eventType })
  const published = await world.store.publish(Array.from({ length: count }, () => publication))
  return published.map((one) => (one.state === 'accepted' ? one.key : assert.fail(one.state)))
}

/** Ends everything that is queued as fresh. */
async function end(world: World, worker: number, endpoint: Endpoint, state: 'dead' | 'delivered'): Promise<void> {
  for (let rows = await world.rows(endpoint); rows.length > 0; rows = await world.rows(endpoint)) {
    const verdict = state === 'dead' ? ({ state, reason: 'exhausted' } as const) : { state }
    await world.settle(worker, ...rows.map((row) => world.settlement(endpoint, row, verdict)))
  }
}

async function run(world: World, work: TaskWork, app: number | null = null) {
  const { id } = await world.store.createTask({ app, work, data: {} })
  const runner = new TaskRunner(world.store, systemClock)
  let steps = 0
  while (await runner.step()) steps++
  const task = await world.store.findTask(id)
  assert(task)
  assert.equal(task.status, 'finished')
  return { data: task.data, steps }
}

async function replayed(world: World, endpoint: Endpoint): Promise<number[]> {
  const read = { endpoint: endpoint.key, class: replay, after: null, limit: 10_000 } as const
  return (await world.store.readDue([read]))[0]?.rows.map((row) => row.message) ?? []
}

test("recovering sends an endpoint's dead letters of that time again, in small steps and in their order", async (t) => {
  const w = await world(t)
  const app = await w.application()
  const [endpoint, other] = [await w.endpoint(app), await w.endpoint(app)]
  const worker = await w.join()
  await publishMany(w, endpoint, 3)
  await w.pass(1000)
  const keys = await publishMany(w, endpoint, 450)
  await w.pass(1000)
  await publishMany(w, endpoint, 3)
  await publishMany(w, other, 3)
  await end(w, worker, endpoint, 'dead')
  await end(w, worker, other, 'dead')
  const span = { since: keyTime(keys[0] as number), until: keyTime(keys.at(-1) as number) + 1 }
  const { data, steps } = await run(
    w,
    { type: 'endpoint.recover', input: { ...span, endpoint: endpoint.key } },
    app.key,
  )
  assert.deepEqual(await replayed(w, endpoint), keys)
  assert.deepEqual(await replayed(w, other), [])
  assert.deepEqual([data, steps], [{ scanned: 450, replayed: 450, total: 450 }, 3])
})

test('replaying missing messages sends those that the endpoint subscribes to and never received', async (t) => {
  const w = await world(t)
  const app = await w.application()
  const first = await w.endpoint(app)
  const worker = await w.join()
  const wanted = await publishMany(w, first, 2, 'video.new')
  const [expunged] = await publishMany(w, first, 1, 'video.new')
  await publishMany(w, first, 2, 'audio.new')
  const late = await w.endpoint(app, { eventTypes: ['video.*'] })
  await w.store.expungeMessages([expunged as number])
  await publishMany(w, late, 2, 'video.new')
  const work = { type: 'endpoint.replay', input: { ...ever, endpoint: late.key } } as const
  await run(w, work, app.key)
  assert.deepEqual(await replayed(w, late), wanted)
  // Once tried they are not missing any more.
  for (const row of await w.rows(late, replay)) {
    await w.settle(worker, w.settlement(late, row, { state: 'dead', reason: 'exhausted' }))
  }
  await run(w, work, app.key)
  assert.deepEqual(await replayed(w, late), [])
})

test('a message for one named endpoint is missing at no other', async (t) => {
  const w = await world(t)
  const app = await w.application()
  const first = await w.endpoint(app)
  const late = await w.endpoint(app)
  const [missed] = await publishMany(w, first, 1, 'video.new')
  await w.publish([first], { special: [{ endpoint: first.key, direct: true }] })
  await run(w, { type: 'endpoint.replay', input: { ...ever, endpoint: late.key } }, app.key)
  assert.deepEqual(await replayed(w, late), [missed])
})

test("replaying missing messages applies the endpoint's filter", async (t) => {
  const w = await world(t)
  const app = await w.application()
  const first = await w.endpoint(app)
  const bodies = Array.from({ length: 40 }, (_, i) => new TextEncoder().encode(i % 4 === 0 ? 'text' : `{"n":${i}}`))
  const keys: number[] = []
  for (const body of bodies) keys.push((await w.publish([first], { body })).key)
  const late = await w.endpoint(app, { flow: { filter: 'payload.n > 20 && eventType == "video.trending"' } })
  await run(w, { type: 'endpoint.replay', input: { ...ever, endpoint: late.key } }, app.key)
  assert.deepEqual(
    await replayed(w, late),
    keys.filter((_, i) => i > 20 && i % 4 !== 0),
  )
})

test('replaying missing messages counts those that are too large for the filter', async (t) => {
  const w = await world(t)
  const app = await w.application()
  const endpoint = await w.endpoint(app)
  const bodyWith = (items: number) => Buffer.from(JSON.stringify({ list: Array.from({ length: items }, (_, i) => i) }))
  for (const items of [10, 100_000, 10]) {
    await w.store.publish([await w.publication([endpoint], { body: bodyWith(items) })])
  }
  const late = await w.endpoint(app, { flow: { filter: 'payload.list.exists(x, x == 9)' } })
  const { data } = await run(w, { type: 'endpoint.replay', input: { ...ever, endpoint: late.key } }, app.key)
  assert.equal((await replayed(w, late)).length, 2)
  assert.deepEqual(data, { scanned: 3, replayed: 2, unfiltered: 1, total: 3 })
})

test('replaying in bulk sends ended deliveries again, by the filter', async (t) => {
  const w = await world(t)
  const app = await w.application()
  const endpoint = await w.endpoint(app)
  const worker = await w.join()
  const failed = await publishMany(w, endpoint, 2)
  await end(w, worker, endpoint, 'dead')
  const delivered = await publishMany(w, endpoint, 2)
  await end(w, worker, endpoint, 'delivered')
  await publishMany(w, endpoint, 1)
  const filter = { eventTypes: null, channel: null, tag: null, outcome: null, statusClass: null }
  const bulk = (change: object) =>
    run(w, { type: 'endpoint.bulk-replay', input: { ...ever, endpoint: endpoint.key, ...filter, ...change } }, app.key)
  await bulk({ eventTypes: ['y'] })
  assert.deepEqual(await replayed(w, endpoint), [])
  await bulk({ outcome: 'delivered' })
  assert.deepEqual(await replayed(w, endpoint), delivered)
  const { data } = await bulk({})
  assert.deepEqual(await replayed(w, endpoint), [...failed, ...delivered])
  assert.deepEqual(data, { scanned: 5, replayed: 2, total: 5 })
})

test('dead letters are replayed and purged by filter, and those of other applications left alone', async (t) => {
  const w = await world(t)
  const app = await w.application()
  const [first, second] = [await w.endpoint(app), await w.endpoint(app)]
  const foreign = await w.endpoint(await w.application())
  const worker = await w.join()
  await publishMany(w, first, 2, 'x')
  const [one] = await publishMany(w, first, 1, 'y')
  await publishMany(w, second, 250, 'y')
  await publishMany(w, foreign, 1, 'y')
  for (const endpoint of [first, second, foreign]) await end(w, worker, endpoint, 'dead')

  const single = { ...anyDead, endpoint: first.key, message: one as number }
  assert.deepEqual((await run(w, { type: 'dead.replay', input: single }, app.key)).data, { scanned: 1, replayed: 1 })
  assert.deepEqual(await replayed(w, first), [one])
  // A message alone means it at whatever endpoint it died.
  const both = await w.publish([first, second], { eventType: 'y' })
  for (const endpoint of [first, second]) await end(w, worker, endpoint, 'dead')
  const kept = { ...anyDead, message: both.key, reason: 'gone' }
  assert.deepEqual((await run(w, { type: 'dead.purge', input: kept }, app.key)).data, { scanned: 2 })
  const ofOtherType = { ...anyDead, message: both.key, eventTypes: ['x'] }
  assert.deepEqual((await run(w, { type: 'dead.purge', input: ofOtherType }, app.key)).data, { scanned: 0 })
  const purge = { ...anyDead, message: both.key }
  assert.deepEqual((await run(w, { type: 'dead.purge', input: purge }, app.key)).data, { scanned: 2, purged: 2 })
  const gone = await run(w, { type: 'dead.purge', input: { ...anyDead, reason: 'gone' } }, app.key)
  assert.deepEqual(gone.data, { scanned: 252, total: 252 })
  await run(w, { type: 'dead.purge', input: { ...anyDead, eventTypes: ['x'] } }, app.key)
  assert.equal((await w.store.counts()).dead, 251)
  await run(w, { type: 'dead.replay', input: { ...anyDead, endpoint: second.key } }, app.key)
  assert.equal((await replayed(w, second)).length, 250)
  assert.equal((await w.store.counts()).dead, 1)
})

test('chosen dead letters are replayed: those that are still dead, of the application, and died before', async (t) => {
  const w = await world(t)
  const [app, other] = [await w.application(), await w.application()]
  const [endpoint, foreign] = [await w.endpoint(app), await w.endpoint(other)]
  const worker = await w.join()
  const keys = await publishMany(w, endpoint, 450)
  const [theirs = 0] = await publishMany(w, foreign, 1)
  await end(w, worker, endpoint, 'dead')
  await end(w, worker, foreign, 'dead')
  const [gone = 0] = keys
  await w.store.replay([{ endpoint: endpoint.key, message: gone }])
  const chosen = [...keys.slice(0, 420), 12345].map((message) => ({ endpoint: endpoint.key, message }))
  const letters = packLetters([...chosen, { endpoint: foreign.key, message: theirs }])
  const { data, steps } = await run(w, { type: 'dead.replay', input: { ...anyDead, letters } }, app.key)
  assert.deepEqual([data.scanned, data.replayed, steps], [422, 419, 3])
  assert.deepEqual(await replayed(w, endpoint), keys.slice(0, 420))
  assert.equal((await w.store.counts()).dead, 31)
})

test('a chosen dead letter that has died again since is left out', async (t) => {
  const w = await world(t)
  const app = await w.application()
  const endpoint = await w.endpoint(app)
  const worker = await w.join()
  const keys = await publishMany(w, endpoint, 2)
  await end(w, worker, endpoint, 'dead')
  const [letter] = await w.store.listDeadOf(endpoint.key, { ...wholeRange, order: 'ascending', limit: 1 })
  assert(letter)
  await w.pass(10)
  const deliveries = keys.map((message) => ({ endpoint: endpoint.key, message }))
  const input = { ...anyDead, before: letter.diedAt + 1, letters: packLetters(deliveries) }
  await w.store.replay(deliveries.slice(0, 1))
  for (const row of await w.rows(endpoint, replay)) {
    await w.settle(worker, w.settlement(endpoint, row, { state: 'dead', reason: 'exhausted' }))
  }
  const { data } = await run(w, { type: 'dead.replay', input }, app.key)
  assert.deepEqual([data.scanned, data.replayed], [2, 1])
  assert.deepEqual(await replayed(w, endpoint), keys.slice(1))
})

test('usage is counted for the named applications, or for all', async (t) => {
  const w = await world(t)
  const [a, b, empty] = [await w.application('a'), await w.application('b'), await w.application('c')]
  const endpoints = [await w.endpoint(a), await w.endpoint(a)]
  await w.publish(endpoints)
  await publishMany(w, endpoints[0] as Endpoint, 1500)
  await w.publish([await w.endpoint(b, { eventTypes: ['x', 'y'] })])
  const stats = [
    { appId: a.id, appUid: 'a', messageDestinations: 1502 },
    { appId: b.id, appUid: 'b', messageDestinations: 1 },
    { appId: empty.id, appUid: 'c', messageDestinations: 0 },
  ]
  const count = async (apps: number[] | null) =>
    (await run(w, { type: 'application.stats', input: { ...ever, apps } })).data.appStats as typeof stats
  assert.deepEqual(await count(null), stats)
  assert.deepEqual(await count([b.key, a.key]), [stats[1], stats[0]])
  assert.deepEqual(await count([12345, b.key]), [stats[1]])

  const { data } = await run(w, { type: 'event-type.aggregate', input: {} })
  const types = data.event_types as { appId: string }[]
  assert.deepEqual(
    types.find(({ appId }) => appId === a.id),
    { appId: a.id, explicitlySubscribedEventTypes: [], hasCatchAllEndpoint: true },
  )
  assert.deepEqual(
    types.find(({ appId }) => appId === b.id),
    { appId: b.id, explicitlySubscribedEventTypes: ['x', 'y'], hasCatchAllEndpoint: false },
  )
})

test('a task whose runner died is gone on with by another, and nothing is replayed twice', async (t) => {
  const w = await world(t)
  const app = await w.application()
  const endpoint = await w.endpoint(app)
  const worker = await w.join(1_000_000)
  const keys = await publishMany(w, endpoint, 500)
  await end(w, worker, endpoint, 'dead')
  const input = { ...ever, endpoint: endpoint.key }
  const { id } = await w.store.createTask({ app: app.key, work: { type: 'endpoint.recover', input }, data: {} })
  const dying = new TaskRunner(w.store, systemClock)
  assert.equal(await dying.step(), true)
  // The replayed delivery arrives before the other worker goes on; replaying it once more would send it again.
  for (const row of await w.rows(endpoint, replay)) {
    await w.settle(worker, w.settlement(endpoint, row, { state: 'delivered' }))
  }
  const other = new TaskRunner(w.store, systemClock)
  assert.equal(await other.step(), false)
  await w.pass(10_001)
  while (await other.step());
  assert.equal((await w.store.findTask(id))?.status, 'finished')
  assert.deepEqual(await replayed(w, endpoint), keys.slice(100))
  // The one that was thought dead finds its task lost and does nothing.
  assert.equal(await dying.step(), true)
  assert.equal((await w.store.counts()).pending, 400)
  assert.equal(await dying.step(), false)
})

test('a task that is let go is taken by another at once', async (t) => {
  const w = await world(t)
  const app = await w.application()
  const endpoint = await w.endpoint(app)
  const worker = await w.join()
  await publishMany(w, endpoint, 300)
  await end(w, worker, endpoint, 'dead')
  const input = { ...ever, endpoint: endpoint.key }
  await w.store.createTask({ app: app.key, work: { type: 'endpoint.recover', input }, data: {} })
  const first = new TaskRunner(w.store, systemClock)
  await first.step()
  await first.release()
  assert.equal(await new TaskRunner(w.store, systemClock).step(), true)
  assert.equal((await replayed(w, endpoint)).length, 300)
})

test('a task that meets a bug fails and says so; one that meets trouble stays', async (t) => {
  const w = await world(t)
  const work = { type: 'event-type.aggregate', input: {} } as const
  const { id } = await w.store.createTask({ app: null, work, data: { seen: 1 } })
  const failing = (error: Error) =>
    new TaskRunner({ ...w.store, listApplications: () => Promise.reject(error) }, systemClock)
  await assert.rejects(failing(new StoreTrouble('away')).step(), /away/)
  assert.equal((await w.store.findTask(id))?.status, 'running')
  await w.pass(10_001)
  await assert.rejects(failing(new Error('planted')).step(), /planted/)
  const task = await w.store.findTask(id)
  assert.deepEqual([task?.status, task?.data], ['failed', { seen: 1, error: 'planted' }])
  assert.equal(await new TaskRunner(w.store, systemClock).step(), false)
})

test('a paced replay queues no more than its pace in any window, whichever worker does its steps', async (t) => {
  const w = await world(t)
  const app = await w.application()
  const endpoint = await w.endpoint(app)
  const worker = await w.join(1_000_000)
  const keys = await publishMany(w, endpoint, 100)
  await end(w, worker, endpoint, 'dead')
  const input = { ...anyDead, perSecond: 20 }
  const { id } = await w.store.createTask({ app: app.key, work: { type: 'dead.replay', input }, data: {} })
  const queuedAt: number[] = []
  const rests: number[] = []
  for (let ms = 0; queuedAt.length < keys.length && ms < 10_000; ms += 10) {
    // Each step has another worker: the pace belongs to the task and outlives its worker.
    const runner = new TaskRunner(w.store, systemClock, (restMs) => rests.push(restMs))
    while (await runner.step());
    const queued = (await replayed(w, endpoint)).length
    while (queuedAt.length < queued) queuedAt.push(ms)
    await w.pass(10)
  }
  assert.deepEqual(await replayed(w, endpoint), keys)
  for (const [i, at] of queuedAt.entries()) {
    const within = queuedAt.slice(i).filter((other) => other < at + 1000).length
    assert(within <= 25, `${within} within a second of ${at} ms`)
  }
  assert(queuedAt.at(-1) === 4750, `the last was queued after ${queuedAt.at(-1)} ms`)
  assert.deepEqual(new Set(rests), new Set([250]))
  assert.deepEqual((await w.store.findTask(id))?.data, { scanned: 100, replayed: 100, total: 100 })
})

test('a paced replay does not rest for messages that its filter leaves out', async (t) => {
  const w = await world(t)
  const app = await w.application()
  const endpoint = await w.endpoint(app)
  const worker = await w.join()
  await publishMany(w, endpoint, 400, 'x')
  const [wanted] = await publishMany(w, endpoint, 1, 'y')
  await end(w, worker, endpoint, 'dead')
  const input = { ...anyDead, eventTypes: ['y'], perSecond: 1 }
  const { data, steps } = await run(w, { type: 'dead.replay', input }, app.key)
  assert.deepEqual([data, steps], [{ scanned: 401, replayed: 1, total: 401 }, 3])
  assert.deepEqual(await replayed(w, endpoint), [wanted])
})

test('dead letters of every application are replayed together when none is named', async (t) => {
  const w = await world(t)
  const endpoints = [await w.endpoint(await w.application()), await w.endpoint(await w.application())]
  const worker = await w.join()
  for (const endpoint of endpoints) {
    await publishMany(w, endpoint, 150)
    await end(w, worker, endpoint, 'dead')
  }
  const { data } = await run(w, { type: 'dead.replay', input: anyDead })
  assert.deepEqual(data, { scanned: 300, replayed: 300, total: 300 })
  for (const endpoint of endpoints) assert.equal((await replayed(w, endpoint)).length, 150)
})

test("a message's dead letters are found where it was never tried", async (t) => {
  const w = await world(t)
  const app = await w.application()
  const [tried, untried] = [await w.endpoint(app), await w.endpoint(app)]
  const worker = await w.join()
  const { key } = await w.publish([tried, untried])
  await end(w, worker, tried, 'dead')
  const verdict = { state: 'dead', reason: 'expired' } as const
  await w.settle(worker, { ...w.settlement(untried, await w.head(untried), verdict), attempt: null })
  const { data } = await run(w, { type: 'dead.replay', input: { ...anyDead, message: key } }, app.key)
  assert.deepEqual(data, { scanned: 2, replayed: 2 })
})
