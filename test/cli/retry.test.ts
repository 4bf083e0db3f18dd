import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { retryPolicy } from '../../src/cli/field-options.ts'
import { defaultRetryPolicy, jitters, type RetryPolicy, retryAfterRules } from '../../src/domain/retry.ts'
import { WrongValue } from '../../src/runtime/setting-kinds.ts'

describe('--retry', () => {
  const policies: [string, object][] = [
    ['5s,1m,1h', { waits: { kind: 'list', ms: [5000, 60_000, 3_600_000] } }],
    ['250ms', { waits: { kind: 'list', ms: [250] } }],
    ['0s, 10s', { waits: { kind: 'list', ms: [0, 10_000] } }],
    ['none', { waits: { kind: 'list', ms: [] } }],
    [
      'exponential:5s..1h,x12',
      { waits: { kind: 'exponential', baseMs: 5000, factor: 2, capMs: 3_600_000, maxAttempts: 12 } },
    ],
    [
      '{"waits":{"kind":"list","ms":[1]},"jitter":"full","maxAgeMs":1000}',
      { waits: { kind: 'list', ms: [1] }, jitter: 'full', maxAgeMs: 1000 },
    ],
  ]
  policies.push([
    'exponential:1s..1m,x5,factor=1.5,jitter=none,max-age=1h,retry-after=later',
    {
      waits: { kind: 'exponential', baseMs: 1000, factor: 1.5, capMs: 60_000, maxAttempts: 5 },
      ...{ jitter: 'none', maxAgeMs: 3_600_000, retryAfter: 'later' },
    },
  ])
  policies.push([
    'exponential:2s..1h,x12,jitter=added,jitter-span=30s',
    {
      waits: { kind: 'exponential', baseMs: 2000, factor: 2, capMs: 3_600_000, maxAttempts: 12 },
      ...{ jitter: 'added', jitterMs: 30_000 },
    },
  ])
  for (const [text, policy] of policies) {
    test(`takes ${text}`, () => assert.deepEqual(retryPolicy.parse(text), policy))
  }

  const wrong: [string, RegExp][] = [
    ['soon', /"soon" is not a duration/],
    ['5s,,1m', /"" is not a duration/],
    ['8d', /"8d" is not a duration from 0ms to 7d/],
    ['exponential:5s', /"exponential:5s" is not a duration/],
    ['exponential:1h..5s,x3', /1h is longer than 5s/],
    ['5s,jitter=some', /jitter=some is not one of full, equal/],
    ['5s,patience=1', /"patience=1" is none of these/],
    ['5s,factor=3', /factor= belongs to exponential/],
    ['exponential:1s..5s,x3,factor=0', /a factor is from 1 to 100/],
    ['{"waits"', /JSON in the form of the API \(/],
  ]
  for (const [text, problem] of wrong) {
    test(`refuses ${text} and names the forms it takes`, () => {
      assert.throws(
        () => retryPolicy.parse(text),
        (error: Error) => error instanceof WrongValue && problem.test(error.message) && /5s,1m,1h/.test(error.message),
      )
    })
  }

  test('reads back every policy that it prints', () => {
    const day = 86_400_000
    const list = fc.record({ kind: fc.constant('list' as const), ms: fc.array(fc.integer({ min: 0, max: 7 * day })) })
    const exponential = fc
      .record({
        kind: fc.constant('exponential' as const),
        baseMs: fc.integer({ min: 1, max: day }),
        factor: fc.oneof(fc.constant(2), fc.double({ min: 1, max: 100, noNaN: true })),
        capMs: fc.integer({ min: 1, max: 7 * day }),
        maxAttempts: fc.integer({ min: 1, max: 100 }),
      })
      .map((waits) => ({ ...waits, capMs: Math.max(waits.capMs, waits.baseMs) }))
    const policy: fc.Arbitrary<RetryPolicy> = fc.record({
      waits: fc.oneof(list, exponential),
      jitter: fc.constantFrom(...jitters),
      jitterMs: fc.constant(null),
      maxAgeMs: fc.oneof(fc.constant(defaultRetryPolicy.maxAgeMs), fc.integer({ min: 1, max: 30 * day })),
      retryAfter: fc.constantFrom(...retryAfterRules),
    })
    fc.assert(
      fc.property(policy, (stored) => {
        const printed = retryPolicy.show(stored)
        assert.deepEqual(
          { ...defaultRetryPolicy, jitterMs: null, ...retryPolicy.parse(printed) },
          structuredClone(stored),
          printed,
        )
      }),
    )
  })
})
