import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Application } from '../../../src/features/applications/noun.ts'
import { type Enlisted, type Match, NotEnlistableError } from '../../../src/store/publishing.ts'
import type { Publication } from '../../../src/store/store.ts'
import { begin, type Foreign, type Open, type World } from './harness.ts'

const nothing = { pending: 0, dead: 0, messages: 0, attempts: 0 }

export function callerTransaction(open: Open): void {
  test('a message of a transaction that rolls back never existed', async (t) => {
    const { world, app, foreign } = await setUp(t, open)
    await foreign.run('begin')
    const enlisted = await publishWithin(world, foreign, app.id, { eventId: 'evt-1' })
    assert.equal(enlisted?.published.state, 'accepted')
    await foreign.run('rollback')
    assert.deepEqual(await world.store.counts(), nothing)
    assert.equal(await world.store.findMessage(app.key, 'evt-1'), undefined)
    await world.assertNothingToClaim(await world.join())
  })

  test('a message of a transaction is there when it commits, and not before', async (t) => {
    const { world, app, foreign } = await setUp(t, open)
    const worker = await world.join()
    await foreign.run('begin')
    const enlisted = await publishWithin(world, foreign, app.id)
    assert(enlisted?.published.state === 'accepted')
    assert.equal(await world.store.findMessage(app.key, enlisted.published.id), undefined)
    await foreign.run('commit')
    enlisted.committed()
    const message = await world.store.findMessage(app.key, enlisted.published.id)
    assert.equal(message?.key, enlisted.published.key)
    const [lane] = await world.claim(worker)
    assert(lane)
    assert.equal((await world.head(lane.endpoint)).message, enlisted.published.key)
  })

  test('a commit without an announcement is found', async (t) => {
    const { world, app, foreign } = await setUp(t, open)
    await foreign.run('begin')
    await publishWithin(world, foreign, app.id)
    await foreign.run('commit')
    // On SQLite the lane was woken by the transaction itself; on Postgres the sweep wakes it.
    assert.equal(await world.store.reconcile(), world.store.dialect === 'postgres' ? 1 : 0)
    await world.claim(await world.join())
  })

  test('the application is found by its uid too, and one that does not exist is undefined', async (t) => {
    const { world, foreign } = await setUp(t, open)
    await foreign.run('begin')
    assert.equal((await publishWithin(world, foreign, 'acme'))?.published.state, 'accepted')
    assert.equal(await publishWithin(world, foreign, 'nobody'), undefined)
    assert.equal(await publishWithin(world, foreign, 'app_000000000000000000000000000'), undefined)
    await foreign.run('commit')
    assert.equal((await world.store.counts()).messages, 1)
  })

  test("a refused publish leaves the caller's transaction usable and its other writes in place", async (t) => {
    const { world, app, foreign } = await setUp(t, open)
    await foreign.run('begin')
    await foreign.run('create table own_order (id integer)')
    await foreign.run('insert into own_order values (1)')
    const first = await publishWithin(world, foreign, app.id, { eventId: 'evt-1' })
    const second = await publishWithin(world, foreign, app.id, { eventId: 'evt-1' })
    assert(first?.published.state === 'accepted')
    assert.deepEqual(second?.published, { state: 'conflict', id: first.published.id })
    await assert.rejects(publishWithin(world, foreign, app.id, { body: null as unknown as Uint8Array }))
    await foreign.run('commit')
    assert.equal((await world.store.counts()).messages, 1)
    assert.deepEqual(await foreign.rows('select id from own_order'), [{ id: 1 }])
    await foreign.run('drop table own_order')
  })

  test('a connection without a transaction is refused, and nothing is stored', async (t) => {
    const { world, app, foreign } = await setUp(t, open)
    await assert.rejects(publishWithin(world, foreign, app.id), NotEnlistableError)
    assert.deepEqual(await world.store.counts(), nothing)
  })

  test('a value that is no connection is refused', async (t) => {
    const { world, app } = await setUp(t, open)
    const match: Match = () => assert.fail('nothing can be matched')
    await assert.rejects(async () => world.store.publishWithin({}, app.id, match), NotEnlistableError)
  })

  test('a connection to another database is refused', async (t) => {
    const { world, app } = await setUp(t, open)
    const other = await world.harness.elsewhere()
    t.after(() => other.close())
    await other.run('begin')
    await assert.rejects(publishWithin(world, other, app.id), NotEnlistableError)
    await other.run('rollback')
    assert.deepEqual(await world.store.counts(), nothing)
  })
}

async function setUp(t: Parameters<typeof begin>[0], open: Open) {
  const world = await begin(t, open)
  const app: Application = await world.application('acme')
  await world.endpoint(app)
  const foreign = await world.harness.foreign()
  t.after(() => foreign.close())
  return { world, app, foreign }
}

/** Publishes one message to every endpoint of the application. */
async function publishWithin(
  { store }: World,
  { connection }: Foreign,
  ref: string,
  change: Partial<Publication> = {},
): Promise<Enlisted | undefined> {
  const match: Match = ({ key: app }, { version, list }) => ({
    app,
    version,
    eventType: 'video.trending',
    eventId: null,
    channels: null,
    body: new TextEncoder().encode('{}'),
    contentType: 'application/json',
    endpoints: list.map(({ endpoint }) => endpoint),
    delayMs: 0,
    ...change,
  })
  return store.publishWithin(connection, ref, match)
}
