import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Membership } from '../../src/engine/membership.ts'
import {
  type LaneCounts,
  type NewWorker,
  type Renewal,
  StoreTrouble,
  type WorkerReport,
} from '../../src/store/store.ts'
import { VirtualClock } from '../virtual-clock.ts'
import { HeldCalls } from './held-calls.ts'

const leaseMs = 9000
const alive: Renewal = { alive: true, workers: 3, sharers: 2, lanes: { activeLanes: 40, fewestLanes: 5 } }
const report: WorkerReport = { version: '1', host: 'h', pid: 1, inFlight: 0 }
const dead: Renewal = { alive: false, workers: 2, sharers: 2, lanes: { activeLanes: 40, fewestLanes: 5 } }

function open() {
  const clock = new VirtualClock()
  const join = new HeldCalls<[NewWorker], number>()
  const renew = new HeldCalls<[number, number, WorkerReport?, boolean?, boolean?], Renewal>()
  const leave = new HeldCalls<[number], void>()
  const startLeaving = new HeldCalls<[number], void>()
  const events: string[] = []
  const membership = new Membership({
    store: { join: join.method, renew: renew.method, startLeaving: startLeaving.method, leave: leave.method },
    clock,
    leaseMs,
    regions: null,
    description: 'a test',
    report: () => report,
    onDied: (workers) => void events.push(`died: ${workers.map(({ worker }) => worker)}`),
    onRenewed: () => void events.push('renewed'),
    onLapsed: () => void events.push('lapsed'),
    onLost: () => void events.push('lost'),
    onTrouble: (error) => void events.push(`trouble: ${(error as Error).message}`),
  })
  return { clock, join, renew, leave, events, membership }
}

/** Joined as worker 1 and renewed once, all at instant 0. */
async function openJoined() {
  const parts = open()
  const joined = parts.membership.join()
  parts.join.next().answer(1)
  await parts.clock.settle()
  parts.renew.next().answer(alive)
  await joined
  parts.events.length = 0
  return parts
}

test('a worker may not send before it has joined', () => {
  const { membership } = open()
  assert.equal(membership.worker, 0)
  assert.equal(membership.holdsLease(0), false)
})

test('a worker joins with its description and lease, and learns how many share the work', async () => {
  const { clock, join, renew, events, membership } = open()
  const joined = membership.join()
  assert.deepEqual(join.seen, [[{ leaseMs, description: 'a test', regions: null }]])
  join.next().answer(7)
  await clock.settle()
  assert.deepEqual(renew.seen, [[7, leaseMs, report, true, true]])
  renew.next().answer(alive)
  await joined
  assert.equal(membership.worker, 7)
  assert.equal(membership.workers, 3)
  assert.deepEqual(membership.share, { workers: 2, activeLanes: 40, fewestLanes: 5 }, 'one of them is leaving')
  assert.deepEqual(events, ['renewed'])
  assert.ok(membership.holdsLease(clock.steady()))
})

test('the lease is counted from before the call that got it, less a tenth', async () => {
  const { clock, join, renew, events, membership } = open()
  void membership.join()
  await clock.advance(1000)
  join.next().answer(1)
  await clock.settle()
  assert.ok(membership.holdsLease(8099), 'from instant 0, when joining was asked for')
  assert.equal(membership.holdsLease(8100), false)
  await clock.advance(2000)
  renew.next().answer(alive)
  await clock.settle()
  assert.ok(membership.holdsLease(9099), 'from instant 1000, when the renewal was sent')
  assert.equal(membership.holdsLease(9100), false)
  assert.deepEqual(events, ['renewed'])
})

test('the lease is renewed three times within its length, and a jump of the clock changes nothing', async () => {
  const { clock, renew, events, membership } = await openJoined()
  for (const direction of [1, -1, 1]) {
    clock.jump(direction * 3_600_000)
    await clock.advance(leaseMs / 3 - 1)
    assert.equal(renew.open, 0)
    await clock.advance(1)
    renew.next().answer(alive)
    await clock.settle()
    assert.ok(membership.holdsLease(clock.steady() + leaseMs * 0.9 - 1))
  }
  assert.deepEqual(events, ['renewed', 'renewed', 'renewed'])
})

test('a renewal that is not answered lapses the lease exactly once, at its end', async () => {
  const { clock, renew, events, membership } = await openJoined()
  await clock.advance(8099)
  assert.deepEqual(events, [])
  assert.ok(membership.holdsLease(clock.steady()))
  await clock.advance(1)
  assert.deepEqual(events, ['lapsed'])
  assert.equal(membership.holdsLease(clock.steady()), false)
  await clock.advance(100_000)
  assert.deepEqual(events, ['lapsed'])
  assert.equal(renew.open, 1, 'it does not pile up calls')
})

test('a renewal that took longer than the lease gives no right to send', async () => {
  const { clock, renew, events, membership } = await openJoined()
  await clock.advance(3000)
  const slow = renew.next()
  await clock.advance(leaseMs)
  slow.answer(alive)
  await clock.settle()
  assert.equal(membership.holdsLease(clock.steady()), false)
  await clock.advance(leaseMs / 3)
  renew.next().answer(alive)
  await clock.settle()
  assert.ok(membership.holdsLease(clock.steady()), 'the next one does')
  assert.ok(!events.includes('lost'))
})

test('after trouble the renewal is asked for again soon, without losing the lease', async () => {
  const { clock, renew, events, membership } = await openJoined()
  await clock.advance(3000)
  renew.next().fail(new StoreTrouble('busy'))
  await clock.advance(leaseMs / 20 - 1)
  assert.equal(renew.open, 0)
  await clock.advance(1)
  renew.next().answer(alive)
  await clock.settle()
  assert.deepEqual(events, ['trouble: busy', 'renewed'])
  assert.ok(membership.holdsLease(clock.steady() + leaseMs * 0.9 - 1))
})

test('a worker declared dead loses everything at once and joins again under another number', async () => {
  const { clock, join, renew, events, membership } = await openJoined()
  await clock.advance(3000)
  renew.next().answer(dead)
  await clock.settle()
  assert.deepEqual(events, ['lost'])
  assert.equal(membership.holdsLease(clock.steady()), false)
  assert.equal(membership.worker, 0)
  join.next().answer(2)
  await clock.settle()
  assert.deepEqual(renew.next().args, [2, leaseMs, report, true, true])
  assert.equal(membership.worker, 2)
  assert.ok(membership.holdsLease(clock.steady()))
})

test('a fence and a renewal that tell the same loss cause one loss', async () => {
  const { clock, join, renew, events, membership } = await openJoined()
  await clock.advance(3000)
  membership.lose()
  membership.lose()
  renew.next().answer(dead)
  await clock.settle()
  assert.deepEqual(events, ['lost'])
  assert.equal(join.open, 1)
})

test('the answer to an old renewal says nothing about a new membership', async () => {
  const { clock, join, renew, events, membership } = await openJoined()
  await clock.advance(3000)
  membership.lose()
  join.next().answer(2)
  await clock.settle()
  renew.next().answer(dead)
  await clock.settle()
  assert.equal(membership.worker, 2)
  assert.deepEqual(events, ['lost'])
  assert.ok(membership.holdsLease(clock.steady()))
})

test('joining again is tried until it succeeds', async () => {
  const { clock, join, events, membership } = await openJoined()
  membership.lose()
  // A lost lease cannot lapse as well.
  await clock.advance(leaseMs)
  for (let i = 0; i < 3; i++) {
    join.next().fail(new StoreTrouble('gone'))
    await clock.advance(leaseMs / 20)
  }
  join.next().answer(2)
  await clock.settle()
  assert.equal(membership.worker, 2)
  assert.deepEqual(events, ['lost', 'trouble: gone', 'trouble: gone', 'trouble: gone'])
})

test('leaving ends the right to send, the renewals and every callback', async () => {
  const { clock, renew, leave, join, events, membership } = await openJoined()
  await clock.advance(3000)
  const left = membership.leave()
  assert.equal(membership.holdsLease(clock.steady()), false)
  leave.next().answer()
  await left
  renew.next().answer(dead)
  membership.lose()
  await clock.advance(100_000)
  assert.deepEqual(leave.seen, [[1]])
  assert.deepEqual(events, [])
  assert.equal(renew.open + join.open, 0)
  assert.equal(clock.nextTimerAt(), undefined, 'no timer keeps the process alive')
})

test('a join that is answered after the end gives no right to send and sets no timer', async () => {
  const { clock, join, renew, events, membership } = await openJoined()
  membership.lose()
  membership.stop()
  join.next().answer(2)
  await clock.settle()
  assert.equal(membership.holdsLease(clock.steady()), false)
  assert.equal(renew.open, 0)
  assert.equal(clock.nextTimerAt(), undefined)
  assert.deepEqual(events, ['lost'])
})

test('workers that a renewal declared dead are reported, once', async () => {
  const { clock, renew, events } = await openJoined()
  await clock.advance(leaseMs / 3)
  renew.next().answer({ ...alive, died: [{ worker: 5, description: 'x', lanes: 2 }] })
  await clock.advance(leaseMs / 3)
  renew.next().answer({ ...alive, died: [] })
  await clock.settle()
  assert.deepEqual(events, ['died: 5', 'renewed', 'renewed'])
})

test('a change of the workers renews at once, and changes during a renewal are read together after it', async () => {
  const { clock, renew, membership } = await openJoined()
  membership.renewNow()
  assert.equal(renew.open, 1)
  for (let i = 0; i < 5; i++) membership.renewNow()
  assert.equal(renew.open, 1)
  renew.next().answer(alive)
  await clock.advance(100)
  assert.equal(renew.open, 1, 'one more for all five')
  renew.next().answer({ ...alive, sharers: 1 })
  await clock.settle()
  assert.equal(membership.share.workers, 1)
  await clock.advance(leaseMs / 3 - 1)
  assert.equal(renew.open, 0, 'then the lease is renewed as ever')
  membership.stop()
  membership.renewNow()
  assert.equal(renew.open, 0)
})

test('in a large fleet, signals of changes make each worker renew in its turn, and not for each of them', async () => {
  const workers = 1000
  const { clock, join, renew, membership } = open()
  const joined = membership.join()
  join.next().answer(4700)
  await clock.settle()
  renew.next().answer({ ...alive, workers })
  await joined
  await clock.advance(workers)
  for (let signal = 0; signal < 699; signal++) {
    membership.renewNow()
    await clock.advance(1)
  }
  assert.equal(renew.open, 0, 'its turn is the 700th millisecond of a thousand')
  await clock.advance(1)
  renew.next().answer({ ...alive, workers })
  await clock.settle()
  for (let signal = 0; signal < 999; signal++) {
    membership.renewNow()
    await clock.advance(1)
  }
  assert.equal(renew.open, 0, 'once in a thousand milliseconds')
  membership.sessionLost()
  membership.sessionHeld()
  assert.equal(renew.open, 1, 'a session that came back cannot wait')
})

test('in a large fleet, renewals look at the others as often as all workers can do it in a twentieth of the time', async () => {
  const workers = 1000
  const { clock, join, renew, membership } = open()
  const joined = membership.join()
  join.next().answer(1)
  await clock.settle()
  renew.next().answer({ alive: true, workers, sharers: workers })
  await joined
  const looks = async (tookMs: number): Promise<unknown> => {
    await clock.advance(leaseMs / 3)
    const call = renew.next()
    await clock.advance(tookMs)
    const isLook = renew.seen.at(-1)?.[4]
    const lanes = renew.seen.at(-1)?.[3] === true ? { lanes: alive.lanes as LaneCounts } : {}
    call.answer(isLook === true ? { alive: true, workers, sharers: workers, ...lanes } : { alive: true })
    await clock.settle()
    return isLook
  }
  const seen: unknown[] = []
  for (let i = 0; i < 40; i++) seen.push(await looks(1))
  assert(seen.filter((each) => each === true).length < 10, `${seen}`)
  assert.equal(membership.workers, workers, 'as of the last look')
  assert(membership.holdsLease(clock.steady()))
  membership.stop()
})

test('lanes are counted at each renewal while that is quick, else as often as all workers can do it in a twentieth of the time', async () => {
  const { clock, renew, membership } = await openJoined()
  /** Answers one renewal after a time, and says whether it was to count lanes. */
  async function renewing(tookMs: number): Promise<unknown> {
    await clock.advance(leaseMs / 3)
    const call = renew.next()
    await clock.advance(tookMs)
    const counts = renew.seen.at(-1)?.[3]
    call.answer(counts ? alive : { ...alive, lanes: undefined })
    await clock.settle()
    return counts
  }
  assert.equal(await renewing(100), true)
  const before = clock.steady() + leaseMs / 3
  assert.equal(await renewing(500), true, 'a round of three workers takes 6 s of 20')
  const waits: unknown[] = []
  while (clock.steady() + leaseMs / 3 < before + 30_000) waits.push(await renewing(1))
  assert.deepEqual([...new Set(waits)], [false])
  assert.deepEqual(membership.share, { workers: 2, ...alive.lanes }, 'what was counted last')
  assert.equal(await renewing(1), true)
})

test('a worker whose session is lost starts nothing after a moment, until a renewal behind its return says that it lives', async () => {
  const { clock, renew, events, membership } = await openJoined()
  const holds = () => membership.holdsLease(clock.steady())
  membership.sessionLost()
  assert.ok(holds(), 'most sessions are back at once')
  await clock.advance(200)
  assert.equal(holds(), false)
  await clock.advance(leaseMs / 3)
  renew.next().answer(alive)
  await clock.settle()
  assert.equal(holds(), false, 'the store answers, and does not see the session')
  membership.sessionHeld()
  assert.equal(holds(), false)
  renew.next().answer(alive)
  await clock.settle()
  assert.ok(holds())
  assert.ok(!events.includes('lapsed'), 'attempts under way went on')
})

test('a worker that was declared dead while its session was lost joins again', async () => {
  const { clock, join, renew, events, membership } = await openJoined()
  membership.sessionLost()
  await clock.advance(1000)
  membership.sessionHeld()
  renew.next().answer(dead)
  await clock.settle()
  assert.deepEqual(events, ['renewed', 'lost'].slice(1))
  join.next().answer(2)
  await clock.settle()
  assert.ok(membership.holdsLease(clock.steady()))
})
