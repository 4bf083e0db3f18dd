import { createHmac, createSecretKey } from 'node:crypto'

/** Signs a body alone, in hex. */
export type BodySigner = (body: Uint8Array) => string

/**
 * What signs by every profile but the standard one: HMAC-SHA256 whose key is the secret's text as it is, prefix and all,
 * because that is what receivers written for those profiles put in. Undefined for a secret of the asymmetric kind.
 */
export function hexSigner(secret: string): ((head: string, body: Uint8Array) => string) | undefined {
  if (secret === '' || secret.startsWith('whsk_')) return undefined
  const key = createSecretKey(Buffer.from(secret, 'utf8'))
  return (head, body) => createHmac('sha256', key).update(head).update(body).digest('hex')
}

/** What makes the signature that is stored with a message. */
export function bodySigner(secret: string): BodySigner | undefined {
  const sign = hexSigner(secret)
  return sign && ((body) => sign('', body))
}
