import assert from 'node:assert/strict'
import { test } from 'node:test'
import { routes } from '../../src/features/routes.ts'
import type { Keywords } from '../../src/operations/schema-check.ts'

/** The objects of a request that do not say what becomes of a field that they do not have. */
function undecided(schema: Keywords, at: string): string[] {
  const { properties = {}, items, anyOf = [], patternProperties, additionalProperties } = schema
  const isObject = [schema.type].flat().includes('object')
  const own = isObject && additionalProperties === undefined && patternProperties === undefined ? [at] : []
  return [
    ...own,
    ...Object.entries(properties).flatMap(([name, inner]) => undecided(inner, `${at}.${name}`)),
    ...(items === undefined ? [] : undecided(items, `${at}[]`)),
    ...anyOf.flatMap((form, i) => undecided(form, `${at}(${i})`)),
  ]
}

test('every object in the body of a request says whether unknown fields are refused or named', () => {
  const bodies = routes.flatMap(({ id, body }) =>
    typeof body === 'object' && !('lines' in body) ? [{ id, body }] : [],
  )
  assert.ok(bodies.length > 40)
  assert.deepEqual(
    bodies.flatMap(({ id, body }) => undecided(body as Keywords, id)),
    [],
  )
})

test('only what producers send may have unknown fields', () => {
  const lenient = routes.filter(({ body }) => (body as Keywords | undefined)?.additionalProperties === true)
  assert.deepEqual(
    lenient.map(({ id }) => id),
    ['v1.message.create', 'v1.message.create-batch', 'v1.message.precheck'],
  )
})
