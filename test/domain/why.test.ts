import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Turn } from '../../src/domain/forecast.ts'
import type { LaneSnapshot } from '../../src/domain/snapshot.ts'
import type { LaneStatus } from '../../src/features/why/blocker.ts'
import { type WhyFacts, whyNotDelivered } from '../../src/features/why/rules.ts'
import { snapshot } from './a-snapshot.ts'

const now = Date.UTC(2026, 0, 1)
const later = now + 60_000
const muchLater = now + 600_000

function turn(ahead: number): Turn {
  return { ahead, line: ahead, isExact: true, notBefore: 0, share: 1, higher: 0, keyMs: 0 }
}

/** First in its queue at an endpoint that nothing stops, in the hands of a worker that was not asked. */
const facts: WhyFacts = {
  message: { key: 77, expunged: false, endpoints: [1], deliverAt: null },
  endpoint: { key: 1, disabled: false, disabledReason: null, paused: false },
  latest: undefined,
  dead: undefined,
  queued: { class: 0, dueAt: now, attempts: 0, turn: turn(0) },
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
  },
}
const free: LaneStatus = { ...facts.lane, owner: null, dueAt: now + 5, rateFrom: 'endpoint' }
const disabled = { ...facts.endpoint, disabled: true, disabledReason: 'operator' } as const
/** No worker has carried the command out yet. */
const opened = { ...facts.endpoint, flow: { circuitOrder: { n: 1, action: 'open' } } } as const
const closed = { ...facts.endpoint, flow: { circuitOrder: { n: 2, action: 'close' } } } as const
const timed = { class: 1, dueAt: later, attempts: 2, turn: { ...turn(3), notBefore: later } }
const behind = { class: 0, dueAt: now, attempts: 0, turn: turn(30) }

function live(change: Partial<LaneSnapshot>, at = now): LaneStatus {
  return { ...facts.lane, live: { at, snapshot: { ...snapshot, ...change } } }
}

const cases: [reason: string, nextAt: number | null, change: Partial<WhyFacts>][] = [
  ['sending', null, {}],
  ['delivered', null, { queued: undefined, latest: { code: 'delivered', status: 204 } }],
  [
    'dead',
    null,
    { queued: undefined, dead: { reason: 'aged', diedAt: now }, latest: { code: 'refused', status: 500 } },
  ],
  ['cancelled', null, { queued: undefined, message: { ...facts.message, expunged: true } }],
  ['cancelled', null, { queued: undefined, latest: { code: 'refused', status: 500 } }],
  ['not_subscribed', null, { queued: undefined, message: { ...facts.message, endpoints: [2] } }],
  ['queueing', null, { queued: undefined }],
  ['disabled', null, { endpoint: disabled, queued: timed, lane: { ...free, workersAlive: 0 } }],
  ['disabled', null, { endpoint: { ...disabled, paused: true } }],
  ['paused', null, { endpoint: { ...facts.endpoint, paused: true }, lane: { ...free, holdUntil: later } }],
  ['opened_by_hand', null, { endpoint: opened, lane: free }],
  ['opened_by_hand', null, { endpoint: opened, lane: live({}) }],
  ['sending', null, { endpoint: closed, lane: live({}) }],
  ['no_worker', null, { lane: { ...free, workersAlive: 0, holdUntil: later } }],
  ['no_worker_in_region', null, { lane: { ...free, workersServing: 0, holdUntil: later } }],
  [
    'held',
    later,
    { lane: { ...facts.lane, holdUntil: later, workersServing: 0 }, queued: { ...timed, dueAt: later - 1 } },
  ],
  ['waiting_for_retry', later, { queued: timed }],
  ['waiting_for_retry', muchLater, { queued: { ...timed, dueAt: muchLater }, lane: { ...free, holdUntil: later } }],
  ['scheduled', later, { queued: { ...timed, attempts: 0 }, message: { ...facts.message, deliverAt: later } }],
  ['coalescing', later, { queued: { ...timed, attempts: 0 } }],
  ['coalesced', null, { queued: undefined, coalesced: { into: 'msg_1' } }],
  ['coalesced', null, { queued: undefined, coalesced: { into: null }, message: { ...facts.message, expunged: true } }],
  ['delivered', null, { queued: undefined, coalesced: { into: 'msg_1' }, latest: { code: 'delivered', status: 204 } }],
  ['rate_limited', later, { lane: { ...free, notBefore: later } }],
  ['held', later, { lane: { ...free, notBefore: later, holdUntil: later } }],
  ['behind_others', null, { queued: { class: 2, dueAt: now - 99, attempts: 0, turn: turn(7) } }],
  ['behind_others', null, { queued: { ...timed, dueAt: now } }],
  ['behind_others', null, { queued: behind, lane: { ...free, notBefore: later } }],
  ['waiting_for_worker', now + 5, { lane: free }],
  ['waiting_for_worker', null, { lane: { ...free, dueAt: now - 5 } }],
  // Its owner's word goes before what is stored.
  ['sending', null, { lane: { ...live({}), holdUntil: later } }],
  ['held', now + 2000, { lane: { ...live({ holdMs: 2000 }), holdUntil: later } }],
  ['sending', null, { lane: live({ holdMs: 2000, tokenMs: 300 }, now - 2000) }],
  ['rate_limited', now + 3000, { lane: live({ holdMs: 2000, tokenMs: 3000, rate: 0.2 }) }],
  ['behind_others', null, { lane: live({ tokenMs: 3000, rate: 0.2 }), queued: behind }],
  ['held', now + 2000, { lane: live({ holdMs: 2000, rate: 5 }), queued: behind }],
  ['in_flight', null, { lane: live({ inFlight: 4, concurrency: 4 }) }],
  ['crowded', null, { lane: live({ crowded: 'process' }) }],
  ['crowded', null, { lane: live({ crowded: 'application' }) }],
  ['crowded', null, { lane: live({ crowded: 'share' }) }],
  ['crowded', null, { lane: live({ crowded: 'slow' }) }],
  ['crowded', null, { lane: live({ crowded: 'untried' }) }],
  ['failing', now + 700, { lane: live({ failuresMs: 700 }) }],
  ['held', now + 2000, { lane: live({ failuresMs: 700, holdMs: 2000 }) }],
  ['store_trouble', null, { lane: live({ standstill: 'store' }) }],
  ['store_trouble', null, { lane: live({ standstill: 'recording', inFlight: 4, concurrency: 4 }) }],
  ['lease_unsure', null, { lane: live({ standstill: 'lease' }) }],
  ['owner_silent', null, { lane: { ...facts.lane, silent: true } }],
  ['owner_silent', null, { lane: { ...facts.lane, silent: true, owner: { description: 'x', leaseUntil: now - 1 } } }],
  ['held', later, { lane: { ...facts.lane, silent: true, holdUntil: later } }],
  // A delivery under way goes on, even if others are blocked.
  ['sending', null, { lane: live({ sending: [{ message: 77, forMs: 1200 }], inFlight: 4 }), endpoint: disabled }],
  ['recording', null, { lane: live({ recording: [5, 77], holdMs: 9 }) }],
]

for (const [reason, nextAt, change] of cases) {
  test(`the answer is ${reason} for ${JSON.stringify(change)}`, () => {
    const why = whyNotDelivered({ ...facts, ...change })
    assert.deepEqual([why.reason, why.nextAt], [reason, nextAt])
    for (const { detail } of [why, ...why.blockers]) assert.match(detail, /^[A-Z0-9].*\.$/)
    if (why.blockers.length > 0) assert.equal(why.blockers[0]?.reason, reason)
  })
}

test('a delivery that left the queue does not wait, even if its endpoint is stopped', () => {
  const ended = { queued: undefined, latest: { code: 'delivered', status: 200 } } as const
  assert.equal(whyNotDelivered({ ...facts, ...ended, endpoint: disabled }).reason, 'delivered')
})

test('all blockers are named: those that need an operator first, then the last to end', () => {
  const lane = live({ holdMs: 90_000, tokenMs: 700, inFlight: 4, concurrency: 4 })
  const why = whyNotDelivered({ ...facts, endpoint: { ...facts.endpoint, paused: true }, queued: timed, lane })
  assert.deepEqual(
    why.blockers.map(({ reason, until }) => [reason, until]),
    [
      ['paused', null],
      ['held', now + 90_000],
      ['waiting_for_retry', later],
      ['behind_others', null],
      ['rate_limited', now + 700],
      ['in_flight', null],
    ],
  )
  assert.equal(why.expectedAt, null)
})

test('when its turn comes is estimated from the recent pace, which is never above the limit', () => {
  const expected = (change: Partial<LaneSnapshot>) =>
    whyNotDelivered({ ...facts, queued: behind, lane: live(change) }).expectedAt
  assert.equal(expected({ pace: 10 }), now + 3000)
  // A bucket keeps half a per cent of its rate back.
  assert.equal(expected({ pace: 10, rate: 5 }), now + 6030)
  assert.equal(expected({ pace: null, rate: 5 }), now + 6030)
  assert.equal(expected({ pace: 10, holdMs: 5000 }), now + 8000)
  assert.equal(expected({ pace: null, rate: null }), null)
  assert.equal(whyNotDelivered({ ...facts, queued: timed }).expectedAt, later, 'all four have slots')
  const alone = { ...timed, turn: { ...turn(0), notBefore: later } }
  assert.equal(whyNotDelivered({ ...facts, queued: alone }).expectedAt, later)
})

test('in order, a delivery waits in its place for its own retry, and for the delivery in front', () => {
  const own = { ...facts.queued, class: 0, dueAt: now, attempts: 2, turn: turn(0) }
  const reasonOf = (change: Partial<WhyFacts>) => {
    const { reason, nextAt, blockers } = whyNotDelivered({ ...facts, ...change })
    return [reason, nextAt, blockers.length]
  }
  assert.deepEqual(reasonOf({ queued: { ...own, retryInMs: 60_000 } }), ['waiting_for_retry', later, 1])
  assert.deepEqual(reasonOf({ queued: { ...own, retryInMs: Number.POSITIVE_INFINITY } }), ['head_blocked', null, 1])
  const behindFirst = (retryInMs: number): Partial<WhyFacts> => ({
    queued: { ...own, attempts: 0, turn: turn(4) },
    lane: { ...facts.lane, first: { id: 'msg_1', attempts: 1, retryInMs } },
  })
  assert.deepEqual(reasonOf(behindFirst(60_000)), ['behind_head', later, 1])
  assert.deepEqual(reasonOf(behindFirst(Number.POSITIVE_INFINITY)), ['head_blocked', null, 1])
  assert.deepEqual(reasonOf(behindFirst(0)), ['behind_others', null, 1])
})

test('the answer says when a delivery is given up, if that may come first', () => {
  const detail = (endsAt: number, change: Partial<WhyFacts> = {}) =>
    whyNotDelivered({ ...facts, queued: { ...timed, turn: { ...turn(0), notBefore: later }, endsAt }, ...change })
      .detail
  assert.match(detail(later - 1000), /It is given up at 00:00:59 UTC \(in 59 s\)\.$/)
  assert.doesNotMatch(detail(muchLater), /given up/)
  assert.match(detail(muchLater, { endpoint: disabled }), /It is given up at 00:10:00 UTC/)
  const unknown = { ...behind, endsAt: muchLater }
  assert.match(whyNotDelivered({ ...facts, queued: unknown }).detail, /It is given up at/)
  assert.doesNotMatch(
    whyNotDelivered({ ...facts, queued: { ...unknown, endsAt: now + 86_400_000 } }).detail,
    /given up/,
  )
  assert.match(detail(now - 1, { endpoint: disabled }), /It has expired and is about to be given up\.$/)
})

test('sentences tell how far away an instant is', () => {
  const { detail } = whyNotDelivered({ ...facts, queued: { ...timed, attempts: 1, dueAt: now + 130_000 } })
  assert.equal(detail, 'After 1 failed attempt, the next attempt is at 00:02:10 UTC (in 2 min 10 s).')
})
