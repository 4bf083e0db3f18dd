import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Class, fresh, replay, timed } from '../../src/domain/delivery.ts'
import type { OwnedLane } from '../../src/engine/owned-lane.ts'
import { Reader } from '../../src/engine/reader.ts'
import { type DueRead, type DueRows, type PendingRow, type StoredMessage, StoreTrouble } from '../../src/store/store.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { aLane, endpointOf, roomyScheduler, settingsOf } from './a-lane.ts'
import { HeldCalls } from './held-calls.ts'
import { plainRow } from './plain-row.ts'

const pageRows = 192

function open() {
  const clock = new VirtualClock()
  const scheduler = roomyScheduler()
  const readDue = new HeldCalls<[readonly DueRead[]], DueRows[]>()
  const events: string[] = []
  const reader = new Reader({
    store: { readDue: readDue.method },
    clock,
    scheduler,
    loop: {
      turn: () => void events.push('read'),
      expectTimed: (owned, at) => void events.push(`${owned.endpoint.key} timed at ${at}`),
    },
    onUnwanted: ({ row }, { state }) => void events.push(`${row.message} ${state}`),
    onTrouble: (error) => void events.push(`trouble: ${(error as Error).message}`),
  })
  const own = (key: number) => aLane(endpointOf(key), scheduler, clock.steady())
  const start = (max: number) => scheduler.plan(clock.steady(), max).map(({ item }) => item.row.message)
  return { clock, scheduler, readDue, events, reader, own, start }
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

/** An attempt of this message has been recorded. */
function recorded(owned: OwnedLane, message: number): void {
  owned.beginSettle()
  owned.settled(message, { state: 'delivered' })
}

/** The messages from 1 to 9 that the lane has in memory. */
function inMemory({ rows: own }: OwnedLane): number[] {
  return [1, 2, 3, 4, 5, 6, 7, 8, 9].filter((message) => own.isInMemory(message))
}

test('all lanes that need rows in one turn share one call', async () => {
  const { clock, readDue, reader, own, start } = open()
  const [one, two] = [own(1), own(2)]
  reader.request(one, fresh)
  reader.request(two, timed)
  reader.request(one, replay)
  reader.request(one, fresh)
  assert.equal(readDue.open, 0, 'the turn is not over')
  await clock.settle()
  const call = readDue.next()
  assert.deepEqual(call.args[0], [
    { endpoint: 1, class: fresh, after: null, limit: pageRows },
    { endpoint: 1, class: replay, after: null, limit: pageRows },
    { endpoint: 2, class: timed, after: null, limit: pageRows },
  ])
  call.answer([page(rows(1, 2)), page(), page(rows(3, 4, timed))])
  await clock.settle()
  assert.deepEqual(start(9).toSorted(), [1, 2, 3, 4])
  assert.equal(readDue.open, 0, 'all three reached their end')
})

test('an application with 10,000 lanes to read delays the one lane of another by one lane', async () => {
  const { clock, scheduler, readDue, reader, own } = open()
  for (let key = 1; key <= 10_000; key++) reader.requestAll(own(key))
  const other = aLane({ ...endpointOf(20_000), app: 2 }, scheduler, clock.steady())
  reader.request(other, fresh)
  await clock.settle()
  const [reads] = readDue.next().args
  assert.deepEqual(
    reads.slice(0, 4).map(({ endpoint }) => endpoint),
    [1, 1, 1, 20_000],
  )
  assert.ok(reads.length < 70, 'a call is short, however many lanes wait')
})

test('a lane that sent all it had while it waited to be read goes before lanes that have something to send', async () => {
  const { clock, readDue, reader, own, start } = open()
  const lanes = Array.from({ length: 20 }, (_, i) => own(i + 1))
  for (const owned of lanes) {
    const key = owned.endpoint.key
    assert.ok(!reader.acceptStored(owned, stored(key), 0), 'nothing was read yet')
    reader.request(owned, fresh)
  }
  await clock.settle()
  readDue
    .next()
    .answer(lanes.map(({ endpoint }) => page(rows(endpoint.key * 1000, endpoint.key * 1000 + pageRows - 1))))
  await clock.settle()
  // All but 60 rows of each lane start, so that all want more; then the last one sends the rest.
  start(lanes.length * (pageRows - 60))
  for (const owned of lanes) reader.request(owned, fresh)
  const last = lanes.at(-1) as OwnedLane
  for (const owned of lanes) owned.lane.closed = owned !== last
  start(1000)
  reader.request(last, fresh)
  await clock.settle()
  const [reads] = readDue.next().args
  assert.deepEqual(
    reads.map(({ endpoint }) => endpoint),
    [20, 1, 2],
  )
})

test('a backlog is read page by page, each behind the last row, only while fewer than 64 are queued', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  reader.request(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(1, pageRows))])
  await clock.settle()
  assert.equal(readDue.open, 0, 'enough is queued')
  assert.equal(start(pageRows - 64).length, pageRows - 64)
  reader.request(owned, fresh)
  await clock.settle()
  assert.equal(readDue.open, 0, 'exactly 64 are enough')
  start(1)
  reader.request(owned, fresh)
  await clock.settle()
  const second = readDue.next()
  assert.deepEqual(second.args[0][0]?.after, { dueAt: 1000 + pageRows, message: pageRows })
  second.answer([page(rows(pageRows + 1, pageRows + 10))])
  await clock.settle()
  assert.ok(owned.rows.isReadToEnd(fresh))
  const rest = start(1000)
  assert.deepEqual([rest.length, rest[0], rest.at(-1)], [63 + 10, pageRows - 62, pageRows + 10])
  reader.request(owned, fresh)
  await clock.settle()
  assert.equal(readDue.open, 0, 'none are left')
})

test('a page of nothing but known rows is followed by the next one', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  for (const each of rows(1, pageRows)) owned.rows.take(fresh, each)
  reader.request(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(1, pageRows))])
  await clock.settle()
  const second = readDue.next()
  assert.equal(second.args[0][0]?.after?.message, pageRows)
  second.answer([page(rows(900, 901))])
  await clock.settle()
  assert.deepEqual(start(9), [900, 901])
})

test('rows added while the first page is read are found by another pass from the front', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  reader.request(owned, fresh)
  await clock.settle()
  owned.rows.reopen(fresh)
  reader.request(owned, fresh)
  readDue.next().answer([page(rows(1, 2))])
  await clock.settle()
  const again = readDue.next()
  assert.equal(again.args[0][0]?.after, null)
  again.answer([page(rows(1, 3))])
  await clock.settle()
  assert.deepEqual(start(9), [1, 2, 3], 'each once')
  assert.ok(owned.rows.isReadToEnd(fresh))
  assert.equal(readDue.open, 0)
})

test('rows added in the middle of a pass are found by another one after its end', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  reader.request(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(101, 100 + pageRows))])
  await clock.settle()
  start(pageRows)
  // Added in front of where the pass has come to: another publisher committed late.
  owned.rows.reopen(fresh)
  reader.request(owned, fresh)
  await clock.settle()
  const second = readDue.next()
  assert.equal(second.args[0][0]?.after?.message, 100 + pageRows, 'the pass goes on first')
  second.answer([page(rows(300, 300))])
  await clock.settle()
  const third = readDue.next()
  assert.equal(third.args[0][0]?.after, null)
  assert.equal(owned.rows.isReadToEnd(fresh), false)
  third.answer([page([row(50), ...rows(101, 100 + pageRows - 1)])])
  await clock.settle()
  readDue.next().answer([page([row(100 + pageRows), row(300)])])
  await clock.settle()
  assert.deepEqual(start(9), [300, 50])
  assert.ok(owned.rows.isReadToEnd(fresh))
})

test('a pass through a queue that never ends begins again at the front after a while', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  reader.request(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(101, 100 + pageRows))])
  await clock.settle()
  const read = async (answer: PendingRow[]) => {
    start(1000)
    reader.request(owned, fresh)
    await clock.settle()
    const call = readDue.next()
    call.answer([page(answer)])
    await clock.settle()
    return call.args[0][0]?.after?.message
  }
  assert.equal(await read(rows(301, 300 + pageRows)), 100 + pageRows)
  await clock.advance(15_000)
  assert.equal(await read(rows(501, 500 + pageRows)), 300 + pageRows, 'the page that was next is still read')
  // The row that was committed late is in front, followed by the one under way.
  assert.equal(await read([row(50), ...rows(501, 499 + pageRows)]), undefined)
  assert.deepEqual(start(9), [50])
})

test('a pass that has brought nothing yet goes on, however long it takes', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  for (const each of rows(1, pageRows)) owned.rows.take(fresh, each)
  reader.request(owned, fresh)
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
  reader.request(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(1, 2))])
  await clock.settle()
  assert.deepEqual(start(9), [1, 2])

  owned.rows.reopen(fresh)
  reader.request(owned, fresh)
  await clock.settle()
  recorded(owned, 1)
  readDue.next().answer([page(rows(1, 3))])
  await clock.settle()
  assert.deepEqual(start(9), [3])
  assert.deepEqual(inMemory(owned), [2, 3], 'and then forgotten')
  assert.equal(owned.rows.wasSettledDuringRead(1), false)
})

test('a settled row is remembered until the last read that may show it has ended', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  owned.rows.take(fresh, row(1))
  reader.request(owned, fresh)
  await clock.settle()
  reader.request(owned, replay)
  await clock.settle()
  assert.equal(readDue.open, 2)
  recorded(owned, 1)
  readDue.newest().answer([page()])
  await clock.settle()
  assert.ok(owned.rows.isInMemory(1))
  readDue.next().answer([page(rows(1, 1))])
  await clock.settle()
  assert.deepEqual(start(9), [])
  assert.deepEqual(inMemory(owned), [])
})

test('a retry that is due before an older read has ended is not forgotten', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  owned.rows.take(fresh, row(1))
  reader.request(owned, fresh)
  await clock.settle()
  // The attempt failed, its row became a timed one that is due at once, and the read of it overtakes the older read.
  recorded(owned, 1)
  reader.request(owned, timed)
  await clock.settle()
  readDue.newest().answer([page([row(1, timed, 1)])])
  await clock.settle()
  assert.deepEqual(start(9), [], 'it could as well be what was settled')
  assert.equal(owned.rows.isReadToEnd(timed), false)
  assert.equal(readDue.open, 1, 'asking again at once would show the same')
  readDue.next().answer([page()])
  await clock.settle()
  // Housekeeping does this four times a second.
  reader.request(owned, timed)
  await clock.settle()
  readDue.next().answer([page([row(1, timed, 1)])])
  await clock.settle()
  assert.deepEqual(start(9), [1])
  assert.ok(owned.rows.isReadToEnd(timed))
})

test('two classes read together forget settled messages as soon as both reads have ended', async () => {
  const { clock, readDue, reader, own } = open()
  const owned = own(1)
  owned.rows.take(fresh, row(1))
  reader.request(owned, fresh)
  reader.request(owned, timed)
  await clock.settle()
  recorded(owned, 1)
  owned.rows.reopen(fresh)
  readDue.next().answer([page(rows(1, 1)), page()])
  await clock.settle()
  assert.deepEqual(inMemory(owned), [], 'although fresh rows are already read again')
  assert.equal(readDue.open, 1)
})

test('a lane dropped while it is read takes nothing in', async () => {
  const { clock, readDue, reader, own, start, events } = open()
  const [kept, dropped] = [own(1), own(2)]
  reader.request(kept, fresh)
  reader.request(dropped, fresh)
  await clock.settle()
  dropped.drop()
  readDue.next().answer([page(rows(1, 1)), page(rows(2, pageRows + 1))])
  await clock.settle()
  assert.deepEqual(start(1000), [1])
  assert.deepEqual(inMemory(dropped), [])
  assert.equal(dropped.rows.isReading, false)
  assert.equal(readDue.open, 0)
  assert.deepEqual(events, ['read'])
})

test('a closed lane is not read', async () => {
  const { clock, readDue, reader, own } = open()
  const owned = own(1)
  owned.leave()
  reader.request(owned, fresh)
  await clock.settle()
  assert.equal(readDue.open, 0)
  assert.equal(owned.rows.isReading, false)
})

test('after trouble nothing counts as read, and the next request asks for the same rows', async () => {
  const { clock, readDue, reader, own, start, events } = open()
  const owned = own(1)
  reader.request(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(1, pageRows))])
  await clock.settle()
  start(pageRows)
  reader.request(owned, fresh)
  await clock.settle()
  const failed = readDue.next()
  failed.fail(new StoreTrouble('busy'))
  await clock.settle()
  assert.deepEqual(events, ['read', 'trouble: busy', 'read'])
  assert.equal(readDue.open, 0, 'it leaves the store alone until asked again')
  assert.equal(owned.rows.isReading, false)
  reader.request(owned, fresh)
  await clock.settle()
  assert.deepEqual(readDue.next().args, failed.args)
})

test('the reader expects the next timed row at its instant, on the steady clock', async () => {
  const { clock, readDue, reader, own, events } = open()
  reader.request(own(1), timed)
  await clock.advance(500)
  clock.jump(3_600_000)
  readDue.next().answer([page([], 250)])
  await clock.settle()
  assert.deepEqual(events, ['1 timed at 750', 'read'])
})

test('a delivery is as old as the store said when it was read', async () => {
  const { clock, readDue, reader, own, scheduler } = open()
  reader.request(own(1), fresh)
  await clock.advance(10_000)
  readDue.next().answer([page([{ ...row(1), ageMs: 4000 }])])
  await clock.settle()
  assert.equal(scheduler.plan(clock.steady(), 1)[0]?.item.bornAt, 6000)
})

test('a row that was just stored takes the fast path to a lane that was read to its end', async () => {
  const { clock, readDue, reader, own, start } = open()
  const owned = own(1)
  assert.equal(reader.acceptStored(owned, stored(1), clock.steady()), false, 'it has not been read yet')
  reader.request(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(1, 1))])
  await clock.advance(1)
  const begunAt = clock.steady()
  assert.equal(reader.acceptStored(owned, stored(2), begunAt), true)
  assert.deepEqual(start(9), [1, 2])
  assert.equal(owned.rows.isInMemory(2), true, 'a read that still shows it brings nothing new')
  owned.rows.reopen(fresh)
  reader.request(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(1, 2))])
  await clock.settle()
  assert.deepEqual(start(9), [])
})

test('a row that was just stored is read where a read may have brought it, or others come first', async () => {
  const { clock, readDue, reader, own } = open()
  const owned = own(1)
  const take = (begunAt: number) => reader.acceptStored(owned, stored(1), begunAt)
  await clock.advance(5)
  const before = clock.steady()
  reader.request(owned, fresh)
  await clock.settle()
  const read = readDue.next()
  assert.equal(take(before), false, 'a read is under way')
  await clock.advance(5)
  read.answer([page()])
  await clock.settle()
  assert.equal(take(before), false, 'the read began before, and ended after storing began')
  assert.equal(take(clock.steady()), false, 'at the same instant')
  await clock.advance(1)
  owned.rows.reopen(fresh)
  assert.equal(take(clock.steady()), false, 'others were added')
  reader.request(owned, fresh)
  await clock.settle()
  readDue.next().answer([page(rows(10, 73))])
  await clock.settle()
  await clock.advance(1)
  assert.equal(take(clock.steady()), false, 'enough are queued')
})

test('a lane on the fast path is read from its front every 15 s: a row may lie there', async () => {
  const { clock, readDue, reader, own } = open()
  const owned = own(1)
  reader.request(owned, fresh)
  await clock.settle()
  readDue.next().answer([page()])
  await clock.advance(14_999)
  assert.equal(reader.acceptStored(owned, stored(1), clock.steady()), true)
  await clock.advance(1)
  assert.equal(reader.acceptStored(owned, stored(2), clock.steady()), false)
})

test('a closed lane takes in nothing that was just stored', async () => {
  const { clock, readDue, reader, own } = open()
  const owned = own(1)
  reader.request(owned, fresh)
  await clock.settle()
  readDue.next().answer([page()])
  await clock.advance(1)
  owned.apply(settingsOf({ ...endpointOf(1), paused: true }), clock.steady())
  assert.equal(reader.acceptStored(owned, stored(1), clock.steady()), false)
  owned.apply(settingsOf(endpointOf(1)), clock.steady())
  assert.equal(reader.acceptStored(owned, stored(1), clock.steady()), true)
})
