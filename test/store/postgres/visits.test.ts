import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { type Class, fresh, replay } from '../../../src/domain/delivery.ts'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import type { TaskWork } from '../../../src/features/tasks/rules.ts'
import type { LeasedTask } from '../../../src/features/tasks/store.ts'
import { queuedAtOnce } from '../../../src/store/plan.ts'
import type { Special } from '../../../src/store/publishing.ts'
import { registeredStatements } from '../../../src/store/sql/statement.ts'
import type { PendingRow, Publication, Published, Settlement } from '../../../src/store/store.ts'
import { longMs, noEffects, World } from '../conformance/harness.ts'
import { openNewPostgresHarness, sharedServer } from '../postgres-harness.ts'

/** The plan of a statement that ran, with counts of what it did. */
interface Node {
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Join Filter'?: number
  readonly 'Rows Removed by Index Recheck'?: number
  readonly Plans?: readonly Node[]
}

/** How many rows a plan handled: those that each of its nodes passed on, and those that it read in vain. */
function visitsOf(node: Node): number {
  const inVain =
    (node['Rows Removed by Filter'] ?? 0) +
    (node['Rows Removed by Join Filter'] ?? 0) +
    (node['Rows Removed by Index Recheck'] ?? 0)
  const below = (node.Plans ?? []).reduce((sum, child) => sum + visitsOf(child), 0)
  return (node['Actual Rows'] + inVain) * node['Actual Loops'] + below
}

const names = new Map([...registeredStatements('postgres')].map(([name, text]) => [text.trim(), name]))
const small = 64
const large = 1024
/** More than one transaction takes, so that a message for all of them is wide. */
const endpointsInAll = 1100

/** Statements that must have been seen at work on a large batch, so that this test cannot pass for want of work. */
const batched = [
  ...['publish', 'publish-once-event-ids', 'publish-event-ids', 'publish-planned', 'queue-planned', 'drop-planned'],
  ...['join-windows', 'join-windows-late', 'replace-waiting', 'expand', 'settle', 'settle-delivered', 'hold-rows'],
  ...[
    'lock-rows',
    'claim',
    'read-due',
    'read-named',
    'load-messages',
    'save-snapshots',
    'release',
    'orphan-lanes',
    'repair-lanes',
  ],
  ...['find-resting', 'end-resting', 'find-expired', 'progress', 'search-queues', 'insert-replays', 'delete-dead'],
  ...['lock-dead', 'delete-queued', 'erase-messages', 'erase-attempts', 'cancel-pending'],
]

const settings = {
  session_preload_libraries: 'auto_explain',
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_analyze': 'on',
  'auto_explain.log_timing': 'off',
  'auto_explain.log_format': 'json',
  'auto_explain.log_level': 'warning',
}

/** Has the server explain each statement to the client that ran it. */
async function explainAll(url: string): Promise<void> {
  const { query } = await sharedServer()
  const database = new URL(url).pathname.slice(1)
  for (const [name, value] of Object.entries(settings)) {
    await query(`alter database "${database}" set ${name} = '${value}'`)
  }
}

/** Hears the explanations on every connection that is made from now on, until the answer is called. */
function hearPlans(heard: (statement: string, plan: Node) => void): () => void {
  const { connect } = pg.Client.prototype
  pg.Client.prototype.connect = function (this: pg.Client, ...args: Parameters<typeof connect>) {
    this.on('notice', ({ message = '' }) => {
      if (!message.includes('plan:')) return
      const { 'Query Text': text, Plan: plan } = JSON.parse(message.slice(message.indexOf('{')))
      const name = names.get(text.trim())
      if (name !== undefined) heard(name, plan)
    })
    return connect.apply(this, args)
  } as typeof connect
  return () => {
    pg.Client.prototype.connect = connect
  }
}

/** As many times the rows for as many times the batch, and half of that again for what a batch needs once. */
const mostGrowth = (large / small) * 1.5

test('no statement visits more rows for each delivery in a batch of 1,024 than in one of 64', async () => {
  const [few, many] = [await visitsWith(small), await visitsWith(large)]
  const grown = [...many].filter(([name, visits]) => visits > mostGrowth * Math.max(small, few.get(name) ?? 0))
  assert.deepEqual(
    grown.map(([name, visits]) => `${name}: ${few.get(name)} rows for ${small}, ${visits} for ${large}`),
    [],
  )
  const unseen = batched.filter((name) => (many.get(name) ?? 0) < queuedAtOnce)
  assert.deepEqual(unseen, [], 'these statements had no large batch')
})

/** The most rows that one execution of each statement visited, with batches of this size. */
async function visitsWith(size: number): Promise<Map<string, number>> {
  const visits = new Map<string, number>()
  const stop = hearPlans((name, plan) => void visits.set(name, Math.max(visits.get(name) ?? 0, visitsOf(plan))))
  try {
    const harness = await openNewPostgresHarness(explainAll)
    await workThrough(new World(harness), size)
    await harness.close()
  } finally {
    stop()
  }
  return visits
}

/** All that the store does with many deliveries at once. */
async function workThrough(world: World, size: number): Promise<void> {
  const one = await world.endpoint(await world.application())
  const many = await copiesOf(world, one)
  const worker = await world.join()
  await publishAll(world, size, one)
  await world.claim(worker)
  await settleAll(world, size, worker, one)
  await publishToMany(world, size, one, many)
  await sleepAndWake(world, size, one, many)
  await endAll(world, size, one, many)
  await replayAndErase(world, size, one)
}

/** Endpoints like this one, in the order of their keys. */
async function copiesOf({ harness }: World, { key }: Endpoint): Promise<number[]> {
  const copies = Array.from({ length: endpointsInAll }, (_, i) => key + 1 + i)
  const copied = (table: string, column: string, change: string) => `
    insert into ${table}
    select (jsonb_populate_record(${table}, jsonb_build_object('${column}', ${column} + n ${change}))).*
      from ${table}, generate_series(1, ${endpointsInAll}) as n where ${column} = ${key}`
  await harness.sql(copied('endpoint', 'key', ", 'id', id || n"))
  await harness.sql(copied('lane', 'endpoint', ''))
  return copies
}

/** Publishes `size` messages at once; `change` makes one differ from another. */
async function publishGroup(
  world: World,
  size: number,
  endpoint: Endpoint,
  change: (i: number) => Partial<Publication> = () => ({}),
): Promise<Published[]> {
  const publication = await world.publication([endpoint])
  return world.store.publish(Array.from({ length: size }, (_, i) => ({ ...publication, ...change(i) })))
}

/** Messages of each kind: plain, once, with ids, repeated, ordered, dropped, shaped and coalesced. */
async function publishAll(world: World, size: number, endpoint: Endpoint): Promise<void> {
  const once = (i: number) => [{ hash: `${i}`, fingerprint: '', ttlMs: longMs }]
  const special = (rest: Omit<Special, 'endpoint'>) => [{ endpoint: endpoint.key, ...rest }]
  const variants = [{ body: new TextEncoder().encode('{}'), signature: null }]
  await publishGroup(world, size, endpoint)
  await publishGroup(world, size, endpoint, (i) => ({ once: once(i), eventId: `${i}` }))
  await publishGroup(world, size, endpoint, (i) => ({ once: once(i), eventId: `${i}` }))
  await publishGroup(world, size, endpoint, (i) => ({ eventId: `${i}` }))
  await publishGroup(world, size, endpoint, (i) => ({ special: special({ orderKey: i }), orderingKey: `${i}` }))
  await publishGroup(world, size, endpoint, () => ({ special: special({ drop: 'overflow' }) }))
  await publishGroup(world, size, endpoint, () => ({ special: special({ variant: 0 }), variants }))
  await publishGroup(world, size, endpoint, (i) => ({ payloadForMs: longMs, subjects: [`${i}`] }))
  for (let rounds = 0; rounds < 2; rounds++) {
    const coalesce = (i: number) => ({ key: `${i}`, windowMs: longMs })
    await publishGroup(world, size, endpoint, (i) => ({ special: special({ coalesce: coalesce(i) }) }))
  }
}

const verdicts: readonly Settlement['verdict'][] = [
  { state: 'delivered' },
  { state: 'waiting', waitMs: 0 },
  { state: 'dead', reason: 'exhausted' },
  { state: 'delayed', waitMs: 0 },
  { state: 'blocked' },
]

/** A batch of each verdict, a mixed batch, and batches that come a second time. */
async function settleAll(world: World, size: number, worker: number, endpoint: Endpoint): Promise<void> {
  const { store } = world
  const settlementsOf = async (verdictOf: (i: number) => Settlement['verdict'], isTried = true) => {
    await publishGroup(world, size, endpoint)
    const rows = await allRows(world, endpoint.key, size)
    return rows.map((row, i): Settlement => {
      const settlement = world.settlement(endpoint, row, verdictOf(i))
      return isTried ? settlement : { ...settlement, attempt: null }
    })
  }
  for (const verdict of verdicts) {
    const settlements = await settlementsOf(() => verdict)
    for (let times = 0; times < 2; times++) await store.settle(worker, settlements, noEffects)
  }
  await store.settle(
    worker,
    await settlementsOf((i) => verdicts[i % verdicts.length] ?? { state: 'blocked' }),
    noEffects,
  )
  await store.settle(worker, await settlementsOf(() => ({ state: 'dead', reason: 'expired' }), false), noEffects)
  const inOrder = (await settlementsOf(() => ({ state: 'delivered' }))).map((each) => ({ ...each, inOrder: true }))
  await store.settle(worker, inOrder, noEffects)
}

/** The first rows of a queue. */
async function allRows(world: World, endpoint: number, limit: number, itsClass: Class = fresh): Promise<PendingRow[]> {
  const [due] = await world.store.readDue([{ endpoint, class: itsClass, after: null, limit }])
  return due?.rows ?? []
}

/** Messages for many endpoints: within one transaction, and so wide that their deliveries are queued afterwards. */
async function publishToMany(world: World, size: number, one: Endpoint, many: readonly number[]): Promise<void> {
  const { store } = world
  await publishGroup(world, 1, one, () => ({ endpoints: many.slice(0, Math.min(size, queuedAtOnce)) }))
  await publishGroup(world, 1, one, () => ({ endpoints: many }))
  while ((await store.expand(size)).more);
  const special = many.map((endpoint) => ({ endpoint, coalesce: { key: 'one', windowMs: longMs } }))
  for (let rounds = 0; rounds < 2; rounds++) {
    await publishGroup(world, 1, one, () => ({ endpoints: many, special }))
    while ((await store.expand(size)).more);
  }
}

/** Workers take many lanes, read their rows and bodies, and release them. */
async function sleepAndWake(world: World, size: number, one: Endpoint, many: readonly number[]): Promise<void> {
  const { store, harness } = world
  const worker = await world.join()
  await harness.sql('update lane set due_at = 0 where owner is null')
  const { lanes } = await store.claim(worker, size)
  assert.equal(lanes.length, size)
  await store.claim(worker, 0, true)
  const endpoints = lanes.map(({ endpoint }) => endpoint.key)
  const pages = await store.readDue(endpoints.map((endpoint) => ({ endpoint, class: fresh, after: null, limit: 10 })))
  assert.equal(pages.filter(({ rows }) => rows.length > 0).length, size)
  const rows = await allRows(world, one.key, size)
  await store.readNamed(rows.map(({ message, dueAt }) => ({ endpoint: one.key, message, dueAt, withMessage: true })))
  await store.loadMessages(rows.map(({ message }) => message))
  await store.answerLanes(
    worker,
    endpoints.map((endpoint) => ({ endpoint, snapshot: '{}' })),
  )
  await store.readAnswers(endpoints)
  await store.laneStates(endpoints)
  const rest = { bucketDebtMs: 0, bucketLimit: null, notBeforeMs: 0 }
  await store.release(
    worker,
    endpoints.map((endpoint) => ({ endpoint, ...rest })),
  )
  await harness.sql(`update lane set due_at = null where owner is null and endpoint <= ${many[size - 1]}`)
  await store.reconcile()
  await store.renew(worker, longMs)
  await harness.sql('update lane set due_at = 0 where owner is null')
  await store.claim(worker, size)
  await store.leave(worker)
}

/** Ends deliveries in lanes without an owner. */
async function endAll(world: World, size: number, one: Endpoint, many: readonly number[]): Promise<void> {
  const { store } = world
  const { lanes } = await store.readResting(one.key, size)
  const ends = lanes.flatMap(({ endpoint, app, rows }) => {
    return rows.map((row) => ({ endpoint, app, row, reason: 'aged' as const }))
  })
  await store.endResting(ends.slice(0, size))
  await store.readFronts(many[0] as number, size)
  const expiring = await publishGroup(world, size, one, () => ({ expiresInMs: 0 }))
  assert.equal(expiring.length, size)
  await store.readExpired(null, size)
  await store.surveyWaiting(null, size)
}

/** Replays dead letters, purges them, and erases messages. */
async function replayAndErase(world: World, size: number, one: Endpoint): Promise<void> {
  const { store } = world
  const range = { from: 0, until: Number.MAX_SAFE_INTEGER, after: null, order: 'ascending' as const, limit: size }
  const letters = await store.listDead(one.app, { endpoint: one.key, ...range })
  assert.equal(letters.length, size)
  await store.loadDead(letters)
  await store.loadContents(letters)
  await store.replay(letters)
  await store.replay(letters)
  const task = await taken(store, { type: 'event-type.aggregate', input: {} })
  const step = { cursor: null, status: 'running', leaseMs: longMs, restMs: () => 0, data: () => ({}) } as const
  const others = await store.listDead(one.app, { endpoint: one.key, ...range })
  await store.advanceTask(task, { ...step, replay: others, onlyDead: true, purge: [] })
  const purged = await store.listDead(one.app, { endpoint: one.key, ...range })
  await store.advanceTask(task, { ...step, replay: [], purge: purged })
  const messages = (await allRows(world, one.key, size, replay)).map(({ message }) => message)
  assert.equal(messages.length, size)
  await store.weighMessages(messages)
  await store.waitingAmong(messages)
  await store.expungeMessages(messages)
  await store.removeMessages(one.app, messages)
  await store.deleteEndpoint(one.app, one.key)
  while ((await store.sweepRemoved()).more);
  await store.sweepIdempotency(size)
  await store.sweepWindows(size)
}

async function taken(store: World['store'], work: TaskWork): Promise<LeasedTask> {
  await store.createTask({ app: null, work, data: {} })
  const task = await store.takeTask(longMs)
  assert(task !== undefined)
  return task
}
