import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readSnapshot, writeSnapshot } from '../../src/domain/snapshot.ts'
import { snapshot } from './a-snapshot.ts'

test('a snapshot is read as it was written, to a thousandth', () => {
  const written = { ...snapshot, pace: 7.12345, sending: [{ message: 2 ** 52, forMs: 0.12345 }] }
  const read = { ...snapshot, pace: 7.123, sending: [{ message: 2 ** 52, forMs: 0.123 }] }
  assert.deepEqual(readSnapshot(writeSnapshot(written)), read)
})

test('an unreadable text is no snapshot', () => {
  for (const text of [null, '', '{', 'null', '[]', '7', '{"worker":1}', JSON.stringify({ ...snapshot, app: 1 })]) {
    assert.equal(readSnapshot(text), undefined, `${text}`)
  }
})
