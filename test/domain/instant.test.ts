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

test('an instant is read in every form that an SDK sends or that Svix reads', () => {
  const at = Date.parse('2026-11-15T09:40:00.123Z')
  for (const text of [
    '2026-11-15T09:40:00.123Z',
    '2026-11-15T09:40:00.123456+00:00', // Python: datetime.isoformat()
    '2026-11-15T09:40:00.123456789Z', // Kotlin: Instant.toString()
    '2026-11-15T09:40:00.1234567Z', // C#: DateTime.ToString("o")
    '2026-11-15T10:40:00.123+01:00', // Rust: DateTime::to_rfc3339()
    '2026-11-15 09:40:00.123Z',
    '2026-11-15 09:40:00.123 UTC',
    '2026-11-15t09:40:00.123z',
    '2026-11-15T09:40:00.123+0000',
    '2026-11-15T09:40:00.123 00:00', // A plus that was not encoded in a query.
  ]) {
    assert.equal(parseInstant(text), at, text)
  }
  assert.equal(parseInstant('2026-11-15T09:40:00Z'), Date.parse('2026-11-15T09:40:00Z')) // Go: time.RFC3339
  assert.equal(parseInstant('2026-11-15T09:40Z'), Date.parse('2026-11-15T09:40:00Z')) // Java: OffsetDateTime.toString()
})

test('an instant without an offset, or with anything else around it, is none', () => {
  for (const text of [
    '2026-11-15T09:40:00',
    '2026-11-15',
    '2026-11-15T09Z',
    ' 2026-11-15T09:40:00Z',
    '2026-11-15T09:40:00ZZ',
  ]) {
    assert.ok(Number.isNaN(parseInstant(text)), text)
  }
})
