import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allAtOnce } from '../../src/domain/turns.ts'
import { Outline } from '../../src/json/outline.ts'
import { SubjectIndex } from '../../src/shaping/subjects.ts'

const index = new SubjectIndex({ pointers: ['/user/id', '/mail', '/to/*/mail', '/n~1a'], secret: 'a secret' })

function outline(text: string): Outline | undefined {
  return allAtOnce(Outline.of(Buffer.from(text)))
}

function hashesIn(text: string, by = index): readonly string[] {
  return allAtOnce(by.hashesIn(outline(text)))
}

function hash(subject: string): string {
  return index.hashOf(subject) as string
}

test('the values that pointers name are hashed, each once', () => {
  assert.deepEqual(hashesIn('{"user":{"id":42},"mail":"ann@example.com"}'), [hash('42'), hash('ann@example.com')])
  assert.deepEqual(hashesIn('{"to":[{"mail":"a"},{"mail":"b"},{"mail":"a"},{}],"n/a":"c"}'), [
    hash('a'),
    hash('b'),
    hash('c'),
  ])
  assert.deepEqual(hashesIn('{"other":"ann@example.com"}'), [])
})

test('a text counts by its characters and a number as it is written', () => {
  assert.deepEqual(hashesIn('{"mail":"\\u0061nn\\u0040example.com"}'), [hash('ann@example.com')])
  assert.deepEqual(hashesIn('{"user":{"id":"42"}}'), [hash('42')])
  assert.deepEqual(hashesIn('{"user":{"id":42.0}}'), [hash('42.0')])
  assert.deepEqual(hashesIn('{"user":{"id":9007199254740993}}'), [hash('9007199254740993')])
  assert.notEqual(hash('Ann'), hash('ann'))
})

test('other values name no one, and a body that is not JSON names no one', () => {
  for (const value of ['null', 'true', 'false', '""', '{"a":"b"}', '["a"]']) {
    assert.deepEqual(hashesIn(`{"mail":${value}}`), [], value)
  }
  assert.deepEqual(hashesIn('ann@example.com'), [])
  assert.deepEqual(hashesIn('"ann@example.com"'), [])
})

test('a message with too many subjects, or an application without its secret, is marked to be read', () => {
  const to = (count: number) => JSON.stringify({ to: Array.from({ length: count }, (_, i) => ({ mail: `p${i}` })) })
  assert.equal(hashesIn(to(100)).length, 100)
  assert.deepEqual(hashesIn(to(101)), [''])
  const locked = new SubjectIndex({ pointers: ['/mail'], secret: null })
  assert.deepEqual(hashesIn('{"mail":"ann"}', locked), [''])
  assert.equal(locked.hashOf('ann'), undefined)
})

test('a message with many values, equal ones too, is marked to be read after the first thousand', () => {
  const by = new SubjectIndex({ pointers: ['/to/*'], secret: 'a secret' })
  const to = (count: number) => JSON.stringify({ to: Array(count).fill('ann') })
  assert.deepEqual(hashesIn(to(1000), by), [hash('ann')])
  assert.deepEqual(hashesIn(to(1001), by), [''])
  const hashing = by.hashesIn(outline(to(20_000)))
  let parts = 1
  for (; hashing.next().done !== true; parts++);
  assert.ok(parts < 10, `${parts} parts`)
})

test('a hash is 128 bits, and another secret gives another hash', () => {
  assert.match(hash('ann'), /^[\w-]{22}$/)
  assert.notEqual(new SubjectIndex({ pointers: [], secret: 'another' }).hashOf('ann'), hash('ann'))
})

test('a body is searched for one subject', () => {
  const body = outline('{"to":[{"mail":"a"},{"mail":"b"}]}')
  assert.equal(allAtOnce(index.names(body, hash('b'))), true)
  assert.equal(allAtOnce(index.names(body, hash('c'))), false)
  assert.equal(allAtOnce(index.names(undefined, hash('b'))), false)
})

test('a body without its subjects keeps every other byte', () => {
  const body = outline('{ "user": {"id": 42, "n": 1.0}, "mail":null, "to":[{"mail":"a"} , {"mail":["x"]}] }') as Outline
  assert.equal(
    allAtOnce(index.without(body)).toString(),
    '{ "user": {"id": "[erased]", "n": 1.0}, "mail":null, "to":[{"mail":"[erased]"} , {"mail":"[erased]"}] }',
  )
})
