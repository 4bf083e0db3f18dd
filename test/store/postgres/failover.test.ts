import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import type { Store } from '../../../src/store/store.ts'
import { atEnd } from '../../e2e/at-end.ts'
import { eventually } from '../../e2e/eventually.ts'
import { plainEndpoint } from '../conformance/harness.ts'
import { Door } from '../door.ts'
import { context } from '../postgres-harness.ts'
import { Replication } from '../replication.ts'

const made: Replication[] = []
after(() => Promise.all(made.map((each) => each.close())))

async function startReplication(): Promise<Replication> {
  const replication = await Replication.start(true)
  made.push(replication)
  return replication
}

const applicationNamed = (uid: string) => ({ name: uid, uid, throttleRate: null, metadata: {} })

/** Waits until the store takes writes, and answers after how many milliseconds it did. */
async function takesWrites(store: Store, uid: string): Promise<number> {
  const begunAt = performance.now()
  await eventually('the store takes writes', () =>
    store.createApplication(applicationNamed(uid)).then(
      () => true,
      (error: Error) => {
        assert.equal(error.name, 'StoreTrouble', String(error.stack))
        return false
      },
    ),
  )
  return Math.round(performance.now() - begunAt)
}

test('of several servers the primary is used, and the promoted one once it is gone', async (t) => {
  const replication = await startReplication()
  const { primary, standby } = replication
  const url = replication.urlOf([standby, primary])
  const store = await openPostgresStore(context, { url })
  atEnd(t, () => store.close())
  const heard: string[] = []
  store.watch({ rows() {}, lanes() {}, settings: () => heard.push('settings') })
  await store.createApplication(applicationNamed('before'))

  await assert.rejects(openPostgresStore(context, { url: standby.url }), {
    name: 'StandbyError',
    message: /is a standby, which takes no writes: name the primary, or all of them as postgres:\/\/HOST1,HOST2/,
  })

  await primary.kill()
  await assert.rejects(store.createApplication(applicationNamed('meanwhile')), { name: 'StoreTrouble' })
  const said = await openPostgresStore(context, { url }).then(
    () => '',
    (error: Error) => error.message,
  )
  assert.match(said, /^None of the Postgres servers takes writes: /)
  assert.ok(said.includes(`${new URL(standby.url).host} is a standby`), said)
  assert.ok(said.includes(`${new URL(primary.url).host} does not answer (connect ECONNREFUSED`), said)
  await replication.promote()
  const ms = await takesWrites(store, 'afterwards')
  t.diagnostic(`${ms} ms after the promotion the store took a write`)
  assert.equal((await store.findApplication('before'))?.uid, 'before')

  // Changes of other processes are heard again, through a connection to the new primary.
  const other = await openPostgresStore(context, { url })
  atEnd(t, () => other.close())
  await eventually('it listens again', async () => {
    heard.length = 0
    const { key } = (await other.findApplication('before')) as { key: number }
    await other.createEndpoint(key, plainEndpoint)
    return heard.length > 0
  })
})

test('a primary that falls silent is left as soon as another one was promoted', async (t) => {
  const replication = await startReplication()
  const { primary } = replication
  const store = await openPostgresStore(context, { url: replication.url })
  atEnd(t, () => store.close())
  await store.createApplication(applicationNamed('before'))

  primary.freeze()
  const stuck = store.createApplication(applicationNamed('stuck')).then(
    () => 'made',
    (error: Error) => error.name,
  )
  await replication.promote()
  const ms = await takesWrites(store, 'afterwards')
  t.diagnostic(`${ms} ms after the promotion the store took a write`)
  assert.equal(await stuck, 'StoreTrouble', 'what waited for the silent one is told')
})

test('a former primary that comes back is not written to, at whatever address it answers', async (t) => {
  const replication = await startReplication()
  const { primary: former } = replication
  // One address that leads to one server and then to another, such as a name or a proxy.
  const door = await Door.open(t, former.url)
  const behind = await openPostgresStore(context, { url: door.url })
  const named = await openPostgresStore(context, { url: replication.url })
  atEnd(t, () => Promise.all([behind.close(), named.close()]))
  await behind.createApplication(applicationNamed('before'))

  await replication.failOver()
  await former.start()
  door.leadsTo(replication.primary.url)
  await takesWrites(behind, 'behind')
  await takesWrites(named, 'named')
  const next = replication.primary
  await next.kill()
  door.leadsTo(former.url)
  const refusal = { name: 'StoreTrouble', message: /former primary/ }
  await eventually('the one behind a door is refused', async () => {
    await assert.rejects(behind.createApplication(applicationNamed('lost')), { name: 'StoreTrouble' })
    return behind.ping().then(
      () => assert.fail('a former primary was written to'),
      ({ message }: Error) => refusal.message.test(message),
    )
  })
  await assert.rejects(named.createApplication(applicationNamed('lost')), refusal)
  const [row] = await replication.query(former, "select count(*)::int as n from application where uid = 'lost'")
  assert.equal(row?.n, 0)

  await next.start()
  door.leadsTo(next.url)
  await takesWrites(behind, 'behind again')
  await takesWrites(named, 'named again')
})

test('a primary that still answers is left once a standby of it was promoted', async (t) => {
  const replication = await startReplication()
  const { primary: former } = replication
  await replication.waitForNoStandby()
  const store = await openPostgresStore(context, { url: replication.url })
  atEnd(t, () => store.close())
  await replication.promote()
  const begunAt = performance.now()
  const isThere = async () => {
    await store.ping().catch(() => {})
    const rows = await replication.query(
      replication.primary,
      "select 1 from pg_stat_activity where application_name = 'sluice' and query = 'listen sluice'",
    )
    return rows.length > 0
  }
  await eventually('the store uses the promoted one', isThere)
  t.diagnostic(`${Math.round(performance.now() - begunAt)} ms after the promotion`)
  await takesWrites(store, 'afterwards')
  const [row] = await replication.query(former, "select count(*)::int as n from application where uid = 'afterwards'")
  assert.equal(row?.n, 0)
})
