import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { allAtOnce } from '../../src/domain/turns.ts'
import { Outline } from '../../src/json/outline.ts'
import { shaper } from '../../src/shaping/shape.ts'

type Json = null | boolean | number | string | Json[] | { [name: string]: Json }

// Names that also mean something in a pointer.
const names = ['a', 'b', '*', '0', '1', 'c/d', '~']
const { json } = fc.letrec<{ json: Json }>((tie) => ({
  json: fc.oneof(
    { depthSize: 'small' },
    fc.constant(null),
    fc.integer(),
    fc.string(),
    fc.array(tie('json'), { maxLength: 4 }),
    fc.dictionary(fc.constantFrom(...names), tie('json'), { maxKeys: 5, noNullPrototype: true }),
  ),
}))
const path = fc.array(fc.constantFrom(...names, '2'), { minLength: 1, maxLength: 4 })
const paths = fc.array(path, { maxLength: 4 })

const pointerTo = (steps: readonly string[]) =>
  steps.map((step) => `/${step.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')

interface Place {
  readonly name: string
  readonly inArray: boolean
}

const leads = (steps: readonly string[], to: readonly Place[]) =>
  to.every(({ name, inArray }, i) => steps[i] === name || (inArray && steps[i] === '*'))
const means = (steps: readonly string[], place: readonly Place[]) =>
  steps.length === place.length && leads(steps, place)

const isContainer = (value: Json) => value !== null && typeof value === 'object'

/** The shaped value, built from the parsed payload. */
function model(value: Json, keep: string[][] | null, drop: string[][]): Json {
  function rest(of: Json, at: readonly Place[], whole: boolean): Json {
    if (of === null || typeof of !== 'object') return of
    const inArray = Array.isArray(of)
    const parts = Object.entries(of).flatMap(([name, inner]): [string, Json][] => {
      const place = [...at, { name, inArray }]
      if (drop.some((steps) => means(steps, place))) return []
      const kept = whole || (keep ?? []).some((steps) => means(steps, place))
      const onTheWay =
        isContainer(inner) && (keep ?? []).some((steps) => steps.length > place.length && leads(steps, place))
      return kept || onTheWay ? [[name, rest(inner, place, kept)]] : []
    })
    return inArray ? parts.map(([, inner]) => inner) : Object.fromEntries(parts)
  }
  return keep !== null && !isContainer(value) ? null : rest(value, [], keep === null)
}

function shapedText(value: Json, indent: number, shape: Partial<Parameters<typeof shaper>[0]>): string {
  const outline = allAtOnce(Outline.of(Buffer.from(JSON.stringify(value, null, indent))))
  assert(outline)
  const whole = { keep: null, drop: [], rename: {}, pseudonymize: [], ...shape }
  return allAtOnce(shaper(whole, () => 'psn_')(outline)).toString()
}

test('cutting in the bytes gives the same value as building it', () => {
  fc.assert(
    fc.property(json, fc.option(paths), paths, fc.nat(2), (value, keep, drop, indent) => {
      const kept = keep === null || keep.length === 0 ? null : keep
      const text = shapedText(value, indent, { keep: kept?.map(pointerTo) ?? null, drop: drop.map(pointerTo) })
      assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(model(value, kept, drop))))
    }),
    { numRuns: 2000 },
  )
})

test('whatever is renamed and replaced, JSON is left', () => {
  fc.assert(
    fc.property(json, paths, paths, (value, renamed, replaced) => {
      const rename = Object.fromEntries(renamed.map((steps, i) => [pointerTo(steps), `new ${i % 2}`]))
      const text = shapedText(value, 0, { rename, pseudonymize: replaced.map(pointerTo) })
      JSON.parse(text)
    }),
    { numRuns: 1000 },
  )
})
