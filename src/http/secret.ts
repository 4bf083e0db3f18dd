import { createPrivateKey, createPublicKey } from 'node:crypto'
import type { FieldError } from '../domain/app-error.ts'

/** DER of a PKCS #8 ed25519 private key, up to where its 32-byte seed follows. */
const privateKeyPrefix = Buffer.from('302e020100300506032b657004220420', 'hex')
/** What stands before the 32 bytes of a public key in its own DER. */
const publicKeyPrefixLength = 12
const generatedBytes = 24
const seedBytes = 32

/** What to say of a text in this field that is no secret. */
export function secretProblem(field: string): FieldError {
  const message = 'must be whsec_ and 24 to 64 bytes in base64, or whsk_ and an ed25519 key in base64'
  return { at: ['body', field], message, type: 'secret' }
}

/** A new secret for signing with HMAC. */
export function makeSecret(randomBytes: (length: number) => Uint8Array): string {
  return `whsec_${Buffer.from(randomBytes(generatedBytes)).toString('base64')}`
}

/** A new secret of the same kind as another. */
export function makeSecretLike(other: string | undefined, randomBytes: (length: number) => Uint8Array): string {
  if (!other?.startsWith('whsk_')) return makeSecret(randomBytes)
  return `whsk_${Buffer.from(randomBytes(seedBytes)).toString('base64')}`
}

/**
 * A secret as it is kept, or undefined when the text is none: `whsec_` (which may be left out) and 24 to 64 bytes in
 * base64, or `whsk_` and the seed of an ed25519 key, alone or followed by its public key.
 */
export function readSecret(text: string): string | undefined {
  const [, prefix = 'whsec_', encoded = ''] = /^(whsec_|whsk_)?([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? []
  const bytes = Buffer.from(encoded, 'base64')
  if (prefix === 'whsec_') return bytes.length >= 24 && bytes.length <= 64 ? `${prefix}${encoded}` : undefined
  if (bytes.length !== 32 && bytes.length !== 64) return undefined
  // A public key that does not belong to the seed would be shown to receivers and verify nothing.
  if (bytes.length === 64 && !publicKeyOf(bytes).equals(bytes.subarray(32))) return undefined
  return `${prefix}${encoded}`
}

/** What a receiver needs to verify: the secret itself for HMAC, the public half for ed25519. */
export function receiverKey(secret: string): string {
  if (!secret.startsWith('whsk_')) return secret
  return `whpk_${publicKeyOf(Buffer.from(secret.slice('whsk_'.length), 'base64')).toString('base64')}`
}

function publicKeyOf(key: Buffer): Buffer {
  const der = Buffer.concat([privateKeyPrefix, key.subarray(0, 32)])
  const pair = createPublicKey(createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }))
  return pair.export({ format: 'der', type: 'spki' }).subarray(publicKeyPrefixLength)
}
