import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { batchLimits, Scanner, spansOfElements } from '../../src/json/scan.ts'

const scanner = new Scanner(7).sized(batchLimits)

test('the elements of any array are found where they lie, whatever stands between them', () => {
  const space = fc.constantFrom('', ' ', '\n\t ', '  ')
  const array = fc.array(fc.tuple(fc.jsonValue({ maxDepth: 3 }), space, space), { maxLength: 8 })
  const run = fc.property(array, space, (elements, inner) => {
    const texts = elements.map(([value]) => JSON.stringify(value))
    const list = elements.map(([, before, behind], i) => `${before}${texts[i]}${behind}`).join(',')
    const body = Buffer.from(`{"a":1,"messages":[${inner}${list}] ,"z":"]"}`)
    let span: ReturnType<typeof scanner.scan>
    try {
      span = scanner.scan(body, 'messages')
    } catch {
      return // a key twice, or one that is not allowed
    }
    assert(span)
    const found = spansOfElements(body, span).map(({ start, end }) => body.toString('utf8', start, end).trim())
    assert.deepEqual(found, texts)
  })
  fc.assert(run, { numRuns: 500 })
})
