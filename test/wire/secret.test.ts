import assert from 'node:assert/strict'
import { test } from 'node:test'
import { olderSecretsLimit, rotated } from '../../src/wire/secret.ts'

const now = 1_000_000

test('the new secret comes first and does not expire; the one it replaces has the grace', () => {
  assert.deepEqual(rotated([{ secret: 'a', expiresAt: null }], 'b', now, 500), [
    { secret: 'b', expiresAt: null },
    { secret: 'a', expiresAt: now + 500 },
  ])
})

test('a grace never makes an older secret live longer, and may end it sooner', () => {
  const secrets = [
    { secret: 'a', expiresAt: null },
    { secret: 'b', expiresAt: now + 100 },
    { secret: 'c', expiresAt: now + 900 },
    { secret: 'd', expiresAt: now },
  ]
  assert.deepEqual(rotated(secrets, 'e', now, 500)?.slice(1), [
    { secret: 'a', expiresAt: now + 500 },
    { secret: 'b', expiresAt: now + 100 },
    { secret: 'c', expiresAt: now + 500 },
  ])
  assert.deepEqual(rotated(secrets, 'e', now, 0), [{ secret: 'e', expiresAt: null }])
})

test('a secret that is taken back signs once, without an end', () => {
  const before = [
    { secret: 'b', expiresAt: null },
    { secret: 'a', expiresAt: now + 5 },
  ]
  assert.deepEqual(rotated(before, 'a', now, 500), [
    { secret: 'a', expiresAt: null },
    { secret: 'b', expiresAt: now + 500 },
  ])
})

test('only so many older ones sign at once', () => {
  let secrets = [{ secret: 's', expiresAt: null as number | null }]
  for (let i = 0; i < olderSecretsLimit; i++) secrets = rotated(secrets, `s${i}`, now, 500) as typeof secrets
  assert.equal(secrets.length, olderSecretsLimit + 1)
  assert.equal(rotated(secrets, 'next', now, 500), undefined)
  assert.equal(rotated(secrets, 'next', now + 500, 500)?.length, 2)
})
