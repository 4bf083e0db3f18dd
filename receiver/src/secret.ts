import { ReceiverError, SecretError } from './errors.ts'
import type { SignatureProfile } from './names.ts'

/** DER of a PKCS #8 ed25519 private key, up to where its 32-byte seed follows. */
const privateKeyPrefix = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32]
const seedBytes = 32
const encoder = new TextEncoder()

/** A key of WebCrypto; runtimes disagree about the name of its type. */
export type ImportedKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>

/** How a key is read from a secret and given to WebCrypto. */
interface KeyPlan {
  readonly format: 'raw' | 'pkcs8'
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly algorithm: 'Ed25519' | { readonly name: 'HMAC'; readonly hash: 'SHA-256' }
  readonly usage: 'sign' | 'verify'
}

/** The key of a secret, imported when it is first needed and then kept. */
export interface Key {
  /** Signs with HMAC (`hmac`) or ed25519 (`ed25519`), or only verifies ed25519 (`public`). */
  readonly kind: 'hmac' | 'ed25519' | 'public'
  load(): Promise<ImportedKey>
}

/**
 * The key of a secret for a profile: `whsec_` and base64, `raw:` and a text, `hex:` and hex digits, `whsk_` (ed25519) or
 * `whpk_` (its public half). For the profiles other than `standard` any other text is the key itself, prefix and all.
 * Throws SecretError when the text is no secret.
 */
export function keyOf(secret: string, profile: SignatureProfile): Key {
  const plan = planOf(secret, profile)
  let key: Promise<ImportedKey> | undefined
  const kind = plan.algorithm !== 'Ed25519' ? 'hmac' : plan.usage === 'sign' ? 'ed25519' : 'public'
  return { kind, load: () => (key ??= imported(plan)) }
}

function planOf(secret: string, profile: SignatureProfile): KeyPlan {
  const bytes = sharedBytes(secret, profile)
  if (bytes !== undefined && bytes.length > 0) {
    return { format: 'raw', bytes, algorithm: { name: 'HMAC', hash: 'SHA-256' }, usage: 'sign' }
  }
  const pair = profile === 'standard' ? /^wh([sp])k_(.*)$/.exec(secret) : null
  const half = pair === null ? undefined : fromBase64(pair[2] as string)
  if (pair?.[1] === 's' && (half?.length === seedBytes || half?.length === 2 * seedBytes)) {
    const pkcs8 = Uint8Array.of(...privateKeyPrefix, ...half.subarray(0, seedBytes))
    return { format: 'pkcs8', bytes: pkcs8, algorithm: 'Ed25519', usage: 'sign' }
  }
  if (pair?.[1] === 'p' && half?.length === seedBytes) {
    return { format: 'raw', bytes: half, algorithm: 'Ed25519', usage: 'verify' }
  }
  throw new SecretError(
    'invalid_secret',
    `The secret cannot be used for the profile ${profile}.`,
    profile === 'standard'
      ? 'Use the secret of the endpoint: whsec_ and base64, raw: and a text, hex: and hex digits, or whpk_ and an ed25519 key in base64.'
      : 'Use the secret of the endpoint as it is shown, or hex: and hex digits; ed25519 keys sign the profile standard alone.',
  )
}

/** The bytes of a secret that sender and receiver share; undefined when the text is none. */
function sharedBytes(secret: string, profile: SignatureProfile): Uint8Array<ArrayBuffer> | undefined {
  if (secret.startsWith('raw:')) return utf8(secret.slice(4))
  if (secret.startsWith('hex:')) return fromHex(secret.slice(4))
  if (profile !== 'standard') return /^wh[sp]k_/.test(secret) ? undefined : utf8(secret)
  return secret.startsWith('whsec_') ? fromBase64(secret.slice(6)) : undefined
}

/** Copied, because some runtimes declare that an encoder may share its memory, which a key may not. */
function utf8(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(encoder.encode(text))
}

async function imported({ format, bytes, algorithm, usage }: KeyPlan): Promise<ImportedKey> {
  try {
    return await crypto.subtle.importKey(format, bytes, algorithm, false, [usage])
  } catch (error) {
    if (algorithm !== 'Ed25519') throw error
    throw new ReceiverError(
      'unsupported_algorithm',
      'The WebCrypto of this runtime does not accept the ed25519 key.',
      'Use a newer runtime, or an endpoint with a whsec_ secret.',
      { cause: error },
    )
  }
}

function fromHex(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^([0-9a-f]{2})+$/i.test(text)) return undefined
  return Uint8Array.from(text.match(/../g) as string[], (digits) => Number.parseInt(digits, 16))
}

/** The bytes of a text in base64; undefined when it is none. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return undefined
  // atob wants whole groups of four, or none of the padding.
  const bare = text.replace(/=+$/, '')
  return bare.length % 4 === 1 ? undefined : Uint8Array.from(atob(bare), (character) => character.charCodeAt(0))
}

export function toBase64(bytes: ArrayBuffer): string {
  return btoa(String.fromCharCode(...new Uint8Array(bytes)))
}

export function toHex(bytes: ArrayBuffer): string {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
