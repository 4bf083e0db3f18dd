import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { signatureProfiles } from '../../src/features/endpoints/noun.ts'
import { hexSigner, standardSigner } from '../../src/wire/profile.ts'
import { olderSecretsLimit, readSecret, receiverKey, rotated } from '../../src/wire/secret.ts'

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

const whsec = (bytes: number) => `whsec_${Buffer.alloc(bytes, 7).toString('base64')}`

test("secrets of 24 to 75 bytes are taken, as by Svix's pattern of 32 to 100 characters", () => {
  for (const bytes of [24, 64, 65, 75]) {
    assert.equal(readSecret(whsec(bytes), 'standard'), whsec(bytes))
    assert.equal(readSecret(whsec(bytes).slice('whsec_'.length), 'standard'), whsec(bytes))
  }
  for (const bytes of [0, 23, 76]) assert.equal(readSecret(whsec(bytes), 'standard'), undefined)
})

test('a key in text or hex is the same bytes for every profile', () => {
  const body = Buffer.from('{"a":1}')
  for (const [secret, key] of [
    ['raw:correct horse', Buffer.from('correct horse')],
    ['raw:ü', Buffer.from('ü', 'utf8')],
    ['hex:00fF10', Buffer.from('00ff10', 'hex')],
  ] as const) {
    for (const profile of signatureProfiles) assert.equal(readSecret(secret, profile), secret)
    const hex = createHmac('sha256', key).update('1.').update(body).digest('hex')
    assert.equal(hexSigner(secret)?.('1.', body), hex)
    assert.equal(standardSigner(secret)?.('1.', body), `v1,${Buffer.from(hex, 'hex').toString('base64')}`)
    assert.equal(receiverKey(secret, 'github'), secret)
    // The libraries of Standard Webhooks read base64 alone.
    assert.equal(receiverKey(secret, 'standard'), `whsec_${key.toString('base64')}`)
  }
  for (const wrong of ['raw:', `raw:${'x'.repeat(513)}`, 'raw:\ud800', 'hex:', 'hex:0', 'hex:0g']) {
    assert.equal(readSecret(wrong, 'github'), undefined, wrong)
    assert.equal(readSecret(wrong, 'standard'), undefined, wrong)
  }
})

test('a text without a prefix is the key itself for the profiles that sign with text', () => {
  // As `openssl rand -hex 20` prints a key for GitHub, and as Stripe writes its own.
  const [github, stripe] = ['8f3c2a9b1d4e5f60718293a4b5c6d7e8f9012345', 'whsec_5f_not-base64']
  const body = Buffer.from('{}')
  for (const text of [github, stripe, 'short', whsec(24)]) {
    const kept = readSecret(text, 'stripe')
    assert.ok(kept, text)
    assert.equal(hexSigner(kept)?.('', body), createHmac('sha256', text).update(body).digest('hex'))
  }
  assert.equal(readSecret('short', 'standard'), undefined)
  assert.equal(readSecret(stripe, 'standard'), undefined)
  for (const text of ['', 'whpk_x', 'whsk_x']) assert.equal(readSecret(text, 'github'), undefined, text)
})
