import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { valueAt } from '../../src/json/pointer.ts'

/** The bytes that a pointer names, as text. */
function written(json: string, pointer: string): string | undefined {
  const body = Buffer.from(json)
  const span = valueAt(body, pointer)
  return span && body.toString('utf8', span.start, span.end)
}

describe('the value that a pointer names', () => {
  const json = ' { "a" : { "b/c" : [ 1.0 , {"~":"x\\"]"} , [] ] } , "" : null , "k\\u00e9" : true }'

  test('is found as it is written', () => {
    assert.equal(written(json, '/a/b~1c/0'), '1.0')
    assert.equal(written(json, '/a/b~1c/1/~0'), '"x\\"]"')
    assert.equal(written(json, '/a/b~1c/2'), '[]')
    assert.equal(written(json, '/'), 'null')
    assert.equal(written(json, '/ké'), 'true')
    assert.equal(written(json, '/a'), '{ "b/c" : [ 1.0 , {"~":"x\\"]"} , [] ] }')
    assert.equal(written('7', ''), '7')
  })

  test('is found by a name that is written with escapes, and not by its escapes', () => {
    const escaped = (name: string) =>
      `"${[...name].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')}"`
    for (const name of ['a', 'type', 'a\\b', '\\n', 'é世', '"', '\n']) {
      const pointer = `/${name}`
      assert.equal(written(`{${escaped(name)}:1}`, pointer), '1', name)
      assert.equal(written(`{${JSON.stringify(name)}:1}`, pointer), '1', name)
      assert.equal(written(`{"x":0,${escaped(`${name}x`)}:2,${escaped(name)}:1}`, pointer), '1', name)
    }
    assert.equal(written('{"a\\nb":1}', '/a\\nb'), undefined)
    assert.equal(written('{"a\\\\nb":1}', '/a\\nb'), '1')
  })

  test('is missing where nothing is', () => {
    for (const pointer of ['/b', '/a/b', '/a/b~1c/3', '/a/b~1c/-', '/a/b~1c/01', '/a/b~1c/0/x', '//x', '/a/b~1c/1e0']) {
      assert.equal(written(json, pointer), undefined, pointer)
    }
    assert.equal(written('[]', '/0'), undefined)
    assert.equal(written('{}', '/a'), undefined)
  })

  test('is missing in what is not JSON, which is read to its end at most', () => {
    for (const text of [
      '',
      '{',
      '{"a"',
      '{"a":',
      '{"a" 1}',
      '{"b":{{{{',
      '{"b":"',
      'plain text',
      '{"b":1 "a":2}',
      '[1',
      '{a:1}',
    ]) {
      assert.equal(written(text, '/a'), undefined, text)
      assert.equal(written(text, '/1'), undefined, text)
    }
  })

  test('is what a parser finds, whatever the document and the way it is spaced', () => {
    const place = fc.array(fc.nat(5), { maxLength: 5 })
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), place, fc.constantFrom(undefined, 1, '\t'), (value, turns, space) => {
        // Walks to some place in the document by taking the n-th child at each level.
        let here: unknown = value
        let pointer = ''
        for (const turn of turns) {
          if (typeof here !== 'object' || here === null) break
          const entries = Object.entries(here)
          const entry = entries[turn % Math.max(1, entries.length)]
          if (entry === undefined) break
          pointer += `/${entry[0].replaceAll('~', '~0').replaceAll('/', '~1')}`
          here = entry[1]
        }
        const found = written(JSON.stringify(value, null, space), pointer)
        assert.deepEqual(JSON.parse(found ?? 'undefined'), JSON.parse(JSON.stringify(here)))
      }),
    )
  })

  test('never throws, whatever the bytes', () => {
    const bytes = fc.uint8Array({ maxLength: 40 })
    const nearJson = fc.stringMatching(/^[{}[\]",:\\0-9a-z ]{0,30}$/).map((text) => Buffer.from(text))
    fc.assert(fc.property(fc.oneof(bytes, nearJson), (body) => void valueAt(body, '/a/0')))
  })
})
