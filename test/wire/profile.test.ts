import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import type { Sliced } from '../../src/domain/turns.ts'
import type { Secret } from '../../src/features/endpoints/rules.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import type { OutgoingMessage, Target } from '../../src/sender/send.ts'
import { bodySigner, hexSigner } from '../../src/wire/profile.ts'
import { openVerifier } from '../../src/wire/receiver.ts'
import { answer, rawReceiver } from '../hostile/raw-receiver.ts'
import { exampleMessage, exampleSecret, send, targetAt, testSender } from '../sender/sending.ts'

const at = 1_700_000_000_999
const second = '1700000000'
const { body } = exampleMessage
const older = 'whsec_b2xkZXIgb2xkZXIgb2xkZXIgb2xkZXI='

/** An HMAC by Node alone: the key is the secret's text. */
const hex = (secret: string, signed: string, bytes: Uint8Array) =>
  createHmac('sha256', secret).update(signed).update(bytes).digest('hex')

/** One request as a receiver gets it: its headers by name, and its body. */
async function received(t: TestContext, target: Partial<Target>, message: Partial<OutgoingMessage> = {}) {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const sender = testSender(t, { clock: { ...systemClock, now: () => at } })
  const { outcome } = await send(sender, targetAt(receiver.url, target), { ...exampleMessage, ...message })
  const [request] = receiver.requests
  const lines = (request?.head ?? '').split('\r\n').slice(1)
  const headers = Object.fromEntries(lines.map((line) => line.split(': ', 2) as [string, string]))
  return { outcome, headers, body: request?.body ?? Buffer.alloc(0), lines }
}

const twoSecrets: Secret[] = [
  { secret: exampleSecret, expiresAt: null },
  { secret: older, expiresAt: at + 1000 },
  { secret: 'whsec_ZXhwaXJlZA==', expiresAt: at - 1 },
]

test("GitHub's published example is met, and an HMAC of RFC 4231", () => {
  assert.equal(
    bodySigner("It's a Secret to Everybody")?.(Buffer.from('Hello, World!')),
    '757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
  )
  assert.equal(
    hexSigner('Jefe')?.('what do ya ', Buffer.from('want for nothing?')),
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  )
})

test('a private key is not taken for a shared one', async (t) => {
  assert.equal(hexSigner('whsk_AAAA'), undefined)
  assert.equal(hexSigner(''), undefined)
  const secrets = [{ secret: 'whsk_AAAA', expiresAt: null }]
  const { outcome } = await received(t, { signature: 'github', secrets })
  assert.deepEqual([outcome.code, outcome.error], ['blocked', 'The endpoint has no usable secret to sign with.'])
})

test('github: the body alone, under its own header, the newest secret first', async (t) => {
  const { headers } = await received(t, { signature: 'github', secrets: twoSecrets })
  assert.equal(headers['x-hub-signature-256'], `sha256=${hex(exampleSecret, '', body)}`)
  assert.equal(headers['x-hub-signature-256-old'], `sha256=${hex(older, '', body)}`)
  assert.equal(headers['webhook-id'], exampleMessage.id)
  assert.equal(headers['webhook-signature'], undefined)
  assert.equal(headers['webhook-timestamp'], undefined)
})

test('stripe: time and body, an entry for each secret that holds', async (t) => {
  const { headers } = await received(t, { signature: 'stripe', secrets: twoSecrets })
  const entries = [exampleSecret, older].map((secret) => `v1=${hex(secret, `${second}.`, body)}`)
  assert.equal(headers['stripe-signature'], [`t=${second}`, ...entries].join(','))
})

test('timestamped: time and body, under names of our own or the application’s', async (t) => {
  const signature = `sha256=${hex(exampleSecret, `${second}.`, body)}`
  const own = await received(t, { signature: 'timestamped' })
  assert.deepEqual([own.headers['x-sluice-timestamp'], own.headers['x-sluice-signature']], [second, signature])
  assert.equal(own.headers['x-sluice-signature-old'], undefined)
  const signatureHeaders = { id: 'x-vvv-id', timestamp: 'x-vvv-timestamp', signature: 'x-vvv-signature' }
  const named = await received(t, { signature: 'timestamped', signatureHeaders, secrets: twoSecrets })
  assert.deepEqual(
    ['x-vvv-id', 'x-vvv-timestamp', 'x-vvv-signature'].map((name) => named.headers[name]),
    [exampleMessage.id, second, signature],
  )
  assert.equal(named.headers['x-vvv-signature-old'], `sha256=${hex(older, `${second}.`, body)}`)
  assert.equal(named.headers['webhook-id'], undefined)
})

test('stored: as it was made when the message was accepted, whatever the secret is now', async (t) => {
  const { headers } = await received(t, { signature: 'stored', secrets: twoSecrets }, { variant: 0, signature: 'abc' })
  assert.equal(headers['x-sluice-signature'], 'abc')
  assert.equal(headers['x-sluice-timestamp'], undefined)
  const signatureHeaders = { signature: 'x-vvv-signature' }
  const unsigned = await received(t, { signature: 'stored', signatureHeaders })
  assert.equal(unsigned.headers['x-vvv-signature'], hex(exampleSecret, '', body))
})

test('standard: names can be the application’s', async (t) => {
  const { headers } = await received(t, { signatureHeaders: { id: 'svix-id', signature: 'svix-signature' } })
  assert.equal(headers['svix-id'], exampleMessage.id)
  assert.equal(headers['webhook-timestamp'], second)
  assert.match(headers['svix-signature'] ?? '', /^v1,/)
  assert.equal(headers['webhook-id'], undefined)
})

test('standard: names are those of Svix, or both families side by side', async (t) => {
  const svix = await received(t, { signatureHeaders: 'svix' })
  assert.deepEqual([svix.headers['svix-id'], svix.headers['svix-timestamp']], [exampleMessage.id, second])
  assert.ok(!Object.keys(svix.headers).some((name) => name.startsWith('webhook-')))
  const both = await received(t, { signatureHeaders: 'both', secrets: twoSecrets })
  for (const part of ['id', 'timestamp', 'signature']) {
    assert.ok(both.headers[`webhook-${part}`], part)
    assert.equal(both.headers[`svix-${part}`], both.headers[`webhook-${part}`])
  }
  for (const headers of [svix.headers, both.headers]) {
    const verifier = openVerifier({ secret: exampleSecret, now: () => Number(second) * 1000 })
    await verifier.verify({ headers, body: exampleMessage.body })
  }
})

test('other profiles have the id under both names, and their own names for the rest', async (t) => {
  const { lines, headers } = await received(t, { signature: 'timestamped', signatureHeaders: 'both' })
  assert.deepEqual([headers['webhook-id'], headers['svix-id']], [exampleMessage.id, exampleMessage.id])
  assert.equal(lines.filter((line) => line.startsWith('x-sluice-signature')).length, 1)
  assert.equal(headers['svix-signature'], undefined)
})

test('names keep the case they were given in', async (t) => {
  const signatureHeaders = { id: 'X-VVV-Id', signature: 'X-VVV-Signature' }
  const own = { 'X-Acme-Tenant': 'a', 'x_acme.region': '', 'X-VVV-ID': 'forged' }
  const { lines } = await received(t, { signatureHeaders, headers: own }, { headers: { 'x-acme-tenant': 'b' } })
  const names = lines.map((line) => line.split(':')[0] ?? '')
  for (const name of ['X-VVV-Id', 'X-VVV-Signature', 'x-acme-tenant', 'x_acme.region'])
    assert.ok(names.includes(name), name)
  assert.equal(names.filter((name) => name.toLowerCase() === 'x-acme-tenant').length, 1, 'the message replaces it')
  assert.ok(!lines.some((line) => line.includes('forged')))
})

test('the headers of a signature are never an endpoint’s or a message’s own headers', async (t) => {
  const forged = { 'stripe-signature': 't=1,v1=forged', 'x-other': 'kept' }
  const { lines, headers } = await received(t, { signature: 'stripe', headers: forged }, { headers: forged })
  assert.equal(lines.filter((line) => line.startsWith('stripe-signature')).length, 1)
  assert.match(headers['stripe-signature'] ?? '', /^t=1700000000,/)
  assert.equal(headers['x-other'], 'kept')
})

test('a body that was not given its form is given it before it is signed; one that was is left alone', async (t) => {
  const shape = function* (bytes: Uint8Array): Sliced<Uint8Array> {
    yield
    return Buffer.from(bytes).subarray(0, 5)
  }
  const late = await received(t, { signature: 'github', shape }, { variant: null, signature: 'of the whole' })
  assert.equal(late.body.toString(), '{"tes')
  assert.equal(late.headers['x-hub-signature-256'], `sha256=${hex(exampleSecret, '', late.body)}`)
  const fixed = await received(t, { signature: 'stored', shape }, { variant: 3, signature: 'fixed' })
  assert.deepEqual([fixed.body.toString(), fixed.headers['x-sluice-signature']], [body.toString(), 'fixed'])
  const nothing = function* (): Sliced<undefined> {
    yield
  }
  const never = await received(t, { shape: nothing }, { variant: null })
  assert.equal(never.outcome.code, 'blocked')
  assert.equal(never.body.length, 0)
})

/** A shape that takes four slices of time, at 5 ms each. */
function* slowShape(bytes: Uint8Array): Sliced<Uint8Array> {
  for (let i = 0; i < 4; i++) {
    const until = systemClock.steady() + 5
    while (systemClock.steady() < until);
    yield
  }
  return Buffer.from(bytes).subarray(0, 5)
}

test('a body that takes long to shape is shaped in turns, and sent then', async (t) => {
  let turns = 0
  const clock = {
    ...systemClock,
    soon: (fn: () => void) =>
      systemClock.soon(() => {
        turns++
        fn()
      }),
  }
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const target = targetAt(receiver.url, { shape: slowShape })
  const { outcome, leaves } = await send(testSender(t, { clock }), target)
  assert.deepEqual([outcome.code, leaves, receiver.requests[0]?.body.toString()], ['delivered', 1, '{"tes'])
  assert.ok(turns >= 4, `${turns} turns`)
})

test('an attempt that is aborted while its body is shaped ends once, and nothing is sent', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(answer('200 OK')))
  const sender = testSender(t)
  const opened = sender.open(targetAt(receiver.url, { shape: slowShape }))
  const ends: string[] = []
  const abort = opened.send(exampleMessage, assert.fail, ({ code }) => ends.push(code))
  abort()
  abort()
  opened.send(exampleMessage, assert.fail, ({ code }) => ends.push(code))
  await sender.close()
  await send(testSender(t), targetAt(receiver.url))
  assert.deepEqual(ends, ['aborted', 'aborted'])
  assert.equal(receiver.requests.length, 1)
})
