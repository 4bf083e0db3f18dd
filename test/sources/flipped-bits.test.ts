import assert from 'node:assert/strict'
import { createHash, createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import type { Arrival } from '../../src/sources/arrival.ts'
import { type ProviderName, providerNames } from '../../src/sources/providers.ts'
import type { Verifier } from '../../src/sources/verifier.ts'
import { anyCharacter } from '../any-character.ts'
import { arrivalOf, secondsOf, verifierOf } from './arrivals.ts'

const now = 1_760_000_000_000
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const ed25519 = generateKeyPairSync('ed25519')
const publicKey = Buffer.from(ed25519.publicKey.export({ format: 'jwk' }).x ?? '', 'base64url').toString('base64')

/** A provider whose signature covers the bytes of the body, with the headers of a genuine request. */
interface Signer {
  readonly verifier: Verifier
  headersOf(body: Buffer): Record<string, string>
  /** The headers that the signature covers, or that carry it. */
  readonly covered: readonly string[]
}

function hex(text: string | Buffer, ...more: Buffer[]): string {
  const hmac = createHmac('sha256', secret).update(text)
  for (const part of more) hmac.update(part)
  return hmac.digest('hex')
}

function standardHeaders(body: Buffer, signature: (signed: Buffer) => string): Record<string, string> {
  const signed = Buffer.concat([Buffer.from(`msg_1.${secondsOf(now)}.`), body])
  return { 'webhook-id': 'msg_1', 'webhook-timestamp': secondsOf(now), 'webhook-signature': signature(signed) }
}

const standardCovered = ['webhook-id', 'webhook-timestamp', 'webhook-signature']
const standardKey = Buffer.from(secret.slice('whsec_'.length), 'base64')

const signers: Readonly<Record<string, Signer>> = {
  github: {
    verifier: verifierOf('github', { secret }),
    headersOf: (body) => ({ 'x-hub-signature-256': `sha256=${hex(body)}` }),
    covered: ['x-hub-signature-256'],
  },
  meta: {
    verifier: verifierOf('meta', { secret, settings: { verifyToken: 'my-verify-token' } }),
    headersOf: (body) => ({ 'x-hub-signature-256': `sha256=${hex(body)}` }),
    covered: ['x-hub-signature-256'],
  },
  shopify: {
    verifier: verifierOf('shopify', { secret }),
    headersOf: (body) => ({ 'x-shopify-hmac-sha256': createHmac('sha256', secret).update(body).digest('base64') }),
    covered: ['x-shopify-hmac-sha256'],
  },
  slack: {
    verifier: verifierOf('slack', { secret }),
    headersOf: (body) => ({
      'x-slack-request-timestamp': secondsOf(now),
      'x-slack-signature': `v0=${hex(`v0:${secondsOf(now)}:`, body)}`,
    }),
    covered: ['x-slack-request-timestamp', 'x-slack-signature'],
  },
  stripe: {
    verifier: verifierOf('stripe', { secret }),
    headersOf: (body) => ({ 'stripe-signature': `t=${secondsOf(now)},v1=${hex(`${secondsOf(now)}.`, body)}` }),
    covered: ['stripe-signature'],
  },
  standard: {
    verifier: verifierOf('standard', { secret }),
    headersOf: (body) =>
      standardHeaders(body, (signed) => `v1,${createHmac('sha256', standardKey).update(signed).digest('base64')}`),
    covered: standardCovered,
  },
  'standard with ed25519': {
    verifier: verifierOf('standard', { secret: `whpk_${publicKey}` }),
    headersOf: (body) =>
      standardHeaders(body, (signed) => `v1a,${sign(null, signed, ed25519.privateKey).toString('base64')}`),
    covered: standardCovered,
  },
  'twilio with a JSON body': {
    verifier: verifierOf('twilio', { secret }),
    headersOf: (body) => ({
      'x-twilio-signature': createHmac('sha1', secret).update(twilioUrl(body)).digest('base64'),
    }),
    covered: ['x-twilio-signature'],
  },
  hmac: {
    verifier: verifierOf('hmac', {
      secret,
      settings: {
        header: 'X-Signature',
        hash: 'sha512',
        encoding: 'base64url',
        prefix: 'v2:',
        signed: '{method} {id}/{timestamp}\n{body}',
        timestampHeader: 'X-Time',
        timestampUnit: 'ms',
        idHeader: 'X-Id',
      },
    }),
    headersOf: (body) => ({
      'x-time': String(now),
      'x-id': '42',
      'x-signature': `v2:${createHmac('sha512', secret).update(`POST 42/${now}\n`).update(body).digest('base64url')}`,
    }),
    covered: ['x-time', 'x-id', 'x-signature'],
  },
  'jwt with the hash of the body': {
    verifier: verifierOf('jwt', {
      settings: { keys: JSON.stringify({ keys: [jwkOf(ed25519.publicKey)] }), bodyHashClaim: 'hash' },
    }),
    headersOf: (body) => ({ authorization: `Bearer ${jwtOf(body)}` }),
    covered: ['authorization'],
  },
}

function twilioUrl(body: Buffer): string {
  return `https://sluice.example/in/token?bodySHA256=${createHash('sha256').update(body).digest('hex')}`
}

function jwkOf(key: KeyObject): object {
  return key.export({ format: 'jwk' })
}

function jwtOf(body: Buffer): string {
  const claims = { exp: now / 1000 + 60, hash: createHash('sha256').update(body).digest('hex') }
  const signed = [{ alg: 'EdDSA' }, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.')
  return `${signed}.${sign(null, Buffer.from(signed), ed25519.privateKey).toString('base64url')}`
}

/** One bit of a text or of bytes, turned over. Bits above 7 bits of ASCII are turned over, too. */
function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes)
  const bit = at % (8 * copy.length)
  copy[bit >> 3] = (copy[bit >> 3] as number) ^ (1 << (bit & 7))
  return copy
}

const bodyBytes = fc.uint8Array({ minLength: 1, maxLength: 200 }).map((bytes) => Buffer.from(bytes))
const place = fc.nat({ max: 1_000_000 })

describe('a flipped bit is refused', () => {
  for (const [name, { verifier, headersOf, covered }] of Object.entries(signers)) {
    const arrivalFor = (body: Buffer): Arrival =>
      arrivalOf({ headers: headersOf(body), body, ...(name.startsWith('twilio') && { url: twilioUrl(body) }) })

    test(`of ${name}: in the body, the signature, the timestamp and the id`, async () => {
      await fc.assert(
        fc.asyncProperty(bodyBytes, place, fc.constantFrom('body', ...covered), async (body, at, part) => {
          const genuine = arrivalFor(body)
          assert.equal((await verifier.judge(genuine, now)).kind, 'event')
          const forged =
            part === 'body'
              ? { ...genuine, body: flipped(body, at) }
              : {
                  ...genuine,
                  headers: {
                    ...genuine.headers,
                    [part]: flipped(Buffer.from(String(genuine.headers[part]), 'latin1'), at).toString('latin1'),
                  },
                }
          // `Bearer` may be written in any case, and it is no part of the signature.
          const scheme = /^bearer +/i
          const [before, after] = [genuine, forged].map(({ headers }) =>
            String(headers.authorization).replace(scheme, ''),
          )
          if (part === 'authorization' && before === after) return
          assert.equal((await verifier.judge(forged, now)).kind, 'refused')
        }),
        { numRuns: 150 },
      )
    })

    test(`of ${name}: cut or doubled headers`, async () => {
      const genuine = arrivalFor(Buffer.from('{}'))
      for (const header of covered) {
        const value = String(genuine.headers[header])
        const headersWith = (changed: string | undefined | string[]) => ({
          ...genuine,
          headers: { ...genuine.headers, [header]: changed },
        })
        for (const changed of [undefined, '', value.slice(0, -1), [value, value], 'é', '\u{10ffff}', '\ud800']) {
          assert.equal((await verifier.judge(headersWith(changed), now)).kind, 'refused', `${header}: ${changed}`)
        }
      }
    })
  }
})

const settingsOf: Partial<Record<ProviderName, object>> = {
  meta: { verifyToken: 'my-verify-token' },
  hmac: { header: 'x-signature', signed: '{timestamp}{url}{body}', timestampHeader: 'x-time' },
  jwt: { keys: JSON.stringify({ keys: [jwkOf(ed25519.publicKey)] }) },
  basic: { username: 'user' },
  none: { acceptUnsigned: true },
}

/** Headers that some provider reads, prototype names, and texts that only look right. */
const headerName = fc.constantFrom(
  ...Object.values(signers).flatMap(({ covered }) => covered),
  'content-type',
  'x-github-event',
  'x-time',
  '__proto__',
  'constructor',
  'toString',
)
const headerValue = fc.oneof(
  fc.string({ unit: anyCharacter, maxLength: 300 }),
  fc.constantFrom(
    `sha256=${'0'.repeat(64)}`,
    `v1,${'A'.repeat(43)}=`,
    `v1a,${'A'.repeat(86)}==`,
    `t=${secondsOf(now)},t=1,v1=${'0'.repeat(64)}`,
    't=NaN,v1=',
    '-1',
    '1e3',
    '0x10',
    ' 1760000000',
    '99999999999999999999',
    'Bearer a.b.c',
    `Bearer ${'a.'.repeat(8000)}`,
    'Bearer eyJhbGciOiJub25lIn0.e30.',
    'Basic dXNlcjo=',
    'application/x-www-form-urlencoded',
    'ping',
    'v1,'.repeat(5000),
  ),
)

describe('garbage', () => {
  const verifiers = providerNames.map((name) => {
    const settings = { ...settingsOf[name] }
    const noSecret = name === 'none' || name === 'jwt'
    return [name, verifierOf(name, { ...(!noSecret && { secret }), settings })] as const
  })

  test('is judged, never thrown at, and never genuine', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...verifiers),
        fc.constantFrom('POST', 'GET', 'PUT', '', '__proto__'),
        fc.oneof(fc.webUrl({ withQueryParameters: true }), fc.string({ unit: anyCharacter })),
        fc.dictionary(headerName, headerValue, { noNullPrototype: false }),
        fc.oneof(
          fc.uint8Array({ maxLength: 500 }),
          fc.json().map((text) => Buffer.from(text)),
          fc
            .constantFrom('[', '{"a":', '&&&==&%', '{"type":"url_verification","challenge":"x"}')
            .map((text) => Buffer.from(text)),
        ),
        fc.oneof(fc.constant(now), fc.constantFrom(0, -1, Number.MAX_SAFE_INTEGER)),
        async ([name, verifier], method, url, headers, body, nowMs) => {
          const judgement = await verifier.judge({ method, url, headers, body }, nowMs)
          assert.equal(judgement.kind, name === 'none' && method === 'POST' ? 'event' : 'refused')
          if (judgement.kind === 'event') assert.match(judgement.eventType, /^[a-zA-Z0-9\-_.]{1,256}$/)
        },
      ),
      { numRuns: 2000 },
    )
  })
})
