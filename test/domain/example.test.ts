import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { exampleOf } from '../../src/features/event-types/example.ts'

test("the schema's own examples come first, the last when there are not that many", () => {
  const schema = { examples: [{ a: 1 }, { a: 2 }], type: 'object', properties: { b: {} } }
  assert.deepEqual(exampleOf(schema), { a: 1 })
  assert.deepEqual(exampleOf(schema, 1), { a: 2 })
  assert.deepEqual(exampleOf(schema, 9), { a: 2 })
})

test('without examples each property gets a value by its keywords', () => {
  const schema = {
    type: 'object',
    properties: {
      given: { type: 'string', example: 'x' },
      constant: { const: 7 },
      fallback: { type: 'integer', default: 3 },
      choice: { enum: ['eu', 'us'] },
      text: { type: 'string', minLength: 8 },
      at: { type: 'string', format: 'date-time' },
      whole: { type: 'integer', minimum: 1.5 },
      more: { type: 'number', exclusiveMinimum: 2 },
      less: { type: 'number', maximum: -4 },
      maybe: { type: ['null', 'boolean'] },
      list: { type: 'array', items: { type: 'string' } },
      any: {},
    },
  }
  assert.deepEqual(exampleOf(schema), {
    given: 'x',
    constant: 7,
    fallback: 3,
    choice: 'eu',
    text: 'string..',
    at: '2026-01-01T00:00:00Z',
    whole: 2,
    more: 3,
    less: -4,
    maybe: true,
    list: ['string'],
    any: null,
  })
})

test('references are followed, parts are put together, and of alternatives the first is taken', () => {
  const schema = {
    $defs: { 'a/b': { type: 'integer' }, Base: { properties: { id: { $ref: '#/$defs/a~1b' } } } },
    allOf: [{ $ref: '#/$defs/Base' }, { properties: { kind: { oneOf: [{ const: 'x' }, { const: 'y' }] } } }],
    properties: { n: { anyOf: [{ type: 'number' }] } },
  }
  assert.deepEqual(exampleOf(schema), { id: 0, kind: 'x', n: 0 })
})

test('a schema that refers to itself has an end', () => {
  const schema = { $defs: { Node: { properties: { next: { $ref: '#/$defs/Node' } } } }, $ref: '#/$defs/Node' }
  assert.match(JSON.stringify(exampleOf(schema)), /^\{"next":.*null\}+$/)
  assert.equal(exampleOf({ $ref: '#' }), null)
  assert.equal(exampleOf({ $ref: 'https://example.com/schema' }), null)
})

test('a reference with bad escapes is taken as it is', () => {
  assert.equal(exampleOf({ $ref: '#/$defs/100%', $defs: { '100%': { const: 5 } } }), 5)
  assert.equal(exampleOf({ $ref: '#/$defs/a%20b', $defs: { 'a b': { const: 6 } } }), 6)
})

test('whatever the schema, there is an example, and it is JSON', () => {
  const keyword = fc.constantFrom(
    'type',
    'properties',
    'items',
    'allOf',
    'oneOf',
    'enum',
    '$ref',
    'minLength',
    'minimum',
  )
  fc.assert(
    fc.property(fc.dictionary(keyword, fc.jsonValue()), (schema) => {
      const example = exampleOf(schema)
      assert.deepEqual(JSON.parse(JSON.stringify(example)), example)
    }),
  )
})
