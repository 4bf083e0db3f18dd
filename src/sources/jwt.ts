import { createHash } from 'node:crypto'
import { decodeProtectedHeader, errors, importJWK, type JWK, type JWTPayload, jwtVerify } from 'jose'
import type { Compute, Sliced } from '../domain/turns.ts'
import {
  type Arrival,
  type ArrivalHead,
  headerOf,
  isSameText,
  type Proof,
  type Refusal,
  refused,
  type Unavailable,
  unavailable,
} from './arrival.ts'
import type { KeySets, PublicKey } from './key-sets.ts'
import { type JwtScheme, publicAlgorithms, sharedAlgorithms } from './schemes.ts'
import { hashing } from './signatures.ts'

interface JwtCheck {
  /** Why the token cannot be verified now; undefined when it can, and for a token that is wrong whatever the keys are. */
  unready(head: ArrivalHead, nowMs: number): Promise<Unavailable | undefined>
  prove(arrival: Arrival, secrets: readonly string[], nowMs: number): Promise<Proof>
}

/** Keys that are tried for one token. A set has several candidates only for tokens without a key id. */
const candidatesLimit = 8
const retryAfterMs = 30_000

export function jwtCheck(scheme: JwtScheme, keySets: KeySets, compute: Compute): JwtCheck {
  const fitting: readonly string[] = scheme.keys === null ? sharedAlgorithms : publicAlgorithms
  // A shared algorithm with a public key would make the public key a secret (key confusion).
  const algorithms = scheme.algorithms?.filter((name) => fitting.includes(name)) ?? [...fitting]

  const read = (arrival: ArrivalHead): Token | Refusal => {
    const value = headerOf(arrival, scheme.header)
    if (value === undefined) return refused('not_signed', `The header ${scheme.header} is missing.`)
    const text = value.replace(/^bearer +/i, '')
    const head = headOf(text)
    if (head === undefined) return refused('malformed', `The header ${scheme.header} is not a JWT.`)
    if (!algorithms.includes(head.alg)) {
      return refused('malformed', `The algorithm of the token is not allowed; allowed are ${algorithms.join(', ')}.`)
    }
    return { text, ...head }
  }

  return {
    async unready(arrival, nowMs) {
      const token = read(arrival)
      if ('kind' in token) return undefined
      return (await keysOf(scheme, keySets, token, [], nowMs)) === undefined ? withoutKeys(scheme, token) : undefined
    },

    async prove(arrival, secrets, nowMs) {
      const token = read(arrival)
      if ('kind' in token) return token
      const keys = await keysOf(scheme, keySets, token, secrets, nowMs)
      if (keys === undefined) return withoutKeys(scheme, token)
      let proof: Proof = refused('wrong_signature', 'No key of the source made the signature of the token.')
      for (const key of keys.slice(0, candidatesLimit)) {
        const next = await verified(token, key, scheme, algorithms, arrival.body, nowMs, compute)
        if (next.kind === 'genuine') return next
        // A right signature with a wrong claim says more than a wrong signature.
        if (next.kind === 'refused' && next.code !== 'wrong_signature') proof = next
      }
      return proof
    },
  }
}

function withoutKeys({ keys }: JwtScheme, { kid }: TokenHead): Unavailable {
  const url = keys !== null && 'url' in keys ? keys.url : 'the source'
  const newer = kid === undefined ? '' : ', or the key of the token may be newer than the last fetch'
  return unavailable(`The keys of ${url} cannot be fetched${newer}.`, retryAfterMs)
}

interface TokenHead {
  readonly alg: string
  readonly kid: string | undefined
}

interface Token extends TokenHead {
  readonly text: string
}

function headOf(token: string): TokenHead | undefined {
  const parts = token.split('.', 4)
  // The last character of base64 may have bits that mean nothing: each token has one spelling here.
  const isExact = (part: string) => Buffer.from(part, 'base64url').toString('base64url') === part
  if (parts.length !== 3 || !parts.every(isExact)) return undefined
  try {
    const { alg, kid } = decodeProtectedHeader(token)
    return typeof alg === 'string' && (kid === undefined || typeof kid === 'string') ? { alg, kid } : undefined
  } catch (error) {
    if (error instanceof TypeError || error instanceof errors.JOSEError) return undefined
    throw error
  }
}

async function keysOf(
  { keys }: JwtScheme,
  keySets: KeySets,
  { kid }: TokenHead,
  secrets: readonly string[],
  nowMs: number,
): Promise<readonly (PublicKey | string)[] | undefined> {
  if (keys === null) return secrets
  if ('inline' in keys)
    return keys.inline.filter((key) => kid === undefined || key.kid === undefined || key.kid === kid)
  return keySets.keysFor(keys.url, kid, nowMs)
}

async function verified(
  { text, alg }: Token,
  key: PublicKey | string,
  scheme: JwtScheme,
  algorithms: string[],
  body: Uint8Array,
  nowMs: number,
  compute: Compute,
): Promise<Proof> {
  const { issuer, audience, toleranceSeconds, maxAgeSeconds } = scheme
  try {
    const imported = typeof key === 'string' ? Buffer.from(key) : await importJWK(key as JWK, alg)
    const { payload } = await jwtVerify(text, imported, {
      algorithms,
      ...(issuer !== null && { issuer }),
      ...(audience !== null && { audience }),
      ...(maxAgeSeconds !== null && { maxTokenAge: maxAgeSeconds }),
      clockTolerance: toleranceSeconds,
      currentDate: new Date(nowMs),
    })
    return await compute(claimsProof(payload, scheme, body))
  } catch (error) {
    return refusalOf(error)
  }
}

function* claimsProof(payload: JWTPayload, scheme: JwtScheme, body: Uint8Array): Sliced<Proof> {
  if (payload.exp === undefined && scheme.maxAgeSeconds === null) {
    return refused('stale', 'The token never expires: it has no claim exp, and the source has no maxAgeSeconds.')
  }
  const { bodyHashClaim: name } = scheme
  if (name !== null) {
    const claim = Object.hasOwn(payload, name) ? payload[name] : undefined
    const hash = createHash('sha256')
    yield* hashing(hash, body)
    if (typeof claim !== 'string' || !isSameText(hash.digest(scheme.bodyHashEncoding), claim)) {
      return refused('wrong_signature', `The claim ${name} is not the SHA-256 of the body.`)
    }
  }
  return { kind: 'genuine', claims: payload }
}

function refusalOf(error: unknown): Proof {
  if (error instanceof errors.JWTExpired) return refused('stale', 'The token has expired.')
  if (error instanceof errors.JWTClaimValidationFailed) {
    const code = error.claim === 'iat' || error.claim === 'nbf' ? 'stale' : 'wrong_signature'
    return refused(code, `The claim ${error.claim} of the token is not as the source asks.`)
  }
  // A key that does not fit its algorithm is a mistake of the set of keys. jose and WebCrypto throw these two for it.
  const isExpected = error instanceof errors.JOSEError || error instanceof TypeError || error instanceof DOMException
  if (isExpected) return refused('wrong_signature', 'The signature of the token is wrong.')
  throw error
}
