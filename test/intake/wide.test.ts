import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { Publisher } from '../../src/intake/publisher.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { plainEndpoint } from '../store/conformance/harness.ts'
import { contextWith, placeFor } from '../store/sqlite-harness.ts'

const many = 50_000
const envelope = { eventType: 'a', eventId: null, channels: null, contentType: 'application/json', delayMs: 0 }

test('a fan-out to 50,000 endpoints is accepted in a fraction of the time it takes to queue it', async (t) => {
  const { path } = placeFor(t)
  const store = await openSqliteStore(contextWith(systemClock), { path, role: 'owner' })
  t.after(() => store.close())
  const app = await store.createApplication({ name: 'Acme', uid: 'acme', throttleRate: null, metadata: {} })
  await store.createEndpoint(app.key, plainEndpoint)
  using db = new DatabaseSync(path, { timeout: 5000 })
  db.exec(`create temp table copy as select * from endpoint`)
  const columns = db
    .prepare(`select name from pragma_table_info('endpoint')`)
    .all()
    .map((row) => String(row.name))
  const values = columns.map((name) => (name === 'key' ? 'copy.key + n.i' : `copy.${name}`))
  db.exec(`with recursive n (i) as (select 1 union all select i + 1 from n where i < ${many - 1})
    insert into endpoint (${columns.join(', ')}) select ${values.join(', ')} from copy, n`)
  db.exec('insert into lane (endpoint, app) select key, app from endpoint where key not in (select endpoint from lane)')

  const publisher = new Publisher({ store, clock: systemClock })
  assert.equal(await publisher.reaches('acme', 'a', null), true)
  const startedAt = performance.now()
  const { id } = await publisher.publish('acme', envelope, Buffer.from('{}'))
  const acceptedMs = performance.now() - startedAt
  assert.equal((await store.counts()).pending, 0)
  assert.equal((await store.findMessage(app.key, id))?.endpoints.length, many)

  const expandingAt = performance.now()
  while ((await store.expand(1000)).more);
  const expandedMs = performance.now() - expandingAt
  assert.equal((await store.counts()).pending, many)
  t.diagnostic(`accepted in ${Math.round(acceptedMs)} ms, queued in ${Math.round(expandedMs)} ms`)
  assert.ok(acceptedMs < expandedMs / 2, `${acceptedMs} ms against ${expandedMs} ms`)
})
