import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ledger } from '../../src/metrics/ledger.ts'
import { observed } from '../../src/metrics/observed-store.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { begin, type Open, World } from '../store/conformance/harness.ts'
import { openPostgresHarness } from '../store/postgres-harness.ts'
import { openSqliteHarness } from '../store/sqlite-harness.ts'

for (const [dialect, open] of [
  ['sqlite', openSqliteHarness],
  ['postgres', openPostgresHarness],
] as [string, Open][]) {
  test(`${dialect}: between two counts the ledger follows what is published, settled and replayed, and a place is exact`, async (t) => {
    const plain = await begin(t, open)
    const ledger = new Ledger({ store: plain.store, clock: systemClock, isTold: true })
    const store = observed(plain.store, systemClock, [ledger])
    const world = new World({ ...plain.harness, store } as never)
    const app = await world.application()
    const [one, two] = [await world.endpoint(app), await world.endpoint(app)]
    const worker = await world.join()
    await world.publish([one])
    await ledger.ready()
    // No count is made from here on.
    for (let i = 0; i < 5; i++) await world.publish([one, two])
    const later = await world.publish([one], { delayMs: 60_000 })
    assert.equal((await store.publish([await world.publication([one], { version: 0 })]))[0]?.state, 'stale')
    assert.deepEqual([ledger.endpoint(one.key).byClass, ledger.endpoint(two.key).waiting], [[6, 1, 0], 5])
    assert.deepEqual([ledger.waiting, ledger.application(app.key).endpoints], [12, 2])
    await world.settle(worker, world.settlement(one, await world.head(one), { state: 'delivered' }))
    await world.settle(worker, world.settlement(one, await world.head(one), { state: 'waiting', waitMs: 60_000 }))
    const { byClass, isExact, departures } = ledger.endpoint(one.key)
    assert.deepEqual([byClass, isExact, ledger.server().byClass], [[4, 2, 0], true, [9, 2, 0]])
    assert.ok(departures.recent > 0 && ledger.server().arrivals.recent > departures.recent)

    const queued = await store.findQueued({ endpoint: one.key, message: later.key })
    assert.ok(queued)
    const place = { class: queued.class, dueAt: queued.dueAt, message: later.key }
    const rows = await world.rows(one)
    const { ahead, isExact: isPlaceExact } = await ledger.position(one.key, place)
    assert.ok(isPlaceExact && ahead >= rows.length && ahead <= 5, `${ahead} of ${rows.length}`)

    // A replay is not told row by row: the figures say that they are in doubt until the queue is counted.
    const head = await world.head(two)
    await world.settle(worker, world.settlement(two, head, { state: 'dead', reason: 'aged' }))
    await store.replay([{ endpoint: two.key, message: head.message }])
    assert.deepEqual([ledger.endpoint(two.key).waiting, ledger.endpoint(two.key).isExact], [4, false])
    await ledger.refresh(two.key)
    assert.deepEqual([ledger.endpoint(two.key).byClass, ledger.endpoint(two.key).isExact], [[4, 0, 1], true])
  })
}
