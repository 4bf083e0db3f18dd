import { type ErrorCode, ReceiverError, SignatureError } from './errors.ts'
import { headerNames, olderHeader, type PartNames, type SignatureHeaders, type SignatureProfile } from './names.ts'
import { fromBase64, type Key, keyOf, toBase64, toHex } from './secret.ts'

/** Largest distance of a timestamp from now by default, so that a recorded request cannot be sent again later. */
export const defaultToleranceSeconds = 300

/**
 * Most entries of a signature header that are looked at. Sluice sends up to 11: one per secret that has not expired. Each
 * ed25519 entry costs a hash of the whole body, 2 ms for each mebibyte.
 */
const entriesLimit = 16

/** Headers as `fetch` has them, or as a record by name in any case, as Node and serverless platforms have them. */
export type ReceivedHeaders =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>

/** The parts of a request that its signature covers. The body is the bytes that arrived, before any parser. */
export interface Received {
  readonly headers: ReceivedHeaders
  readonly body: Uint8Array | ArrayBuffer | string
}

/** A secret, or several of which one must fit; undefined and an empty text are none. */
export type Secrets = string | readonly (string | undefined)[] | undefined

export interface VerifierOptions {
  /**
   * The secret of the endpoint, or several of which one must fit, such as the old one and the new one during a rotation. A
   * function is called at the first request, and again while it gives none. Without a secret, as during a build, the
   * receiver opens, and answers each request with 500 `no_secret`.
   */
  readonly secret: Secrets | (() => Secrets | Promise<Secrets>)
  /** The endpoint's `signature`; `standard` by default. */
  readonly profile?: SignatureProfile | undefined
  /** The application's `signatureHeaders`. Both families are read by default. */
  readonly headers?: SignatureHeaders | undefined
  /** Largest distance of the timestamp from now, in seconds; 300 by default, Infinity for none. */
  readonly toleranceSeconds?: number | undefined
  /** The current time in milliseconds; `Date.now` by default. */
  readonly now?: (() => number) | undefined
}

/** A genuine request. */
export interface Verified {
  /** The id of the message, the same on every attempt; undefined when the request has none. Only `standard` signs it. */
  readonly id: string | undefined
  /** When the attempt was signed; undefined for the profiles `stored` and `github`, which sign no time. */
  readonly signedAt: Date | undefined
}

export interface Verifier {
  /** Resolves for a genuine request, else rejects with SignatureError. */
  verify(received: Received): Promise<Verified>
}

/** The signed text before the body, and the signatures that the request carries. */
interface Claim {
  readonly head: string
  readonly entries: readonly string[]
  readonly timestamp: string | undefined
  readonly id: string | undefined
}

/**
 * A verifier for a signature profile and the header names of an application. It checks the secrets now, or those of a
 * function at the first request; it imports each key when it is first needed, and keeps it. Throws SecretError when a text
 * is no secret for the profile.
 */
export function openVerifier(options: VerifierOptions): Verifier {
  const { secret, profile = 'standard', headers: names = 'both' } = options
  const { toleranceSeconds = defaultToleranceSeconds, now = Date.now } = options
  if (!(toleranceSeconds >= 0)) throw new RangeError('toleranceSeconds must be a number of at least 0.')
  if (Array.isArray(secret) && secret.length === 0) throw new RangeError('secret must name at least one secret.')
  let keys = typeof secret === 'function' ? [] : keysOf(secret, profile)
  const sets = readNames(profile, names)
  const claimOf = profile === 'standard' ? standardClaim : otherClaim

  return {
    async verify({ headers, body }) {
      if (keys.length === 0 && typeof secret === 'function') keys = keysOf(await secret(), profile)
      if (keys.length === 0) throw noSecret()
      const { head, entries, timestamp, id } = claimOf(profile, sets, headers)
      const signedAt = timestamp === undefined ? undefined : checkedTime(timestamp, now(), toleranceSeconds)
      const signed = joined(head, body)
      for (const key of keys) if (await isSignedBy(key, profile, signed, entries)) return { id, signedAt }
      throw refusal('wrong_signature', 'the signature is wrong')
    },
  }
}

function keysOf(secrets: Secrets, profile: SignatureProfile): Key[] {
  return [secrets].flat().flatMap((each) => (each === undefined || each === '' ? [] : [keyOf(each, profile)]))
}

function noSecret(): ReceiverError {
  const remedy =
    'Set `secret` to the secret of the endpoint; if it is read from the environment, set that variable where this program runs.'
  return new ReceiverError('no_secret', 'The receiver has no secret to verify with.', remedy)
}

/** The id of a request, whether or not it is genuine; undefined when it has none. */
export function idOf(headers: ReceivedHeaders, names: SignatureHeaders = 'both'): string | undefined {
  return firstOf(headers, readNames('standard', names), 'id')
}

/** The names of the headers to read: either family, unless the application has names of its own. */
function readNames(profile: SignatureProfile, names: SignatureHeaders): readonly PartNames[] {
  return headerNames(profile, typeof names === 'string' ? 'both' : names)
}

function firstOf(headers: ReceivedHeaders, sets: readonly PartNames[], part: keyof PartNames): string | undefined {
  return sets.map((names) => headerOf(headers, names[part])).find((value) => value !== undefined)
}

/** Standard Webhooks: `v1` (HMAC) and `v1a` (ed25519) entries over `id.timestamp.body`. */
function standardClaim(_: SignatureProfile, sets: readonly PartNames[], headers: ReceivedHeaders): Claim {
  for (const names of sets) {
    const signature = headerOf(headers, names.signature)
    if (signature === undefined) continue
    const id = headerOf(headers, names.id)
    const timestamp = headerOf(headers, names.timestamp)
    if (id === undefined || timestamp === undefined) break
    return { head: `${id}.${timestamp}.`, entries: signature.split(' ', entriesLimit), timestamp, id }
  }
  throw refusal('not_signed', 'not signed')
}

/** Hex signatures with a prefix of the profile, and those of older secrets in a second header. */
function otherClaim(profile: SignatureProfile, sets: readonly PartNames[], headers: ReceivedHeaders): Claim {
  const [names] = sets as readonly [PartNames]
  const entries = [names.signature, olderHeader(names.signature)].flatMap((name) =>
    (headerOf(headers, name)?.split(',', entriesLimit) ?? []).map((entry) => entry.trim()),
  )
  const id = firstOf(headers, sets, 'id')
  if (entries.length === 0) throw refusal('not_signed', 'not signed')
  if (profile === 'stored' || profile === 'github') return { head: '', entries, timestamp: undefined, id }
  const timestamp =
    profile === 'timestamped'
      ? headerOf(headers, names.timestamp)
      : entries.find((entry) => entry.startsWith('t='))?.slice(2)
  if (timestamp === undefined) throw refusal('not_signed', 'not signed')
  return { head: `${timestamp}.`, entries, timestamp, id }
}

/** The beginning of each entry that HMAC made, by profile. */
const prefixes = { standard: 'v1,', stored: '', timestamped: 'sha256=', github: 'sha256=', stripe: 'v1=' } as const

async function isSignedBy(
  key: Key,
  profile: SignatureProfile,
  signed: Uint8Array<ArrayBuffer>,
  entries: readonly string[],
): Promise<boolean> {
  const loaded = await key.load()
  if (key.kind === 'public') {
    for (const entry of entries) {
      const signature = entry.startsWith('v1a,') ? fromBase64(entry.slice(4)) : undefined
      if (signature !== undefined && (await crypto.subtle.verify('Ed25519', loaded, signature, signed))) return true
    }
    return false
  }
  // Signing again and comparing works for ed25519, too: its signatures are deterministic.
  const bytes = await crypto.subtle.sign(loaded.algorithm.name, loaded, signed)
  const encoded = profile === 'standard' ? toBase64(bytes) : toHex(bytes)
  const expected = `${key.kind === 'ed25519' ? 'v1a,' : prefixes[profile]}${encoded}`
  return entries.some((entry) => isSame(expected, entry))
}

/** Compares in a time that depends on the length of `found` alone, so that no answer time gives a signature away. */
function isSame(expected: string, found: string): boolean {
  let difference = expected.length ^ found.length
  for (let i = 0; i < found.length; i++) difference |= expected.charCodeAt(i % expected.length) ^ found.charCodeAt(i)
  return difference === 0
}

function checkedTime(timestamp: string, nowMs: number, toleranceSeconds: number): Date {
  if (!/^\d{1,12}$/.test(timestamp)) throw refusal('malformed_timestamp', 'the timestamp is not a number')
  const ageSeconds = Math.round(nowMs / 1000 - Number(timestamp))
  if (Math.abs(ageSeconds) <= toleranceSeconds) return new Date(Number(timestamp) * 1000)
  const signed = ageSeconds > 0 ? `${ageSeconds} s ago` : `${-ageSeconds} s in the future`
  const problem = `signed ${signed}, outside the tolerance of ${toleranceSeconds} s`
  throw refusal(ageSeconds > 0 ? 'too_old' : 'too_new', problem)
}

const remedies: Partial<Record<ErrorCode, string>> = {
  not_signed: 'Check the signature profile and the header names of the receiver, and that no proxy removes headers.',
  malformed_timestamp: 'Check the header names of the receiver.',
  too_old: 'If the request was just sent, set the clock of this machine. A recorded request stays refused.',
  too_new: 'Set the clock of this machine.',
  wrong_signature:
    'Compare the secret with the one of the endpoint, and verify the bytes that arrived, not a parsed and re-encoded body.',
}

function refusal(code: ErrorCode, problem: string): SignatureError {
  return new SignatureError(code, problem, remedies[code] ?? '')
}

/** The value of a header that the request has once; undefined when it is missing or empty. */
function headerOf(headers: ReceivedHeaders, name: string): string | undefined {
  if (name === '') return undefined
  return (isFetchHeaders(headers) ? headers.get(name) : inRecord(headers, name)) || undefined
}

function isFetchHeaders(headers: ReceivedHeaders): headers is { get(name: string): string | null } {
  return typeof headers.get === 'function'
}

function inRecord(headers: Exclude<ReceivedHeaders, { get(name: string): string | null }>, name: string) {
  const lower = name.toLowerCase()
  const key = Object.hasOwn(headers, lower) ? lower : Object.keys(headers).find((each) => each.toLowerCase() === lower)
  const value = key === undefined ? undefined : headers[key]
  return typeof value === 'string' ? value : value?.length === 1 ? value[0] : undefined
}

const encoder = new TextEncoder()

/** The bytes of a body, which may be a text. */
export function bytesOf(body: Received['body']): Uint8Array {
  if (typeof body === 'string') return encoder.encode(body)
  if (body instanceof Uint8Array) return body
  if (body instanceof ArrayBuffer) return new Uint8Array(body)
  throw new ReceiverError(
    'body_consumed',
    `The body is ${body === null || body === undefined ? 'missing' : 'not the bytes that arrived'}.`,
    'Give the raw bytes of the request, and parse them after they are verified.',
  )
}

function joined(head: string, body: Received['body']): Uint8Array<ArrayBuffer> {
  const [first, second] = [encoder.encode(head), bytesOf(body)]
  const all = new Uint8Array(first.length + second.length)
  all.set(first)
  all.set(second, first.length)
  return all
}
