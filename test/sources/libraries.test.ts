import assert from 'node:assert/strict'
import { createHmac, generateKeyPairSync, sign as signWith } from 'node:crypto'
import { describe, test } from 'node:test'
import { sign as githubSign, verify as githubVerify } from '@octokit/webhooks-methods'
import '@shopify/shopify-api/adapters/web-api'
import { ApiVersion, shopifyApi } from '@shopify/shopify-api'
import { isValidSlackRequest } from '@slack/bolt'
import { Webhook as StandardWebhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { Webhook as SvixWebhook } from 'svix'
import { arrivalOf, judged, secondsOf } from './arrivals.ts'

const bodies = [
  '{"id":"evt_1","type":"order.paid","n":1.0}',
  '{"text":"Grüße, 世界 \\u0000 🎣"}',
  '[]',
  ' ',
  'a=b&c=%F0',
]
const now = 1_760_000_000_000

/** The official libraries of the providers sign or verify, and Sluice agrees with them. */
describe('official libraries', () => {
  test('@octokit/webhooks-methods signs, and verifies the same bytes', async () => {
    for (const body of bodies) {
      const signature = await githubSign('secret', body)
      const arrival = arrivalOf({ headers: { 'x-hub-signature-256': signature, 'x-github-event': 'push' }, body })
      assert.equal((await judged('github', { secret: 'secret' }, arrival)).kind, 'event')
      assert.equal(await githubVerify('secret', body, signature), true)
      assert.equal((await judged('github', { secret: 'other' }, arrival)).kind, 'refused')
    }
  })

  test('stripe signs test headers', async () => {
    const stripe = new Stripe('sk_test_1')
    for (const payload of bodies) {
      const timestamp = Number(secondsOf(now))
      const header = stripe.webhooks.generateTestHeaderString({ payload, secret: 'whsec_1', timestamp })
      const arrival = arrivalOf({ headers: { 'stripe-signature': header }, body: payload })
      assert.equal((await judged('stripe', { secret: 'whsec_1' }, arrival, now)).kind, 'event')
      assert.equal((await judged('stripe', { secret: 'whsec_2' }, arrival, now)).kind, 'refused')
    }
  })

  test('@shopify/shopify-api verifies what Sluice verifies', async () => {
    const shopify = shopifyApi({
      apiKey: 'key',
      apiSecretKey: 'secret',
      hostName: 'shop.example',
      apiVersion: ApiVersion.April26,
      isEmbeddedApp: false,
      logger: { log: () => {} },
    })
    for (const [body, secret] of bodies.flatMap((each) => [[each, 'secret'] as const, [each, 'other'] as const])) {
      const headers = {
        'x-shopify-hmac-sha256': createHmac('sha256', secret).update(body).digest('base64'),
        'x-shopify-topic': 'orders/create',
        'x-shopify-webhook-id': 'b54557e4-bdd9-4b37-8a5f-bf7d70bcd043',
        'x-shopify-api-version': '2026-04',
        'x-shopify-shop-domain': 'shop.myshopify.com',
      }
      const rawRequest = new Request('https://shop.example/', { method: 'POST', headers, body })
      const theirs = await shopify.webhooks.validate({ rawBody: body, rawRequest })
      const ours = await judged('shopify', { secret: 'secret' }, arrivalOf({ headers, body }))
      assert.equal(ours.kind === 'event', theirs.valid)
      assert.equal(theirs.valid, secret === 'secret')
      if (ours.kind === 'event') assert.equal(ours.eventType, 'orders.create')
    }
  })

  test('@slack/bolt verifies what Sluice verifies, also in time', async () => {
    for (const [body, ageSeconds] of bodies.flatMap((each) =>
      [0, 299, 301, 100_000].map((age) => [each, age] as const),
    )) {
      const timestamp = Number(secondsOf(now)) - ageSeconds
      const hex = createHmac('sha256', 'secret').update(`v0:${timestamp}:${body}`).digest('hex')
      const headers = { 'x-slack-signature': `v0=${hex}`, 'x-slack-request-timestamp': String(timestamp) }
      const theirs = isValidSlackRequest({
        signingSecret: 'secret',
        body,
        headers: { ...headers, 'x-slack-request-timestamp': timestamp },
        nowMilliseconds: now,
      })
      const ours = await judged('slack', { secret: 'secret' }, arrivalOf({ headers, body }), now)
      assert.equal(ours.kind === 'event', theirs, `${ageSeconds} s`)
    }
  })

  test('standardwebhooks and svix sign', async () => {
    const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
    for (const body of bodies) {
      const id = 'msg_1'
      for (const [library, family] of [
        [new StandardWebhook(secret), 'webhook'],
        [new SvixWebhook(secret), 'svix'],
      ] as const) {
        const headers = {
          [`${family}-id`]: id,
          [`${family}-timestamp`]: secondsOf(now),
          [`${family}-signature`]: library.sign(id, new Date(now), body),
        }
        const arrival = arrivalOf({ headers, body })
        assert.equal((await judged('standard', { secret }, arrival, now)).kind, 'event')
        assert.equal((await judged('standard', { secret: 'whsec_AAAA' }, arrival, now)).kind, 'refused')
      }
    }
  })

  test('ed25519 signatures (v1a) of Standard Webhooks, beside a v1 entry', async () => {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519')
    const x = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url')
    const secret = `whpk_${x.toString('base64')}`
    for (const body of bodies) {
      const signed = Buffer.from(`msg_1.${secondsOf(now)}.${body}`)
      const headers = {
        'webhook-id': 'msg_1',
        'webhook-timestamp': secondsOf(now),
        'webhook-signature': `v1,${'A'.repeat(43)}= v1a,${signWith(null, signed, privateKey).toString('base64')}`,
      }
      assert.equal((await judged('standard', { secret }, arrivalOf({ headers, body }), now)).kind, 'event')
      const other = arrivalOf({ headers, body: `${body} ` })
      assert.equal((await judged('standard', { secret }, other, now)).kind, 'refused')
    }
  })
})
