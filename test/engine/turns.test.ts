import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Scheduler } from '../../src/domain/scheduler.ts'
import type { Membership } from '../../src/engine/membership.ts'
import type { Delivery, OwnedLane } from '../../src/engine/owned-lane.ts'
import type { Pump } from '../../src/engine/pump.ts'
import type { Settler } from '../../src/engine/settler.ts'
import { TimedLanes } from '../../src/engine/timed-lanes.ts'
import { Turns } from '../../src/engine/turns.ts'
import { VirtualClock } from '../virtual-clock.ts'

function turning() {
  const clock = new VirtualClock()
  const timed = new TimedLanes()
  const is = { leased: true, unsettled: 0, wakeAt: undefined as number | undefined }
  /** When the pump was run. */
  const runs: { at: number }[] = []
  const due: OwnedLane[] = []
  let turns = 0
  const subject = new Turns({
    clock,
    timed,
    scheduler: {
      wakeAt: () => (is.wakeAt === undefined || is.wakeAt <= clock.steady() ? undefined : is.wakeAt),
    } as Scheduler<Delivery>,
    membership: { holdsLease: () => is.leased } as unknown as Membership,
    settler: {
      get size() {
        return is.unsettled
      },
    } as Settler,
    pump: { run: () => void runs.push({ at: clock.steady() }) } as Pump,
    onTurn: () => void turns++,
    onDue: (owned) => void due.push(owned),
  })
  subject.start()
  return { clock, timed, is, runs, due, subject, turns: () => turns }
}

test('however much changes in one turn of the event loop, there is one look', async () => {
  const { clock, subject, runs } = turning()
  for (let i = 0; i < 5; i++) subject.again()
  await clock.settle()
  assert.equal(runs.length, 1)
})

test('it looks again when a sleeping lane wakes or a timed row is due, whichever is first', async () => {
  const { clock, timed, is, runs, due, subject } = turning()
  const owned = { nextTimedAt: Number.POSITIVE_INFINITY } as OwnedLane
  timed.expect(owned, 30)
  is.wakeAt = 50
  subject.again()
  await clock.advance(29)
  assert.deepEqual([runs.length, due], [1, []])
  await clock.advance(1)
  assert.deepEqual([runs.length, due], [2, [owned]])
  await clock.advance(20)
  assert.deepEqual(
    runs.map(({ at }) => at),
    [0, 30, 50],
  )
})

test('nothing is started for a moment after trouble, without the lease, or while too much is unrecorded', async () => {
  const { clock, is, runs, subject } = turning()
  subject.pause()
  subject.startSome()
  await clock.advance(99)
  assert.deepEqual([runs, subject.standstill(clock.steady())], [[], 'store'])
  await clock.advance(1)
  assert.equal(runs.length, 1, 'it goes on by itself')
  is.leased = false
  subject.startSome()
  await clock.settle()
  assert.deepEqual([runs.length, subject.standstill(clock.steady())], [1, 'lease'])
  is.leased = true
  is.unsettled = 4096
  subject.startSome()
  await clock.settle()
  assert.deepEqual([runs.length, subject.standstill(clock.steady())], [1, 'recording'])
  is.unsettled = 4095
  subject.startSome()
  await clock.settle()
  assert.equal(runs.length, 3, 'some at once, the rest in its turn')
})

test('once stopped it starts nothing, and still tells of turns', async () => {
  const { clock, is, runs, subject, turns } = turning()
  is.wakeAt = 10
  subject.again()
  await clock.settle()
  subject.stop()
  const before = turns()
  subject.again()
  subject.startSome()
  await clock.advance(1000)
  assert.deepEqual([runs.length, turns()], [1, before + 1])
})
