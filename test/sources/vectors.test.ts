import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, test } from 'node:test'
import { arrivalOf, judged, secondsOf } from './arrivals.ts'

/** Examples that the providers publish, word for word. */
describe('published examples', () => {
  // https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries#testing-the-webhook-payload-validation
  test('GitHub', async () => {
    const secret = "It's a Secret to Everybody"
    const signature = 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'
    const headers = { 'x-hub-signature-256': signature, 'x-github-event': 'push', 'x-github-delivery': '72d3162e' }
    assert.deepEqual(await judged('github', { secret }, arrivalOf({ headers, body: 'Hello, World!' })), {
      kind: 'event',
      eventId: '72d3162e',
      eventType: 'push',
      contentType: 'application/json',
    })
  })

  // https://docs.slack.dev/authentication/verifying-requests-from-slack (a slash command)
  test('Slack', async () => {
    const secret = '8f742231b10e8888abcd99yyyzzz85a5'
    const body =
      'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c'
    const headers = {
      'content-type': 'application/x-www-form-urlencoded',
      'x-slack-request-timestamp': '1531420618',
      'x-slack-signature': 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503',
    }
    const judgement = await judged('slack', { secret }, arrivalOf({ headers, body }), 1_531_420_618_000)
    assert.deepEqual(judgement, {
      kind: 'event',
      eventId: '398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c',
      eventType: 'command.webhook-collect',
      contentType: 'application/x-www-form-urlencoded',
    })
  })

  // https://www.twilio.com/docs/usage/security#validating-signatures-from-twilio
  test('Twilio', async () => {
    const body = new URLSearchParams({
      CallSid: 'CA1234567890ABCDE',
      Caller: '+14158675309',
      Digits: '1234',
      From: '+14158675309',
      To: '+18005551212',
    }).toString()
    const headers = {
      'content-type': 'application/x-www-form-urlencoded; charset=UTF-8',
      'x-twilio-signature': 'RSOYDt4T1cUTdK1PDd93/VVr8B8=',
      'i-twilio-idempotency-token': '6b9e6f7c',
    }
    const url = 'https://mycompany.com/myapp.php?foo=1&bar=2'
    const judgement = await judged('twilio', { secret: '12345' }, arrivalOf({ url, headers, body }))
    assert.equal(judgement.kind, 'event')
    assert.equal('eventId' in judgement && judgement.eventId, '6b9e6f7c')
  })

  // https://github.com/standard-webhooks/standard-webhooks and docs.svix.com/receiving/verifying-payloads/how-manual
  test('Standard Webhooks and Svix', async () => {
    const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
    const parts = { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', timestamp: '1614265330' }
    const signature = 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    for (const family of ['webhook', 'svix']) {
      const headers = {
        [`${family}-id`]: parts.id,
        [`${family}-timestamp`]: parts.timestamp,
        [`${family}-signature`]: signature,
      }
      const arrival = arrivalOf({ headers, body: '{"test": 2432232314}' })
      const judgement = await judged('standard', { secret }, arrival, 1_614_265_330_000)
      assert.deepEqual(judgement, {
        kind: 'event',
        eventId: parts.id,
        eventType: 'standard',
        contentType: 'application/json',
      })
    }
  })

  // https://docs.stripe.com/webhooks/signature describes the steps; its library signs in libraries.test.ts.
  test('Stripe, by the steps of its documentation', async () => {
    const body = '{"id": "evt_1", "type": "charge.succeeded"}'
    const now = 1_700_000_000_000
    const v1 = createHmac('sha256', 'whsec_test')
      .update(`${secondsOf(now)}.${body}`)
      .digest('hex')
    const headers = { 'stripe-signature': `t=${secondsOf(now)},v1=${v1},v0=6ffbb59b2300aae63f272406069a9788598b792a` }
    assert.deepEqual(await judged('stripe', { secret: 'whsec_test' }, arrivalOf({ headers, body }), now), {
      kind: 'event',
      eventId: 'evt_1',
      eventType: 'charge.succeeded',
      contentType: 'application/json',
    })
  })
})
