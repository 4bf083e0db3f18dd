import assert from 'node:assert/strict'
import { createHmac, generateKeyPairSync, sign } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, test } from 'node:test'
import { exportJWK, SignJWT } from 'jose'
import { type ProviderName, providerNames } from '../../src/sources/providers.ts'
import { atEnd } from '../e2e/at-end.ts'
import { Receiver } from '../e2e/receiver.ts'
import { Edge, type Sent, secret, signed, skip } from './edge.ts'

const key = 'a secret of at least 32 characters'
const body = '{"type": "invoice.paid", "id": "evt_1"}'
const ed25519 = generateKeyPairSync('ed25519')
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })

type Sender = (edge: string) => Sent | Promise<Sent>

interface Case {
  readonly provider: ProviderName
  readonly secret?: string
  readonly settings?: object
  /** A genuine request for the URL of the route. */
  readonly sent: Sender
  /** Whether the request is still genuine with another body. */
  readonly signsNoBody?: true
}

const hmac = (algorithm: string, text: string, encoding: 'hex' | 'base64' | 'base64url') =>
  createHmac(algorithm, key).update(text).digest(encoding)
const json = (headers: Record<string, string>): Sent => ({
  body,
  headers: { 'content-type': 'application/json', ...headers },
})
const seconds = () => String(Math.floor(Date.now() / 1000))

/** One or more requests of each provider, as the provider signs them. */
const cases: Record<string, Case> = {
  github: { provider: 'github', sent: () => json({ 'x-hub-signature-256': `sha256=${hmac('sha256', body, 'hex')}` }) },
  meta: {
    provider: 'meta',
    settings: { verifyToken: 'verify me' },
    sent: () => json({ 'x-hub-signature-256': `sha256=${hmac('sha256', body, 'hex')}` }),
  },
  shopify: { provider: 'shopify', sent: () => json({ 'x-shopify-hmac-sha256': hmac('sha256', body, 'base64') }) },
  stripe: {
    provider: 'stripe',
    sent() {
      const at = seconds()
      return json({ 'stripe-signature': `t=${at},v1=${hmac('sha256', `${at}.${body}`, 'hex')}` })
    },
  },
  slack: {
    provider: 'slack',
    sent() {
      const at = seconds()
      const signature = `v0=${hmac('sha256', `v0:${at}:${body}`, 'hex')}`
      return json({ 'x-slack-request-timestamp': at, 'x-slack-signature': signature })
    },
  },
  standard: { provider: 'standard', secret, sent: () => signed('evt_1', body) },
  standard_public: {
    provider: 'standard',
    secret: `whpk_${Buffer.from(ed25519.publicKey.export({ format: 'jwk' }).x ?? '', 'base64url').toString('base64')}`,
    sent() {
      const at = seconds()
      const signature = sign(null, Buffer.from(`evt_1.${at}.${body}`), ed25519.privateKey).toString('base64')
      return json({ 'svix-id': 'evt_1', 'svix-timestamp': at, 'svix-signature': `v1a,${signature}` })
    },
  },
  twilio: {
    provider: 'twilio',
    sent: (url) => ({
      body: 'MessageSid=SM1&Body=Hi%20there',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        'x-twilio-signature': hmac('sha1', `${url}BodyHi thereMessageSidSM1`, 'base64'),
      },
    }),
  },
  hmac: {
    provider: 'hmac',
    settings: {
      header: 'X-Sign',
      hash: 'sha512',
      encoding: 'base64url',
      prefix: 's=',
      timestampHeader: 'X-At',
      signed: '{timestamp}|{body}',
    },
    sent() {
      const at = seconds()
      return json({ 'x-at': at, 'x-sign': `s=${hmac('sha512', `${at}|${body}`, 'base64url')}` })
    },
  },
  jwt: {
    provider: 'jwt',
    settings: { audience: 'edge' },
    signsNoBody: true,
    async sent() {
      const token = await new SignJWT({ aud: 'edge' })
        .setProtectedHeader({ alg: 'HS256' })
        .setExpirationTime('1m')
        .sign(Buffer.from(key))
      return json({ authorization: `Bearer ${token}` })
    },
  },
  basic: {
    provider: 'basic',
    settings: { username: 'me' },
    signsNoBody: true,
    sent: () => json({ authorization: `Basic ${Buffer.from(`me:${key}`).toString('base64')}` }),
  },
  token: {
    provider: 'token',
    settings: { tokenName: 'x-token' },
    signsNoBody: true,
    sent: () => json({ 'x-token': key }),
  },
  none: { provider: 'none', secret: ' ', settings: { acceptUnsigned: true }, signsNoBody: true, sent: () => json({}) },
}

describe('every provider', { skip }, () => {
  test('has a request here', () => {
    assert.deepEqual(new Set(Object.values(cases).map(({ provider }) => provider)), new Set(providerNames))
  })

  test('is verified in workerd as in Node', async (t) => {
    const sluice = await Receiver.listen(t)
    const names = Object.keys(cases)
    const routes = Object.entries(cases).map(([name, { provider, settings = {} }]) => [
      name,
      { mode: 'ingress', provider, settings, to: `${sluice.url}/ingress/${name}` },
    ])
    const secrets = Object.entries(cases).map(([name, { secret: own = key }]) => [name, own])
    const edge = await Edge.start(t, Object.fromEntries(routes), Object.fromEntries(secrets))
    assert.deepEqual((await edge.operate('GET', '/-/status')).json.problems, {})
    for (const [name, { sent, signsNoBody, provider }] of Object.entries(cases)) {
      const url = `${edge.url}/${name}`
      const request = await sent(url)
      const reply = await edge.send(`/${name}`, request)
      assert.equal(reply.headers['sluice-edge'], 'forwarded', `${name}: ${reply.status} ${reply.body}`)
      const [arrival] = sluice.at(`/ingress/${name}`)
      assert.equal(String(arrival?.body), request.body)
      if (!signsNoBody) {
        const tampered = await edge.send(`/${name}`, { ...request, body: `${request.body} ` })
        assert.equal(tampered.status, 401, name)
      }
      if (provider !== 'none') {
        const { 'content-type': type = '' } = request.headers ?? {}
        const bare = await edge.send(`/${name}`, { body: String(request.body), headers: { 'content-type': type } })
        assert.equal(bare.status, 401, name)
      }
      assert.equal(sluice.at(`/ingress/${name}`).length, 1)
    }
    assert.equal(sluice.arrivals.length, names.length)
  })

  test('keys of a provider are fetched, and a request waits for a key server that is down', async (t) => {
    const sluice = await Receiver.listen(t)
    let isDown = false
    const keys = JSON.stringify({ keys: [{ ...(await exportJWK(rsa.publicKey)), kid: 'one', alg: 'RS256' }] })
    const server = createServer((_, response) => response.writeHead(isDown ? 500 : 200).end(isDown ? '' : keys))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    atEnd(t, () => server.close())
    const jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`
    const route = { mode: 'ingress', provider: 'jwt', settings: { jwksUrl }, to: `${sluice.url}/ingress` }
    const edge = await Edge.start(t, { jwt: route }, { jwt: ' ' })
    const tokenOf = (kid: string) =>
      new SignJWT({}).setProtectedHeader({ alg: 'RS256', kid }).setExpirationTime('1m').sign(rsa.privateKey)
    const send = async (kid: string) =>
      (await edge.send('/jwt', json({ authorization: `Bearer ${await tokenOf(kid)}` }))).status
    assert.equal(await send('one'), 200)
    assert.equal(await send('another'), 401)
    isDown = true
    assert.equal(await send('one'), 503)
    const { body } = await edge.send('/jwt', json({ authorization: `Bearer ${await tokenOf('one')}` }))
    assert.doesNotMatch(body, /127\.0\.0\.1/, "the sender does not learn the operator's URL")
    isDown = false
    assert.equal(await send('one'), 200)
    assert.equal(sluice.arrivals.length, 2)
  })
})
