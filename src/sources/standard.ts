import { createPublicKey, createSecretKey, type KeyObject, verify } from 'node:crypto'
import type { Compute } from '../domain/turns.ts'
import { headerNames } from '../wire/receiver.ts'
import { sharedKey } from '../wire/secret.ts'
import { type Arrival, genuine, headerOf, refused } from './arrival.ts'
import { hmacMatch, type KeyCheck, readHead, type SignedHead, wrongSignature } from './hmac.ts'

/** A key of Standard Webhooks: `whsec_` and base64 (HMAC, v1), or `whpk_` and the public ed25519 key (v1a). */
export function standardKey(secret: string): KeyObject | undefined {
  if (secret.startsWith('whpk_')) return publicKeyOf(secret)
  const bytes = sharedKey(secret.startsWith('whsec_') ? secret : `whsec_${secret}`, 'base64')
  return bytes === undefined || bytes.length === 0 ? undefined : createSecretKey(bytes)
}

/** 32 bytes in base64. */
const publicKeyForm = /^whpk_([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)$/

function publicKeyOf(secret: string): KeyObject | undefined {
  const [, encoded] = publicKeyForm.exec(secret) ?? []
  if (encoded === undefined) return undefined
  const x = Buffer.from(encoded, 'base64').toString('base64url')
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
}

/** Standard Webhooks, under the names `webhook-*` or `svix-*`. */
export function standardCheck(toleranceSeconds: number, compute: Compute): KeyCheck {
  const all = headerNames('standard', 'both')
  const families = all.map((names) => {
    const scheme = {
      header: names.signature,
      hash: 'sha256',
      encoding: 'base64',
      prefix: 'v1,',
      separator: ' ',
      timestamp: { header: names.timestamp },
      toleranceSeconds,
      idHeader: names.id,
      signed: '{id}.{timestamp}.{body}',
    } as const
    // Otherwise a copied request with svix-* headers would be a new event for each made-up webhook-id.
    const unproven = all.filter((each) => each !== names).map(({ id }) => id)
    return { scheme, hasOurs: hmacMatch(scheme), proof: { ...genuine, unproven } }
  })
  return async (arrival, keys, nowMs) => {
    const family = families.find(({ scheme }) => headerOf(arrival, scheme.header) !== undefined)
    if (family === undefined) return refused('not_signed', 'The header webhook-signature or svix-signature is missing.')
    const head = readHead(family.scheme, arrival, nowMs)
    if ('kind' in head) return head
    const [shared, open] = [keys.filter(({ type }) => type === 'secret'), keys.filter(({ type }) => type === 'public')]
    const isOurs = (await compute(family.hasOurs(head, arrival, shared))) || (await hasPublic(head, arrival, open))
    return isOurs ? family.proof : wrongSignature(family.scheme.header)
  }
}

/** An ed25519 signature of 64 bytes in base64. */
const publicEntry = /^v1a,([A-Za-z0-9+/]{85}[AQgw]==)$/
/** Each check hashes the whole body twice. It runs on another thread: 4 entries with 4 keys take 30 ms for a mebibyte. */
const publicEntriesLimit = 4

async function hasPublic(
  { entries, timestamp, id }: SignedHead,
  { body }: Arrival,
  keys: readonly KeyObject[],
): Promise<boolean> {
  const signatures = entries.flatMap((entry) => publicEntry.exec(entry)?.[1] ?? []).slice(0, publicEntriesLimit)
  if (signatures.length === 0 || keys.length === 0) return false
  const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body])
  for (const key of keys) {
    for (const signature of signatures) {
      if (await isSigned(signed, key, Buffer.from(signature, 'base64'))) return true
    }
  }
  return false
}

function isSigned(signed: Buffer, key: KeyObject, signature: Buffer): Promise<boolean> {
  return new Promise((resolve, reject) => {
    verify(null, signed, key, signature, (error, isOurs) => (error === null ? resolve(isOurs) : reject(error)))
  })
}
