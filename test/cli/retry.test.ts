import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { retryPolicy } from '../../src/cli/endpoint.ts'
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
  for (const [text, policy] of policies) {
    test(`takes ${text}`, () => assert.deepEqual(retryPolicy.parse(text), policy))
  }

  const wrong: [string, RegExp][] = [
    ['soon', /"soon" is not a duration/],
    ['5s,,1m', /"" is not a duration/],
    ['8d', /"8d" is not a duration from 0s to 7d/],
    ['exponential:5s', /"exponential:5s" is not a duration/],
    ['exponential:1h..5s,x3', /1h is longer than 5s/],
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
})
