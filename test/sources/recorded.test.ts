import assert from 'node:assert/strict'
import { createHash, createHmac } from 'node:crypto'
import { test } from 'node:test'
import { SignJWT } from 'jose'
import { arrivalOf, verifierOf } from './arrivals.ts'

const now = 1_760_000_000_000
const secret = 'a secret of more than thirty-two characters'
const body = '{"type":"a.b"}'

test('a recorded request of an HMAC with a signed id stays the same event, whatever id it claims beside', async () => {
  const settings = { header: 'x-signature', signed: '{id}.{body}', idHeader: 'X-Id' }
  const signature = createHmac('sha256', secret).update(`evt-1.${body}`).digest('hex')
  const idOf = async (more: object, given: object = settings) => {
    const headers = { 'x-signature': signature, 'x-id': 'evt-1', ...more }
    const judgement = await verifierOf('hmac', { secret, settings: { ...given } }).judge(
      arrivalOf({ headers, body }),
      now,
    )
    assert.equal(judgement.kind, 'event')
    return judgement.kind === 'event' ? judgement.eventId : undefined
  }
  assert.equal(await idOf({}), 'evt-1')
  assert.equal(await idOf({ 'idempotency-key': 'another' }), 'evt-1')
  // The owner of the source knows better.
  const own = { ...settings, eventId: ['{header:idempotency-key}'] }
  assert.equal(await idOf({ 'idempotency-key': 'another' }, own), 'another')
})

test('a recorded request with a token for its body stays the same event; a token for many events makes them many', async () => {
  const hash = createHash('sha256').update(body).digest('hex')
  const token = await new SignJWT({ jti: 'token-1', body: hash, exp: now / 1000 + 60 })
    .setProtectedHeader({ alg: 'HS256' })
    .sign(Buffer.from(secret))
  const idOf = async (settings: object, more: object = {}) => {
    const headers = { authorization: `Bearer ${token}`, ...more }
    const judgement = await verifierOf('jwt', { secret, settings: { ...settings } }).judge(
      arrivalOf({ headers, body }),
      now,
    )
    assert.equal(judgement.kind, 'event')
    return judgement.kind === 'event' ? judgement.eventId : undefined
  }
  assert.equal(await idOf({ bodyHashClaim: 'body' }), 'token-1')
  assert.equal(await idOf({ bodyHashClaim: 'body' }, { 'idempotency-key': 'another' }), 'token-1')
  assert.equal(await idOf({}), undefined)
  assert.equal(await idOf({}, { 'idempotency-key': 'one' }), 'one')
})
