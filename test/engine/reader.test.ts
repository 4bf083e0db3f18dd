import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Class, fresh, replay, timed } from '../../src/domain/delivery.ts'
import type { Endpoint } from '../../src/domain/endpoint.ts'
import { defaultFlow } from '../../src/domain/flow.ts'
import { Health } from '../../src/domain/health.ts'
import { rulesOf } from '../../src/domain/health-facts.ts'
import { defaultRetryPolicy } from '../../src/domain/retry.ts'
import { Scheduler } from '../../src/domain/scheduler.ts'
import { Throughput } from '../../src/domain/throughput.ts'
import { type Delivery, isReading, limitsOf, newCursors, type OwnedLane, reopen } from '../../src/engine/owned-lane.ts'
import { Reader } from '../../src/engine/reader.ts'
import { type DueRead, type DueRows, type PendingRow, type StoredMessage, StoreTrouble } from '../../src/store/store.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { HeldCalls } from './held-calls.ts'
import { plainRow } from './plain-row.ts'

const pageRows = 192

function endpointOf(key: number): Endpoint {
  return {
    key,
    id: `ep_${key}`,
    app: 1,
    uid: null,
    url: 'https://receiver.example/',
    description: '',
    disabled: false,
    paused: false,
    disabledReason: null,
    eventTypes: null,
    channels: null,
    secrets: [],
    method: 'POST',
    headers: {},
    metadata: {},
    throttleRate: null,
    throttlePeriodSeconds: 1,
    burst: null,
    concurrency: 10_000,
    timeoutMs: null,
    retry: null,
    flow: defaultFlow,
    createdAt: 0,
    updatedAt: 0,
  }
}

function open() {
  const clock = new VirtualClock()
  const scheduler = new Scheduler<Delivery>({ inFlight: 100_000, inFlightPerApp: 100_000 })
  const readDue = new HeldCalls<[readonly DueRead[]], DueRows[]>()
  const lanes = new Set<OwnedLane>()
  const events: string[] = []
  const reader = new Reader({
    store: { readDue: readDue.method },
    clock,
    scheduler,
    owns: (owned) => lanes.has(owned),
    onLeftBehind: ({ row }) => void events.push(`${row.message} left behind`),
    onUnwanted: ({ row }, reason) => void events.push(`${row.message} ${reason}`),
    onTimed: (owned, at) => void events.push(`${owned.endpoint.key} timed at ${at}`),
    onRead: () => void events.push('read'),
    onTrouble: (error) => void events.push(`trouble: ${(error as Error).message}`),
  })
  const own = (key: number): OwnedLane => {
    const endpoint = endpointOf(key)
    const start = { bucketDebtMs: 0, holdMs: 0 }
    const owned: OwnedLane = {
      endpoint,
      line: { send: () => assert.fail('a reader sends nothing') },
      policy: defaultRetryPolicy,
      health: new Health(null, 0, 0),
      rules: rulesOf(endpoint, { circuit: undefined, disableAfterMs: 0 }),
      lane: scheduler.add(key, endpoint.app, limitsOf(endpoint), start, clock.steady()),
      cursors: newCursors(),
      held: new Set(),
      settledMeanwhile: [],
      unsettled: 0,
      ended: 0,
      doomed: null,
      looking: false,
      lastReadAt: 0,
      nextTimedAt: Number.POSITIVE_INFINITY,
      lastActiveAt: 0,
      throughput: new Throughput(0),
      leaving: false,
      unsure: false,
    }
    lanes.add(owned)
    return owned
  }
  const start = (max: number) => scheduler.plan(clock.steady(), max).map(({ item }) => item.row.message)
  return { clock, scheduler, readDue, lanes, events, reader, own, start }
}

function row(message: number, itsClass: Class = fresh, attempts = 0): PendingRow {
  return { ...plainRow, message, class: itsClass, dueAt: 1000 + message, attempts, priorAttempts: 0, ageMs: 0 }
}

function rows(from: number, to: number, itsClass: Class = fresh): PendingRow[] {
  return Array.from({ length: to - from + 1 }, (_, i) => row(from + i, itsClass))
}

function stored(key: number): StoredMessage {
  const publication = {
    ...{ app: 1, version: 1, eventType: 'a', eventId: null, channels: null, contentType: 'text/plain' },
    ...{ body: new Uint8Array(1), endpoints: [1], delayMs: 0 },
  }
  return { publication, identity: { key, id: `msg_${key}` }, dueAt: 1000 + key }
}

function page(list: PendingRow[] = [], nextInMs?: number): DueRows {
  return { rows: list, nextInMs }
}

/** What the engine does when an attempt of this message has been recorded. */
function recorded(owned: OwnedLane, message: number): void {
  if (isReading(owned)) owned.settledMeanwhile.push(message)
  else owned.held.delete(message)
}

test('all lanes that want rows in one turn share one call', async () => {
  const { clock, readDue, reader, own, start } = open()
  const [one, two] = [own(1), own(2)]
  reader.want(one, fresh)
  reader.want(two, timed)
  reader.want(one, replay)
  reader.want(one, fresh)
  assert.equal(readDue.open, 0, 'the turn is not over')
  await clock.settle()
  const call = readDue.next()
  assert.deepEqual(call.args[0], [
    { endpoint: 1, class: fresh, after: null, limit: pageRows },
    { endpoint: 2, class: timed, after: null, limit: pageRows },
    { endpoint: 1, class: replay, after: null, limit: pageRows },
  ])
  call.answer([page(rows(1, 2)), page(rows(3, 4, timed)), page()])
  await clock.settle()
  assert.deepEqual(start(9).toSorted(), [1, 2, 3, 4])
  assert.equal(readDue.open, 0, 'all three reached their end')
})

test('a backlog is read page by page, each behind the last row, only while fewer than 64 are queued', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  reader.want(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(1, pageRows))])
  await clock.settle()
  assert.equal(readDue.open, 0, 'enough is queued')
  assert.equal(start(pageRows - 64).length, pageRows - 64)
  reader.want(owned, fresh)
  await clock.settle()
  assert.equal(readDue.open, 0, 'exactly 64 are enough')
  start(1)
  reader.want(owned, fresh)
  await clock.settle()
  const second = readDue.next()
  assert.deepEqual(second.args[0][0]?.after, { dueAt: 1000 + pageRows, message: pageRows })
  second.answer([page(rows(pageRows + 1, pageRows + 10))])
  await clock.settle()
  assert.ok(owned.cursors[fresh].complete)
  const rest = start(1000)
  assert.deepEqual([rest.length, rest[0], rest.at(-1)], [63 + 10, pageRows - 62, pageRows + 10])
  reader.want(owned, fresh)
  await clock.settle()
  assert.equal(readDue.open, 0, 'none are left')
})

test('a page of nothing but known rows is followed by the next one', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  for (const { message } of rows(1, pageRows)) owned.held.add(message)
  reader.want(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(1, pageRows))])
  await clock.settle()
  const second = readDue.next()
  assert.equal(second.args[0][0]?.after?.message, pageRows)
  second.answer([page(rows(900, 901))])
  await clock.settle()
  assert.deepEqual(start(9), [900, 901])
})

test('rows added while the first page is read are found by another pass from the head', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  reader.want(owned, fresh)
  await clock.settle()
  reopen(owned, fresh)
  reader.want(owned, fresh)
  readDue.next().answer([page(rows(1, 2))])
  await clock.settle()
  const again = readDue.next()
  assert.equal(again.args[0][0]?.after, null)
  again.answer([page(rows(1, 3))])
  await clock.settle()
  assert.deepEqual(start(9), [1, 2, 3], 'each once')
  assert.ok(owned.cursors[fresh].complete)
  assert.equal(readDue.open, 0)
})

test('rows added in the middle of a pass are found by another one after its end', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  reader.want(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(101, 100 + pageRows))])
  await clock.settle()
  start(pageRows)
  // Added in front of where the pass has come to: another publisher committed late.
  reopen(owned, fresh)
  reader.want(owned, fresh)
  await clock.settle()
  const second = readDue.next()
  assert.equal(second.args[0][0]?.after?.message, 100 + pageRows, 'the pass goes on first')
  second.answer([page(rows(300, 300))])
  await clock.settle()
  const third = readDue.next()
  assert.equal(third.args[0][0]?.after, null)
  assert.equal(owned.cursors[fresh].complete, false)
  third.answer([page([row(50), ...rows(101, 100 + pageRows - 1)])])
  await clock.settle()
  readDue.next().answer([page([row(100 + pageRows), row(300)])])
  await clock.settle()
  assert.deepEqual(start(9), [300, 50])
  assert.ok(owned.cursors[fresh].complete)
})

test('a pass through a queue that never ends begins again at the head after a while', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  reader.want(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(101, 100 + pageRows))])
  await clock.settle()
  const read = async (answer: PendingRow[]) => {
    start(1000)
    reader.want(owned, fresh)
    await clock.settle()
    const call = readDue.next()
    call.answer([page(answer)])
    await clock.settle()
    return call.args[0][0]?.after?.message
  }
  assert.equal(await read(rows(301, 300 + pageRows)), 100 + pageRows)
  await clock.advance(15_000)
  assert.equal(await read(rows(501, 500 + pageRows)), 300 + pageRows, 'the page that was next is still read')
  // What was committed late is in front, followed by what is still under way.
  assert.equal(await read([row(50), ...rows(501, 499 + pageRows)]), undefined)
  assert.deepEqual(start(9), [50])
})

test('a pass that has brought nothing yet goes on, however long it takes', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  for (const { message } of rows(1, pageRows)) owned.held.add(message)
  reader.want(owned, fresh)
  await clock.advance(20_000)
  readDue.next().answer([page(rows(1, pageRows))])
  await clock.settle()
  const second = readDue.next()
  assert.equal(second.args[0][0]?.after?.message, pageRows)
  second.answer([page(rows(900, 901))])
  await clock.settle()
  assert.deepEqual(start(9), [900, 901])
})

test('a row that is settled while it is read is not taken again', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  reader.want(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(1, 2))])
  await clock.settle()
  assert.deepEqual(start(9), [1, 2])

  reopen(owned, fresh)
  reader.want(owned, fresh)
  await clock.settle()
  recorded(owned, 1)
  readDue.next().answer([page(rows(1, 3))])
  await clock.settle()
  assert.deepEqual(start(9), [3])
  assert.deepEqual([...owned.held], [2, 3], 'and then forgotten')
  assert.deepEqual(owned.settledMeanwhile, [])
})

test('a settled row is remembered until the last read that may show it has ended', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  owned.held.add(1)
  reader.want(owned, fresh)
  await clock.settle()
  reader.want(owned, replay)
  await clock.settle()
  assert.equal(readDue.open, 2)
  recorded(owned, 1)
  readDue.newest().answer([page()])
  await clock.settle()
  assert.ok(owned.held.has(1))
  readDue.next().answer([page(rows(1, 1))])
  await clock.settle()
  assert.deepEqual(start(9), [])
  assert.equal(owned.held.size, 0)
})

test('a retry that is due before an older read has ended is not forgotten', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  owned.held.add(1)
  reader.want(owned, fresh)
  await clock.settle()
  // The attempt failed, its row became a timed one that is due at once, and the read of it overtakes the older read.
  recorded(owned, 1)
  reader.want(owned, timed)
  await clock.settle()
  readDue.newest().answer([page([row(1, timed, 1)])])
  await clock.settle()
  assert.deepEqual(start(9), [], 'it could as well be what was settled')
  assert.equal(owned.cursors[timed].complete, false)
  assert.equal(readDue.open, 1, 'asking again at once would show the same')
  readDue.next().answer([page()])
  await clock.settle()
  // What housekeeping does four times a second.
  reader.want(owned, timed)
  await clock.settle()
  readDue.next().answer([page([row(1, timed, 1)])])
  await clock.settle()
  assert.deepEqual(start(9), [1])
  assert.ok(owned.cursors[timed].complete)
})

test('two classes read together forget what was settled meanwhile as soon as both are in', async () => {
  const { clock, readDue, reader, own } = open()
  const owned = own(1)
  owned.held.add(1)
  reader.want(owned, fresh)
  reader.want(owned, timed)
  await clock.settle()
  recorded(owned, 1)
  reopen(owned, fresh)
  readDue.next().answer([page(rows(1, 1)), page()])
  await clock.settle()
  assert.equal(owned.held.size, 0, 'although fresh rows are already read again')
  assert.equal(readDue.open, 1)
})

test('a lane dropped while it is read takes nothing in', async () => {
  const { clock, readDue, reader, own, lanes, start, events } = open()
  const [kept, dropped] = [own(1), own(2)]
  reader.want(kept, fresh)
  reader.want(dropped, fresh)
  await clock.settle()
  lanes.delete(dropped)
  readDue.next().answer([page(rows(1, 1)), page(rows(2, pageRows + 1))])
  await clock.settle()
  assert.deepEqual(start(1000), [1])
  assert.equal(dropped.held.size, 0)
  assert.equal(isReading(dropped), false)
  assert.equal(readDue.open, 0)
  assert.deepEqual(events, ['read'])
})

test('a closed lane is not read', async () => {
  const { clock, readDue, reader, own } = open()
  const owned = own(1)
  owned.lane.closed = true
  reader.want(owned, fresh)
  await clock.settle()
  assert.equal(readDue.open, 0)
  assert.equal(isReading(owned), false)
})

test('after trouble nothing is taken as read, and the next wish asks for the same rows', async () => {
  const { clock, readDue, reader, own, start, events } = open()
  const owned = own(1)
  reader.want(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(1, pageRows))])
  await clock.settle()
  start(pageRows)
  reader.want(owned, fresh)
  await clock.settle()
  const failed = readDue.next()
  failed.fail(new StoreTrouble('busy'))
  await clock.settle()
  assert.deepEqual(events, ['read', 'trouble: busy', 'read'])
  assert.equal(readDue.open, 0, 'it leaves the store alone until asked again')
  assert.equal(isReading(owned), false)
  reader.want(owned, fresh)
  await clock.settle()
  assert.deepEqual(readDue.next().args, failed.args)
})

test('the reader tells when the next timed row is due, on the steady clock', async () => {
  const { clock, readDue, reader, own, events } = open()
  reader.want(own(1), timed)
  await clock.advance(500)
  clock.jump(3_600_000)
  readDue.next().answer([page([], 250)])
  await clock.settle()
  assert.deepEqual(events, ['1 timed at 750', 'read'])
})

test('a delivery is as old as the store said when it was read', async () => {
  const { clock, readDue, reader, own, scheduler } = open()
  reader.want(own(1), fresh)
  await clock.advance(10_000)
  readDue.next().answer([page([{ ...row(1), ageMs: 4000 }])])
  await clock.settle()
  assert.equal(scheduler.plan(clock.steady(), 1)[0]?.item.bornAt, 6000)
})

test('a row that was just stored goes straight to a lane that has caught up', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  assert.equal(reader.takeStored(owned, stored(1), clock.steady()), false, 'it has not been read yet')
  reader.want(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(1, 1))])
  await clock.advance(1)
  const begunAt = clock.steady()
  assert.equal(reader.takeStored(owned, stored(2), begunAt), true)
  assert.deepEqual(start(9), [1, 2])
  assert.equal(owned.held.has(2), true, 'a read that still shows it brings nothing new')
  reopen(owned, fresh)
  reader.want(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(1, 2))])
  await clock.settle()
  assert.deepEqual(start(9), [])
})

test('a row that was just stored is read where a read may have brought it, or others come first', async () => {
  const { clock, readDue, reader, own } = open()
  const owned = own(1)
  const take = (begunAt: number) => reader.takeStored(owned, stored(1), begunAt)
  await clock.advance(5)
  const before = clock.steady()
  reader.want(owned, fresh)
  await clock.settle()
  const read = readDue.next()
  assert.equal(take(before), false, 'a read is under way')
  await clock.advance(5)
  read.answer([page()])
  await clock.settle()
  assert.equal(take(before), false, 'the read began before, and ended after storing began')
  assert.equal(take(clock.steady()), false, 'at the same instant')
  await clock.advance(1)
  reopen(owned, fresh)
  assert.equal(take(clock.steady()), false, 'others were added')
  reader.want(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(10, 73))])
  await clock.settle()
  await clock.advance(1)
  assert.equal(take(clock.steady()), false, 'enough are queued')
})

test('a lane that gets everything straight away is read from its head every 15 s: something may lie there', async () => {
  const { clock, readDue, reader, own } = open()
  const owned = own(1)
  reader.want(owned, fresh)
  await clock.settle()
  readDue.next().answer([page()])
  await clock.advance(14_999)
  assert.equal(reader.takeStored(owned, stored(1), clock.steady()), true)
  await clock.advance(1)
  assert.equal(reader.takeStored(owned, stored(2), clock.steady()), false)
})

test('a lane that is closed or keeps an order takes in nothing that was just stored', async () => {
  const { clock, readDue, reader, own } = open()
  const owned = own(1)
  reader.want(owned, fresh)
  await clock.settle()
  readDue.next().answer([page()])
  await clock.advance(1)
  owned.lane.closed = true
  assert.equal(reader.takeStored(owned, stored(1), clock.steady()), false)
  owned.lane.closed = false
  assert.equal(reader.takeStored(owned, stored(1), clock.steady()), true)
})
