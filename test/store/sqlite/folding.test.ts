import assert from 'node:assert/strict'
import { test } from 'node:test'
import { minuteMs, Sums, serverScope } from '../../../src/features/history/rules.ts'
import { systemClock } from '../../../src/runtime/clock.ts'
import { openSqliteStore } from '../../../src/store/sqlite/open.ts'
import { contextWith, placeFor } from '../sqlite-harness.ts'
import { Child } from './child.ts'

const start = Date.UTC(2000, 0, 1)
const [minutes, writers] = [400, ['a', 'b', 'c']]

test('a process that is killed while it folds leaves every sum as it was', async (t) => {
  const place = placeFor(t)
  const open = () => openSqliteStore(contextWith(systemClock), { path: place.path, role: 'guest' })
  const store = await open()
  const rows = Array.from({ length: minutes }, (_, n) => ({
    scope: serverScope,
    span: minuteMs as typeof minuteMs,
    at: start + n * minuteMs,
    sums: { delivered: 1 },
  }))
  for (const writer of writers) await store.writeHistory(writer, rows)

  const count = async () => {
    const range = { scope: serverScope, span: minuteMs, from: 0, until: Number.MAX_SAFE_INTEGER } as const
    const page = await store.readHistory(range, null, 10_000)
    const total = new Sums()
    for (const { sums } of page.rows) total.merge(Sums.read(sums))
    return { rows: page.rows.length, delivered: total.get('delivered') }
  }
  const delivered = minutes * writers.length
  const whole = { rows: delivered, delivered }
  assert.deepEqual(await count(), whole)

  // Killed after a step that it has reported, so most likely within a later one.
  for (const steps of [1, 17, 40]) {
    const child = new Child(place, 'guest')
    assert.equal(await child.line(), 'open')
    child.tell('fold')
    for (let step = 0; step < steps; step++) assert.equal(await child.line(), 'folded')
    await child.kill()
    const left = await count()
    assert.equal(left.delivered, delivered)
    assert(left.rows < whole.rows && left.rows > minutes, `${left.rows} rows are left`)
  }
  while (await store.foldHistory(1000, 200));
  assert.deepEqual(await count(), { rows: minutes, delivered })
  await store.close()
})
