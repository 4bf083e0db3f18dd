import { boolean, choice, list, seconds, text } from '../domain/field.ts'
import type { PublicKey } from './key-sets.ts'
import { givenSecret, type Provider, provider } from './provider.ts'
import { encodings, hashes, separators, timestampUnits } from './signatures.ts'

export const sharedAlgorithms = ['HS256', 'HS384', 'HS512'] as const
export const publicAlgorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const

/** Where a token is. */
export const tokenPlaces = ['header', 'query'] as const

/** How a source verifies its tokens. This file loads no jose, so the table of providers can be read without it. */
export interface JwtScheme {
  /** The header of the token, in lower case. `Bearer ` in front of it is allowed. */
  readonly header: string
  /** Where the public keys are; null for shared secrets. */
  readonly keys: { readonly url: string } | { readonly inline: readonly PublicKey[] } | null
  readonly issuer: string | null
  readonly audience: string | null
  /** None lists all that fit the kind of keys. */
  readonly algorithms: readonly string[] | null
  /** The clock of the sender may differ by this much. */
  readonly toleranceSeconds: number
  readonly maxAgeSeconds: number | null
  /** The claim that holds the SHA-256 of the body. */
  readonly bodyHashClaim: string | null
  readonly bodyHashEncoding: (typeof encodings)[number]
}

const day = 86_400
/** A header name, in any case. */
const headerText = text(1, 256)

/** The usual fields, and the header that says what an id means. */
const usualTypes = ['{/type}', '{/event}', '{/eventType}']
const usualIds = ['{header:idempotency-key}']

/** Providers for senders that have no row of their own: the settings of a source describe how such a sender signs. */
export const schemes = {
  hmac: provider({
    title: 'HMAC',
    description: 'Any sender that signs with a shared secret: you say which header, hash, encoding and text.',
    secret: { ...givenSecret, origin: 'chosen', name: 'Secret' },
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
    // Another id would not fit the signature, so a recorded request stays the same event.
    signedId: ({ idHeader }) => (typeof idHeader === 'string' ? [`{header:${idHeader.toLowerCase()}}`] : undefined),
    recorded:
      'with `{id}` in `signed`, it is the same event: `idHeader` is the event id by default. With `{timestamp}`, it is refused once the tolerance is over. With neither, it is stored as a new message whenever `Idempotency-Key`, which is not signed, is changed or left out',
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
    secret: { ...givenSecret, required: false, least: 32, name: 'Shared secret' },
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
    // The token is for one body then. Without the hash of a body, senders use one token for many events until it expires, and
    // its id would make them all one.
    signedId: ({ bodyHashClaim }) => (bodyHashClaim == null ? undefined : ['{claim:jti}', ...usualIds]),
    recorded:
      'with `bodyHashClaim` and a claim `jti`, it is the same event: `{claim:jti}` is the event id by default. Otherwise it is stored as a new message until the token expires. A sender that makes a token for each request needs `eventId` as `{claim:jti}`; for one that uses a token several times, that would drop events',
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
    secret: { ...givenSecret, origin: 'chosen', least: 8, name: 'Password' },
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
    recorded: 'it is stored as a new message: nothing is signed, and who knows the password can send any request',
    steps: ['Add the URL at the sender with the user name and the password.'],
  }),
  token: provider({
    title: 'Token',
    description: 'A fixed token in a header or in the query, such as `X-Gitlab-Token`. The body is not signed.',
    secret: { ...givenSecret, origin: 'chosen', least: 16, name: 'Token' },
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
    eventType: ['{header:x-gitlab-event}', ...usualTypes],
    eventId: usualIds,
    replayWindowSeconds: day,
    recorded: 'it is stored as a new message: nothing is signed, and who knows the token can send any request',
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
    recorded: 'it is stored as a new message, as is every other request',
    steps: ['Add the URL at the sender, and nowhere else.'],
  }),
} as const satisfies Readonly<Record<string, Provider>>
