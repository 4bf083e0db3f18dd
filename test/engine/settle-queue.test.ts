import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type SettleEntry, SettleQueue } from '../../src/engine/settling.ts'
import { type Settlement, type Store, StoreTrouble } from '../../src/store/store.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { HeldCalls } from './held-calls.ts'
import { plainRow } from './plain-row.ts'

function open() {
  const clock = new VirtualClock()
  const settle = new HeldCalls<Parameters<Store['settle']>, 'settled' | 'fenced'>()
  const events: string[] = []
  const state = { worker: 1 }
  const queue = new SettleQueue({
    store: { settle: settle.method },
    clock,
    membership: {
      get worker() {
        return state.worker
      },
      lose: () => void events.push('fenced'),
    },
    loop: { wake: () => void events.push('settled') },
    onTrouble: (error) => void events.push(`bug: ${(error as Error).message}`),
  })
  const recorded: number[] = []
  const entry = (message: number, endpoint = 1, holdMs?: number, gone = false): SettleEntry => ({
    settlement: settlement(message, endpoint),
    holdMs,
    disable: gone ? 'gone' : undefined,
    onRecorded: () => void recorded.push(message),
  })
  const add = (from: number, to: number) => {
    for (let message = from; message <= to; message++) queue.add(entry(message))
  }
  return { clock, settle, events, state, queue, recorded, entry, add }
}

function settlement(message: number, endpoint: number): Settlement {
  return {
    endpoint,
    app: 1,
    row: { ...plainRow, message, class: 0, dueAt: 0, attempts: 0, priorAttempts: 0, ageMs: 0 },
    attempt: {
      id: `atmpt_${message}`,
      startedAgoMs: () => 1,
      durationMs: 1,
      status: 200,
      code: 'delivered',
      error: null,
      response: null,
    },
    verdict: { state: 'delivered' },
  }
}

function messagesOf([, settlements]: Parameters<Store['settle']>): number[] {
  return settlements.map(({ row }) => row.message)
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i)
}

test('verdicts of the same fifteen milliseconds are recorded together', async () => {
  const { clock, settle, add, recorded, events, queue } = open()
  add(1, 2)
  await clock.advance(14)
  add(3, 3)
  assert.equal(settle.open, 0)
  await clock.advance(1)
  const call = settle.next()
  assert.equal(call.args[0], 1)
  assert.deepEqual(messagesOf(call.args), [1, 2, 3])
  assert.deepEqual(recorded, [], 'nothing is recorded before the store says so')
  assert.equal(queue.size, 3)
  call.answer('settled')
  await clock.settle()
  assert.deepEqual(recorded, [1, 2, 3])
  assert.deepEqual(events, ['settled'])
  assert.equal(queue.size, 0)
})

test('the 512th does not wait', () => {
  const { settle, add } = open()
  add(1, 511)
  assert.equal(settle.open, 0)
  add(512, 512)
  assert.deepEqual(messagesOf(settle.next().args), range(1, 512))
})

test('one call is under way at a time and holds at most 1024', async () => {
  const { clock, settle, add, recorded } = open()
  add(1, 512)
  add(513, 1800)
  await clock.advance(1000)
  assert.equal(settle.open, 1)
  settle.next().answer('settled')
  await clock.settle()
  const second = settle.next()
  assert.deepEqual(messagesOf(second.args), range(513, 1536))
  second.answer('settled')
  await clock.settle()
  assert.equal(settle.open, 0, 'the rest is less than a batch and waits its fifteen milliseconds')
  await clock.advance(15)
  settle.next().answer('settled')
  await clock.settle()
  assert.deepEqual(recorded, range(1, 1800))
})

test('trouble is waited out ever longer, and nothing is lost or put out of order', async () => {
  const { clock, settle, add, recorded, events } = open()
  add(1, 3)
  await clock.advance(15)
  let last = 3
  for (const waitMs of [50, 100, 200, 400, 800, 1600, 2000, 2000]) {
    settle.next().fail(new StoreTrouble('busy'))
    await clock.settle()
    add(last + 1, ++last)
    await clock.advance(waitMs - 1)
    assert.equal(settle.open, 0, `silent for ${waitMs} ms`)
    await clock.advance(1)
    assert.equal(settle.open, 1, `asks again after ${waitMs} ms`)
  }
  assert.deepEqual(recorded, [])
  const call = settle.next()
  assert.deepEqual(messagesOf(call.args), range(1, last))
  call.answer('settled')
  await clock.settle()
  assert.deepEqual(recorded, range(1, last))
  assert.deepEqual(events, ['settled'], 'trouble is no bug')

  add(last + 1, last + 1)
  await clock.advance(15)
  settle.next().fail(new StoreTrouble('busy'))
  await clock.advance(50)
  assert.equal(settle.open, 1, 'after a success the first wait is short again')
})

test('a full batch does not hurry a store in trouble', async () => {
  const { clock, settle, add } = open()
  add(1, 1)
  await clock.advance(15)
  settle.next().fail(new StoreTrouble('busy'))
  await clock.settle()
  add(2, 2000)
  await clock.advance(49)
  assert.equal(settle.open, 0)
  await clock.advance(1)
  assert.equal(settle.open, 1)
})

test('an unexpected error is reported, and its batch is kept and tried again', async () => {
  const { clock, settle, add, events, recorded } = open()
  add(1, 2)
  await clock.advance(15)
  settle.next().fail(new Error('no such column'))
  await clock.advance(50)
  assert.deepEqual(events, ['bug: no such column'])
  const again = settle.next()
  assert.deepEqual(messagesOf(again.args), [1, 2])
  again.answer('settled')
  await clock.settle()
  assert.deepEqual(recorded, [1, 2])
})

test('a fenced worker drops everything, also deliveries that ended since, and asks no more', async () => {
  const { clock, settle, add, events, recorded, queue } = open()
  add(1, 512)
  add(513, 600)
  settle.next().answer('fenced')
  await clock.settle()
  assert.deepEqual(events, ['fenced'])
  assert.deepEqual(recorded, range(1, 600), 'each learns that it is over')
  assert.equal(queue.size, 0)
  await clock.advance(10_000)
  assert.equal(settle.open, 0)
})

for (const [answer, worker] of [
  ['settled', 2],
  ['fenced', 2],
  ['trouble', 2],
  ['settled', 1],
] as const) {
  test(`"${answer}" to a call from before a drop changes nothing that worker ${worker} adds after it`, async () => {
    const { clock, settle, add, events, recorded, queue, state } = open()
    add(1, 2)
    await clock.advance(15)
    queue.drop()
    assert.deepEqual(recorded.splice(0), [1, 2])
    state.worker = worker
    add(3, 4)
    const late = settle.next()
    if (answer === 'trouble') late.fail(new StoreTrouble('gone'))
    else late.answer(answer)
    await clock.settle()
    assert.deepEqual(events, [])
    assert.deepEqual(recorded, [])
    await clock.advance(15)
    const call = settle.next()
    assert.equal(call.args[0], worker)
    assert.deepEqual(messagesOf(call.args), [3, 4])
    call.answer('settled')
    await clock.settle()
    assert.deepEqual(recorded, [3, 4])
  })
}

test('draining asks at once and ends when all is recorded', async () => {
  const { clock, settle, add, queue, recorded } = open()
  await queue.drained()
  add(1, 3)
  let drained = false
  const done = queue.drained().then(() => {
    drained = true
  })
  const first = settle.next()
  add(4, 4)
  first.answer('settled')
  await clock.settle()
  assert.equal(drained, false)
  settle.next().answer('settled')
  await done
  assert.deepEqual(recorded, [1, 2, 3, 4])
})

test('draining survives trouble and ends when everything is dropped', async () => {
  const { clock, settle, add, queue } = open()
  add(1, 3)
  const done = queue.drained()
  settle.next().fail(new StoreTrouble('busy'))
  await clock.advance(50)
  assert.equal(settle.open, 1)
  queue.drop()
  await done
})

test('a batch carries the longest hold of each endpoint, and names an endpoint that is gone once', async () => {
  const { clock, settle, queue, entry } = open()
  queue.add(entry(1, 7, 1000))
  queue.add(entry(2, 7, 5000))
  queue.add(entry(3, 7, 2000))
  queue.add(entry(4, 8, 0))
  queue.add(entry(5, 9, undefined, true))
  queue.add(entry(6, 9, undefined, true))
  await clock.advance(15)
  const [, , effects] = settle.next().args
  assert.deepEqual(effects, {
    holds: [
      { endpoint: 7, holdMs: 5000 },
      { endpoint: 8, holdMs: 0 },
    ],
    disable: [{ endpoint: 9, reason: 'gone' }],
    health: [],
    notices: [],
  })
})
