import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { Exposition, type OwnFigures } from '../../src/metrics/exposition.ts'
import { Facts } from '../../src/metrics/facts.ts'
import { Ledger } from '../../src/metrics/ledger.ts'
import { Meter } from '../../src/metrics/meter.ts'
import { surveyRows } from '../../src/metrics/queue-count.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import type { Store } from '../../src/store/store.ts'
import { eventually } from '../e2e/eventually.ts'
import { World } from '../store/conformance/harness.ts'
import { contextWith, placeFor } from '../store/sqlite-harness.ts'

const endpoints = 20_000
const named = 50

const own: OwnFigures = {
  version: '1',
  worker: undefined,
  startedAt: 0,
  cpuSeconds: 0,
  residentBytes: 0,
  heapBytes: 0,
  loopDelay: { p50: 0, p99: 0, max: 0 },
}

/** A store with very many endpoints, each with a waiting delivery, that notes how much each call looked at. */
async function manyEndpoints(t: TestContext) {
  const place = placeFor(t)
  const open = () => openSqliteStore(contextWith(systemClock), { path: place.path, role: 'owner' })
  const first = await open()
  const world = new World({ store: first } as never)
  const endpoint = await world.endpoint(await world.application('acme'), { paused: true })
  await world.publish([endpoint])
  await first.close()
  {
    using db = new DatabaseSync(place.path)
    const copies = { endpoint: 'key', lane: 'endpoint', pending: 'endpoint' }
    for (const [table, key] of Object.entries(copies)) {
      const names = db
        .prepare(`select name from pragma_table_info('${table}')`)
        .all()
        .map(({ name }) => String(name))
      const values = names.map((name) => (name === key ? `t.${name} + n` : name === 'id' ? 't.id || n' : `t.${name}`))
      db.exec(`with recursive s (n) as (select 1 union all select n + 1 from s where n < ${endpoints - 1})
        insert into ${table} (${names}) select ${values} from ${table} as t, s`)
    }
  }
  const store = await open()
  place.closeFirst(() => store.close())
  const calls: { readonly method: string; readonly size: number }[] = []
  const note = (method: string, size: number) => calls.push({ method, size })
  const noted: Store = {
    ...store,
    async surveyWaiting(after, limit, lateMs, oneQueue) {
      const page = await store.surveyWaiting(after, limit, lateMs, oneQueue)
      note('surveyWaiting', limit)
      note('queues of a page', new Set(page.counts.map(({ endpoint }) => endpoint)).size)
      return page
    },
    surveyLanes(after, limit) {
      note('surveyLanes', limit)
      return store.surveyLanes(after, limit)
    },
    loadEndpoints(keys) {
      note('loadEndpoints', keys.length)
      return store.loadEndpoints(keys)
    },
    applicationRefs(keys) {
      note('applicationRefs', keys.length)
      return store.applicationRefs(keys)
    },
    condition() {
      note('condition', 1)
      return store.condition()
    },
  }
  /** Adds deliveries to the queue of the first endpoint. */
  function lengthen(by: number): void {
    using db = new DatabaseSync(place.path)
    const names = db
      .prepare("select name from pragma_table_info('pending')")
      .all()
      .map(({ name }) => String(name))
    const values = names.map((name) => (name === 'message' ? 't.message + n' : `t.${name}`))
    db.exec(`with recursive s (n) as (select 1 union all select n + 1 from s where n < ${by})
      insert into pending (${names}) select ${values} from pending as t, s where t.endpoint = ${endpoint.key}`)
  }
  return { store: noted, calls, lengthen }
}

test('with very many endpoints every step of the counts is bounded, and a scrape looks at the worst alone', async (t) => {
  const { store, calls } = await manyEndpoints(t)
  const onTrouble = (error: unknown) => assert.fail(error as Error)
  const ledger = new Ledger({ store, clock: systemClock, onTrouble })
  const facts = new Facts({ store, clock: systemClock, ledger, onTrouble })
  t.after(() => facts.stop())
  facts.start()
  await eventually('the counts', async () => {
    const { waiting, lanes } = await facts.current()
    return waiting !== undefined && lanes !== undefined
  })
  const { waiting, lanes } = await facts.current()
  assert.deepEqual([waiting?.byClass[0], waiting?.endpoints, lanes?.states.stopped], [endpoints, endpoints, endpoints])
  const largest = (method: string) =>
    Math.max(...calls.filter((call) => call.method === method).map(({ size }) => size))
  assert.equal(largest('surveyWaiting'), surveyRows.short, 'queues of one row are counted in short pages')
  assert.equal(largest('surveyLanes'), 500)

  const meter = new Meter()
  const exposition = new Exposition({ store, clock: systemClock, meter, facts, endpoints: named, own: () => own })
  const texts = await Promise.all(Array.from({ length: 100 }, () => exposition.write('*/*')))
  assert.equal(new Set(texts).size, 1, 'scrapes of the same moment share one text')
  const lines = texts[0]?.text.split('\n').filter((line) => line.startsWith('sluice_endpoint_deliveries_waiting{'))
  assert.equal(lines?.length, named)
  // Only names are read for a scrape: the rest was counted before.
  const looked = (method: string) =>
    calls.filter((call) => call.method === method).reduce((sum, { size }) => sum + size, 0)
  assert.equal(looked('loadEndpoints'), named)
  assert.equal(largest('loadEndpoints'), 10)
  assert.ok(looked('condition') <= 2, 'the condition of the store is read every five seconds at most')
})

test('the queues behind a long one are counted in short pages', async (t) => {
  const { store, calls, lengthen } = await manyEndpoints(t)
  lengthen(2 * surveyRows.long)
  const ledger = new Ledger({ store, clock: systemClock, onTrouble: (error) => assert.fail(error as Error) })
  ledger.start()
  t.after(() => ledger.stop())
  await eventually('the count', () => ledger.isCounted)
  assert.deepEqual(ledger.server().byClass, [endpoints + 2 * surveyRows.long, 0, 0])
  const sizes = (method: string) => calls.flatMap((call) => (call.method === method ? [call.size] : []))
  assert.equal(Math.max(...sizes('surveyWaiting')), surveyRows.long)
  assert.ok(Math.max(...sizes('queues of a page')) <= surveyRows.short)
})

test('a long queue is counted in long pages', async () => {
  const sizes: number[] = []
  const row = { endpoint: 1, app: 1, class: 0, late: 0, dueAgoMs: 0, oldestSince: 1, stopped: false } as const
  const next = { endpoint: 1, class: 0, dueAt: 1, message: 1 } as const
  const store: Pick<Store, 'surveyWaiting' | 'queueRungs' | 'countRange'> = {
    queueRungs: async () => [],
    countRange: async () => 0,
    surveyWaiting: async (_after, limit) => {
      sizes.push(limit)
      return { counts: [{ ...row, count: limit }], next: sizes.length < 4 ? next : null }
    },
  }
  const ledger = new Ledger({ store, clock: systemClock })
  ledger.start()
  await eventually('the count', () => ledger.isCounted)
  ledger.stop()
  const { short, long } = surveyRows
  assert.deepEqual(sizes, [short, long, long, long])
  assert.deepEqual(ledger.server().byClass, [short + 3 * long, 0, 0])
})
