import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type WhyFacts, whyNotDelivered } from '../../src/domain/why.ts'

const now = Date.UTC(2026, 0, 1)
const later = now + 60_000

/** First in its queue at an endpoint that nothing stops, in the hands of a worker. */
const facts: WhyFacts = {
  now,
  message: { expunged: false, endpoints: [1] },
  endpoint: { key: 1, disabled: false, disabledReason: null, paused: false },
  latest: undefined,
  dead: undefined,
  queued: { class: 0, dueAt: now, attempts: 0, ahead: 0 },
  lane: { owner: { worker: 1 }, dueAt: null, holdUntil: 0, notBefore: 0, workersAlive: 1 },
}
const free = { ...facts.lane, owner: null, dueAt: now + 5 }
const disabled = { ...facts.endpoint, disabled: true, disabledReason: 'operator' } as const
const timed = { class: 1, dueAt: later, attempts: 2, ahead: 3 }

const cases: [reason: string, nextAt: number | null, change: Partial<WhyFacts>][] = [
  ['sending', null, {}],
  ['delivered', null, { queued: undefined, latest: { code: 'delivered', status: 204 } }],
  [
    'dead',
    null,
    { queued: undefined, dead: { reason: 'aged', diedAt: now }, latest: { code: 'refused', status: 500 } },
  ],
  ['cancelled', null, { queued: undefined, message: { expunged: true, endpoints: [1] } }],
  ['cancelled', null, { queued: undefined, latest: { code: 'refused', status: 500 } }],
  ['not_subscribed', null, { queued: undefined, message: { expunged: false, endpoints: [2] } }],
  ['queueing', null, { queued: undefined }],
  ['disabled', null, { endpoint: disabled, queued: timed, lane: { ...free, workersAlive: 0 } }],
  ['disabled', null, { endpoint: { ...disabled, paused: true } }],
  ['paused', null, { endpoint: { ...facts.endpoint, paused: true }, lane: { ...free, holdUntil: later } }],
  ['no_worker', null, { lane: { ...free, workersAlive: 0, holdUntil: later } }],
  ['held', later, { lane: { ...facts.lane, holdUntil: later }, queued: timed }],
  ['waiting_for_retry', later, { queued: timed }],
  ['scheduled', later, { queued: { ...timed, attempts: 0 } }],
  ['rate_limited', later, { lane: { ...free, notBefore: later } }],
  ['behind_others', null, { queued: { class: 2, dueAt: now - 99, attempts: 0, ahead: 7 } }],
  ['behind_others', null, { queued: { ...timed, dueAt: now } }],
  ['waiting_for_worker', now + 5, { lane: free }],
]

for (const [reason, nextAt, change] of cases) {
  test(`the answer is ${reason} for ${JSON.stringify(change)}`, () => {
    const why = whyNotDelivered({ ...facts, ...change })
    assert.deepEqual([why.reason, why.nextAt], [reason, nextAt])
    assert.match(why.detail, /^[A-Z0-9].*\.$/)
  })
}

test('what is no longer queued is not said to be waiting, whatever stops the endpoint', () => {
  const ended = { queued: undefined, latest: { code: 'delivered', status: 200 } } as const
  assert.equal(whyNotDelivered({ ...facts, ...ended, endpoint: disabled }).reason, 'delivered')
})
