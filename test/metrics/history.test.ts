import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { type HistoryLimits, HistoryWriter, writeEveryMs } from '../../src/features/history/meter.ts'
import { hourMs, minuteMs, type SumSpan, Sums, serverScope } from '../../src/features/history/rules.ts'
import { observed } from '../../src/metrics/observed-store.ts'
import { queuedAtOnce } from '../../src/store/plan.ts'
import { type Store, StoreTrouble } from '../../src/store/store.ts'
import { type Open, World } from '../store/conformance/harness.ts'
import { openPostgresHarness } from '../store/postgres-harness.ts'
import { openSqliteHarness } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'

/** The next writes fail before they take effect (`lost`), fail afterwards (`unanswered`), or succeed. */
type Fate = 'well' | 'lost' | 'unanswered'

async function scene(t: TestContext, open: Open, limits?: HistoryLimits) {
  const harness = await open()
  t.after(() => harness.close())
  const { store: plain } = harness
  const clock = new VirtualClock()
  const troubles: unknown[] = []
  const state = { fate: 'well' as Fate, rows: 0, largest: 0 }
  let writers = 0
  const history = new HistoryWriter({
    clock,
    newWriter: () => `writer-${++writers}`,
    ...(limits && { limits }),
    onTrouble: (error) => troubles.push(error),
    store: {
      async writeHistory(writer, rows) {
        if (state.fate === 'lost') throw new StoreTrouble('the write did not arrive')
        await plain.writeHistory(writer, rows)
        state.rows += rows.length
        state.largest = Math.max(state.largest, rows.length)
        if (state.fate === 'unanswered') throw new StoreTrouble('the answer did not arrive')
      },
    },
  })
  const store = observed(plain, clock, [history])
  const world = new World({ ...harness, store })
  /** Stops it, in virtual time and, on Postgres, in real time as well. */
  const stop = async () => {
    let isOver = false
    const stopping = history.stop().then(() => {
      isOver = true
    })
    while (!isOver) await clock.settle()
    await stopping
  }
  return { world, store, history, clock, state, troubles, stop }
}

/** The sums of a scope over all time, by minutes and by hours. */
async function totalsOf(store: Store, scope: number) {
  const totals = []
  for (const span of [minuteMs, hourMs] as SumSpan[]) {
    const range = { scope, span, from: 0, until: Number.MAX_SAFE_INTEGER }
    const { rows } = await store.readHistory(range, null, 100_000)
    const total = new Sums()
    for (const { sums } of rows) total.merge(Sums.read(sums))
    totals.push(total)
  }
  return totals as [Sums, Sums]
}

function counting(open: Open): void {
  test('messages, attempts and ends are counted for the server, the application and the endpoint', async (t) => {
    const { world, store, stop } = await scene(t, open)
    const app = await world.application()
    const [one, two] = [await world.endpoint(app), await world.endpoint(app)]
    const worker = await world.join()
    await world.publish([one, two])
    await world.publish([two], { special: [{ endpoint: two.key, drop: 'disabled' }] })
    const again = await world.publication([one], { version: 0 })
    assert.equal((await store.publish([again]))[0]?.state, 'stale')
    const settlement = (endpoint: typeof one, row: Awaited<ReturnType<World['head']>>, state: object) => {
      const settled = world.settlement(endpoint, row, state as never)
      return { ...settled, attempt: { ...settled.attempt, durationMs: 20, waitedMs: 3 } }
    }
    const row = await world.head(two)
    await world.settle(worker, settlement(one, await world.head(one), { state: 'delivered' }))
    await world.settle(worker, settlement(two, row, { state: 'waiting', waitMs: 0 }))
    await world.settle(worker, settlement(two, { ...row, class: 1, attempts: 1 }, { state: 'dead', reason: 'aged' }))
    assert.equal(await world.settle(worker + 1000, settlement(one, row, { state: 'delivered' })), 'fenced')
    await stop()
    const all = { accepted: 2, arrived: 2, delivered: 1, failed: 2, dead: 1, dropped: 1, status2xx: 1, status5xx: 2 }
    const wanted = new Map([
      [serverScope, { ...all, waits: 2, latencies: 3 }],
      [app.key, { ...all, waits: 2, latencies: 3 }],
      [one.key, { arrived: 1, delivered: 1, status2xx: 1, waits: 1, latencies: 1 }],
      [two.key, { arrived: 1, failed: 2, dead: 1, dropped: 1, status5xx: 2, waits: 1, latencies: 2 }],
    ])
    for (const [scope, counts] of wanted) {
      for (const sums of await totalsOf(store, scope)) {
        const { wait: _wait, latency: _latency, ...counted } = sums.toJSON()
        assert.deepEqual({ ...counted, waits: sums.wait.count, latencies: sums.latency.count }, counts)
        assert(Math.abs((sums.latency.quantile(1) ?? 0) - 20) <= 1)
        assert(Math.abs((sums.wait.quantile(1) ?? 0) - 3) <= 0.15)
      }
    }
  })

  test('deliveries of a wide message that coalesce are counted when they are queued', async (t) => {
    const { world, store, stop } = await scene(t, open)
    const app = await world.application()
    const endpoint = await world.endpoint(app)
    const special = [{ endpoint: endpoint.key, coalesce: { key: 'a', windowMs: 60_000 } }]
    await world.publish([endpoint], { special })
    const gone = Array.from({ length: queuedAtOnce }, (_, i) => i + 1)
    await world.publish([], { app: app.key, endpoints: [...gone, endpoint.key], special })
    while ((await store.expand(5000)).more);
    await stop()
    for (const scope of [serverScope, app.key, endpoint.key]) {
      for (const sums of await totalsOf(store, scope)) assert.equal(sums.toJSON().coalesced, 1)
    }
  })

  test('a write that fails, or whose answer is lost, is repeated and counts once', async (t) => {
    const { world, store, clock, state, troubles, stop } = await scene(t, open)
    const endpoint = await world.endpoint(await world.application())
    const fates: Fate[] = ['lost', 'unanswered', 'lost', 'unanswered']
    for (const fate of fates) {
      state.fate = fate
      await world.publish([endpoint])
      const before = troubles.length
      while (troubles.length === before) await clock.advance(1)
      // Into the next minute: a minute that is over is written as well.
      await clock.advance(minuteMs)
    }
    state.fate = 'well'
    await stop()
    for (const sums of await totalsOf(store, serverScope))
      assert.deepEqual(sums.toJSON(), { accepted: fates.length, arrived: fates.length })
    for (const sums of await totalsOf(store, endpoint.app))
      assert.deepEqual(sums.toJSON(), { accepted: fates.length, arrived: fates.length })
  })
}

describe('sqlite', () => counting(openSqliteHarness))
describe('postgres', () => counting(openPostgresHarness))

const settledBy = (app: number, endpoint: number) => ({
  app,
  endpoint,
  row: { attempts: 0, priorAttempts: 0, class: 0 } as never,
  attempt: null,
  verdict: { state: 'delivered' } as const,
})

test('nothing is written until something is counted, and nothing twice', async (t) => {
  const { world, history, clock, state, stop } = await scene(t, openSqliteHarness)
  const endpoint = await world.endpoint(await world.application())
  await clock.advance(10 * writeEveryMs)
  assert.equal(state.rows, 0)
  history.settled([settledBy(endpoint.app, endpoint.key)])
  await clock.advance(writeEveryMs)
  assert.equal(state.rows, 6, 'a minute and an hour each for the server, the application and the endpoint')
  await clock.advance(10 * writeEveryMs)
  await stop()
  assert.equal(state.rows, 6)
})

test('counts are written when the process stops', async (t) => {
  const { world, store, stop } = await scene(t, openSqliteHarness)
  const endpoint = await world.endpoint(await world.application())
  await world.publish([endpoint])
  await stop()
  for (const sums of await totalsOf(store, serverScope)) assert.deepEqual(sums.toJSON(), { accepted: 1, arrived: 1 })
})

test('more endpoints than are followed by the minute are followed by the hour, and an application takes its share', async (t) => {
  const limits = { byMinute: 8, byMinutePerApp: 3, followed: 12 }
  const { world, store, history, stop } = await scene(t, openSqliteHarness, limits)
  const [crowd, other] = [await world.application(), await world.application()]
  const many = await Promise.all(Array.from({ length: 20 }, () => world.endpoint(crowd)))
  const few = await world.endpoint(other)
  const count = (endpoint: typeof few) => history.settled([settledBy(endpoint.app, endpoint.key)])
  for (const endpoint of many.slice(0, 5)) count(endpoint)
  count(few)
  for (const endpoint of many.slice(5)) count(endpoint)
  for (const endpoint of many) count(endpoint)
  await stop()
  const kept = await Promise.all(many.map(({ key }) => totalsOf(store, key)))
  const delivered = kept.map(([minutes, hours]) => [minutes.get('delivered'), hours.get('delivered'), hours.byHour])
  assert.deepEqual(delivered.slice(0, 3), Array(3).fill([2, 2, false]))
  assert.deepEqual(delivered.slice(3, 8), Array(5).fill([0, 2, true]))
  assert.deepEqual(delivered.slice(8), Array(12).fill([0, 0, false]))
  for (const scope of [few.key, other.key]) {
    for (const sums of await totalsOf(store, scope)) assert.deepEqual(sums.toJSON(), { delivered: 1 })
  }
  for (const sums of await totalsOf(store, crowd.key)) assert.deepEqual(sums.toJSON(), { delivered: 40 })
  for (const sums of await totalsOf(store, serverScope)) assert.deepEqual(sums.toJSON(), { delivered: 41 })
})

test('many rows are written in small statements', async (t) => {
  const { world, history, state, stop } = await scene(t, openSqliteHarness)
  const app = await world.application()
  const endpoints = await Promise.all(Array.from({ length: 300 }, () => world.endpoint(app)))
  for (const { key } of endpoints) history.settled([settledBy(app.key, key)])
  await stop()
  assert.equal(state.rows, 2 * 302)
  assert(state.largest <= 200, `${state.largest} rows at once`)
})

test('counts that could not be written for an hour are given up, so that no merged row gets them late', async (t) => {
  const { world, store, clock, state, stop } = await scene(t, openSqliteHarness)
  const endpoint = await world.endpoint(await world.application())
  await world.publish([endpoint])
  state.fate = 'lost'
  await clock.advance(2 * hourMs)
  state.fate = 'well'
  await world.publish([endpoint])
  await stop()
  for (const sums of await totalsOf(store, serverScope)) assert.deepEqual(sums.toJSON(), { accepted: 1, arrived: 1 })
})

test('whatever fails and however the clock jumps, minutes and hours both add up to what was counted', async (t) => {
  const step = fc.oneof(
    { weight: 5, arbitrary: fc.record({ count: fc.integer({ min: 1, max: 5 }) }) },
    { weight: 3, arbitrary: fc.record({ passMs: fc.integer({ min: 1, max: 150_000 }) }) },
    { weight: 1, arbitrary: fc.record({ jumpMs: fc.integer({ min: -2 * hourMs, max: 15 * minuteMs }) }) },
    { weight: 2, arbitrary: fc.record({ fate: fc.constantFrom<Fate>('well', 'lost', 'unanswered') }) },
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const { world, store, history, clock, state, stop } = await scene(t, openSqliteHarness)
      const endpoint = await world.endpoint(await world.application())
      let [counted, failingMs] = [0, 0]
      for (const each of steps) {
        if ('count' in each) {
          for (let i = 0; i < each.count; i++) history.settled([settledBy(endpoint.app, endpoint.key)])
          counted += each.count
        } else if ('passMs' in each) {
          await clock.advance(each.passMs)
        } else if ('jumpMs' in each) clock.jump(each.jumpMs)
        else state.fate = each.fate
        // Trouble lasts for less than the time after which counts are given up.
        failingMs += 'passMs' in each ? each.passMs : 'jumpMs' in each ? Math.abs(each.jumpMs) : 0
        if (failingMs > 10 * minuteMs) state.fate = 'well'
        if (state.fate !== 'well') continue
        await clock.advance(2 * writeEveryMs)
        failingMs = 0
      }
      state.fate = 'well'
      await stop()
      for (const scope of [serverScope, endpoint.app, endpoint.key]) {
        for (const sums of await totalsOf(store, scope)) assert.equal(sums.get('delivered'), counted)
      }
    }),
    { numRuns: 40 },
  )
})

test('how many wait is kept as the mean of all looks, over hours and processes, and is unknown without a look', () => {
  const [quiet, first, second] = [new Sums(), new Sums(), new Sums()]
  assert.equal(quiet.meanWaiting, undefined)
  for (const [sums, waiting] of [
    [first, 100],
    [first, 300],
    [second, 500],
  ] as const) {
    sums.add('waiting', waiting)
    sums.add('looks', 1)
  }
  assert.equal(first.meanWaiting, 200)
  assert.equal(Sums.read(first.toJSON()).merge(second).meanWaiting, 300)
})
