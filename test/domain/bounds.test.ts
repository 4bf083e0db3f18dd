import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { defaultFlow, isUsualBound, oldest, trimmedTo } from '../../src/domain/flow.ts'
import { judge, overdue } from '../../src/domain/judge.ts'
import type { Outcome } from '../../src/domain/outcome.ts'
import { defaultRetryPolicy } from '../../src/domain/retry.ts'
import { retryPolicyOf } from '../../src/features/endpoints/rules.ts'

const failure: Outcome = {
  code: 'refused',
  status: 500,
  wish: 'relief',
  retryAfterMs: undefined,
  response: undefined,
  error: undefined,
  durationMs: 1,
}

test('a delivery ends when its message expires or it is older than allowed, and not before', () => {
  assert.equal(overdue(0, null, 1000), undefined)
  assert.equal(overdue(1000, 1, 1000), undefined)
  assert.equal(overdue(1001, null, 1000), 'aged')
  assert.equal(overdue(0, 0, 1000), 'expired')
  assert.equal(overdue(5000, -1, 1000), 'expired')
  assert.equal(overdue(5000, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY), undefined)
})

test('the oldest are those that have waited for the longest, as many as asked for', () => {
  const run = fc.property(fc.array(fc.nat(100)), fc.integer({ min: -3, max: 30 }), (ages, count) => {
    const rows = ages.map((ageMs) => ({ ageMs }))
    const chosen = oldest(rows, count)
    assert.equal(chosen.length, Math.min(rows.length, Math.max(0, count)))
    const kept = rows.filter((row) => !chosen.includes(row))
    for (const { ageMs } of chosen) for (const other of kept) assert.ok(ageMs >= other.ageMs)
  })
  fc.assert(run)
})

test("an endpoint's own age goes before its retry policy's, and that before the default", () => {
  const own = { ...defaultRetryPolicy, maxAgeMs: 5 }
  assert.equal(retryPolicyOf({ retry: null, flow: defaultFlow }), defaultRetryPolicy)
  assert.equal(retryPolicyOf({ retry: own, flow: defaultFlow }), own)
  assert.deepEqual(retryPolicyOf({ retry: own, flow: { ...defaultFlow, maxAgeMs: 7 } }), { ...own, maxAgeMs: 7 })
})

test('only where the oldest give way is anything trimmed', () => {
  const flow = { ...defaultFlow, maxWaiting: 9 }
  assert.equal(trimmedTo({ flow }, 100), undefined)
  assert.equal(trimmedTo({ flow: { ...flow, overflow: 'drop_new' } }, 100), undefined)
  assert.equal(trimmedTo({ flow: { ...flow, overflow: 'drop_oldest' } }, 100), 9)
  assert.equal(trimmedTo({ flow: { ...defaultFlow, overflow: 'drop_oldest' } }, 100), 100)
  assert.deepEqual([isUsualBound(defaultFlow), isUsualBound(flow)], [true, false])
})

test('no verdict is to wait for longer than the message is wanted', () => {
  const run = fc.property(
    fc.array(fc.nat(10_000), { minLength: 1, maxLength: 5 }),
    fc.integer({ min: 1, max: 6 }),
    fc.integer({ min: -100, max: 20_000 }),
    fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
    (ms, attempts, expiresInMs, random) => {
      const policy = { waits: { kind: 'list', ms }, jitter: 'full', maxAgeMs: 1e12 } as const
      const verdict = judge(attempts, 0, failure, policy, () => random, expiresInMs)
      if (verdict.state === 'waiting') assert.ok(verdict.waitMs < expiresInMs)
      else if (attempts > ms.length) assert.deepEqual(verdict, { state: 'dead', reason: 'exhausted' })
      else assert.deepEqual(verdict, { state: 'dead', reason: 'expired' })
    },
  )
  fc.assert(run)
})
