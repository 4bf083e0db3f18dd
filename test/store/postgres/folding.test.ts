import assert from 'node:assert/strict'
import { test } from 'node:test'
import { minuteMs, Sums, serverScope } from '../../../src/features/history/rules.ts'
import { StoreTrouble } from '../../../src/store/store.ts'
import { eventually } from '../../e2e/eventually.ts'
import { begin } from '../conformance/harness.ts'
import { openPostgresHarness } from '../postgres-harness.ts'

const start = Date.UTC(2000, 0, 1)

test('a connection that dies while it folds leaves every sum as it was', async (t) => {
  const { store, harness } = await begin(t, openPostgresHarness)
  const row = { scope: serverScope, span: minuteMs as typeof minuteMs, at: start, sums: { delivered: 1 } }
  for (const writer of ['a', 'b', 'c']) await store.writeHistory(writer, [row])
  const count = async () => {
    const range = { scope: serverScope, span: minuteMs, from: 0, until: Number.MAX_SAFE_INTEGER } as const
    const { rows } = await store.readHistory(range, null, 100)
    const total = new Sums()
    for (const { sums } of rows) total.merge(Sums.read(sums))
    return { rows: rows.length, delivered: total.get('delivered') }
  }
  const [foreign, looking] = [await harness.foreign(), await harness.foreign()]
  t.after(() => Promise.all([foreign.close(), looking.close()]))
  // Holds one of the rows, so that the fold stops between the merged row that it wrote and the rows that it deletes.
  await foreign.run(`begin; select 1 from history where writer = 'b' for update`)
  const folding = assert.rejects(store.foldHistory(1000, 10), StoreTrouble)
  const waiting = `
    select pid from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock' and query like '%delete from history%'`
  await eventually('a fold that waits', async () => (await looking.rows(waiting)).length === 1)
  assert.deepEqual(await count(), { rows: 3, delivered: 3 })
  await looking.rows(`select pg_terminate_backend(pid) from (${waiting}) as found`)
  await folding
  await foreign.run('rollback')
  assert.deepEqual(await count(), { rows: 3, delivered: 3 })
  assert.equal(await store.foldHistory(1000, 10), false)
  assert.deepEqual(await count(), { rows: 1, delivered: 3 })
})
