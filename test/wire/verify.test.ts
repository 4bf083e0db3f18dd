import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import type { SignatureProfile } from '../../src/domain/flow.ts'
import { standardSigner } from '../../src/wire/profile.ts'
import { receiverKey } from '../../src/wire/secret.ts'
import { openProfileVerifier, openVerifier } from '../../src/wire/verify.ts'

const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
const privateKey = `whsk_${Buffer.alloc(32, 9).toString('base64')}`
const now = 1_700_000_000_000

/** What a sender of these bytes would send at `at`, in seconds. */
function signed(key: string, body: string, at = now / 1000) {
  const sign = standardSigner(key)
  assert.ok(sign)
  const headers = { 'webhook-id': 'msg_1', 'webhook-timestamp': String(at) }
  return {
    headers: { ...headers, 'webhook-signature': sign(`msg_1.${at}.`, Buffer.from(body)) },
    body: Buffer.from(body),
  }
}

describe('verifying', () => {
  test('accepts what the reference implementation signed, also as one of several signatures', () => {
    const at = new Date(now)
    const signature = new Webhook(secret).sign('msg_1', at, '{"a":1.0}')
    const headers = { 'webhook-id': 'msg_1', 'webhook-timestamp': String(now / 1000) }
    for (const all of [signature, `v1,other v2,${signature.slice(3)} ${signature}`]) {
      const received = { headers: { ...headers, 'webhook-signature': all }, body: Buffer.from('{"a":1.0}') }
      assert.equal(openVerifier(secret)?.(received, now), undefined)
    }
  })

  test('accepts ed25519 with the private key and with its public half', () => {
    const received = signed(privateKey, 'x')
    assert.equal(openVerifier(privateKey)?.(received, now), undefined)
    assert.equal(openVerifier(receiverKey(privateKey, 'standard'))?.(received, now), undefined)
    assert.match(
      openVerifier(receiverKey(privateKey, 'standard'))?.({ ...received, body: Buffer.from('y') }, now) ?? '',
      /wrong/,
    )
  })

  test('says what is wrong: other bytes, another secret, another id, no signature, too old, too new', () => {
    const verify = openVerifier(secret)
    const received = signed(secret, 'x')
    const problems = [
      verify?.({ ...received, body: Buffer.from('x ') }, now),
      verify?.(signed(`whsec_${Buffer.alloc(24, 8).toString('base64')}`, 'x'), now),
      verify?.({ ...received, headers: { ...received.headers, 'webhook-id': 'msg_2' } }, now),
      verify?.({ ...received, headers: {} }, now),
      verify?.(signed(secret, 'x', now / 1000 - 301), now),
      verify?.(signed(secret, 'x', now / 1000 + 301), now),
      verify?.({ ...received, headers: { ...received.headers, 'webhook-timestamp': 'soon' } }, now),
    ]
    const wrong = 'the signature is wrong'
    assert.deepEqual(problems.slice(0, 4), [wrong, wrong, wrong, 'not signed'])
    assert.match(problems[4] ?? '', /signed 301 s ago/)
    assert.match(problems[5] ?? '', /^signed 301 s in the future, outside the tolerance of 300 s$/)
    assert.match(problems[6] ?? '', /^the timestamp is not a number$/)
    assert.equal(verify?.(signed(secret, 'x', now / 1000 - 300), now), undefined)
  })

  test('knows the other profiles, with older secrets beside the newest', () => {
    const at = String(now / 1000)
    const hex = (text: string) => createHmac('sha256', secret).update(text).digest('hex')
    const names = { timestamp: 'x-t', signature: 'x-s' }
    const good: [SignatureProfile, Record<string, string>][] = [
      ['stored', { 'x-s': hex('x') }],
      ['github', { 'x-hub-signature-256': `sha256=${hex('x')}` }],
      ['github', { 'x-hub-signature-256': 'sha256=ab', 'x-hub-signature-256-old': `sha256=cd,sha256=${hex('x')}` }],
      ['timestamped', { 'x-t': at, 'x-s': `sha256=${hex(`${at}.x`)}` }],
      ['stripe', { 'stripe-signature': `t=${at},v1=ab,v1=${hex(`${at}.x`)}` }],
    ]
    for (const [profile, headers] of good) {
      const verify = openProfileVerifier(profile, secret, names)
      assert.equal(verify?.({ headers, body: Buffer.from('x') }, now), undefined, profile)
      assert.equal(verify?.({ headers, body: Buffer.from('y') }, now), 'the signature is wrong')
      assert.equal(verify?.({ headers: {}, body: Buffer.from('x') }, now), 'not signed')
      const later = verify?.({ headers, body: Buffer.from('x') }, now + 301_000)
      if (profile === 'stored' || profile === 'github') assert.equal(later, undefined)
      else assert.match(later ?? '', /signed 301 s ago/)
    }
    assert.equal(openProfileVerifier('github', privateKey), undefined)
  })

  test('knows what is no secret', () => {
    for (const text of ['', 'whsec_', 'whsec_*', 'whpk_AAAA', 'secret']) assert.equal(openVerifier(text), undefined)
  })
})
