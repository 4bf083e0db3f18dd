import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import { atEnd } from '../../e2e/at-end.ts'
import { eventually } from '../../e2e/eventually.ts'
import { type Harness, World } from '../conformance/harness.ts'
import { context, newDatabase } from '../postgres-harness.ts'

test('an attempt says how long ago it began once there is a connection to record it by', async (t) => {
  const url = await newDatabase()
  const store = await openPostgresStore(context, { url, connections: 1 })
  atEnd(t, () => store.close())
  const world = new World({ store, pass: async () => {} } as unknown as Harness)
  const endpoint = await world.endpoint(await world.application())
  const { worker, row } = await world.owningOne(endpoint)

  const other = new pg.Client({ connectionString: url })
  await other.connect()
  atEnd(t, () => other.end())
  await other.query('begin')
  await other.query('lock table lane in access exclusive mode')
  const reading = store.surveyLanes(null, 10)
  await eventually('the only connection waits for the lock', async () => {
    const { rows } = await other.query("select 1 from pg_locks where not granted and relation = 'lane'::regclass")
    return rows.length > 0
  })
  let isHeld = true
  const asked: boolean[] = []
  const settlement = world.settlement(endpoint, row, { state: 'delivered' })
  const startedAgoMs = () => {
    asked.push(isHeld)
    return 30
  }
  const settling = world.settle(worker, { ...settlement, attempt: { ...settlement.attempt, startedAgoMs } })
  isHeld = false
  await other.query('rollback')
  await reading
  assert.equal(await settling, 'settled')
  assert.deepEqual(asked, [false])
})
