import { createPublicKey, timingSafeEqual, verify } from 'node:crypto'
import { readSecret } from '../sender/sign.ts'

/** What a receiver was sent, as far as its signature goes. */
export interface Received {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Uint8Array
}

/** How far a timestamp may be from now, so that a recorded request cannot be sent again later. */
const toleranceSeconds = 300
/** DER of an ed25519 public key, up to where its 32 bytes follow. */
const publicKeyPrefix = Buffer.from('302a300506032b6570032100', 'hex')

/** Checks one entry of the signature header. */
type Check = (head: string, body: Uint8Array, entry: string) => boolean

/**
 * A verifier of Standard Webhooks signatures for a `whsec_` secret, an ed25519 key (`whsk_`) or its public half
 * (`whpk_`); undefined when the text is none. The verifier answers undefined when all is well, else what is wrong.
 */
export function openVerifier(secret: string): ((received: Received, nowMs: number) => string | undefined) | undefined {
  const check = secret.startsWith('whpk_') ? publicCheck(secret) : secretCheck(secret)
  if (check === undefined) return undefined
  return ({ headers, body }, nowMs) => {
    const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers
    if (typeof id !== 'string' || typeof timestamp !== 'string' || typeof signatures !== 'string') {
      return 'not signed'
    }
    const offSeconds = Math.round(nowMs / 1000 - Number(timestamp))
    if (!(Math.abs(offSeconds) <= toleranceSeconds)) return `signed ${offSeconds} s ago by its timestamp`
    const head = `${id}.${timestamp}.`
    return signatures.split(' ').some((entry) => check(head, body, entry)) ? undefined : 'the signature is wrong'
  }
}

/** Signing again and comparing works for both schemes: ed25519 gives the same signature every time. */
function secretCheck(secret: string): Check | undefined {
  const sign = readSecret(secret)
  if (sign === undefined) return undefined
  return (head, body, entry) => {
    const expected = Buffer.from(sign(head, body))
    const found = Buffer.from(entry)
    return expected.length === found.length && timingSafeEqual(expected, found)
  }
}

function publicCheck(secret: string): Check | undefined {
  const bytes = Buffer.from(secret.slice('whpk_'.length), 'base64')
  if (bytes.length !== 32) return undefined
  const key = createPublicKey({ key: Buffer.concat([publicKeyPrefix, bytes]), format: 'der', type: 'spki' })
  return (head, body, entry) => {
    if (!entry.startsWith('v1a,')) return false
    return verify(
      null,
      Buffer.concat([Buffer.from(head), body]),
      key,
      Buffer.from(entry.slice('v1a,'.length), 'base64'),
    )
  }
}
