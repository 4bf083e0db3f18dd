import { createHmac, createSecretKey, sign } from 'node:crypto'
import { bytesOf, privateKeyOf } from './secret.ts'

/** Signs `head` followed by `body`. */
export type Signer = (head: string, body: Uint8Array) => string

/** Signs a body alone. */
export type BodySigner = (body: Uint8Array) => string

/**
 * The signer of Standard Webhooks, which gives one entry of the signature header: HMAC-SHA256 (`v1`) for a `whsec_` secret,
 * ed25519 (`v1a`) for a `whsk_` one. Undefined when the text is neither.
 *
 * The key is prepared once: createHmac costs 13.5 µs with raw bytes and 2.0 µs with a KeyObject. (Two one-shot hashes
 * over precomputed pads would be 1.7 µs, not worth owning an HMAC.)
 */
export function standardSigner(secret: string): Signer | undefined {
  const bytes = bytesOf(secret)
  if (bytes === undefined || bytes.length === 0) return undefined
  if (secret.startsWith('whsec_')) {
    const key = createSecretKey(bytes)
    return (head, body) => `v1,${createHmac('sha256', key).update(head).update(body).digest('base64')}`
  }
  const key = secret.startsWith('whsk_') ? privateKeyOf(bytes) : undefined
  if (key === undefined) return undefined
  return (head, body) => `v1a,${sign(null, Buffer.concat([Buffer.from(head), body]), key).toString('base64')}`
}

/**
 * The signer of every other profile: HMAC-SHA256 in hex, whose key is the secret's text as it is, prefix and all, because
 * receivers written for those profiles use the text. Undefined for a secret of the asymmetric kind.
 */
export function hexSigner(secret: string): Signer | undefined {
  if (secret === '' || secret.startsWith('whsk_')) return undefined
  const key = createSecretKey(Buffer.from(secret, 'utf8'))
  return (head, body) => createHmac('sha256', key).update(head).update(body).digest('hex')
}

/** The signer of the signature that is stored with a message. */
export function bodySigner(secret: string): BodySigner | undefined {
  const sign = hexSigner(secret)
  return sign && ((body) => sign('', body))
}
