import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Bench } from '../../bench/bench.ts'
import { type Look, stretchOf } from '../../bench/course.ts'
import { growth, Meter } from '../../bench/meter.ts'
import { bytesWrittenBy, processorUs } from '../../bench/processor-time.ts'
import { common, joinTimelines, startReceivers } from '../../bench/receivers.ts'
import { sliceMs, steadySpan } from '../../bench/steady-rate.ts'
import { threadTime } from '../../bench/thread-time.ts'

test('the growth of a counter is known between two readings, on a straight line', () => {
  const readings = [
    { at: 100, counters: { us: 10 } },
    { at: 200, counters: { us: 30 } },
    { at: 300, counters: { us: 130 } },
  ]
  assert.deepEqual(growth(readings, { fromAt: 150, toAt: 250 }), { us: 60 })
  assert.deepEqual(growth(readings, { fromAt: 200, toAt: 300 }), { us: 100 })
})

test('beyond the readings, the nearest one counts', () => {
  const readings = [
    { at: 100, counters: { us: 10 } },
    { at: 200, counters: { us: 30 } },
  ]
  assert.deepEqual(growth(readings, { fromAt: 0, toAt: 900 }), { us: 20 })
})

test('the steady part begins where a fifth has come and ends where 95% have', () => {
  const { fromAt, toAt, count } = steadySpan(Array(100).fill(10), 1000)
  assert.deepEqual([fromAt, toAt, count], [1000 + 20 * sliceMs, 1000 + 95 * sliceMs, 750])
})

test('timelines that began one after the other are added where their times agree', () => {
  const joined = joinTimelines([
    { startedAt: 1000, timeline: Uint32Array.of(1, 2, 3) },
    { startedAt: 1000 + sliceMs, timeline: Uint32Array.of(10, 20, 30) },
  ])
  assert.deepEqual([joined.startedAt, ...joined.timeline], [1000, 1, 12, 23])
})

test('nothing came only where all receivers had a pause', () => {
  const some = [
    { fromAt: 0, toAt: 10 },
    { fromAt: 20, toAt: 40 },
  ]
  assert.deepEqual(common(some, [{ fromAt: 5, toAt: 30 }]), [
    { fromAt: 5, toAt: 10 },
    { fromAt: 20, toAt: 30 },
  ])
  assert.deepEqual(common(some, [{ fromAt: 10, toAt: 20 }]), [])
})

test('costs of a stretch are for each of its deliveries, and its pauses the longest after its beginning', () => {
  const stretch = stretchOf([
    lookOf({ at: 0, delivered: 100, mainUs: 1000, pauseMs: 900, checkpoints: 1, writtenBytes: 0 }),
    lookOf({ at: 500, delivered: 120, mainUs: 1500, pauseMs: 5, checkpoints: 1, writtenBytes: 3000 }),
    lookOf({ at: 1000, delivered: 150, mainUs: 2000, pauseMs: 2, checkpoints: 3, writtenBytes: 5000 }),
  ])
  assert.deepEqual(
    [stretch.perSec, stretch.mainUs, stretch.pauseMs, stretch.checkpoints, stretch.diskBytes],
    [50, 20, 5, 2, 100],
  )
})

test('the processor time of a process that works grows, that of its main thread no faster than all', {
  skip: process.platform !== 'linux' && 'the scheduler tells it on Linux',
}, () => {
  using meter = new Meter(() => ({ ...threadTime(process.pid), treeUs: processorUs(process.pid) }))
  const before = threadTime(process.pid)
  while (threadTime(process.pid).mainUs < before.mainUs + 60_000) JSON.stringify(process.versions)
  meter[Symbol.dispose]()
  const { mainUs, allUs, mainWaitUs, treeUs } = meter.within({ fromAt: 0, toAt: Number.MAX_VALUE })
  assert.ok(mainUs >= 60_000 && allUs >= mainUs && mainWaitUs >= 0 && treeUs > 0)
  assert.ok(bytesWrittenBy(process.pid) >= 0)
})

test('a process that is gone has no processor time', () => {
  assert.ok(Number.isNaN(threadTime(0).mainUs))
  assert.ok(Number.isNaN(processorUs(0)))
})

test('receivers of two processes count together', async () => {
  await using ends = new AsyncDisposableStack()
  const receivers = await startReceivers({ ends } as Bench, 3)
  await receivers.reset()
  const post = (url: string): Promise<Response> => fetch(url, { method: 'POST', body: '{}' })
  assert.deepEqual(
    receivers.urls.map((url) => new URL(url).pathname),
    ['/0', '/1', '/2'],
  )
  for (const url of receivers.urls) assert.equal((await post(url)).status, 200)
  assert.equal(await receivers.until(3, 10_000), 3)
  const { delivered, timeline } = await receivers.totals()
  assert.deepEqual([delivered, timeline.reduce((sum, n) => sum + n)], [3, 3])
  await receivers.reset()
  assert.equal(await receivers.delivered(), 0)
  assert.deepEqual(await receivers.arrived(), { delivered: 0, pauses: [] })
})

function lookOf(known: Partial<Look>): Look {
  return {
    at: 0,
    delivered: 0,
    mainUs: 0,
    allUs: 0,
    mainWaitUs: 0,
    postgresUs: 0,
    residentBytes: 0,
    pauseMs: 0,
    turnMs: 0,
    logBytes: 0,
    storeBytes: 0,
    writtenBytes: 0,
    checkpoints: 0,
    checkpointWork: 0,
    ...known,
  }
}
