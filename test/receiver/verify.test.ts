import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import {
  type ErrorCode,
  idOf,
  openVerifier,
  type Received,
  SecretError,
  SignatureError,
  type SignatureProfile,
  signatureProfiles,
  type VerifierOptions,
} from '../../receiver/src/index.ts'
import * as domain from '../../src/features/endpoints/noun.ts'
import { receiverKey } from '../../src/wire/secret.ts'
import { nowMs, olderSecret, privateKey, secret, signed } from './signed.ts'

const now = () => nowMs
const open = (options: Partial<VerifierOptions> = {}) => openVerifier({ secret, now, ...options })

async function codeOf(verifying: Promise<unknown>): Promise<ErrorCode | 'genuine'> {
  try {
    await verifying
    return 'genuine'
  } catch (error) {
    assert.ok(error instanceof SignatureError, String(error))
    assert.ok(error.remedy.endsWith('.') && error.message.endsWith(error.remedy), error.message)
    return error.code
  }
}

const verdict = (received: Received, options?: Partial<VerifierOptions>) => codeOf(open(options).verify(received))

describe('the receiver verifies', () => {
  test('every profile that Sluice has, signed by the code that signs deliveries', async () => {
    assert.deepEqual([...signatureProfiles], [...domain.signatureProfiles])
    for (const profile of signatureProfiles) {
      for (const headers of ['webhook', 'svix', 'both', { id: 'X-Id', timestamp: 'X-T', signature: 'X-S' }] as const) {
        const received = signed('{"a":1.0}', { profile, headers })
        const names = { profile, headers }
        const { id, signedAt } = await open(names).verify(received)
        const expected = profile === 'stored' || profile === 'github' ? undefined : nowMs
        assert.deepEqual([id, signedAt?.getTime()], ['msg_1', expected], profile)
        assert.equal(idOf(received.headers, headers), 'msg_1')
        // The headers of fetch, and a record with names in another case, are the same headers.
        const upper = Object.entries(received.headers).map(([name, value]) => [name.toUpperCase(), value])
        assert.equal(await verdict({ ...received, headers: new Headers(received.headers) }, names), 'genuine')
        assert.equal(await verdict({ ...received, headers: Object.fromEntries(upper) }, names), 'genuine')
        assert.equal(await verdict({ ...received, body: '{"a":1}' }, names), 'wrong_signature', profile)
        assert.equal(await verdict({ headers: {}, body: received.body }, names), 'not_signed', profile)
        const late = await verdict(received, { ...names, now: () => nowMs + 301_000 })
        assert.equal(late, expected === undefined ? 'genuine' : 'too_old', profile)
      }
    }
  })

  test('signatures of the reference implementation, also as one of several', async () => {
    const signature = new Webhook(secret).sign('msg_1', new Date(nowMs), '{"a":1.0}')
    const headers = { 'webhook-id': 'msg_1', 'webhook-timestamp': String(nowMs / 1000) }
    for (const all of [signature, `v1,other v2,${signature.slice(3)} ${signature}`]) {
      const received = { headers: { ...headers, 'webhook-signature': all }, body: Buffer.from('{"a":1.0}') }
      assert.equal(await verdict(received), 'genuine')
    }
  })

  test('bytes, buffers and texts, of any length', async () => {
    for (const length of [0, 1, 1000, 3_000_000]) {
      const bytes = randomBytes(length)
      const { headers } = signed(bytes)
      assert.equal(await verdict({ headers, body: bytes }), 'genuine')
      assert.equal(await verdict({ headers, body: new Uint8Array(bytes).buffer }), 'genuine')
    }
    const { headers } = signed('ä🙂')
    assert.equal(await verdict({ headers, body: 'ä🙂' }), 'genuine')
  })

  test('ed25519 with the private key and with its public half', async () => {
    const received = signed('x', { secrets: [privateKey] })
    assert.match(received.headers['webhook-signature'] ?? '', /^v1a,/)
    const publicKey = receiverKey(privateKey, 'standard')
    const both = `whsk_${Buffer.concat([Buffer.alloc(32, 9), Buffer.from(publicKey.slice(5), 'base64')]).toString('base64')}`
    for (const key of [privateKey, publicKey, both]) {
      assert.equal(await verdict(received, { secret: key }), 'genuine')
      assert.equal(await verdict({ ...received, body: 'y' }, { secret: key }), 'wrong_signature')
    }
    const otherKind = signed('x')
    assert.equal(await verdict(otherKind, { secret: publicKey }), 'wrong_signature')
    const garbled = { ...received.headers, 'webhook-signature': 'v1a,ä v1a,AAAA v1a, v1a' }
    assert.equal(await verdict({ headers: garbled, body: 'x' }, { secret: publicKey }), 'wrong_signature')
  })

  test('during a rotation, with the old secret, the new one or both', async () => {
    for (const profile of signatureProfiles) {
      const rotating = signed('x', { profile, secrets: [secret, olderSecret] })
      const known: readonly (string | string[])[] = [secret, olderSecret, [olderSecret, secret]]
      for (const each of known) {
        // The stored signature was made when the message was accepted, by one secret.
        const expected = profile === 'stored' && each === olderSecret ? 'wrong_signature' : 'genuine'
        assert.equal(await verdict(rotating, { profile, secret: each }), expected, profile)
      }
      const after = signed('x', { profile })
      assert.equal(await verdict(after, { profile, secret: olderSecret }), 'wrong_signature')
      assert.equal(await verdict(after, { profile, secret: [olderSecret, secret] }), 'genuine')
    }
  })

  test('secrets that were brought along as text or hex', async () => {
    for (const profile of signatureProfiles) {
      for (const own of ['raw:hunter2', 'hex:00ff7f']) {
        assert.equal(await verdict(signed('x', { profile, secrets: [own] }), { profile, secret: own }), 'genuine')
      }
    }
    const shared = receiverKey('raw:hunter2', 'standard')
    assert.equal(await verdict(signed('x', { secrets: ['raw:hunter2'] }), { secret: shared }), 'genuine')
  })
})

describe('the receiver refuses', () => {
  test('another body, secret, id or time, each with its code', async () => {
    const received = signed('x')
    const given = (headers: Record<string, string>) =>
      verdict({ ...received, headers: { ...received.headers, ...headers } })
    assert.equal(await verdict(signed('x', { secrets: [olderSecret] })), 'wrong_signature')
    assert.equal(await given({ 'webhook-id': 'msg_2' }), 'wrong_signature')
    assert.equal(await given({ 'webhook-id': '' }), 'not_signed')
    assert.equal(await given({ 'webhook-timestamp': String(nowMs / 1000 + 1) }), 'wrong_signature')
    for (const timestamp of ['soon', '1e9', '0x6553f100', '-1', ' 1', '1700000000.5', '9'.repeat(400)]) {
      assert.equal(await given({ 'webhook-timestamp': timestamp }), 'malformed_timestamp', timestamp)
    }
    assert.equal(await verdict(signed('x', { at: nowMs - 301_000 })), 'too_old')
    assert.equal(await verdict(signed('x', { at: nowMs + 301_000 })), 'too_new')
    assert.equal(await verdict(signed('x', { at: nowMs - 300_000 })), 'genuine')
    assert.equal(await verdict(signed('x', { at: nowMs - 20_000 }), { toleranceSeconds: 10 }), 'too_old')
    assert.equal(await verdict(signed('x', { at: 1000 }), { toleranceSeconds: Infinity }), 'genuine')
    await assert.rejects(open().verify(signed('x', { at: nowMs - 301_000 })), {
      problem: 'signed 301 s ago, outside the tolerance of 300 s',
    })
  })

  test('a prefix and an extension of the right signature', async () => {
    for (const profile of signatureProfiles) {
      const { headers, body } = signed('x', { profile })
      const name = Object.keys(headers).find((each) => each.endsWith('signature') || each.endsWith('256')) ?? ''
      const right = headers[name] ?? ''
      for (const wrong of [
        right.slice(0, -1),
        `${right}0`,

        right.toUpperCase(),
        'v1',
        ',,,',
        't=1',
      ]) {
        const code = await verdict({ headers: { ...headers, [name]: wrong }, body }, { profile })
        assert.notEqual(code, 'genuine', `${profile} ${wrong}`)
      }
    }
  })

  test('the signature of one family beside the id of the other', async () => {
    const { headers, body } = signed('x', { headers: 'svix' })
    assert.equal(await verdict({ headers: { ...headers, 'webhook-id': 'msg_9' }, body }), 'genuine')
    const { id } = await open().verify({ headers: { ...headers, 'webhook-id': 'msg_9' }, body })
    assert.equal(id, 'msg_1', 'the id is the signed one')
    const mixed = { ...headers, 'webhook-id': 'msg_9', 'webhook-signature': headers['svix-signature'] ?? '' }
    assert.equal(await verdict({ headers: mixed, body }), 'not_signed')
  })

  test('a signature behind more others than Sluice ever sends, so that a flood of entries costs little', async () => {
    const { headers, body } = signed('x', { secrets: [privateKey] })
    const wrong = `v1a,${Buffer.alloc(64, 1).toString('base64')} `
    const flood = { ...headers, 'webhook-signature': `${wrong.repeat(40_000)}${headers['webhook-signature']}` }
    assert.equal(
      await verdict({ headers: flood, body }, { secret: receiverKey(privateKey, 'standard') }),
      'wrong_signature',
    )
  })

  test('texts that are no secret, when the receiver is opened', () => {
    const bad: readonly [SignatureProfile, string][] = [
      ...['whsec_', 'whsec_*', 'whpk_AAAA', 'whsk_AAAA', 'secret', 'hex:0', 'raw:'].map(
        (text) => ['standard', text] as [SignatureProfile, string],
      ),
      ['github', privateKey],
    ]
    for (const [profile, text] of bad) assert.throws(() => open({ profile, secret: text }), SecretError, text)
    assert.throws(() => open({ secret: [] }), RangeError)
    assert.throws(() => open({ toleranceSeconds: Number.NaN }), RangeError)
  })

  test('a body that a parser already replaced', async () => {
    const { headers } = signed('{}')
    for (const body of [{}, undefined, null] as unknown as string[]) {
      await assert.rejects(open().verify({ headers, body }), { code: 'body_consumed' })
    }
  })
})

test('the profiles of other senders accept the signatures that those senders make', async () => {
  const at = String(nowMs / 1000)
  const hex = (text: string) => createHmac('sha256', 'their key').update(text).digest('hex')
  const theirs: [SignatureProfile, Record<string, string>][] = [
    ['github', { 'x-hub-signature-256': `sha256=${hex('x')}`, 'x-github-delivery': '7' }],
    ['stripe', { 'stripe-signature': `t=${at},v1=${hex(`${at}.x`)},v0=${hex('other')}` }],
  ]
  for (const [profile, headers] of theirs) {
    const verifier = open({ profile, secret: 'their key', headers: { id: 'X-GitHub-Delivery' } })
    const { id } = await verifier.verify({ headers, body: 'x' })
    assert.equal(id, profile === 'github' ? '7' : undefined)
  }
})
