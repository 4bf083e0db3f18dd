import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { endpointFieldsPage, pagePath } from '../../scripts/endpoint-fields.ts'
import { defaultFlow } from '../../src/domain/flow.ts'
import { fieldEntries } from '../../src/features/endpoints/noun.ts'

describe('the table of endpoint fields', () => {
  test('places every field either in a column or in the flow, and no two in one place', () => {
    const places = fieldEntries.map(([name, { column, flow }]) => {
      assert.notEqual(column === undefined, flow === undefined, name)
      return column === undefined ? `flow.${flow}` : column
    })
    assert.equal(new Set(places).size, places.length)
  })

  test('names every field, alias and flag once', () => {
    const names = fieldEntries.flatMap(([name, { alias, flag }]) => [name, alias, flag])
    const given = names.filter((name) => name !== undefined)
    assert.equal(new Set(given).size, given.length)
  })

  test('has a fallback that its kind allows, or null where the API takes null', () => {
    for (const [name, { kind, fallback, noNull }] of fieldEntries) {
      if (fallback === null) assert.notEqual(noNull, true, name)
      else if (kind.is === 'choice') assert.ok(kind.words.includes(String(fallback)), name)
      else if (kind.is === 'integer' || kind.is === 'duration') {
        assert.ok(Number(fallback) >= kind.min && Number(fallback) <= kind.max, name)
      }
    }
  })

  test('gives the default flow, to which only the command of an operator is added', () => {
    const parts = fieldEntries.flatMap(([, { flow }]) => (flow === undefined ? [] : [flow]))
    assert.deepEqual(Object.keys(defaultFlow), [...parts, 'circuitOrder'])
    assert.deepEqual([defaultFlow.adaptive, defaultFlow.overflow, defaultFlow.maxAgeMs], [true, 'refuse', null])
  })

  test('describes every field in a sentence', () => {
    for (const [name, { description }] of fieldEntries) assert.match(description, /^[A-Z].*\.$/, name)
  })

  test('is written down in docs/endpoint-fields.md (node scripts/endpoint-fields.ts rewrites it)', () => {
    assert.equal(readFileSync(pagePath, 'utf8'), endpointFieldsPage())
  })
})
