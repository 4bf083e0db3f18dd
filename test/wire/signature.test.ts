import assert from 'node:assert/strict'
import { createHmac, createPublicKey, verify } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import type { Clock } from '../../src/domain/clock.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { hexSigner, standardSigner } from '../../src/wire/profile.ts'
import { answer, rawReceiver } from '../hostile/raw-receiver.ts'
import { exampleMessage, exampleSecret, send, targetAt, testSender } from '../sender/sending.ts'

const head = 'msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.'
const body = Buffer.from('{"test": 2432232314}')
const ed25519Secret = 'whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=='
const ed25519Signature = 'v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=='
const ed25519Public = createPublicKey({
  key: Buffer.concat([
    Buffer.from('302a300506032b6570032100', 'hex'),
    Buffer.from('1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=', 'base64'),
  ]),
  format: 'der',
  type: 'spki',
})

test('the HMAC test vector of Standard Webhooks is met', () => {
  assert.equal(standardSigner(exampleSecret)?.(head, body), 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=')
})

test('an HMAC is that of Node for keys and contents of any length, also when keys take turns', () => {
  const texts = ['', '.', 'msg_1.1614265330.', 'grüße.', '€'.repeat(30)]
  // Around one block of the hash, and around the length from which a content is no longer copied.
  const lengths = [0, 1, 55, 56, 63, 64, 65, 119, 8100, 8190, 8191, 8192, 8193, 70_000]
  const keys = [24, 32, 63, 64, 65, 75].map((length) => Buffer.alloc(length, length))
  for (const length of lengths) {
    const content = Buffer.alloc(length, 0xa5)
    for (const text of texts) {
      for (const key of keys) {
        const expected = createHmac('sha256', key).update(text).update(content)
        assert.equal(
          standardSigner(`whsec_${key.toString('base64')}`)?.(text, content),
          `v1,${expected.digest('base64')}`,
        )
        const hex = createHmac('sha256', `key ${key.length}`).update(text).update(content).digest('hex')
        assert.equal(hexSigner(`key ${key.length}`)?.(text, content), hex)
      }
    }
  }
})

test('the ed25519 test vector is met, by the seed with its public key and by the seed alone', () => {
  const seed = Buffer.from(ed25519Secret.slice('whsk_'.length), 'base64').subarray(0, 32)
  assert.equal(standardSigner(ed25519Secret)?.(head, body), ed25519Signature)
  assert.equal(standardSigner(`whsk_${seed.toString('base64')}`)?.(head, body), ed25519Signature)
})

test('a text that is no secret signs nothing', () => {
  for (const text of [
    '',
    'whsec_',
    'whsk_',
    'secret',
    'whsec_not base64!',
    'whsk_c2hvcnQ=',
    'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  ]) {
    assert.equal(standardSigner(text), undefined, text)
  }
})

test('a thousand random payloads verify with the reference library and with ed25519, and no altered one does', () => {
  const sign = standardSigner(exampleSecret)
  const signAlso = standardSigner(ed25519Secret)
  assert.ok(sign && signAlso)
  const receiver = new Webhook(exampleSecret)
  const timestamp = String(Math.floor(Date.now() / 1000))
  // The reference verifier reads the body as UTF-8 text, so the payloads are JSON texts of any Unicode.
  fc.assert(
    fc.property(fc.jsonValue(), fc.stringMatching(/^msg_[A-Za-z0-9]{27}$/), (value, id) => {
      const payload = Buffer.from(JSON.stringify(value))
      const signed = `${id}.${timestamp}.`
      const entry = sign(signed, payload)
      const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': entry }
      receiver.verify(payload, headers)
      const also = signAlso(signed, payload)
      const signature = Buffer.from(also.slice('v1a,'.length), 'base64')
      assert.ok(verify(null, Buffer.concat([Buffer.from(signed), payload]), ed25519Public, signature))

      assert.throws(() => receiver.verify(Buffer.concat([payload, Buffer.from(' ')]), headers))
      assert.throws(() => receiver.verify(payload, { ...headers, 'webhook-id': `${id}x` }))
      assert.throws(() => receiver.verify(payload, { ...headers, 'webhook-timestamp': String(Number(timestamp) - 1) }))
    }),
    { numRuns: 1000 },
  )
})

const headerOf = (head: string, name: string) => new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1]

test('the exact body arrives, signed for the second in which it left', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const bytes = Buffer.from('{ "b" : 1.0 ,"a":9007199254740993,\t"\\u00e9":"é\u{1f600}"}\n')
  let now = 1_700_000_000_999
  const clock: Clock = { ...systemClock, now: () => now }
  const sender = testSender(t, { clock, version: '7.8.9' })
  await send(sender, targetAt(receiver.url), {
    ...exampleMessage,
    body: bytes,
    contentType: 'application/cloudevents+json',
  })
  now += 1
  await send(sender, targetAt(`${receiver.url}/a%20b?c=d&e`), { ...exampleMessage, body: new Uint8Array(0) })

  const [first, second] = receiver.requests
  assert.ok(first && second)
  assert.deepEqual(first.body, bytes)
  assert.match(first.head, /^POST \/hook HTTP\/1\.1\r\n/)
  assert.match(second.head, /^POST \/hook\/a%20b\?c=d&e HTTP\/1\.1\r\n/)
  assert.equal(headerOf(first.head, 'content-type'), 'application/cloudevents+json')
  assert.equal(headerOf(first.head, 'user-agent'), 'Sluice/7.8.9')
  assert.equal(headerOf(first.head, 'accept-encoding'), 'identity')
  assert.equal(headerOf(first.head, 'host'), `127.0.0.1:${receiver.port}`)
  assert.equal(headerOf(first.head, 'webhook-id'), exampleMessage.id)
  assert.equal(headerOf(first.head, 'webhook-timestamp'), '1700000000')
  assert.equal(headerOf(second.head, 'webhook-timestamp'), '1700000001')
  const sign = standardSigner(exampleSecret)
  assert.equal(headerOf(first.head, 'webhook-signature'), sign?.(`${exampleMessage.id}.1700000000.`, bytes))
  assert.equal(headerOf(second.head, 'content-length'), '0')
  assert.equal(headerOf(second.head, 'webhook-signature'), sign?.(`${exampleMessage.id}.1700000001.`, Buffer.alloc(0)))
})

test('while secrets change over, each that has not expired signs, newest first', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  let now = 1_000_000
  const clock: Clock = { ...systemClock, now: () => now }
  const sender = testSender(t, { clock })
  const secrets = [
    { secret: ed25519Secret, expiresAt: null },
    { secret: exampleSecret, expiresAt: 2_000_000 },
    { secret: 'whsec_b2xkZXIgc2VjcmV0IG9mIDI0IGJ5dGU=', expiresAt: 1_500_000 },
  ]
  const kinds: string[] = []
  for (const at of [1_499_999, 1_500_000, 1_999_999, 2_000_000]) {
    now = at
    await send(sender, targetAt(receiver.url, { secrets }))
    const entries = headerOf(receiver.requests.at(-1)?.head ?? '', 'webhook-signature')?.split(' ') ?? []
    kinds.push(entries.map((entry) => entry.split(',')[0]).join(' '))
  }

  assert.deepEqual(kinds, ['v1a v1 v1', 'v1a v1', 'v1a v1', 'v1a'])
})

test('nothing is sent unsigned: without a usable secret the attempt is blocked', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const sender = testSender(t)
  for (const secrets of [
    [],
    [{ secret: 'nonsense', expiresAt: null }],
    [{ secret: exampleSecret, expiresAt: 1 }],
    [
      { secret: 'nonsense', expiresAt: null },
      { secret: exampleSecret, expiresAt: 1 },
    ],
  ]) {
    const { outcome } = await send(sender, targetAt(receiver.url, { secrets }))
    assert.equal(outcome.code, 'blocked')
    assert.match(outcome.error ?? '', /secret/)
  }
  assert.equal(receiver.connections, 0)
})
