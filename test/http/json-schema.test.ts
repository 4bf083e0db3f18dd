import assert from 'node:assert/strict'
import { test } from 'node:test'
import { jsonSchemaProblems } from '../../src/operations/json-schema.ts'
import { openApi } from './api.ts'

/** The places of all problems, and how often the check yielded. */
function check(schema: unknown) {
  const parts = jsonSchemaProblems(schema, [])
  for (let yields = 0; ; yields++) {
    const { done, value } = parts.next()
    if (done) return { places: value.map(({ at }) => at.join('/')).sort(), yields }
  }
}

test('JSON Schemas of several drafts are schemas', () => {
  for (const schema of [
    {},
    { type: ['string', 'null'], pattern: '^a+$', minLength: 0 },
    { $ref: '#/$defs/a', $defs: { a: { type: 'object', properties: { required: { type: 'string' } } } } },
    { items: [{ type: 'integer' }], additionalItems: false, definitions: { a: true } },
    { prefixItems: [{}], items: { not: {} }, if: { const: 1 }, else: false, enum: [1], exclusiveMinimum: true },
    { title: 'Invoice Paid Event', required: ['a'], 'x-own': 17, format: 'anything', default: { type: 7 } },
  ]) {
    assert.deepEqual(check(schema).places, [], JSON.stringify(schema))
  }
})

test('every place that is no schema is named', () => {
  const wrong = {
    type: 'text',
    properties: { a: { type: 7 }, b: 'string', c: { items: { anyOf: {} } } },
    required: 'a',
    pattern: '(',
    minLength: -1,
    allOf: [{ $ref: 1 }, null],
  }
  assert.deepEqual(check(wrong).places, [
    'allOf/0/$ref',
    'allOf/1',
    'minLength',
    'pattern',
    'properties/a/type',
    'properties/b',
    'properties/c/items/anyOf',
    'required',
    'type',
  ])
})

test('a large schema is checked in many parts, and stops at twenty problems', () => {
  const properties = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`p${i}`, { type: 'string' }]))
  const { places, yields } = check({ properties })
  assert.deepEqual(places, [])
  assert.ok(yields >= 100, `${yields}`)
  assert.equal(check({ allOf: Array.from({ length: 50_000 }, () => 1) }).places.length, 20)
})

test('an event type takes schemas alone, however it is made or changed', async () => {
  const { ask } = await openApi()
  const path = '/api/v1/event-type'
  const wrong = { schemas: { 1: { type: 'object', properties: { id: { type: 'uuid' } } } } }
  const right = { schemas: { 1: { type: 'object', properties: { id: { type: 'string' } } } } }
  assert.equal((await ask('POST', path, { name: 'a', description: '', ...right })).status, 201)
  for (const [method, at, body] of [
    ['POST', path, { name: 'b', description: '', ...wrong }],
    ['PUT', `${path}/b`, { description: '', ...wrong }],
    ['PATCH', `${path}/a`, wrong],
  ] as const) {
    const { status, json } = await ask(method, at, body)
    assert.equal(status, 422, method)
    assert.deepEqual(json.detail[0].loc, ['body', 'schemas', '1', 'properties', 'id', 'type'])
  }
  assert.deepEqual((await ask('GET', `${path}/a`)).json.schemas, right.schemas)
  assert.equal((await ask('GET', `${path}/b`)).status, 404)
})
