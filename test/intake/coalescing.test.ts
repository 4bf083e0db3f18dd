import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { coalescing } from '../../src/intake/treatments.ts'

function key(body: string, pointer: string | null, eventType = 'video.trending'): string | undefined {
  return coalescing({ eventType, delayMs: 0 }, Buffer.from(body))({ key: pointer, windowMs: 5000 })?.key
}

describe('the key of deliveries that coalesce', () => {
  test('is the event type and the value that is named', () => {
    assert.equal(key('{"id":"a","n":1}', '/id'), key('{"n":2,"id":"a"}', '/id'))
    assert.notEqual(key('{"id":"a"}', '/id'), key('{"id":"b"}', '/id'))
    assert.notEqual(key('{"id":"a"}', '/id'), key('{"id":"a"}', '/id', 'video.gone'))
    assert.notEqual(key('{"id":"1"}', '/id'), key('{"id":1}', '/id'))
    assert.notEqual(key('{"id":"null"}', '/id'), key('{"id":null}', '/id'))
  })

  test('does not depend on how a text is escaped, but on every digit of a number', () => {
    assert.equal(key('{"id":"\\u0061"}', '/id'), key('{"id":"a"}', '/id'))
    assert.notEqual(key('{"id":9007199254740993}', '/id'), key('{"id":9007199254740992}', '/id'))
    assert.notEqual(key('{"id":1.0}', '/id'), key('{"id":1}', '/id'))
  })

  test('is the event type alone without a pointer, whatever the body is', () => {
    assert.equal(key('not JSON', null), key('{"id":1}', null))
    assert.notEqual(key('not JSON', null), key('not JSON', null, 'video.gone'))
  })

  test('is nothing when the payload has no such value', () => {
    assert.equal(key('{"other":1}', '/id'), undefined)
    assert.equal(key('not JSON', '/id'), undefined)
    assert.equal(key('', '/id'), undefined)
  })

  test('does not matter for what is sent at its own instant, or expires before its window ends', () => {
    const of = (delayMs: number, expiresInMs: number | null) => {
      return coalescing({ eventType: 'a', delayMs, expiresInMs }, Buffer.from('1'))({ key: null, windowMs: 5000 })
    }
    assert.ok(of(0, null))
    assert.ok(of(0, 5001))
    assert.equal(of(0, 5000), undefined)
    assert.equal(of(1, null), undefined)
  })

  test('is not looked for in too many places of a large body', () => {
    const body = Buffer.from(JSON.stringify({ filler: 'x'.repeat(4 * 1024 * 1024), a: 1, b: 2, c: 3, d: 4, e: 5 }))
    const of = coalescing({ eventType: 'a', delayMs: 0 }, body)
    const found = ['/a', '/b', '/c', '/d', '/e'].map((key) => of({ key, windowMs: 1 }) !== undefined)
    assert.deepEqual(found, [true, true, true, false, false])
    assert.ok(of({ key: '/a', windowMs: 1 }), 'what was found is known')
    assert.ok(of({ key: null, windowMs: 1 }))
  })

  test('differs for endpoints that look in different places', () => {
    const of = coalescing({ eventType: 'a', delayMs: 0 }, Buffer.from('{"id":"x","user":"x"}'))
    assert.notEqual(of({ key: '/id', windowMs: 1 })?.key, of({ key: '/user', windowMs: 1 })?.key)
    assert.equal(of({ key: '/id', windowMs: 1 })?.key, of({ key: '/id', windowMs: 2 })?.key)
  })
})
