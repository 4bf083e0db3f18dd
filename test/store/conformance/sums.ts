import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  hourMs,
  minuteMs,
  Sketch,
  type StoredSums,
  type SumSpan,
  Sums,
  serverScope,
} from '../../../src/features/history/rules.ts'
import { rowsPerRemoval } from '../../../src/store/maintenance.ts'
import type { Store } from '../../../src/store/store.ts'
import { begin, type Open, type World } from './harness.ts'

/** The start of an hour that is long over. */
const noon = Date.UTC(2000, 0, 1, 12)
const everything = { from: 0, until: Number.MAX_SAFE_INTEGER }

/** The rows of a scope, read in pages of two. */
async function rowsOf(store: Store, scope: number, span: SumSpan = minuteMs, range = everything) {
  const rows: { readonly at: number; readonly sums: StoredSums }[] = []
  for (let place = null, pages = 0; pages < 10_000; pages++) {
    const page: Awaited<ReturnType<Store['readHistory']>> = await store.readHistory({ scope, span, ...range }, place, 2)
    rows.push(...page.rows)
    if (page.next === null) return rows
    place = page.next as never
  }
  return assert.fail('the rows have no end')
}

/** All rows of a scope as one sum. */
async function totalOf(store: Store, scope: number, span: SumSpan = minuteMs) {
  const sums = new Sums()
  for (const row of await rowsOf(store, scope, span)) sums.merge(Sums.read(row.sums))
  return sums.toJSON()
}

const minute = (scope: number, n: number, sums: StoredSums) => ({
  scope,
  span: minuteMs as SumSpan,
  at: noon + n * minuteMs,
  sums,
})
const hour = (scope: number, n: number, sums: StoredSums) => ({
  scope,
  span: hourMs as SumSpan,
  at: noon + n * hourMs,
  sums,
})

function durations(...values: number[]): number[] {
  const sketch = new Sketch()
  for (const value of values) sketch.add(value)
  return sketch.toJSON()
}

async function foldAll(store: Store, limit: number): Promise<number> {
  for (let steps = 1; steps < 1000; steps++) if (!(await store.foldHistory(hourMs, limit))) return steps
  return assert.fail('there is always more to fold')
}

export function sums(open: Open): void {
  test('a row that is written again replaces itself, and other writers have rows of their own', async (t) => {
    const { store } = await begin(t, open)
    await store.writeHistory('a', [minute(serverScope, 0, { delivered: 3, wait: durations(5) })])
    await store.writeHistory('a', [minute(serverScope, 0, { delivered: 5, wait: durations(5, 70) })])
    await store.writeHistory('a', [minute(serverScope, 0, { delivered: 5, wait: durations(5, 70) })])
    assert.deepEqual(await rowsOf(store, serverScope), [{ at: noon, sums: { delivered: 5, wait: durations(5, 70) } }])
    await store.writeHistory('b', [minute(serverScope, 0, { delivered: 2 }), minute(serverScope, 1, { failed: 1 })])
    assert.deepEqual(await totalOf(store, serverScope), { delivered: 7, failed: 1, wait: durations(5, 70) })
    await store.writeHistory('a', [])
  })

  test('rows are read by scope, length and time', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const [one, other] = [await world.endpoint(app), await world.endpoint(app)]
    const rows = [0, 1, 2, 3, 4].map((n) => minute(one.key, n, { delivered: n + 1 }))
    await store.writeHistory('a', [...rows, minute(other.key, 1, { dead: 1 }), hour(one.key, 0, { delivered: 15 })])
    const range = { from: noon + minuteMs, until: noon + 4 * minuteMs }
    const found = await rowsOf(store, one.key, minuteMs, range)
    assert.deepEqual(
      found.map(({ at, sums }) => [(at - noon) / minuteMs, sums.delivered]),
      [
        [1, 2],
        [2, 3],
        [3, 4],
      ],
    )
    assert.deepEqual(await rowsOf(store, one.key, hourMs), [{ at: noon, sums: { delivered: 15 } }])
    assert.deepEqual(await rowsOf(store, app.key), [])
  })

  test('the outcomes of several scopes are read together, by the hour', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const [one, other, third] = [await world.endpoint(app), await world.endpoint(app), await world.endpoint(app)]
    await store.writeHistory('a', [
      hour(one.key, 0, { delivered: 3 }),
      hour(one.key, 1, { failed: 2, delivered: 1 }),
      hour(one.key, 9, { delivered: 100 }),
      hour(third.key, 0, { delivered: 100 }),
      minute(one.key, 0, { delivered: 100 }),
    ])
    await store.writeHistory('b', [hour(other.key, 1, { failed: 4 })])
    const read = await store.readOutcomes([one.key, other.key], noon, noon + 3 * hourMs)
    assert.deepEqual(
      read.toSorted((a, b) => a.scope - b.scope || a.at - b.at),
      [
        { scope: one.key, at: noon, delivered: 3, failed: 0 },
        { scope: one.key, at: noon + hourMs, delivered: 1, failed: 2 },
        { scope: other.key, at: noon + hourMs, delivered: 0, failed: 4 },
      ],
    )
  })

  test('folding merges the rows of all writers, in steps, and changes no sum', async (t) => {
    const { store } = await begin(t, open)
    for (const [i, writer] of ['a', 'b', 'c'].entries()) {
      for (const n of [0, 1, 2]) {
        const counts = { delivered: 10 ** i, latency: durations(10 ** i, 3), ...(i === 2 && { byHour: true as const }) }
        await store.writeHistory(writer, [minute(serverScope, n, counts), hour(serverScope, n, counts)])
      }
    }
    const before = [await totalOf(store, serverScope), await totalOf(store, serverScope, hourMs)]
    // Killed after any step: the sums are the same before, in between and after.
    for (let more = true, steps = 0; more; steps++) {
      assert(steps < 20)
      more = await store.foldHistory(hourMs, 4)
      assert.deepEqual([await totalOf(store, serverScope), await totalOf(store, serverScope, hourMs)], before)
    }
    assert.equal((await rowsOf(store, serverScope)).length, 3)
    assert.equal((await rowsOf(store, serverScope, hourMs)).length, 3)
    assert.equal(await store.foldHistory(hourMs, 4), false)
    assert.deepEqual([await totalOf(store, serverScope), await totalOf(store, serverScope, hourMs)], before)
  })

  test('two processes that fold at once fold every row once', async (t) => {
    const { store } = await begin(t, open)
    const rows = Array.from({ length: 40 }, (_, n) => minute(serverScope, n, { delivered: 1 }))
    for (const writer of ['a', 'b', 'c']) await store.writeHistory(writer, rows)
    await Promise.all([foldAll(store, 7), foldAll(store, 7), foldAll(store, 7)])
    assert.deepEqual(await totalOf(store, serverScope), { delivered: 120 })
    assert.equal((await rowsOf(store, serverScope)).length, 40)
  })

  test('rows that a process may still write are not folded', async (t) => {
    const { store } = await begin(t, open)
    const at = Math.floor((await recent(store)) / minuteMs) * minuteMs
    const row = { scope: serverScope, span: minuteMs as SumSpan, at, sums: { delivered: 1 } }
    for (const writer of ['a', 'b']) await store.writeHistory(writer, [row])
    assert.equal(await store.foldHistory(hourMs, 10), false)
    assert.equal((await rowsOf(store, serverScope)).length, 2)
  })

  test('old rows are dropped by their length, a few at a time', async (t) => {
    const { store } = await begin(t, open)
    const rows = [0, 1, 2, 3, 4].map((n) => minute(serverScope, n, { delivered: 1 }))
    await store.writeHistory('a', [...rows, hour(serverScope, 0, { delivered: 5 })])
    assert.equal(await store.dropHistory(minuteMs, hourMs, 3), 3)
    assert.deepEqual(
      (await rowsOf(store, serverScope)).map(({ at }) => (at - noon) / minuteMs),
      [3, 4],
    )
    assert.equal(await store.dropHistory(minuteMs, hourMs, 3), 2)
    assert.equal(await store.dropHistory(minuteMs, hourMs, 3), 0)
    assert.equal((await rowsOf(store, serverScope, hourMs)).length, 1)
    assert.equal(await store.dropHistory(hourMs, 1e15, 3), 0)
  })

  test('the history of a deleted endpoint goes, in steps, and does not come back', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const [gone, kept] = [await world.endpoint(app), await world.endpoint(app)]
    const minutes = Array.from({ length: rowsPerRemoval + 10 }, (_, n) => minute(gone.key, n, { delivered: 1 }))
    await store.writeHistory('a', [...minutes, minute(kept.key, 0, { delivered: 1 }), minute(app.key, 0, { dead: 1 })])
    await store.deleteEndpoint(app.key, gone.key)
    await sweepAll(world)
    assert.deepEqual(await rowsOf(store, gone.key), [])
    await store.writeHistory('a', [minute(gone.key, 0, { delivered: 2 }), minute(kept.key, 0, { delivered: 2 })])
    assert.deepEqual(await rowsOf(store, gone.key), [])
    assert.deepEqual(await totalOf(store, kept.key), { delivered: 2 })
    assert.deepEqual(await totalOf(store, app.key), { dead: 1 })
  })

  test('the history of a deleted application goes with it', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const [app, other] = [await world.application(), await world.application()]
    const endpoint = await world.endpoint(app)
    const minutes = Array.from({ length: 2 * rowsPerRemoval + 10 }, (_, n) => minute(app.key, n, { accepted: 1 }))
    await store.writeHistory('a', [...minutes, minute(endpoint.key, 0, { dead: 1 }), minute(other.key, 0, { dead: 1 })])
    await store.deleteApplication(app.key)
    await sweepAll(world)
    assert.deepEqual(await rowsOf(store, app.key), [])
    assert.deepEqual(await rowsOf(store, endpoint.key), [])
    assert.deepEqual(await totalOf(store, other.key), { dead: 1 })
  })
}

/** The present by the store's clock, as a new application has it. */
async function recent(store: Store): Promise<number> {
  return (await store.createApplication({ name: 'Now', uid: null, throttleRate: null, metadata: {} })).createdAt
}

async function sweepAll({ store }: World): Promise<void> {
  for (let steps = 0; steps < 100; steps++) if (!(await store.sweepRemoved()).more) return
  assert.fail('the sweep does not end')
}
