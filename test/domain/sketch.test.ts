import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { longestMs, relativeError, Sketch, shortestMs } from '../../src/features/history/rules.ts'

/** Durations over the whole range, each order of magnitude as likely as the next. */
const duration = fc.double({ min: -2, max: 11, noNaN: true }).map((power) => 10 ** power)
const durations = fc.array(duration, { maxLength: 200 })

function sketchOf(values: readonly number[]): Sketch {
  const sketch = new Sketch()
  for (const value of values) sketch.add(value)
  return sketch
}

function merged(...sketches: Sketch[]): Sketch {
  const all = new Sketch()
  for (const each of sketches) all.merge(each)
  return all
}

test('a quantile is within the stated error of the value at its rank', () => {
  fc.assert(
    fc.property(
      fc.array(duration, { minLength: 1, maxLength: 200 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (values, share) => {
        const sorted = values.map((value) => Math.min(longestMs, Math.max(shortestMs, value))).sort((a, b) => a - b)
        const exact = sorted[Math.max(1, Math.ceil(share * sorted.length)) - 1] as number
        const estimate = sketchOf(values).quantile(share) as number
        const error = Math.abs(estimate - exact) / exact
        assert(error <= relativeError + 1e-9, `${estimate} instead of ${exact}`)
      },
    ),
  )
})

test('merging is associative and commutative, and loses nothing against one sketch of everything', () => {
  fc.assert(
    fc.property(durations, durations, durations, (a, b, c) => {
      const [x, y, z] = [sketchOf(a), sketchOf(b), sketchOf(c)]
      const whole = sketchOf([...a, ...b, ...c]).toJSON()
      assert.deepEqual(merged(merged(x, y), z).toJSON(), whole)
      assert.deepEqual(merged(x, merged(y, z)).toJSON(), whole)
      assert.deepEqual(merged(z, x, y).toJSON(), whole)
      assert.deepEqual(merged(x, new Sketch()).toJSON(), x.toJSON())
    }),
  )
})

test('merging leaves the other sketch as it was', () => {
  const [one, other] = [sketchOf([1, 1000]), sketchOf([5])]
  one.merge(other)
  one.add(5)
  assert.deepEqual(other.toJSON(), sketchOf([5]).toJSON())
})

test('a sketch that was written and read is the same sketch', () => {
  fc.assert(
    fc.property(durations, (values) => {
      const sketch = sketchOf(values)
      const read = Sketch.read(JSON.parse(JSON.stringify(sketch)))
      assert.deepEqual(read.toJSON(), sketch.toJSON())
      assert.equal(read.count, values.length)
      for (const share of [0, 0.5, 0.95, 1]) assert.equal(read.quantile(share), sketch.quantile(share))
    }),
  )
})

test('an empty sketch has no quantile', () => {
  assert.equal(new Sketch().quantile(0.5), undefined)
  assert.equal(new Sketch().count, 0)
})

test('durations that are no number, negative or out of range are counted at the edges', () => {
  const sketch = sketchOf([Number.NaN, -5, 0, Number.POSITIVE_INFINITY])
  assert.equal(sketch.count, 4)
  assert.equal(sketch.quantile(0), shortestMs)
  assert((sketch.quantile(1) as number) > 100 * 24 * 60 * 60 * 1000)
})
