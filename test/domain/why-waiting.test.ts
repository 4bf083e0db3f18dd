import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emptyQueue } from '../../src/domain/queue-figures.ts'
import type { LaneSnapshot } from '../../src/domain/snapshot.ts'
import { describeAll, type WaitingFacts, whyWaiting, wideBlockers } from '../../src/features/why/rules.ts'
import { snapshot } from './a-snapshot.ts'

const now = Date.UTC(2026, 0, 1)
const later = now + 60_000

/** Three fresh deliveries in the hands of a worker. */
const facts: WaitingFacts = {
  endpoint: { disabled: false, disabledReason: null, paused: false, flow: { coalesce: null } },
  lane: {
    now,
    owner: { description: 'a worker', leaseUntil: later },
    dueAt: null,
    holdUntil: 0,
    notBefore: 0,
    workersAlive: 1,
    region: 'default',
    workersServing: 1,
    first: null,
    live: null,
    silent: false,
    nextTimedAt: null,
    nextTimedAttempts: 1,
  },
  queue: queueOf([3, 0, 0]),
}

function queueOf(byClass: readonly [number, number, number]): WaitingFacts['queue'] {
  const waiting = byClass[0] + byClass[1] + byClass[2]
  return { ...emptyQueue(now, true), byClass, waiting, oldestSince: now - 5000 }
}

type Waiting = WaitingFacts['queue']['byClass']

function withLane({
  waiting = [3, 0, 0],
  ...change
}: Partial<WaitingFacts['lane']> & { readonly waiting?: Waiting }): WaitingFacts {
  return { ...facts, lane: { ...facts.lane, ...change }, queue: queueOf(waiting) }
}

function withLive(change: Partial<LaneSnapshot>): WaitingFacts {
  return withLane({ live: { at: now, snapshot: { ...snapshot, ...change } } })
}

const paused = { ...facts.endpoint, paused: true }
const free = { owner: null, dueAt: now + 5 }

const cases: [reason: string, nextAt: number | null, facts: WaitingFacts][] = [
  ['delivering', null, facts],
  ['delivering', null, withLive({ inFlight: 2, pace: 7 })],
  ['idle', null, withLane({ waiting: [0, 0, 0] })],
  ['idle', null, withLane({ waiting: [0, 0, 0], holdUntil: later })],
  ['paused', null, { ...withLane({ waiting: [0, 0, 0] }), endpoint: paused }],
  ['paused', null, { ...withLane({ ...free, holdUntil: later }), endpoint: paused }],
  ['waiting_for_worker', now + 5, withLane(free)],
  ['waiting_for_retry', later, withLane({ waiting: [0, 4, 0], nextTimedAt: later })],
  ['scheduled', later, withLane({ waiting: [0, 4, 0], nextTimedAt: later, nextTimedAttempts: 0 })],
  [
    'coalescing',
    later,
    {
      ...withLane({ waiting: [0, 4, 0], nextTimedAt: later, nextTimedAttempts: 0 }),
      endpoint: { ...facts.endpoint, flow: { coalesce: { windowMs: 2000, key: null } } },
    },
  ],
  ['waiting_for_retry', later, withLane({ ...free, dueAt: later, waiting: [0, 4, 0], nextTimedAt: later })],
  ['delivering', null, withLane({ waiting: [0, 4, 0], nextTimedAt: now })],
  ['delivering', null, withLane({ waiting: [0, 4, 1], nextTimedAt: later })],
  ['held', later, withLane({ holdUntil: later, waiting: [0, 4, 0], nextTimedAt: later - 1 })],
  ['rate_limited', now + 400, withLive({ tokenMs: 400, rate: 2 })],
  ['no_worker', null, withLane({ ...free, workersAlive: 0 })],
  ['no_worker_in_region', null, withLane({ ...free, workersServing: 0 })],
  ['in_flight', null, withLive({ inFlight: 2, concurrency: 2, sending: [{ message: 1, forMs: 14_000 }] })],
]

for (const [reason, nextAt, given] of cases) {
  test(`an endpoint is ${reason} with ${JSON.stringify(given.queue.byClass)} and ${nextAt}`, () => {
    const why = whyWaiting(given)
    assert.deepEqual([why.reason, why.nextAt], [reason, nextAt])
    for (const { detail } of [why, ...why.blockers]) assert.match(detail, /^[A-Z0-9].*\.$/)
  })
}

test('in order, all that waits stands behind the first', () => {
  const first = { id: 'msg_1', attempts: 3, retryInMs: 60_000 }
  const held = whyWaiting(withLane({ first }))
  assert.deepEqual([held.reason, held.nextAt], ['behind_head', later])
  assert.equal(
    held.detail,
    'All deliveries wait in order behind msg_1, whose next attempt, after 3 failed attempts, is at 00:01:00 UTC (in 1 min).',
  )
  const blocked = whyWaiting(withLane({ first: { ...first, retryInMs: Number.POSITIVE_INFINITY } }))
  assert.deepEqual([blocked.reason, blocked.nextAt, blocked.forecast.kind], ['head_blocked', null, 'needs_operator'])
  assert.match(blocked.detail, /An operator must retry or skip it\.$/)
  assert.equal(whyWaiting(withLane({ first: { ...first, retryInMs: 0 } })).reason, 'delivering')
})

test('when a queue is empty follows from its pace, and a number that is not exact is said to be about right', () => {
  const emptyAt = (given: WaitingFacts) => whyWaiting(given).forecast.at
  assert.equal(emptyAt(withLive({ pace: 2 })), now + 1500)
  assert.equal(emptyAt({ ...withLive({ pace: 2 }), endpoint: paused }), null)
  const held = whyWaiting(withLive({ pace: 2, holdMs: 1000 })).forecast
  assert.deepEqual([held.at, held.latest], [now + 2500, null])
  const about = { ...facts, queue: { ...queueOf([4213, 0, 0]), isExact: false } }
  assert.match(whyWaiting(about).detail, /^About 4,200 deliveries wait/)
})

test('the sentence on many endpoints has the totals of all, and the reasons of those that are shown', () => {
  const [waiting, stopped] = [whyWaiting(facts), whyWaiting({ ...facts, endpoint: paused })]
  const totals = { endpoints: 3, waiting: 1204, isExact: true }
  assert.equal(
    describeAll(totals, [stopped, waiting, waiting]),
    '1,204 deliveries wait for 3 endpoints: 1 paused, 2 delivering.',
  )
  assert.equal(
    describeAll({ ...totals, isExact: false }, [waiting]),
    'About 1,200 deliveries wait for 3 endpoints. The worst one: 1 delivering.',
  )
  assert.equal(describeAll({ endpoints: 0, waiting: 0, isExact: true }, []), 'No deliveries wait.')
})

test('without a worker nothing of an application moves', () => {
  assert.deepEqual(wideBlockers([facts.lane]), [])
  assert.equal(wideBlockers([withLane({ workersAlive: 0 }).lane])[0]?.reason, 'no_worker')
})
