import { createPublicKey, timingSafeEqual, verify } from 'node:crypto'
import type { SignatureHeaders } from '../domain/endpoint.ts'
import type { SignatureProfile } from '../domain/flow.ts'
import { hexSigner } from '../sender/body-signature.ts'
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

/** A verifier answers undefined when all is well, else what is wrong. */
export type Verifier = (received: Received, nowMs: number) => string | undefined

/**
 * A verifier of signatures by a profile, under the names of headers that an application has for them; undefined when the
 * secret is none. Whatever header has room for older secrets' signatures is looked at, too.
 */
export function openProfileVerifier(
  profile: SignatureProfile,
  secret: string,
  names: SignatureHeaders = {},
): Verifier | undefined {
  if (profile === 'standard') return openVerifier(secret, names)
  const sign = hexSigner(secret)
  if (sign === undefined) return undefined
  const isOurs = (entries: readonly string[], head: string, body: Uint8Array, prefix = '') =>
    entries.some((entry) => isSame(`${prefix}${sign(head, body)}`, entry.trim()))
  const ofHeader = (headers: Received['headers'], name: string) =>
    [name, `${name}-old`].flatMap((each) => (typeof headers[each] === 'string' ? headers[each].split(',') : []))
  const wrong = 'the signature is wrong'

  return ({ headers, body }, nowMs) => {
    switch (profile) {
      case 'stored': {
        const entries = ofHeader(headers, names.signature ?? 'x-sluice-signature')
        if (entries.length === 0) return 'not signed'
        return isOurs(entries, '', body) ? undefined : wrong
      }
      case 'github': {
        const entries = ofHeader(headers, 'x-hub-signature-256')
        if (entries.length === 0) return 'not signed'
        return isOurs(entries, '', body, 'sha256=') ? undefined : wrong
      }
      case 'timestamped': {
        const entries = ofHeader(headers, names.signature ?? 'x-sluice-signature')
        const timestamp = headers[names.timestamp ?? 'x-sluice-timestamp']
        if (entries.length === 0 || typeof timestamp !== 'string') return 'not signed'
        return outOfTime(timestamp, nowMs) ?? (isOurs(entries, `${timestamp}.`, body, 'sha256=') ? undefined : wrong)
      }
      case 'stripe': {
        const entries = ofHeader(headers, 'stripe-signature')
        const timestamp = entries.find((entry) => entry.startsWith('t='))?.slice(2)
        if (timestamp === undefined) return 'not signed'
        return outOfTime(timestamp, nowMs) ?? (isOurs(entries, `${timestamp}.`, body, 'v1=') ? undefined : wrong)
      }
    }
  }
}

function outOfTime(timestamp: string, nowMs: number): string | undefined {
  const offSeconds = Math.round(nowMs / 1000 - Number(timestamp))
  return Math.abs(offSeconds) <= toleranceSeconds ? undefined : `signed ${offSeconds} s ago by its timestamp`
}

function isSame(expected: string, found: string): boolean {
  const [one, other] = [Buffer.from(expected), Buffer.from(found)]
  return one.length === other.length && timingSafeEqual(one, other)
}

/**
 * A verifier of Standard Webhooks signatures for a `whsec_` secret, an ed25519 key (`whsk_`) or its public half
 * (`whpk_`); undefined when the text is none. The verifier answers undefined when all is well, else what is wrong.
 */
export function openVerifier(secret: string, names: SignatureHeaders = {}): Verifier | undefined {
  const check = secret.startsWith('whpk_') ? publicCheck(secret) : secretCheck(secret)
  if (check === undefined) return undefined
  return ({ headers, body }, nowMs) => {
    const id = headers[names.id ?? 'webhook-id']
    const timestamp = headers[names.timestamp ?? 'webhook-timestamp']
    const signatures = headers[names.signature ?? 'webhook-signature']
    if (typeof id !== 'string' || typeof timestamp !== 'string' || typeof signatures !== 'string') {
      return 'not signed'
    }
    const head = `${id}.${timestamp}.`
    const isOurs = signatures.split(' ').some((entry) => check(head, body, entry))
    return outOfTime(timestamp, nowMs) ?? (isOurs ? undefined : 'the signature is wrong')
  }
}

/** Signing again and comparing works for both schemes: ed25519 gives the same signature every time. */
function secretCheck(secret: string): Check | undefined {
  const sign = readSecret(secret)
  if (sign === undefined) return undefined
  return (head, body, entry) => isSame(sign(head, body), entry)
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
