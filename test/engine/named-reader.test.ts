import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fresh } from '../../src/domain/delivery.ts'
import { Bodies } from '../../src/engine/bodies.ts'
import { NamedReader } from '../../src/engine/named-reader.ts'
import type { OwnedLane } from '../../src/engine/owned-lane.ts'
import type { NamedRows, Outgoing, RowName, WantedRow } from '../../src/store/store.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { aLane, endpointOf, roomyScheduler } from './a-lane.ts'
import { HeldCalls } from './held-calls.ts'
import { plainRow } from './plain-row.ts'

function open() {
  const clock = new VirtualClock()
  const scheduler = roomyScheduler()
  const readNamed = new HeldCalls<[readonly WantedRow[]], NamedRows>()
  const events: string[] = []
  const nothing = async () => []
  const bodies = new Bodies({ loadMessages: nothing, loadVariants: nothing }, 100_000)
  const reader = new NamedReader({
    store: { readNamed: readNamed.method },
    clock,
    bodies,
    scheduler,
    loop: { turn: () => void events.push('read') },
    onTrouble: (error) => void events.push(`trouble: ${(error as Error).message}`),
  })
  const own = (key: number) => aLane(endpointOf(key), scheduler, clock.steady())
  const start = () => scheduler.plan(clock.steady(), 100).map(({ item }) => item.row.message)
  return { clock, readNamed, events, bodies, reader, own, start }
}

/** A lane that has read all of its queue. */
function readToEnd(owned: OwnedLane, now = 0): OwnedLane {
  owned.rows.beginRead(fresh, now)
  owned.rows.takePage(fresh, [], 192, now)
  owned.rows.endRead(fresh, now)
  return owned
}

function name(message: number, endpoint = 1): RowName {
  return { endpoint, message, dueAt: 1000 + message }
}

function row(message: number, endpoint = 1): NamedRows['rows'][number] {
  return { ...plainRow, ...name(message, endpoint), class: fresh, attempts: 0, priorAttempts: 0, ageMs: 0 }
}

function message(key: number): Outgoing {
  const body = new Uint8Array(1)
  return {
    ...{ key, id: `msg_${key}`, eventType: 'a', body, contentType: 'text/plain', headers: null, trace: null },
    ...{ arrivedHeaders: null, variant: null, signature: null },
  }
}

test('rows that are named in one turn are read by one call, with each message once', async () => {
  const { clock, readNamed, reader, bodies, own, start } = open()
  const [one, two] = [readToEnd(own(1)), readToEnd(own(2))]
  assert.ok(reader.request(one, name(1)))
  assert.ok(reader.request(two, name(1, 2)))
  assert.ok(reader.request(two, name(2, 2)))
  await clock.settle()
  const call = readNamed.next()
  assert.deepEqual(call.args[0], [
    { ...name(1), withMessage: true },
    { ...name(1, 2), withMessage: false },
    { ...name(2, 2), withMessage: true },
  ])
  call.answer({ rows: [row(1), row(1, 2), row(2, 2)], messages: [message(1), message(2)] })
  await clock.settle()
  assert.deepEqual(start().toSorted(), [1, 1, 2])
  assert.equal(bodies.get({ message: 1, variant: null })?.id, 'msg_1')
})

test('a row in memory is not read again, and a message in memory is not loaded again', async () => {
  const { clock, readNamed, reader, own, start } = open()
  const [one, two] = [readToEnd(own(1)), readToEnd(own(2))]
  reader.request(one, name(1))
  await clock.settle()
  readNamed.next().answer({ rows: [row(1)], messages: [message(1)] })
  await clock.settle()
  assert.ok(reader.request(one, name(1)))
  assert.ok(reader.request(two, name(1, 2)))
  await clock.settle()
  const call = readNamed.next()
  assert.deepEqual(call.args[0], [{ ...name(1, 2), withMessage: false }])
  call.answer({ rows: [row(1, 2)], messages: [] })
  await clock.settle()
  assert.deepEqual(start(), [1, 1])
})

test('a name that comes after the row was sent and settled brings nothing', async () => {
  const { clock, readNamed, reader, own, start } = open()
  const one = readToEnd(own(1))
  reader.request(one, name(1))
  await clock.settle()
  readNamed.next().answer({ rows: [row(1)], messages: [] })
  await clock.settle()
  assert.deepEqual(start(), [1])
  // Named again, and read while the end of the row is being recorded.
  reader.request(readToEnd(own(2)), name(9, 2))
  await clock.settle()
  one.beginSettle()
  assert.ok(reader.request(one, name(1)), 'still in memory')
  one.settled(1, { state: 'delivered' })
  assert.ok(reader.request(one, name(1)), 'to be looked for in the store')
  readNamed.next().answer({ rows: [], messages: [] })
  await clock.settle()
  const call = readNamed.next()
  assert.deepEqual(call.args[0], [{ ...name(1), withMessage: true }])
  call.answer({ rows: [], messages: [] })
  await clock.settle()
  assert.deepEqual(start(), [])
})

test('a row that is settled while it is read again is not taken a second time', async () => {
  const { clock, readNamed, reader, own, start } = open()
  const one = readToEnd(own(1))
  reader.request(one, name(1))
  reader.request(one, name(2))
  await clock.settle()
  const call = readNamed.next()
  // A page brought the first row meanwhile, and it was sent and settled.
  one.rows.beginRead(fresh, 0)
  one.rows.takePage(fresh, [row(1)], 192, 0)
  one.rows.endRead(fresh, 0)
  one.beginSettle()
  one.settled(1, { state: 'delivered' })
  call.answer({ rows: [row(1), row(2)], messages: [] })
  await clock.settle()
  assert.deepEqual(start(), [2])
  assert.ok(!one.isBusy || one.lane.inFlight > 0)
})

test('names gather while a call is under way', async () => {
  const { clock, readNamed, reader, own, start } = open()
  const one = readToEnd(own(1))
  for (const message of [1, 2, 3]) {
    reader.request(one, name(message))
    await clock.settle()
  }
  assert.equal(readNamed.open, 1)
  readNamed.next().answer({ rows: [row(1)], messages: [] })
  await clock.settle()
  const call = readNamed.next()
  assert.deepEqual(
    call.args[0].map((each) => each.message),
    [2, 3],
  )
  call.answer({ rows: [row(2), row(3)], messages: [] })
  await clock.settle()
  assert.deepEqual(start(), [1, 2, 3])
})

test('a lane that has not read its queue, has enough to send or read it long ago reads the queue', async () => {
  const { clock, readNamed, reader, own } = open()
  assert.ok(!reader.request(own(1), name(1)), 'nothing was read')
  const full = readToEnd(own(2))
  for (let message = 1; message <= 64; message++) assert.ok(reader.request(full, name(message, 2)))
  assert.ok(!reader.request(full, name(65, 2)), 'enough rows are on their way')
  const old = readToEnd(own(3))
  await clock.settle()
  readNamed.next()
  await clock.advance(15_000)
  assert.ok(!reader.request(old, name(1, 3)), 'a signal may have been lost since')
})

test('after trouble the lane counts as not read', async () => {
  const { clock, readNamed, events, reader, own, start } = open()
  const one = readToEnd(own(1))
  reader.request(one, name(1))
  await clock.settle()
  assert.ok(one.isBusy)
  readNamed.next().fail(new Error('gone'))
  await clock.settle()
  assert.deepEqual(events, ['trouble: gone', 'read'])
  assert.ok(!one.rows.isReadToEnd(fresh) && !one.isBusy)
  assert.deepEqual(start(), [])
  assert.ok(!reader.request(one, name(2)))
})

test('a lane that was dropped meanwhile takes nothing in', async () => {
  const { clock, readNamed, reader, own, start } = open()
  const one = readToEnd(own(1))
  reader.request(one, name(1))
  await clock.settle()
  one.drop()
  readNamed.next().answer({ rows: [row(1)], messages: [] })
  await clock.settle()
  assert.deepEqual(start(), [])
})
