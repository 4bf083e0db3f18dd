import assert from 'node:assert/strict'
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { jwtVerify } from 'jose'
import type { EndpointAuth, OAuth2 } from '../../src/features/credentials/rules.ts'
import type { OpenTarget } from '../../src/sender/send.ts'
import { answer, rawReceiver } from '../hostile/raw-receiver.ts'
import { exampleMessage, send, targetAt, testSender } from './sending.ts'
import { type Answering, giveToken, json, type TokenRequest, tokenServer } from './token-server.ts'

/** A receiver that answers 200, and the authorization headers that it got. */
async function receiverOf(t: TestContext, status: (authorization: string) => string = () => '200 OK') {
  const authorizations: string[] = []
  const receiver = await rawReceiver(t, (socket, { head }) => {
    const all = [...head.matchAll(/^authorization: (.*)$/gim)].map(([, value]) => value)
    authorizations.push(all.join(' & '))
    socket.write(answer(status(all.join(' & '))))
  })
  return { receiver, authorizations }
}

const sendBy = (target: OpenTarget, message = exampleMessage) =>
  send({ open: () => target, close: async () => {} }, targetAt(''), message)

for (const [auth, expected] of [
  [{ kind: 'bearer', token: 'abc.def' }, 'Bearer abc.def'],
  [{ kind: 'basic', username: 'sluice', password: 'pä:ss' }, `Basic ${Buffer.from('sluice:pä:ss').toString('base64')}`],
] as const satisfies readonly (readonly [EndpointAuth, string])[]) {
  test(`${auth.kind} credentials go out with every attempt, before headers of the endpoint and the message`, async (t) => {
    const { receiver, authorizations } = await receiverOf(t)
    const target = testSender(t).open(
      targetAt(receiver.url, {
        auth,
        headers: { 'x-signed-header': 'authorization', Authorization: 'own' },
        headerTemplates: { AUTHORIZATION: '{attempt}' },
      }),
    )
    await sendBy(target)
    await sendBy(target, { ...exampleMessage, headers: { authorization: 'of the message' } })
    assert.deepEqual(authorizations, [expected, expected])
  })
}

test('one token serves all attempts, and its request carries the client by HTTP Basic', async (t) => {
  const { auth, requests } = await tokenServer(t)
  const { receiver, authorizations } = await receiverOf(t)
  const sender = testSender(t)
  const target = sender.open(targetAt(receiver.url, { auth: { ...auth, scope: 'a b', audience: 'https://api' } }))
  await Promise.all(Array.from({ length: 8 }, () => sendBy(target)))
  await sendBy(target)
  assert.deepEqual(new Set(authorizations), new Set(['Bearer t1']))
  assert.equal(authorizations.length, 9)
  assert.equal(requests.length, 1)
  const [{ headers, form }] = requests as [TokenRequest]
  const credentials = Buffer.from(headers.authorization?.slice('Basic '.length) ?? '', 'base64').toString()
  assert.equal(credentials, 'client%3A1:se+cr%2Bet%25')
  assert.deepEqual(Object.fromEntries(form), {
    grant_type: 'client_credentials',
    scope: 'a b',
    audience: 'https://api',
  })
})

test('client_secret_post carries the client in the form', async (t) => {
  const { auth, requests } = await tokenServer(t)
  const { receiver } = await receiverOf(t)
  await send(testSender(t), targetAt(receiver.url, { auth: { ...auth, method: 'client_secret_post' } }))
  const [{ headers, form }] = requests as [TokenRequest]
  assert.equal(headers.authorization, undefined)
  assert.equal(form.get('client_id'), 'client:1')
  assert.equal(form.get('client_secret'), 'se cr+et%')
})

const keyPairs = {
  RS256: generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ES256: generateKeyPairSync('ec', { namedCurve: 'prime256v1' }),
  ES384: generateKeyPairSync('ec', { namedCurve: 'secp384r1' }),
  EdDSA: generateKeyPairSync('ed25519'),
}
for (const [alg, { privateKey }] of Object.entries(keyPairs)) {
  test(`private_key_jwt signs an assertion that jose verifies by ${alg}`, async (t) => {
    const { auth, requests } = await tokenServer(t)
    const { receiver } = await receiverOf(t)
    const secret = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
    const keyed: OAuth2 = { ...auth, method: 'private_key_jwt', secret, keyId: 'k1' }
    const { outcome } = await send(testSender(t), targetAt(receiver.url, { auth: keyed }))
    assert.equal(outcome.code, 'delivered', outcome.error)
    const { form } = requests[0] as TokenRequest
    const { payload, protectedHeader } = await jwtVerify(form.get('client_assertion') ?? '', createPublicKey(secret), {
      ...{ issuer: 'client:1', subject: 'client:1', audience: auth.tokenUrl },
      requiredClaims: ['exp', 'jti', 'iat'],
    })
    assert.deepEqual(protectedHeader, { alg, typ: 'JWT', kid: 'k1' })
    assert.equal((payload.jti as string).length, 22)
  })
}

const bad: readonly (readonly [string, Answering, RegExp])[] = [
  ['answers 500', (response) => json(response, 500, 'oops'), /answered 500\.$/],
  [
    'answers 302',
    (response) => json(response, 302, '', { location: 'http://127.0.0.1:1/' }),
    /answered 302\. Redirects are not followed: set `tokenUrl` to the last address\.$/,
  ],
  [
    'refuses the client and repeats its secret',
    (response) => json(response, 401, { error: 'invalid_client', error_description: 'wrong: se cr+et%' }),
    /answered 401 \(invalid_client\)\. Check the client id and the client secret\.$/,
  ],
  ['repeats the secret as the code', (response) => json(response, 400, { error: 'se cr+et%' }), /answered 400\.$/],
  ['answers garbage', (response) => json(response, 200, '<html>'), /not a JSON object/],
  ['answers nothing', (response) => json(response, 200, ''), /not a JSON object/],
  ['answers a list', (response) => json(response, 200, '[]'), /not a JSON object/],
  ['answers without a token', (response) => json(response, 200, {}), /no `access_token`/],
  ['answers a number', (response) => json(response, 200, { access_token: 7 }), /no `access_token`/],
  ['answers a line break', (response) => json(response, 200, { access_token: 'a\r\nx: y' }), /header cannot carry/],
  ['answers a long token', (response) => json(response, 200, { access_token: 'a'.repeat(9000) }), /longer than 8192/],
  [
    'answers another type',
    (response) => json(response, 200, { access_token: 'a', token_type: 'mac' }),
    /not of the type Bearer/,
  ],
  ['answers 10 MB', (response) => json(response, 200, `"${'a'.repeat(10_000_000)}"`), /longer than 64 KiB/],
  ['never answers', () => {}, /No complete status line and headers within 300 ms/],
  ['hangs up', (response) => void response.socket?.destroy(), /closed the connection/],
]
for (const [does, answering, error] of bad) {
  test(`a token endpoint that ${does} is token_failed: nothing is sent, and no secret is shown`, async (t) => {
    const { auth, requests } = await tokenServer(t, answering)
    const { receiver } = await receiverOf(t)
    const target = testSender(t, { tokenTimeoutMs: 300 }).open(targetAt(receiver.url, { auth }))
    const { outcome, leaves } = await sendBy(target)
    assert.equal(outcome.code, 'token_failed')
    assert.match(outcome.error ?? '', error)
    assert.match(outcome.error ?? '', /^No token from the token endpoint http:\/\/127\.0\.0\.1:\d+\/token: /)
    assert.doesNotMatch(outcome.error ?? '', /se cr/)
    assert.ok((outcome.retryAfterMs ?? 0) >= 1000)
    assert.equal(leaves, 0)
    // A flood of attempts meanwhile asks for no token.
    const others = await Promise.all(Array.from({ length: 200 }, () => sendBy(target)))
    assert.ok(others.every((other) => other.outcome.code === 'token_failed'))
    assert.equal(requests.length, 1)
    assert.equal(receiver.requests.length, 0)
  })
}

test('a token endpoint on a private address is blocked as an endpoint there is', async (t) => {
  const { auth, requests } = await tokenServer(t)
  const sender = testSender(t, { allowNetworks: [], resolve: async () => [] })
  const { outcome } = await send(sender, targetAt('https://example.com/hook', { auth }))
  assert.equal(outcome.code, 'blocked')
  assert.match(outcome.error ?? '', /Token URL: The address 127\.0\.0\.1 is not public/)
  assert.equal(requests.length, 0)
})

test('a name of a token endpoint that resolves to a private address is refused at the connection', async (t) => {
  const { auth, requests } = await tokenServer(t)
  const resolve = async () => [{ address: '127.0.0.1', family: 4, ttlSeconds: 1 }]
  const port = new URL(auth.tokenUrl).port
  const sender = testSender(t, { allowNetworks: [], resolve })
  const inside = { ...auth, tokenUrl: `https://idp.example:${port}/token` }
  const { outcome } = await send(sender, targetAt('https://example.com/hook', { auth: inside }))
  assert.equal(outcome.code, 'token_failed')
  assert.match(outcome.error ?? '', /idp\.example \(127\.0\.0\.1\) is not a public address/)
  assert.equal(requests.length, 0)
})

test('a 401 of the receiver has the token replaced before the next attempt', async (t) => {
  const { auth, requests } = await tokenServer(t)
  const { receiver, authorizations } = await receiverOf(t, (authorization) =>
    authorization === 'Bearer t1' ? '401 Unauthorized' : '200 OK',
  )
  const target = testSender(t).open(targetAt(receiver.url, { auth }))
  // The least gap between two requests for tokens is a second.
  while (requests.length < 2) assert.ok([401, 200].includes((await sendBy(target)).outcome.status))
  assert.equal((await sendBy(target)).outcome.status, 200)
  assert.equal(authorizations.at(-1), 'Bearer t2')
  assert.equal(requests.length, 2)
})

test('endpoints with the same credentials share the token; other secrets never get it', async (t) => {
  const { auth, requests } = await tokenServer(t, (response, { headers }, nth) => {
    const isKnown = headers.authorization?.endsWith(Buffer.from('client%3A1:se+cr%2Bet%25').toString('base64'))
    if (isKnown) giveToken(response, { headers, form: new URLSearchParams() }, nth)
    else json(response, 401, { error: 'invalid_client' })
  })
  const { receiver, authorizations } = await receiverOf(t)
  const sender = testSender(t)
  await send(sender, targetAt(receiver.url, { auth }))
  await send(sender, targetAt(receiver.url, { auth: { ...auth } }))
  const { outcome } = await send(sender, targetAt(receiver.url, { auth: { ...auth, secret: 'guess' } }))
  assert.equal(outcome.code, 'token_failed')
  assert.deepEqual(authorizations, ['Bearer t1', 'Bearer t1'])
  assert.equal(requests.length, 2)
})

test('an attempt that waits for its token can be aborted, and closing ends it', async (t) => {
  const { auth } = await tokenServer(t, () => {})
  const sender = testSender(t)
  const ends: string[] = []
  const begin = () =>
    sender.open(targetAt('http://127.0.0.1:9/', { auth })).send(
      exampleMessage,
      () => {},
      (outcome) => ends.push(outcome.code),
    )
  begin()()
  assert.deepEqual(ends, ['aborted'])
  begin()
  await sender.close()
  assert.deepEqual(ends, ['aborted', 'aborted'])
})
