import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fairShares, shareHeld, wholeShares } from '../../src/domain/app-shares.ts'

const all = Number.POSITIVE_INFINITY

test('one busy worker among five gets the whole limit', () => {
  assert.deepEqual(fairShares(100, [0, 0, all, 0, 0]), [0, 0, 100, 0, 0])
  assert.deepEqual(wholeShares(3, [0, 0, all, 0, 0], 7), [0, 0, 3, 0, 0])
})

test('busy workers share evenly what modest ones leave', () => {
  assert.deepEqual(fairShares(100, [all, 10, all, 0]), [45, 10, 45, 0])
})

test('what nobody wants is lent to all', () => {
  assert.deepEqual(fairShares(100, [10, 30]), [40, 60])
  assert.deepEqual(fairShares(100, [0, 0]), [50, 50])
})

test('workers take turns where there are more of them than slots', () => {
  const got = [0, 0, 0, 0, 0]
  for (let turn = 0; turn < 5; turn++) {
    const shares = wholeShares(2, [all, all, all, all, all], turn)
    for (const [i, share] of shares.entries()) got[i] = (got[i] as number) + share
  }
  assert.deepEqual(got, [2, 2, 2, 2, 2])
})

const wants = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 500 }), fc.constant(all)), {
  minLength: 1,
  maxLength: 8,
})

test('shares add up to the limit, and nobody lacks something while another has more', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1000 }), wants, fc.nat(20), (limit, wants, turn) => {
      const fair = fairShares(limit, wants)
      assert.ok(Math.abs(fair.reduce((sum, share) => sum + share, 0) - limit) < 1e-6, `${fair}`)
      for (const [i, want] of wants.entries()) {
        const share = fair[i] as number
        if (want > share + 1e-6) assert.ok(Math.max(...fair) <= share + 1e-6, `${fair} of ${wants}`)
      }
      const whole = wholeShares(limit, wants, turn)
      assert.ok(whole.every(Number.isInteger))
      assert.ok(whole.reduce((sum, share) => sum + share, 0) <= limit, `${whole}`)
    }),
  )
})

test('whatever workers ask for in which order, what they hold adds up to the limit at most', () => {
  const ask = fc.record({ worker: fc.nat(4), target: fc.nat(12), uses: fc.nat(12) })
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 10 }), fc.array(ask, { maxLength: 40 }), (limit, asks) => {
      const held = [0, 0, 0, 0, 0]
      for (const { worker, target, uses } of asks) {
        const others = held.reduce((sum, each, i) => (i === worker ? sum : sum + each), 0)
        // A worker uses no more than it holds.
        held[worker] = shareHeld(Math.min(uses, held[worker] as number), target, limit, others).held
        assert.ok(held.reduce((sum, each) => sum + each, 0) <= limit, `${held}`)
      }
    }),
  )
})
