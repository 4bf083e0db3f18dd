import assert from 'node:assert/strict'
import { createHash, createHmac, generateKeyPairSync } from 'node:crypto'
import { describe, test } from 'node:test'
import { exportJWK, exportSPKI, type JWK, SignJWT } from 'jose'
import type { Judgement } from '../../src/sources/arrival.ts'
import { type FetchedKeys, KeySets, keySetBytesLimit, readKeySet } from '../../src/sources/key-sets.ts'
import { arrivalOf, noKeySets, verifierOf } from './arrivals.ts'

const now = 1_760_000_000_000
const url = 'https://keys.example/jwks.json'
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const other = generateKeyPairSync('rsa', { modulusLength: 2048 })
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const secret = 'a secret of more than thirty-two characters'

async function jwkOf(key: typeof rsa.publicKey, kid?: string): Promise<JWK> {
  return { ...(await exportJWK(key)), ...(kid !== undefined && { kid }) }
}

/** A token that is right, unless the claims or the header say otherwise. */
function signed(
  key: typeof rsa.privateKey | Uint8Array,
  { alg = 'RS256', kid, claims = {} }: { alg?: string; kid?: string; claims?: object } = {},
): Promise<string> {
  const header = { alg, ...(kid !== undefined && { kid }) }
  return new SignJWT({ iss: 'me', aud: 'you', exp: now / 1000 + 60, ...claims }).setProtectedHeader(header).sign(key)
}

function judgedBy(settings: object, token: string, keySets = noKeySets, given: object = {}): Promise<Judgement> {
  const arrival = arrivalOf({ headers: { authorization: `Bearer ${token}` }, body: '{"type":"a.b"}' })
  return verifierOf('jwt', { settings: { ...settings }, ...given }, keySets).judge(arrival, now)
}

async function codeOf(judgement: Promise<Judgement>): Promise<string> {
  const judged = await judgement
  return judged.kind === 'refused' ? judged.code : judged.kind
}

/** Served key sets, with a count of the fetches. */
function served(answer: () => FetchedKeys | Promise<FetchedKeys>): { keySets: KeySets; fetches: () => number } {
  let count = 0
  const keySets = new KeySets(async () => {
    count++
    return answer()
  })
  return { keySets, fetches: () => count }
}

function bodyOf(keys: readonly unknown[], cacheControl?: string): FetchedKeys {
  return { body: Buffer.from(JSON.stringify({ keys })), cacheControl }
}

describe('a JWT', () => {
  test('is verified by published keys, by keys of the source and by a shared secret', async () => {
    const key = await jwkOf(rsa.publicKey, 'one')
    const { keySets } = served(() => bodyOf([key]))
    const token = await signed(rsa.privateKey, { kid: 'one' })
    assert.equal(await codeOf(judgedBy({ jwksUrl: url, issuer: 'me', audience: 'you' }, token, keySets)), 'event')
    assert.equal(await codeOf(judgedBy({ keys: JSON.stringify({ keys: [key] }) }, token)), 'event')
    const shared = await signed(Buffer.from(secret), { alg: 'HS256' })
    assert.equal(await codeOf(judgedBy({}, shared, noKeySets, { secret })), 'event')
    assert.equal(await codeOf(judgedBy({}, shared, noKeySets, { secret: `${secret}!` })), 'wrong_signature')
  })

  test('with another issuer, audience, time or algorithm is refused', async () => {
    const keys = JSON.stringify({ keys: [await jwkOf(rsa.publicKey)] })
    const settings = { keys, issuer: 'me', audience: 'you', algorithms: ['RS256'] }
    const code = async (claims: object, alg = 'RS256') =>
      codeOf(judgedBy(settings, await signed(rsa.privateKey, { claims, alg })))
    assert.equal(await code({}), 'event')
    assert.equal(await code({ iss: 'her' }), 'wrong_signature')
    assert.equal(await code({ iss: undefined }), 'wrong_signature')
    assert.equal(await code({ aud: ['them'] }), 'wrong_signature')
    assert.equal(await code({ exp: now / 1000 - 59 }), 'event')
    assert.equal(await code({ exp: now / 1000 - 61 }), 'stale')
    assert.equal(await code({ nbf: now / 1000 + 61 }), 'stale')
    assert.equal(await code({ exp: undefined }), 'stale')
    assert.equal(await code({}, 'PS256'), 'malformed')
    const aged = { ...settings, maxAgeSeconds: 60 }
    for (const [iat, expected] of [
      [now / 1000 - 119, 'event'],
      [now / 1000 - 121, 'stale'],
      [now / 1000 + 61, 'stale'],
      [undefined, 'stale'],
    ] as const) {
      const token = await signed(rsa.privateKey, { claims: { iat, exp: undefined } })
      assert.equal(await codeOf(judgedBy(aged, token)), expected, `iat ${iat}`)
    }
  })

  test('without a signature is refused', async () => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const keys = JSON.stringify({ keys: [await jwkOf(rsa.publicKey)] })
    const claims = part({ exp: now / 1000 + 60 })
    for (const alg of ['none', 'None', 'nOnE', '', null, ['RS256'], '__proto__']) {
      assert.equal(await codeOf(judgedBy({ keys }, `${part({ alg })}.${claims}.`)), 'malformed')
    }
    const signature = (await signed(rsa.privateKey)).split('.')[2]
    for (const token of [
      '',
      '.',
      '..',
      'a.b',
      'a.b.c',
      `${part({})}.${claims}.${signature}`,
      `${claims}.e30.e30.e30`,
    ]) {
      assert.equal(await codeOf(judgedBy({ keys }, token)), 'malformed', token)
    }
  })

  // Key confusion: an attacker signs with the published key as if it were a shared secret.
  test('signed with a public key as a secret is refused', async () => {
    const keys = JSON.stringify({ keys: [await jwkOf(rsa.publicKey)] })
    for (const text of [await exportSPKI(rsa.publicKey), keys]) {
      const token = await signed(Buffer.from(text), { alg: 'HS256' })
      assert.equal(await codeOf(judgedBy({ keys }, token)), 'malformed')
      const { keySets } = served(() => ({ body: Buffer.from(keys) }))
      assert.equal(await codeOf(judgedBy({ jwksUrl: url }, token, keySets)), 'malformed')
    }
    const token = await signed(rsa.privateKey)
    assert.equal(await codeOf(judgedBy({}, token, noKeySets, { secret })), 'malformed')
    const oct = JSON.stringify({ keys: [{ kty: 'oct', k: Buffer.from(secret).toString('base64url') }] })
    assert.deepEqual(readKeySet(oct), [])
    assert.throws(() => verifierOf('jwt', { settings: { keys: oct } }), /not valid/)
    assert.throws(() => verifierOf('jwt', { settings: { algorithms: ['RS256'] }, secret }), /not valid/)
  })

  test('proves the body when a claim holds its hash', async () => {
    const keys = JSON.stringify({ keys: [await jwkOf(ec.publicKey)] })
    const hash = (text: string) => createHash('sha256').update(text).digest('base64url')
    const settings = { keys, bodyHashClaim: 'hash', bodyHashEncoding: 'base64url' }
    const token = (claims: object) => signed(ec.privateKey, { alg: 'ES256', claims })
    assert.equal(await codeOf(judgedBy(settings, await token({ hash: hash('{"type":"a.b"}') }))), 'event')
    assert.equal(await codeOf(judgedBy(settings, await token({ hash: hash('{"type":"a.c"}') }))), 'wrong_signature')
    assert.equal(await codeOf(judgedBy(settings, await token({}))), 'wrong_signature')
    const proto = { ...settings, bodyHashClaim: '__proto__' }
    assert.equal(await codeOf(judgedBy(proto, await token({}))), 'wrong_signature')
  })

  test('gives its claims to the templates', async () => {
    const keys = JSON.stringify({ keys: [await jwkOf(rsa.publicKey)] })
    const settings = { keys, eventId: ['{claim:jti}'], eventType: ['{claim:constructor}', 'a.{claim:n}'] }
    const judgement = await judgedBy(settings, await signed(rsa.privateKey, { claims: { jti: 'id 1', n: 7 } }))
    assert.equal(judgement.kind, 'event')
    assert.deepEqual(judgement.kind === 'event' && [judgement.eventId, judgement.eventType], [
      `sha256:${createHash('sha256').update('id 1').digest('hex')}`,
      'a.7',
    ])
  })

  test('without a key id is tried with every fitting key of a set, and with eight at most', async () => {
    const right = await jwkOf(rsa.publicKey)
    const wrong = await jwkOf(other.publicKey)
    const token = await signed(rsa.privateKey)
    const code = (keys: readonly unknown[]) => codeOf(judgedBy({ keys: JSON.stringify({ keys }) }, token))
    assert.equal(await code([wrong, await jwkOf(ec.publicKey), right]), 'event')
    assert.equal(await code([wrong]), 'wrong_signature')
    assert.equal(await code([...Array(8).fill(wrong), right]), 'wrong_signature')
    // A damaged key is passed over.
    assert.equal(await code([{ kty: 'RSA' }, { kty: 'EC', crv: 'P-0' }, { kty: 'OKP', x: 5 }, right]), 'event')
  })
})

describe('key sets', () => {
  test('are fetched once for all who ask at the same time, and again when their time is over', async () => {
    let open: (keys: FetchedKeys) => void = () => {}
    const gate = new Promise<FetchedKeys>((resolve) => {
      open = resolve
    })
    const key = { kty: 'RSA', kid: 'a' }
    const { keySets, fetches } = served(() => gate)
    const asked = Array.from({ length: 20 }, () => keySets.keysFor(url, 'a', now))
    open(bodyOf([key], 'public, max-age=3600'))
    for (const keys of await Promise.all(asked)) assert.deepEqual(keys, [key])
    assert.equal(fetches(), 1)
    await keySets.keysFor(url, 'a', now + 3_599_000)
    assert.equal(fetches(), 1)
    await keySets.keysFor(url, 'a', now + 3_600_000)
    assert.equal(fetches(), 2)
  })

  test('stay at least a minute and at most a day, whatever their server says', async () => {
    for (const [cacheControl, freshMs] of [
      ['max-age=0', 60_000],
      ['no-store', 600_000],
      ['max-age=999999999', 86_400_000],
      [`max-age=${'9'.repeat(400)}`, 600_000],
      ['x-max-age=7000', 600_000],
    ] as const) {
      const { keySets, fetches } = served(() => bodyOf([{ kty: 'RSA', kid: 'a' }], cacheControl))
      for (const [at, count] of [
        [0, 1],
        [freshMs - 1, 1],
        [freshMs, 2],
      ] as const) {
        await keySets.keysFor(url, 'a', now + at)
        assert.equal(fetches(), count, `${cacheControl} after ${at} ms`)
      }
    }
  })

  test('are fetched again for an unknown key id, at most once in 30 s', async () => {
    const keys = [{ kty: 'RSA', kid: 'a' }]
    const { keySets, fetches } = served(() => bodyOf(keys))
    await keySets.keysFor(url, 'a', now)
    // The key may be newer than the last fetch, so the sender is asked to try again.
    for (let i = 0; i < 1000; i++) assert.equal(await keySets.keysFor(url, `new-${i}`, now + 29_999), undefined)
    assert.equal(fetches(), 1)
    keys.push({ kty: 'RSA', kid: 'b' })
    assert.deepEqual(await keySets.keysFor(url, 'b', now + 30_000), [{ kty: 'RSA', kid: 'b' }])
    assert.equal(fetches(), 2)
    for (const [i, kid] of ['__proto__', 'constructor', ''].entries()) {
      assert.deepEqual(await keySets.keysFor(url, kid, now + (i + 2) * 30_000), [])
    }
  })

  test('of before serve while their server fails; without any, the sender is asked to try again', async () => {
    let answer = (): FetchedKeys => bodyOf([{ kty: 'RSA', kid: 'a' }])
    const { keySets, fetches } = served(() => answer())
    await keySets.keysFor(url, 'a', now)
    answer = () => {
      throw new Error('down')
    }
    assert.deepEqual(await keySets.keysFor(url, 'a', now + 700_000), [{ kty: 'RSA', kid: 'a' }])
    assert.equal(fetches(), 2)

    const token = await signed(rsa.privateKey, { kid: 'a' })
    for (const body of ['', '{', '[]', '{"keys":5}', '['.repeat(60_000), ' '.repeat(keySetBytesLimit + 1)]) {
      const { keySets: broken } = served(() => ({ body: Buffer.from(body) }))
      const judgement = await judgedBy({ jwksUrl: url }, token, broken)
      assert.deepEqual(judgement, {
        kind: 'unavailable',
        reason: `The keys of ${url} cannot be fetched, or the key of the token may be newer than the last fetch.`,
        retryAfterMs: 30_000,
      })
    }
    const { keySets: many } = served(() => bodyOf(Array(65).fill({ kty: 'RSA' })))
    assert.equal(await many.keysFor(url, undefined, now), undefined)
  })

  test('leave out private and shared keys', () => {
    const text = JSON.stringify({
      keys: [{ kty: 'RSA', d: 'x' }, { kty: 'oct', k: 'x' }, { kty: 'EC', use: 'enc' }, null, 5, { kty: 'EC' }],
    })
    assert.deepEqual(readKeySet(text), [{ kty: 'EC' }])
  })

  test('of a thousand URLs are kept, those that were asked for last', async () => {
    const { keySets, fetches } = served(() => bodyOf([{ kty: 'RSA' }]))
    for (let i = 0; i < 1000; i++) await keySets.keysFor(`${url}?${i}`, undefined, now)
    await keySets.keysFor(`${url}?0`, undefined, now)
    await keySets.keysFor(`${url}?1000`, undefined, now)
    await keySets.keysFor(`${url}?0`, undefined, now)
    assert.equal(fetches(), 1001)
    await keySets.keysFor(`${url}?1`, undefined, now)
    assert.equal(fetches(), 1002)
  })
})

test('an HMAC of a JWT has one spelling', async () => {
  const token = await signed(Buffer.from(secret), { alg: 'HS256' })
  const [head, claims, signature = ''] = token.split('.')
  const last = signature.at(-1) as string
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  // The last of 43 characters has two bits without a meaning.
  const twin = alphabet[alphabet.indexOf(last) ^ 1] as string
  const expected = createHmac('sha256', secret).update(`${head}.${claims}`).digest('base64url')
  assert.equal(signature, expected)
  const code = (text: string) => codeOf(judgedBy({}, text, noKeySets, { secret }))
  assert.equal(await code(token), 'event')
  assert.equal(await code(`${head}.${claims}.${signature.slice(0, -1)}${twin}`), 'malformed')
})
