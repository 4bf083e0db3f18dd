import { boolean, choice, list, seconds, text } from '../domain/field.ts'
import type { Answer } from './arrival.ts'
import { tokenPlaces } from './credentials.ts'
import { githubPing, slackChallenge } from './handshake.ts'
import { encodings, hashes, separators, timestampUnits } from './hmac.ts'
import { publicAlgorithms, sharedAlgorithms } from './jwt-scheme.ts'
import { type Provider, provider } from './provider.ts'

const [hour, day] = [3600, 86_400]
/** A header name, in any case. */
const headerText = text(1, 256)
const given = { origin: 'given', required: true, form: 'text', least: 1 } as const
const empty: Answer = { status: 200, headers: {}, body: '' }

/** Of senders that are not known: the usual fields, and the header that says what an id means. */
const usualTypes = ['{/type}', '{/event}', '{/eventType}']
const usualIds = ['{header:idempotency-key}']

const table = {
  github: provider({
    title: 'GitHub',
    description: 'HMAC-SHA256 of the body in `X-Hub-Signature-256`. A ping is answered and not stored.',
    secret: { ...given, origin: 'chosen', name: 'Secret' },
    hmac: { header: 'x-hub-signature-256', hash: 'sha256', encoding: 'hex', prefix: 'sha256=', signed: '{body}' },
    handshake: githubPing,
    eventType: ['{header:x-github-event}.{/action}', '{header:x-github-event}'],
    eventId: ['{header:x-github-delivery}'],
    replayWindowSeconds: 3 * day,
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
    secret: { ...given, name: 'Signing secret' },
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
    secret: { ...given, name: 'Client secret of the app' },
    hmac: { header: 'x-shopify-hmac-sha256', hash: 'sha256', encoding: 'base64', prefix: '', signed: '{body}' },
    eventType: ['{header:x-shopify-topic}'],
    eventId: ['{header:x-shopify-webhook-id}'],
    replayWindowSeconds: 3 * day,
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
    secret: { ...given, name: 'Signing Secret' },
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
    secret: { ...given, form: 'standard', name: 'Signing secret' },
    eventType: ['{/type}', '{/eventType}', '{/event_type}'],
    eventId: ['{header:webhook-id}', '{header:svix-id}'],
    toleranceSeconds: 300,
    replayWindowSeconds: 7 * day,
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
    secret: { ...given, name: 'Auth token' },
    eventType: ['message.{form:MessageStatus}', 'message.{form:SmsStatus}', 'call.{form:CallStatus}', '{/0/type}'],
    eventId: ['{header:i-twilio-idempotency-token}'],
    replayWindowSeconds: day,
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
    secret: { ...given, name: 'App secret' },
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
    accepted: empty,
    steps: [
      'Open the app at developers.facebook.com. **App settings › Basic** shows the **App secret**: set it as the secret of the source first.',
      'Open **Webhooks** of the product, choose **Edit subscription**, paste the URL as **Callback URL** and your verify token as **Verify token**.',
      'Subscribe to the fields that you want.',
    ],
    reference: 'https://developers.facebook.com/docs/graph-api/webhooks/getting-started',
    note: 'Meta batches up to 1,000 changes into one webhook and sends no id, so a retry after a lost answer is stored twice.',
  }),
  hmac: provider({
    title: 'HMAC',
    description: 'Any sender that signs with a shared secret: you say which header, hash, encoding and text.',
    secret: { ...given, origin: 'chosen', name: 'Secret' },
    settings: {
      header: {
        kind: headerText,
        fallback: null,
        required: true,
        flag: '--header <NAME>',
        description: 'Header of the signature.',
      },
      hash: {
        kind: choice(hashes),
        fallback: 'sha256',
        flag: '--hash <HASH>',
        description: 'Hash of the HMAC: `sha256` (default), `sha1` or `sha512`.',
      },
      encoding: {
        kind: choice(encodings),
        fallback: 'hex',
        flag: '--encoding <ENCODING>',
        description: 'Encoding of the signature: `hex` in lower case (default), `base64` or `base64url`.',
      },
      prefix: {
        kind: text(undefined, 64),
        fallback: '',
        flag: '--prefix <TEXT>',
        description: 'Text in front of the signature, such as `sha256=`. Spaces behind it do not count.',
      },
      separator: {
        kind: choice(Object.keys(separators)),
        fallback: null,
        flag: '--separator <CHARACTER>',
        description:
          'Character between several signatures in the header: `comma`, `space` or `semicolon`; none by default.',
      },
      signed: {
        kind: text(6, 256),
        fallback: '{body}',
        flag: '--signed <TEMPLATE>',
        description:
          'Signed text, with `{body}`, `{timestamp}`, `{id}`, `{url}` and `{method}`, such as `{timestamp}.{body}`; `{body}` by default.',
      },
      timestampHeader: {
        kind: headerText,
        fallback: null,
        flag: '--timestamp-header <NAME>',
        description: 'Header of the time of signing; none by default.',
      },
      timestampUnit: {
        kind: choice(timestampUnits),
        fallback: 's',
        flag: '--timestamp-unit <UNIT>',
        description: 'Unit of the time since 1970: `s` (default) or `ms`.',
      },
      idHeader: {
        kind: headerText,
        fallback: null,
        flag: '--id-header <NAME>',
        description: 'Header that `{id}` stands for.',
      },
      secretEncoding: {
        kind: choice(['text', 'hex', 'base64']),
        fallback: 'text',
        flag: '--secret-encoding <ENCODING>',
        description: 'How the secret is written: the bytes of the `text` (default), `hex` or `base64`.',
      },
    },
    eventType: usualTypes,
    eventId: usualIds,
    toleranceSeconds: 300,
    replayWindowSeconds: day,
    steps: [
      'Add the URL at the sender and give both the same secret.',
      'Read in the documentation of the sender which header carries the signature and which text is signed, and set `header`, `hash`, `encoding`, `prefix` and `signed` so.',
    ],
  }),
  jwt: provider({
    title: 'JWT',
    description:
      'A signed token (JWT) in a header, verified by published keys (JWKS), by keys that you give, or by a shared secret.',
    secret: { ...given, required: false, least: 32, name: 'Shared secret' },
    settings: {
      header: {
        kind: headerText,
        fallback: 'authorization',
        flag: '--header <NAME>',
        description: 'Header of the token; `Authorization` by default. `Bearer` in front of it is allowed.',
      },
      jwksUrl: {
        kind: text(1, 2048),
        fallback: null,
        flag: '--jwks-url <URL>',
        description: 'URL of the public keys (JWKS).',
      },
      keys: {
        kind: text(1, 16_384),
        fallback: null,
        flag: '--keys <JSON>',
        description: 'Public keys as the JSON text of a JWKS.',
      },
      issuer: { kind: text(1, 1024), fallback: null, flag: '--issuer <TEXT>', description: 'Expected claim `iss`.' },
      audience: {
        kind: text(1, 1024),
        fallback: null,
        flag: '--audience <TEXT>',
        description: 'Expected claim `aud`.',
      },
      algorithms: {
        kind: list(
          choice([...publicAlgorithms, ...sharedAlgorithms]),
          publicAlgorithms.length + sharedAlgorithms.length,
        ),
        fallback: null,
        flag: '--algorithm <NAME>',
        description: 'Allowed algorithms; all that fit the kind of keys by default. `none` is never allowed.',
      },
      maxAgeSeconds: {
        kind: seconds(1, 30 * day),
        fallback: null,
        flag: '--max-age <DURATION>',
        description: 'Longest age of a token by its claim `iat`. Without it, tokens need `exp`.',
      },
      bodyHashClaim: {
        kind: text(1, 256),
        fallback: null,
        flag: '--body-hash-claim <NAME>',
        description:
          'Claim that holds the SHA-256 of the body. Without it, a token proves its sender and not the body.',
      },
      bodyHashEncoding: {
        kind: choice(encodings),
        fallback: 'hex',
        flag: '--body-hash-encoding <ENCODING>',
        description: 'Encoding of that claim: `hex` (default), `base64` or `base64url`.',
      },
    },
    eventType: usualTypes,
    eventId: usualIds,
    toleranceSeconds: 60,
    replayWindowSeconds: day,
    steps: [
      'Add the URL at the sender. Set `jwksUrl`, `issuer` and `audience` from the documentation of the sender.',
      'Google Pub/Sub: `jwksUrl` is https://www.googleapis.com/oauth2/v3/certs, `issuer` is https://accounts.google.com and `audience` is the one of the push subscription.',
    ],
  }),
  basic: provider({
    title: 'Basic authentication',
    description: 'A user name and a password in `Authorization`. The body is not signed.',
    secret: { ...given, origin: 'chosen', least: 8, name: 'Password' },
    settings: {
      username: {
        kind: text(1, 256),
        fallback: null,
        required: true,
        flag: '--username <NAME>',
        description: 'User name, without a colon.',
      },
    },
    eventType: usualTypes,
    eventId: usualIds,
    replayWindowSeconds: day,
    steps: ['Add the URL at the sender with the user name and the password.'],
  }),
  token: provider({
    title: 'Token',
    description: 'A fixed token in a header or in the query, such as `X-Gitlab-Token`. The body is not signed.',
    secret: { ...given, origin: 'chosen', least: 16, name: 'Token' },
    settings: {
      tokenPlace: {
        kind: choice(tokenPlaces),
        fallback: 'header',
        flag: '--token-place <PLACE>',
        description: 'Place of the token: `header` (default) or `query`.',
      },
      tokenName: {
        kind: text(1, 256),
        fallback: 'authorization',
        flag: '--token-name <NAME>',
        description:
          'Name of the header or the parameter; `authorization` by default, where `Bearer` in front of the token is allowed.',
      },
      prefix: {
        kind: text(undefined, 64),
        fallback: '',
        flag: '--prefix <TEXT>',
        description: 'Text in front of the token, such as `Token`. Spaces behind it do not count.',
      },
    },
    eventType: ['{header:x-gitlab-event}', '{/type}', '{/event}', '{/eventType}'],
    eventId: ['{header:idempotency-key}'],
    replayWindowSeconds: day,
    steps: [
      'Add the URL at the sender and set the token there.',
      'GitLab: **Settings › Webhooks**, the token as **Secret token**, and `tokenName` is `X-Gitlab-Token`.',
    ],
  }),
  none: provider({
    title: 'No verification',
    description: 'Takes every request. The URL is the only secret, so use `/in/{token}` and keep it private.',
    settings: {
      acceptUnsigned: {
        kind: boolean,
        fallback: false,
        required: true,
        flag: '--accept-unsigned',
        description: 'Must be true: everybody who knows the URL can send events.',
        help: 'everybody who knows the URL can send events',
      },
    },
    eventType: usualTypes,
    eventId: usualIds,
    replayWindowSeconds: day,
    steps: ['Add the URL at the sender, and nowhere else.'],
  }),
} as const satisfies Readonly<Record<string, Provider>>

export type ProviderName = keyof typeof table

/** All providers, by the names in the API. */
export const providers: Readonly<Record<ProviderName, Provider>> = table
export const providerNames = Object.keys(table) as ProviderName[]

/** Whether a text names a provider. `constructor` does not. */
export function isProviderName(name: string): name is ProviderName {
  return Object.hasOwn(table, name)
}
