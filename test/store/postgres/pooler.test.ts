import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import { namingOf } from '../../../src/store/postgres/pooled.ts'
import { publishing } from '../../../src/store/postgres/publish-statement.ts'
import { openSessions } from '../../../src/store/postgres/sessions.ts'
import type { Publication } from '../../../src/store/publishing.ts'
import type { Store } from '../../../src/store/store.ts'
import { atEnd } from '../../e2e/at-end.ts'
import { type Harness, plainEndpoint, World } from '../conformance/harness.ts'
import { pgbouncerVersion, startPgBouncer } from '../pgbouncer.ts'
import { context, newDatabase, serversAt, sharedServer } from '../postgres-harness.ts'
import { TransactionPooler } from '../transaction-pooler.ts'

const skip: string | false = pgbouncerVersion === undefined && 'PgBouncer is not installed'

async function publicationTo(store: Store, app: number, endpoints: readonly number[]): Promise<Publication> {
  const version = (await store.subscriptions(app))?.version ?? 0
  const text = { eventType: 'x', eventId: null, channels: null, contentType: 'application/json' }
  return { ...text, app, version, body: Buffer.from('{}'), endpoints, delayMs: 0 }
}

/** Each row notes the settings of the transaction that wrote it. */
const witness = `
  create table witnessed (what text, durable text, scan text, plans text, timeout text);
  create function witness() returns trigger language plpgsql as $$ begin
    insert into witnessed values (split_part(tg_table_name, '_', 1), current_setting('synchronous_commit'), current_setting('enable_seqscan'),
                                  current_setting('plan_cache_mode'), current_setting('statement_timeout'));
    return null;
  end $$;
  create trigger witness after insert on message for each row execute function witness();
  create trigger witness after insert on attempt for each row execute function witness()`

interface Pooler {
  readonly url: string
  close(): Promise<void>
}

/** Poolers in front of a database, and how each treats prepared statements. */
const poolers: { name: string; naming: string; skip: string | false; start: (url: string) => Promise<Pooler> }[] = [
  { name: 'a pooler of this test', naming: 'unnamed', skip: false, start: (url) => TransactionPooler.start(url, 3) },
  ...['transaction', 'session'].map((mode) => ({
    name: `PgBouncer ${pgbouncerVersion} in ${mode} mode`,
    naming: mode === 'transaction' && Number(pgbouncerVersion?.split('.')[1]) >= 22 ? 'named' : 'unnamed',
    skip,
    start: (url: string) => startPgBouncer(url, { pool_mode: mode }),
  })),
]

for (const { name, naming, skip, start } of poolers) {
  test(`behind ${name} each transaction has its settings`, { skip }, async (t) => {
    const url = await newDatabase()
    const server = await sharedServer()
    await server.query(witness, url)
    const pooler = await start(url)
    atEnd(t, () => pooler.close())
    const said: string[] = []
    const listening = { ...context, log: (sentence: string) => said.push(sentence) }
    const store = await openPostgresStore(listening, { url: pooler.url })
    atEnd(t, () => store.close())
    assert.match(said.join(), /connection pooler answers .* SLUICE_STORE_DIRECT/)
    const { key: app } = await store.createApplication({ name: 'A', uid: 'a', throttleRate: null, metadata: {} })
    const world = new World({ store } as Harness)
    const made = await store.createEndpoint(app, plainEndpoint)
    const endpoint = made.key
    const worker = await store.join({ leaseMs: 60_000, description: 'the test' })
    let publication = await publicationTo(store, app, [endpoint])
    const along = () => store.createEndpoint(app, { ...plainEndpoint, uid: null })
    let settled = 0
    for (let round = 0; round < 20; round++) {
      const [published] = await Promise.all([
        store.publish([publication]),
        store.publishTogether([publication, publication], null),
        round % 5 === 0 ? along() : store.ping(),
        store.readDue([{ endpoint, class: 0, after: null, limit: 1 }]),
        store.claim(worker, 10),
      ])
      // The new endpoint changed the version.
      if (published[0]?.state === 'stale') publication = await publicationTo(store, app, [endpoint])
      const [page] = await store.readDue([{ endpoint, class: 0, after: null, limit: 1 }])
      const rows = page?.rows ?? []
      const settlements = rows.map((row) => world.settlement(made, row, { state: 'delivered' }))
      assert.equal(await store.settle(worker, settlements, { holds: [], disable: [], health: [] }), 'settled')
      settled += settlements.length
    }
    assert.ok(settled > 10)
    const { rows } = await server.query(`select distinct * from witnessed order by what`, url)
    const guards = { scan: 'off', plans: 'force_generic_plan', timeout: '10s' }
    assert.deepEqual(rows, [
      { what: 'attempt', durable: 'off', ...guards },
      { what: 'message', durable: 'on', ...guards },
    ])
    const left = await server.query(
      `select count(*)::int as n from pg_stat_activity where datname = current_database() and state like 'idle in%'`,
      url,
    )
    assert.equal(left.rows[0].n, 0, 'no transaction stays open')
    const client = new pg.Client(pooler.url)
    await client.connect()
    atEnd(t, () => client.end())
    assert.equal(await namingOf(client), naming)
    const { rows: shown } = await client.query(`select current_setting('enable_seqscan') as scan`)
    assert.equal(shown[0].scan, 'on', 'other clients keep their own settings')
  })
}

test('with SLUICE_STORE_DIRECT a process behind a pooler hears of others at once', async (t) => {
  const url = await newDatabase()
  const pooler = await TransactionPooler.start(url)
  atEnd(t, () => pooler.close())
  const [behind, direct] = [
    await openPostgresStore(context, { url: pooler.url, directUrl: url }),
    await openPostgresStore(context, { url }),
  ]
  atEnd(t, () => Promise.all([behind.close(), direct.close()]))
  const { promise, resolve } = Promise.withResolvers<readonly number[] | undefined>()
  behind.watch({ rows() {}, lanes() {}, settings: resolve })
  const { key: app } = await direct.createApplication({ name: 'A', uid: 'a', throttleRate: null, metadata: {} })
  const { key } = await direct.createEndpoint(app, plainEndpoint)
  await direct.updateEndpoint(app, key, { description: 'changed' })
  assert.deepEqual(await promise, [key])
})

test('without it, a process looks at everything each second', async (t) => {
  const url = await newDatabase()
  const pooler = await TransactionPooler.start(url)
  atEnd(t, () => pooler.close())
  const store = await openPostgresStore(context, { url: pooler.url })
  atEnd(t, () => store.close())
  const { promise, resolve } = Promise.withResolvers<readonly number[] | undefined>()
  store.watch({ rows() {}, lanes() {}, settings: resolve })
  assert.equal(await promise, undefined)
})

test('SLUICE_STORE_DIRECT must lead to the server of the store itself', async (t) => {
  const url = await newDatabase()
  const pooler = await TransactionPooler.start(url)
  atEnd(t, () => pooler.close())
  const other = { name: 'OtherServerError', message: /SLUICE_STORE_DIRECT must name that server/ }
  await assert.rejects(openPostgresStore(context, { url: pooler.url, directUrl: pooler.url }), other)
  await assert.rejects(openPostgresStore(context, { url: pooler.url, directUrl: await newDatabase() }), other)
})

test('eight processes share a pooler with twenty connections', { skip }, async (t) => {
  const pooler = await startPgBouncer(await newDatabase(), { pool_mode: 'transaction', default_pool_size: '20' })
  atEnd(t, () => pooler.close())
  const stores = await Promise.all(Array.from({ length: 8 }, () => openPostgresStore(context, { url: pooler.url })))
  atEnd(t, () => Promise.all(stores.map((store) => store.close())))
  await Promise.all(stores.flatMap((store) => Array.from({ length: 20 }, () => store.hasMessages())))
})

test('three processes share a pooler with twenty connections in session mode, which keeps each for one client', {
  skip,
}, async (t) => {
  const pooler = await startPgBouncer(await newDatabase(), { pool_mode: 'session', default_pool_size: '20' })
  atEnd(t, () => pooler.close())
  const stores = await Promise.all(Array.from({ length: 3 }, () => openPostgresStore(context, { url: pooler.url })))
  atEnd(t, () => Promise.all(stores.map((store) => store.close())))
  // Each process opens all of its connections, and none waits for one of another.
  await Promise.all(stores.flatMap((store) => Array.from({ length: 40 }, () => store.hasMessages())))
  await Promise.all(
    stores.map((store) => store.createApplication({ name: 'A', uid: null, throttleRate: null, metadata: {} })),
  )
})

test('a process has as many connections as SLUICE_CONNECTIONS says, and nine without it', async (t) => {
  const url = await newDatabase()
  const server = await sharedServer()
  const most = async (connections: number | null) => {
    const named = new URL(url)
    named.searchParams.set('application_name', `counted-${connections}`)
    const store = await openPostgresStore(context, { url: named.href, connections })
    atEnd(t, () => store.close())
    await Promise.all(Array.from({ length: 60 }, (_, i) => (i % 2 === 0 ? store.hasMessages() : store.reconcile())))
    const { rows } = await server.query(
      `select count(*)::int as n from pg_stat_activity where application_name = 'counted-${connections}'`,
    )
    return rows[0].n
  }
  assert.deepEqual(await Promise.all([null, 6, 3].map(most)), [9, 6, 3])
})

test('a message is undone when its commit would not be durable, whatever the connection was set to', async (t) => {
  const url = await newDatabase()
  const store = await openPostgresStore(context, { url })
  atEnd(t, () => store.close())
  const { key: app } = await store.createApplication({ name: 'A', uid: 'a', throttleRate: null, metadata: {} })
  const publication = await publicationTo(store, app, [])
  const relaxed = openSessions({ servers: serversAt(url), durable: false, connections: 1, onTrouble: () => {} })
  atEnd(t, () => relaxed.end())
  const statement = publishing([publication], [{ key: 1, id: 'msg_1' }], [false])
  await assert.rejects(relaxed.run(...statement), { name: 'StoreTrouble', message: /not .*durable, and was undone/ })
  assert.equal(await store.hasMessages(), false)
  assert.equal((await store.publish([publication]))[0]?.state, 'accepted')
})

test('a pooler that pools statements is refused with the remedy', { skip }, async (t) => {
  const pooler = await startPgBouncer(await newDatabase(), { pool_mode: 'statement' })
  atEnd(t, () => pooler.close())
  await assert.rejects(openPostgresStore(context, { url: pooler.url }), {
    name: 'PoolerError',
    message: /Set its pool_mode to transaction/,
  })
})
