import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseInstant } from '../../src/domain/clock.ts'

test('an instant is read as it is written', () => {
  fc.assert(
    fc.property(
      fc.date({ min: new Date('1970-01-01'), max: new Date('9999-12-31'), noInvalidDate: true }),
      (date) => parseInstant(date.toISOString()) === date.getTime(),
    ),
  )
  assert.equal(parseInstant('2028-02-29T23:30:00-01:00'), Date.parse('2028-03-01T00:30:00Z'))
})

test('a day that no calendar has is none', () => {
  for (const text of [
    '2026-02-29T00:00:00Z',
    '2026-02-31T00:00:00Z',
    '2026-04-31T12:00:00+02:00',
    '2026-00-01T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2026-01-01T25:00:00Z',
    'tomorrow',
    '5',
    '',
  ]) {
    assert.ok(Number.isNaN(parseInstant(text)), text)
  }
})
