import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SlidingCount } from '../../src/domain/rate.ts'

const windowMs = 100

test('all of the last half of the window is counted, and nothing older than one and a half of it', () => {
  const step = fc.record({ waitMs: fc.integer({ min: 0, max: 80 }), good: fc.boolean() })
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 60 }), (steps) => {
      const count = new SlidingCount()
      const seen: { at: number; good: boolean }[] = []
      let now = 1000
      for (const { waitMs, good } of steps) {
        now += waitMs
        seen.push({ at: now, good })
        count.count(good, windowMs, now)
        const since = (ms: number) => seen.filter(({ at }) => at > now - ms)
        assert.ok(count.total >= since(windowMs / 2).length)
        assert.ok(count.total <= since(windowMs * 1.5).length)
        assert.ok(count.bad >= since(windowMs / 2).filter((one) => !one.good).length)
        assert.ok(count.bad <= since(windowMs * 1.5).filter((one) => !one.good).length)
        assert.ok(count.peak <= count.total && 2 * count.peak >= count.total)
      }
      count.clear()
      assert.deepEqual([count.total, count.bad, count.peak], [0, 0, 0])
    }),
  )
})
