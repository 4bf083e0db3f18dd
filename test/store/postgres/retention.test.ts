import assert from 'node:assert/strict'
import { test } from 'node:test'
import { firstKeyAt } from '../../../src/domain/ids.ts'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import { ensurePartitions } from '../../../src/store/postgres/partitions.ts'
import { openSessions } from '../../../src/store/postgres/sessions.ts'
import { StoreTrouble } from '../../../src/store/store.ts'
import { begin, type World } from '../conformance/harness.ts'
import { context, openNewPostgresHarness, serversAt } from '../postgres-harness.ts'

const day = 24 * 60 * 60 * 1000
const limits = { historyMs: 30 * day, deadMs: 30 * day }

/** Partitions for the four days from then on, made as they would have been then. */
async function makeDays(url: string, at: number): Promise<void> {
  const sessions = openSessions({ servers: serversAt(url), durable: true, connections: 1, onTrouble: () => {} })
  try {
    await ensurePartitions(sessions, at)
  } finally {
    await sessions.end()
  }
}

async function beginWithUrl(t: Parameters<typeof begin>[0]) {
  const harness = await openNewPostgresHarness()
  const world = await begin(t, async () => harness)
  return { world, url: harness.url, store: world.store }
}

/** Publishes a message and makes it as old as said, in the partition of that day. */
async function publishOld(world: World, ageMs: number, eventId: string) {
  const endpoint = await world.endpoint(await world.application())
  const { key } = await world.publish([endpoint], { eventId })
  const by = firstKeyAt(ageMs)
  await world.harness.sql(`
    update message set key = key - ${by} where key = ${key};
    update pending set message = message - ${by} where message = ${key};
    update event_id set message = message - ${by} where message = ${key}`)
  return { endpoint, key: key - by }
}

async function daysOf(world: World): Promise<string[]> {
  const foreign = await world.harness.foreign()
  const rows = await foreign.rows(
    "select relname from pg_class where relkind = 'r' and relname ~ '_[0-9]{8}$' order by 1",
  )
  await foreign.close()
  return rows.map((row) => (row as { relname: string }).relname)
}

/** Those that stay: of today and the days to come. Other tests may have left older ones. */
async function currentDays(world: World): Promise<string[]> {
  const today = new Date().toISOString().slice(0, 10).replaceAll('-', '')
  return (await daysOf(world)).filter((name) => name.slice(-8) >= today)
}

async function retainAll({ store }: World): Promise<void> {
  for (let steps = 0; steps < 100; steps++) if (!(await store.retain(limits)).more) return
  assert.fail('there is always more')
}

test('a day that is over is dropped as a whole, and its names are free again', async (t) => {
  const { world, url, store } = await beginWithUrl(t)
  const before = await currentDays(world)
  await makeDays(url, Date.now() - 40 * day)
  const { endpoint } = await publishOld(world, 39 * day, 'old')
  await world.harness.sql('delete from pending')
  assert.ok((await daysOf(world)).length > before.length)
  await retainAll(world)
  assert.deepEqual(await daysOf(world), before)
  assert.deepEqual(await store.counts(), { pending: 0, dead: 0, messages: 0, attempts: 0 })
  assert.equal((await world.publish([endpoint], { eventId: 'old' })).state, 'accepted')
})

test('a day with something that still waits stays until that has ended', async (t) => {
  const { world, url, store } = await beginWithUrl(t)
  const before = await currentDays(world)
  await makeDays(url, Date.now() - 40 * day)
  await publishOld(world, 39 * day, 'waits')
  await retainAll(world)
  const left = (await daysOf(world)).filter((name) => !before.includes(name))
  assert.ok(
    left.some((name) => name.startsWith('message_')),
    `${left}`,
  )
  assert.equal(new Set(left.map((name) => name.slice(-8))).size, 1, 'only the one day stays')
  assert.deepEqual(await store.counts(), { pending: 1, dead: 0, messages: 1, attempts: 0 })
})

test('a day stays for an application that keeps it longer, without the messages of the others, and is dropped then', async (t) => {
  const { world, url, store } = await beginWithUrl(t)
  const before = await currentDays(world)
  await makeDays(url, Date.now() - 40 * day)
  const usual = await publishOld(world, 39 * day, 'usual')
  const longer = await publishOld(world, 39 * day, 'longer')
  const waits = await publishOld(world, 39 * day, 'waits')
  await world.harness.sql(`delete from pending where endpoint <> ${waits.endpoint.key}`)
  await store.updateApplication(longer.endpoint.app, { settings: { retentionSeconds: 3600 * 24 * 50 } })
  const { apps } = await store.listRetentions(-1, 10)
  for (let steps = 0; (await store.retain({ ...limits, apps })).more; steps++) assert.ok(steps < 100)
  const left = async () => (await store.loadSummaries([usual.key, longer.key, waits.key])).map(({ key }) => key).sort()
  assert.deepEqual(await left(), [longer.key, waits.key].sort())
  assert.equal((await world.publish([usual.endpoint], { eventId: 'usual' })).state, 'accepted', 'its name is free')
  // Once no application needs it, the day goes as a whole.
  await world.harness.sql('delete from pending')
  await world.store.close()
  const again = await openPostgresStore(context, { url })
  t.after(() => again.close())
  for (let steps = 0; (await again.retain({ ...limits, apps: [] })).more; steps++) assert.ok(steps < 100)
  assert.deepEqual(await daysOf(world), before)
})

test('a day is dropped while others publish, and one that is locked is left for later', async (t) => {
  const { world, url, store } = await beginWithUrl(t)
  const before = await currentDays(world)
  await makeDays(url, Date.now() - 40 * day)
  const endpoint = await world.endpoint(await world.application())
  const foreign = await world.harness.foreign()
  await foreign.run('begin; lock table message in row exclusive mode')
  // A publish meanwhile waits for as long as the drop waits, and no longer.
  const [retained] = await Promise.all([store.retain(limits), world.publish([endpoint])])
  assert.deepEqual(retained, { removed: 0, more: false })
  assert.ok((await daysOf(world)).length > before.length)
  await foreign.run('commit')
  await foreign.close()
  const publishing = Array.from({ length: 50 }, () => world.publish([endpoint]))
  await Promise.all([retainAll(world), ...publishing])
  await retainAll(world)
  assert.deepEqual(await daysOf(world), before)
  assert.equal((await store.counts()).messages, 51)
})

test('partitions that a crash left between detaching and dropping are dropped', async (t) => {
  const { world, url } = await beginWithUrl(t)
  const before = await currentDays(world)
  const at = Date.now() - 40 * day
  await makeDays(url, at)
  const name = new Date(at).toISOString().slice(0, 10).replaceAll('-', '')
  await world.harness.sql(`alter table message detach partition message_${name}`)
  await retainAll(world)
  assert.deepEqual(await daysOf(world), before)
})

test('trouble with the store is reported', async (t) => {
  const { store } = await beginWithUrl(t)
  await store.close()
  await assert.rejects(store.retain(limits), StoreTrouble)
})
