import { timingSafeEqual, verify } from 'node:crypto'
import type { SignatureHeaders } from '../domain/application-fields.ts'
import type { SignatureProfile } from '../domain/flow.ts'
import { headerNames, hexSigner, olderHeader, type PartNames, standardSigner } from './profile.ts'
import { publicKeyOf } from './secret.ts'

/** The parts of a request that its signature covers. */
export interface Received {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Uint8Array
}

/** Largest distance of a timestamp from now, so that a recorded request cannot be sent again later. */
const toleranceSeconds = 300

/** Checks one entry of the signature header. */
type Check = (head: string, body: Uint8Array, entry: string) => boolean

/** The names of a received request's headers for a profile: either family is read, unless an application has its own names. */
function receivedNames(profile: SignatureProfile, headers: SignatureHeaders): readonly PartNames[] {
  return headerNames(profile, typeof headers === 'string' ? 'both' : headers).map(({ id, timestamp, signature }) => ({
    id: id.toLowerCase(),
    timestamp: timestamp.toLowerCase(),
    signature: signature.toLowerCase(),
  }))
}

/** The id of a received message; an empty text when it has none. */
export function receivedId({ headers }: Pick<Received, 'headers'>, names: SignatureHeaders = 'both'): string {
  const found = receivedNames('standard', names).find(({ id }) => typeof headers[id] === 'string')
  return found === undefined ? '' : String(headers[found.id])
}

/** Verifies a request. Returns undefined for a valid signature, else the problem. */
export type Verifier = (received: Received, nowMs: number) => string | undefined

/**
 * A verifier for a signature profile and an application's header names; undefined when the secret is malformed. It also
 * accepts the signatures of older secrets.
 */
export function openProfileVerifier(
  profile: SignatureProfile,
  secret: string,
  names: SignatureHeaders = 'both',
): Verifier | undefined {
  if (profile === 'standard') return openVerifier(secret, names)
  const sign = hexSigner(secret)
  if (sign === undefined) return undefined
  const isOurs = (entries: readonly string[], head: string, body: Uint8Array, prefix = '') =>
    entries.some((entry) => isSame(`${prefix}${sign(head, body)}`, entry.trim()))
  const [header] = receivedNames(profile, names) as readonly [PartNames]
  const signatureHeaders = [header.signature, olderHeader(header.signature)]
  const wrong = 'the signature is wrong'

  return ({ headers, body }, nowMs) => {
    const entries = signatureHeaders.flatMap((each) =>
      typeof headers[each] === 'string' ? headers[each].split(',') : [],
    )
    if (entries.length === 0) return 'not signed'
    switch (profile) {
      case 'stored':
        return isOurs(entries, '', body) ? undefined : wrong
      case 'github':
        return isOurs(entries, '', body, 'sha256=') ? undefined : wrong
      case 'timestamped': {
        const timestamp = headers[header.timestamp]
        if (typeof timestamp !== 'string') return 'not signed'
        return outOfTime(timestamp, nowMs) ?? (isOurs(entries, `${timestamp}.`, body, 'sha256=') ? undefined : wrong)
      }
      case 'stripe': {
        const timestamp = entries.find((entry) => entry.startsWith('t='))?.slice(2)
        if (timestamp === undefined) return 'not signed'
        return outOfTime(timestamp, nowMs) ?? (isOurs(entries, `${timestamp}.`, body, 'v1=') ? undefined : wrong)
      }
    }
  }
}

function outOfTime(timestamp: string, nowMs: number): string | undefined {
  const ageSeconds = Math.round(nowMs / 1000 - Number(timestamp))
  if (Number.isNaN(ageSeconds)) return 'the timestamp is not a number'
  if (Math.abs(ageSeconds) <= toleranceSeconds) return undefined
  const signed = ageSeconds > 0 ? `${ageSeconds} s ago` : `${-ageSeconds} s in the future`
  return `signed ${signed}, outside the tolerance of ${toleranceSeconds} s`
}

function isSame(expected: string, found: string): boolean {
  const [one, other] = [Buffer.from(expected), Buffer.from(found)]
  return one.length === other.length && timingSafeEqual(one, other)
}

/**
 * A verifier of Standard Webhooks signatures for a `whsec_` secret, an ed25519 key (`whsk_`) or its public half
 * (`whpk_`); undefined when the secret is malformed.
 */
export function openVerifier(secret: string, names: SignatureHeaders = 'both'): Verifier | undefined {
  const check = secret.startsWith('whpk_') ? publicCheck(secret) : secretCheck(secret)
  if (check === undefined) return undefined
  const sets = receivedNames('standard', names)
  return ({ headers, body }, nowMs) => {
    const header = sets.find(({ signature }) => headers[signature] !== undefined) ?? (sets[0] as PartNames)
    const id = headers[header.id]
    const timestamp = headers[header.timestamp]
    const signatures = headers[header.signature]
    if (typeof id !== 'string' || typeof timestamp !== 'string' || typeof signatures !== 'string') {
      return 'not signed'
    }
    const head = `${id}.${timestamp}.`
    const isOurs = signatures.split(' ').some((entry) => check(head, body, entry))
    return outOfTime(timestamp, nowMs) ?? (isOurs ? undefined : 'the signature is wrong')
  }
}

/** Verifies by signing again and comparing. That works for both schemes, because ed25519 signatures are deterministic. */
function secretCheck(secret: string): Check | undefined {
  const sign = standardSigner(secret)
  if (sign === undefined) return undefined
  return (head, body, entry) => isSame(sign(head, body), entry)
}

function publicCheck(secret: string): Check | undefined {
  const key = publicKeyOf(secret)
  if (key === undefined) return undefined
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
