import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import type { FieldError } from '../domain/app-error.ts'
import type { EpochMs } from '../domain/clock.ts'
import type { SignatureProfile } from '../domain/flow.ts'
import type { Secret } from '../features/endpoints/rules.ts'

/**
 * Secrets as texts. HMAC keys: `whsec_` and base64, `raw:` and the text whose bytes are the key, or `hex:` and hex digits.
 * Ed25519 keys: `whsk_` and base64; `whpk_` is the public half.
 */

/** DER of a PKCS #8 ed25519 private key, up to where its 32-byte seed follows. */
const privateKeyPrefix = Buffer.from('302e020100300506032b657004220420', 'hex')
/** DER of an ed25519 public key, up to where its 32 bytes follow. */
const publicKeyPrefix = Buffer.from('302a300506032b6570032100', 'hex')
const generatedBytes = 24
const seedBytes = 32
/** Svix takes 32 to 100 characters of base64. */
const [leastBytes, mostBytes] = [24, 75]
/** The longest key that is brought along as text or hex, in bytes. */
const broughtBytes = 512

/** Each older secret that still signs makes every delivery a little longer. */
export const olderSecretsLimit = 10

/** The problem of a field whose text is no secret. */
export function secretProblem(field: string): FieldError {
  const message = `must be whsec_ and ${leastBytes} to ${mostBytes} bytes in base64, raw: and a text, hex: and hex digits, or whsk_ and an ed25519 key in base64`
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
 * A secret as it is kept, or undefined when the text is none for the profile. A text without a prefix is base64 for the
 * standard profile, and the key itself for the others: their receivers use the text of a secret.
 */
export function readSecret(text: string, profile: SignatureProfile): string | undefined {
  if (text.startsWith('raw:')) return isText(text.slice('raw:'.length)) ? text : undefined
  if (text.startsWith('hex:')) return isHex(text.slice('hex:'.length)) ? text : undefined
  const prefixed = /^wh(sec|sk|pk)_/.exec(text)?.[0]
  const standard = profile === 'standard' || prefixed !== undefined ? readStandardSecret(text) : undefined
  if (standard !== undefined || profile === 'standard') return standard
  // A key of another sender may begin with whsec_, too, and have any characters behind it.
  return (prefixed === undefined || prefixed === 'whsec_') && isText(text) ? `raw:${text}` : undefined
}

/**
 * A secret of Standard Webhooks: `whsec_` (which may be left out) and base64, or `whsk_` and the seed of an ed25519 key,
 * alone or followed by its public key.
 */
function readStandardSecret(text: string): string | undefined {
  const [, prefix = 'whsec_', encoded = ''] = /^(whsec_|whsk_)?([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? []
  const bytes = Buffer.from(encoded, 'base64')
  if (prefix === 'whsec_') {
    return bytes.length >= leastBytes && bytes.length <= mostBytes ? `${prefix}${encoded}` : undefined
  }
  const key = privateKeyOf(bytes)
  if (key === undefined) return undefined
  // A public key that does not belong to the seed would be shown to receivers and verify nothing.
  if (bytes.length > seedBytes && !publicBytesOf(key).equals(bytes.subarray(seedBytes))) return undefined
  return `${prefix}${encoded}`
}

function isText(text: string): boolean {
  return text !== '' && text.isWellFormed() && Buffer.byteLength(text) <= broughtBytes
}

function isHex(text: string): boolean {
  return text.length <= 2 * broughtBytes && /^([0-9a-f]{2})+$/i.test(text)
}

/**
 * The bytes of a shared secret; undefined when it has none. `raw:` and `hex:` are the same bytes for every profile.
 * `whsec_` is base64 for the standard profile (`base64`). The others sign with the whole text, prefix and all (`text`),
 * because receivers written for them do.
 */
export function sharedKey(secret: string, read: 'base64' | 'text'): Buffer | undefined {
  if (secret.startsWith('raw:')) return Buffer.from(secret.slice('raw:'.length), 'utf8')
  if (secret.startsWith('hex:')) return Buffer.from(secret.slice('hex:'.length), 'hex')
  if (read === 'text') return secret.startsWith('whsk_') ? undefined : Buffer.from(secret, 'utf8')
  return secret.startsWith('whsec_') ? bytesOf(secret) : undefined
}

/** The key of an ed25519 secret's bytes: its seed, alone or followed by its public key. Undefined for other lengths. */
export function privateKeyOf(bytes: Buffer): KeyObject | undefined {
  if (bytes.length !== seedBytes && bytes.length !== 2 * seedBytes) return undefined
  const der = Buffer.concat([privateKeyPrefix, bytes.subarray(0, seedBytes)])
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
}

/** The ed25519 key whose 32 bytes these are; undefined for another length. */
export function publicKeyOf(bytes: Buffer): KeyObject | undefined {
  if (bytes.length !== seedBytes) return undefined
  return createPublicKey({ key: Buffer.concat([publicKeyPrefix, bytes]), format: 'der', type: 'spki' })
}

/**
 * The key that a receiver verifies with: the secret itself for HMAC, the public half for ed25519. Receivers of the standard
 * profile know base64 alone, so a key that was brought along in another form is shown to them as `whsec_`.
 */
export function receiverKey(secret: string, profile: SignatureProfile): string {
  if (profile === 'standard' && /^(raw|hex):/.test(secret)) {
    return `whsec_${sharedKey(secret, 'base64')?.toString('base64')}`
  }
  const key = secret.startsWith('whsk_') ? privateKeyOf(bytesOf(secret) ?? Buffer.alloc(0)) : undefined
  return key === undefined ? secret : `whpk_${publicBytesOf(key).toString('base64')}`
}

/** The bytes behind the prefix; undefined when they are not base64. (Buffer.from would skip wrong characters.) */
export function bytesOf(secret: string): Buffer | undefined {
  const encoded = secret.slice(secret.indexOf('_') + 1)
  return /^[A-Za-z0-9+/]+={0,2}$/.test(encoded) ? Buffer.from(encoded, 'base64') : undefined
}

/** The 32 bytes of the public half of an ed25519 key. */
export function publicBytesOf(key: KeyObject): Buffer {
  return createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(publicKeyPrefix.length)
}

/**
 * An endpoint's secrets after a change: the new one first, then those it replaces until the grace has passed (or until they
 * would have expired anyway), without expired ones. Undefined when too many would go on signing.
 */
export function rotated(secrets: readonly Secret[], next: string, now: EpochMs, graceMs: number): Secret[] | undefined {
  const older = secrets
    .filter(({ secret }) => secret !== next)
    .map(({ secret, expiresAt }) => ({ secret, expiresAt: Math.min(expiresAt ?? Infinity, now + graceMs) }))
    .filter(({ expiresAt }) => expiresAt > now)
  if (older.length > olderSecretsLimit) return undefined
  return [{ secret: next, expiresAt: null }, ...older]
}
