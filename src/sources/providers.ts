import { text } from '../domain/field.ts'
import { valueAt } from '../json/pointer.ts'
import { textOf } from '../json/token.ts'
import {
  type Answer,
  type Arrival,
  type Handshake,
  headerOf,
  isOneOf,
  parameterOf,
  type Refusal,
  refused,
} from './arrival.ts'
import { givenSecret, type Provider, provider } from './provider.ts'
import { schemes } from './schemes.ts'

const [hour, day] = [3600, 86_400]
const empty: Answer = { status: 200, headers: {}, body: '' }

const table = {
  github: provider({
    title: 'GitHub',
    description: 'HMAC-SHA256 of the body in `X-Hub-Signature-256`. A ping is answered and not stored.',
    secret: { ...givenSecret, origin: 'chosen', name: 'Secret' },
    hmac: { header: 'x-hub-signature-256', hash: 'sha256', encoding: 'hex', prefix: 'sha256=', signed: '{body}' },
    handshake: githubPing,
    eventType: ['{header:x-github-event}.{/action}', '{header:x-github-event}'],
    eventId: ['{header:x-github-delivery}'],
    replayWindowSeconds: 3 * day,
    recorded:
      'it is stored as a new message with another `X-GitHub-Delivery`, which is not signed, and after the replay window',
    steps: [
      'Open **Settings › Webhooks › Add webhook** of the repository or the organization.',
      'Paste the URL as **Payload URL** and choose **application/json** as **Content type**.',
      'Paste the secret as **Secret**, choose the events and save. The ping shows a green tick.',
    ],
    reference: 'https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries',
    note: 'GitHub sends a redelivery with the id of the first delivery. Within the replay window it is answered with the first message; send that message again from Sluice instead.',
  }),
  stripe: provider({
    title: 'Stripe',
    description: 'HMAC-SHA256 of the timestamp and the body in `Stripe-Signature`.',
    secret: { ...givenSecret, name: 'Signing secret' },
    hmac: {
      header: 'stripe-signature',
      hash: 'sha256',
      encoding: 'hex',
      prefix: 'v1=',
      separator: ',',
      timestamp: { entry: 't=' },
      signed: '{timestamp}.{body}',
    },
    eventType: ['{/type}'],
    eventId: ['{/id}'],
    toleranceSeconds: 300,
    replayWindowSeconds: 4 * day,
    recorded: 'it is the same event, whose id is in the signed body, and is refused after five minutes',
    steps: [
      'Open **Workbench › Webhooks › Add destination** and choose the events.',
      'Choose **Webhook endpoint** and paste the URL as **Endpoint URL**.',
      'Reveal the **Signing secret** (`whsec_…`) and set it as the secret of the source.',
    ],
    reference: 'https://docs.stripe.com/webhooks/signature',
    note: 'Stripe also signs with older secrets while one is rolled: keep the old secret of the source until Stripe lets it expire.',
  }),
  shopify: provider({
    title: 'Shopify',
    description: 'HMAC-SHA256 of the body in `X-Shopify-Hmac-Sha256`.',
    secret: { ...givenSecret, name: 'Client secret of the app' },
    hmac: { header: 'x-shopify-hmac-sha256', hash: 'sha256', encoding: 'base64', prefix: '', signed: '{body}' },
    eventType: ['{header:x-shopify-topic}'],
    eventId: ['{header:x-shopify-webhook-id}'],
    replayWindowSeconds: 3 * day,
    recorded:
      'it is stored as a new message with another `X-Shopify-Webhook-Id`, which is not signed, and after the replay window',
    accepted: empty,
    steps: [
      'For an app: set the URL as `uri` of `[[webhooks.subscriptions]]` in `shopify.app.toml` and deploy it; the secret is the **Client secret** of the app.',
      'For a shop: open **Settings › Notifications › Webhooks › Create webhook**, choose **JSON** and paste the URL; the secret is shown below the list.',
    ],
    reference: 'https://shopify.dev/docs/apps/build/webhooks/subscribe/https',
    note: 'One action in a shop may send several webhooks with one `X-Shopify-Event-Id`. `X-Shopify-Webhook-Id` is the id of one webhook, the same on each retry.',
  }),
  slack: provider({
    title: 'Slack',
    description:
      'HMAC-SHA256 of the timestamp and the body in `X-Slack-Signature`. The challenge of a new URL is answered.',
    secret: { ...givenSecret, name: 'Signing Secret' },
    hmac: {
      header: 'x-slack-signature',
      hash: 'sha256',
      encoding: 'hex',
      prefix: 'v0=',
      timestamp: { header: 'x-slack-request-timestamp' },
      signed: 'v0:{timestamp}:{body}',
    },
    handshake: slackChallenge,
    eventType: ['{/event/type}', '{/type}', 'command.{form:command}'],
    eventId: ['{/event_id}', '{form:trigger_id}'],
    toleranceSeconds: 300,
    replayWindowSeconds: 2 * hour,
    recorded: 'it is the same event, whose id is in the signed body, and is refused after five minutes',
    // Slack shows the body of an answer to a slash command to its user.
    accepted: empty,
    steps: [
      'Open the app at api.slack.com/apps. **Basic Information › App Credentials** shows the **Signing Secret**: set it as the secret of the source first.',
      'Open **Event Subscriptions**, switch it on and paste the URL as **Request URL**. Slack shows **Verified** at once.',
      'Add the events under **Subscribe to bot events** and save.',
    ],
    reference: 'https://docs.slack.dev/authentication/verifying-requests-from-slack',
    note: 'Slack waits three seconds for the answer, and switches events off for an app that fails often.',
  }),
  standard: provider({
    title: 'Standard Webhooks',
    description:
      'The signature of Standard Webhooks and Svix in `webhook-signature` or `svix-signature`: HMAC-SHA256 (`v1`) or ed25519 (`v1a`). Sluice itself signs so.',
    secret: { ...givenSecret, form: 'standard', name: 'Signing secret' },
    eventType: ['{/type}', '{/eventType}', '{/event_type}'],
    eventId: ['{header:webhook-id}', '{header:svix-id}'],
    toleranceSeconds: 300,
    replayWindowSeconds: 7 * day,
    recorded: 'it is the same event, whose id is signed, and is refused after five minutes',
    steps: [
      'Add the URL as an endpoint at the sender, such as Clerk, Resend, OpenAI or another Sluice.',
      'Set the **Signing secret** of that endpoint (`whsec_…`), or its public key (`whpk_…`), as the secret of the source.',
    ],
    reference: 'https://www.standardwebhooks.com',
  }),
  twilio: provider({
    title: 'Twilio',
    description:
      'HMAC-SHA1 of the URL and the sorted form in `X-Twilio-Signature`; of JSON bodies the URL holds the hash.',
    secret: { ...givenSecret, name: 'Auth token' },
    eventType: ['message.{form:MessageStatus}', 'message.{form:SmsStatus}', 'call.{form:CallStatus}', '{/0/type}'],
    eventId: ['{header:i-twilio-idempotency-token}'],
    replayWindowSeconds: day,
    recorded:
      'it is stored as a new message with another `I-Twilio-Idempotency-Token`, or without one: the header is not signed, and neither is a time',
    accepted: { status: 200, headers: { 'content-type': 'text/xml; charset=utf-8' }, body: '<Response></Response>' },
    steps: [
      'Set the **Auth Token** of the account as the secret of the source.',
      'Paste the URL where Twilio calls you: **Phone Numbers › Active numbers › A message comes in**, or the status callback of a message or call. Choose **HTTP POST**.',
      'Twilio signs the URL that it calls, so the public URL of Sluice must be set exactly as Twilio sees it.',
    ],
    reference: 'https://www.twilio.com/docs/usage/security',
    note: 'Twilio tries most webhooks only once. Sluice answers an empty TwiML document, so a source is no place for a webhook that must answer with instructions.',
  }),
  meta: provider({
    title: 'Meta',
    description:
      'HMAC-SHA256 of the body in `X-Hub-Signature-256` (Facebook, Instagram, WhatsApp). The verify token of a new URL is checked and its challenge answered.',
    secret: { ...givenSecret, name: 'App secret' },
    methods: ['POST', 'GET'],
    settings: {
      verifyToken: {
        kind: text(8, 256),
        fallback: null,
        required: true,
        sensitive: true,
        flag: '--verify-token <TOKEN>',
        description: 'The text that you enter as **Verify token** at Meta.',
      },
    },
    hmac: { header: 'x-hub-signature-256', hash: 'sha256', encoding: 'hex', prefix: 'sha256=', signed: '{body}' },
    eventType: ['{/object}'],
    eventId: null,
    replayWindowSeconds: day,
    recorded: 'it is stored as a new message each time: neither an id nor a time is signed',
    accepted: empty,
    steps: [
      'Open the app at developers.facebook.com. **App settings › Basic** shows the **App secret**: set it as the secret of the source first.',
      'Open **Webhooks** of the product, choose **Edit subscription**, paste the URL as **Callback URL** and your verify token as **Verify token**.',
      'Subscribe to the fields that you want.',
    ],
    reference: 'https://developers.facebook.com/docs/graph-api/webhooks/getting-started',
    note: 'Meta batches up to 1,000 changes into one webhook and sends no id, so a retry after a lost answer is stored twice.',
  }),
  ...schemes,
} as const satisfies Readonly<Record<string, Provider>>

export type ProviderName = keyof typeof table

/** All providers, by the names in the API. */
export const providers: Readonly<Record<ProviderName, Provider>> = table
export const providerNames = Object.keys(table) as ProviderName[]

/** Whether a text names a provider. `constructor` does not. */
export function isProviderName(name: string): name is ProviderName {
  return Object.hasOwn(table, name)
}

/** Challenges are repeated in the answer: 36 characters at Slack, about 10 at Meta. */
const challengeLimit = 1024

/** Slack asks for the challenge of a `url_verification` when the URL is saved. */
function slackChallenge({ body }: Arrival): Answer | undefined {
  if (textAt(body, '/type') !== 'url_verification') return undefined
  const challenge = textAt(body, '/challenge')
  return challenge === undefined ? undefined : plainText(challenge)
}

/** GitHub sends a ping when a webhook is created. It is no event of the repository. */
function githubPing(arrival: Arrival): Answer | undefined {
  return headerOf(arrival, 'x-github-event') === 'ping' ? plainText('pong') : undefined
}

/** Meta asks for the challenge with the verify token, by a GET without a signature. */
export function metaChallenge(arrival: Arrival, verifyToken: string): Handshake | Refusal {
  const [mode, token, challenge] = ['hub.mode', 'hub.verify_token', 'hub.challenge'].map((name) =>
    parameterOf(arrival, name),
  )
  if (mode !== 'subscribe' || token === undefined || challenge === undefined || challenge.length > challengeLimit) {
    return refused('malformed', 'The request is no verification of a callback URL: a parameter hub.* is missing.')
  }
  if (!isOneOf([verifyToken], token)) return refused('wrong_signature', 'The parameter hub.verify_token is wrong.')
  return { kind: 'answer', answer: plainText(challenge) }
}

/** A text of the sender goes back as plain text, so that no browser takes it for a page. */
function plainText(body: string): Answer {
  return {
    status: 200,
    headers: { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' },
    body,
  }
}

const quote = 0x22

/** A short string of a JSON body. */
function textAt(body: Uint8Array, pointer: string): string | undefined {
  // Handshakes are short, so that no large body is searched for one.
  if (body.length > 16 * challengeLimit) return undefined
  const span = valueAt(body, pointer)
  if (span === undefined || body[span.start] !== quote || span.end - span.start > challengeLimit) return undefined
  return textOf(body, span.start, span.end)
}
