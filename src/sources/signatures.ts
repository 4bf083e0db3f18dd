import {
  createHash,
  createHmac,
  createPublicKey,
  createSecretKey,
  type Hash,
  type Hmac,
  type KeyObject,
  verify,
} from 'node:crypto'
import type { Compute, Sliced } from '../domain/turns.ts'
import { headerNames } from '../wire/receiver.ts'
import { sharedKey } from '../wire/secret.ts'
import {
  type Arrival,
  formOf,
  genuine,
  headerOf,
  isSameText,
  mediaTypeOf,
  type Proof,
  type Refusal,
  refused,
} from './arrival.ts'

export const hashes = ['sha256', 'sha1', 'sha512'] as const
export const encodings = ['hex', 'base64', 'base64url'] as const
export const timestampUnits = ['s', 'ms'] as const
/** Signatures in one header, by the name of the character between them. */
export const separators = { comma: ',', space: ' ', semicolon: ';' } as const

/** How a provider signs with a shared secret. Names of headers are in lower case. */
export interface HmacScheme {
  /** The header of the signature. */
  readonly header: string
  readonly hash: (typeof hashes)[number]
  readonly encoding: (typeof encodings)[number]
  /** Stands in front of every signature, such as `sha256=`. Spaces may follow. */
  readonly prefix: string
  /** Stands between the signatures of a header that carries several; none carries one. */
  readonly separator?: string
  /** Where the time of signing is: a header, or an entry of the signature's header that begins with this text. */
  readonly timestamp?: { readonly header: string } | { readonly entry: string }
  readonly timestampUnit?: (typeof timestampUnits)[number]
  readonly toleranceSeconds?: number
  /** The header that `{id}` stands for. */
  readonly idHeader?: string
  /** The bytes that are signed, with `{body}`, `{timestamp}`, `{id}`, `{url}` and `{method}`. */
  readonly signed: string
}

/** Values that `signed` may hold. */
const signedValues = ['body', 'timestamp', 'id', 'url', 'method'] as const
type SignedValue = (typeof signedValues)[number]

/** The texts and values of a `signed` template; undefined when braces hold anything else. */
export function signedParts(template: string): ({ text: string } | { value: SignedValue })[] | undefined {
  const pieces = template.split(/[{}]/)
  // Pieces at odd places are between braces. `{` and `}` in any other order change a text into an unknown value.
  if (pieces.length % 2 === 0 || template.replaceAll(/[^{}]/g, '').replaceAll('{}', '') !== '') return undefined
  const parts = pieces.map((piece, i) => (i % 2 === 0 ? { text: piece } : { value: piece as SignedValue }))
  const isKnown = parts.every((part) => 'text' in part || signedValues.includes(part.value))
  return isKnown ? parts.filter((part) => !('text' in part) || part.text !== '') : undefined
}

/** Judges a request by several secrets at once. */
export type KeyCheck = (arrival: Arrival, keys: readonly KeyObject[], nowMs: number) => Proof | Promise<Proof>

/** Signatures that one header may carry. Providers send one for each secret of a rotation. */
const entriesLimit = 32
const digestBytes = { sha1: 20, sha256: 32, sha512: 64 }

/** The scheme is valid. */
export function hmacCheck(scheme: HmacScheme, compute: Compute): KeyCheck {
  const hasOurs = hmacMatch(scheme)
  return async (arrival, keys, nowMs) => {
    const head = readHead(scheme, arrival, nowMs)
    if ('kind' in head) return head
    return (await compute(hasOurs(head, arrival, keys))) ? genuine : wrongSignature(scheme.header)
  }
}

function wrongSignature(header: string): Proof {
  return refused('wrong_signature', `No secret of the source makes the signature in the header ${header}.`)
}

/** The parts of a signed request beside its body, in time and complete. */
interface SignedHead {
  /** The entries of the signature's header. */
  readonly entries: readonly string[]
  readonly timestamp: string
  readonly id: string
}

/** Everything that can be judged without hashing the body. */
function readHead(scheme: HmacScheme, arrival: Arrival, nowMs: number): SignedHead | Refusal {
  const { header, separator, idHeader } = scheme
  const text = headerOf(arrival, header)
  if (text === undefined) return refused('not_signed', `The header ${header} is missing.`)
  const entries = separator === undefined ? [text] : text.split(separator, entriesLimit).map((entry) => entry.trim())
  const timestamp = timestampOf(scheme, arrival, entries)
  if (timestamp === null) return refused('malformed', 'The timestamp of the signature is missing or is not one number.')
  const late = outOfTime(timestamp, scheme.timestampUnit ?? 's', scheme.toleranceSeconds, nowMs)
  if (late !== undefined) return refused('stale', late)
  const id = idHeader === undefined ? '' : headerOf(arrival, idHeader)
  if (id === undefined) return refused('not_signed', `The header ${idHeader} is missing.`)
  return { entries, timestamp: timestamp ?? '', id }
}

/** Whether one of the keys made one of the signatures. */
function hmacMatch(
  scheme: HmacScheme,
): (head: SignedHead, arrival: Arrival, keys: readonly KeyObject[]) => Sliced<boolean> {
  const { hash, encoding, prefix } = scheme
  const parts = signedParts(scheme.signed) ?? []
  const signatureLength = Buffer.alloc(digestBytes[hash]).toString(encoding).length
  return function* ({ entries, timestamp, id }, arrival, keys) {
    // A signature of another length is wrong without any hashing of the body.
    const found = entries
      .filter((entry) => entry.startsWith(prefix))
      .map((entry) => entry.slice(prefix.length).trimStart())
      .filter((signature) => signature.length === signatureLength)
    if (found.length === 0) return false
    const values = { timestamp, id, url: arrival.url, method: arrival.method }
    let isOurs = false
    for (const key of keys) {
      const hmac = createHmac(hash, key)
      for (const part of parts) {
        if ('text' in part) hmac.update(part.text)
        else if (part.value === 'body') yield* hashing(hmac, arrival.body)
        else hmac.update(values[part.value])
      }
      const expected = hmac.digest(encoding)
      // Every signature is compared, so that the time tells nothing about the place of the right one.
      for (const signature of found) isOurs = isSameText(expected, signature) || isOurs
    }
    return isOurs
  }
}

const sliceBytes = 262_144

/** Adds a body to a hash, with a pause after each slice: sixteen mebibytes take 20 ms, with each of four secrets. */
export function* hashing(hash: Hash | Hmac, body: Uint8Array): Sliced<void> {
  for (let at = 0; at < body.length; at += sliceBytes) {
    hash.update(body.subarray(at, at + sliceBytes))
    yield
  }
}

/** The timestamp as it was signed; undefined when the scheme has none, null when it is missing or ambiguous. */
function timestampOf(
  { timestamp }: HmacScheme,
  arrival: Arrival,
  entries: readonly string[],
): string | null | undefined {
  if (timestamp === undefined) return undefined
  const found =
    'header' in timestamp
      ? [headerOf(arrival, timestamp.header)]
      : entries.filter((each) => each.startsWith(timestamp.entry)).map((each) => each.slice(timestamp.entry.length))
  const [only = ''] = found
  // Fifteen digits are exact as a number and far beyond every time of signing.
  return found.length === 1 && /^\d{1,15}$/.test(only) ? only : null
}

function outOfTime(
  timestamp: string | undefined,
  unit: 's' | 'ms',
  toleranceSeconds: number | undefined,
  nowMs: number,
): string | undefined {
  if (timestamp === undefined || toleranceSeconds === undefined) return undefined
  const ageSeconds = Math.round((nowMs - Number(timestamp) * (unit === 's' ? 1000 : 1)) / 1000)
  if (Math.abs(ageSeconds) <= toleranceSeconds) return undefined
  const signed = ageSeconds > 0 ? `${ageSeconds} s ago` : `${-ageSeconds} s in the future`
  return `The request was signed ${signed}, outside the tolerance of ${toleranceSeconds} s.`
}

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

const twilioHeader = 'x-twilio-signature'
const twilioForm = /^[A-Za-z0-9+/]{26}[AEIMQUYcgkosw048]=$/

/**
 * Twilio signs the URL followed by the names and values of the form, sorted by name; for other bodies the URL alone, which
 * then carries the hash of the body as `bodySHA256`.
 */
export function twilioCheck(compute: Compute): KeyCheck {
  return async (arrival, keys) => {
    const signature = headerOf(arrival, twilioHeader)
    if (signature === undefined) return refused('not_signed', `The header ${twilioHeader} is missing.`)
    if (!twilioForm.test(signature)) {
      return refused('malformed', `The header ${twilioHeader} is not a SHA-1 signature in base64.`)
    }
    if (!URL.canParse(arrival.url)) return refused('malformed', 'The URL of the request is not valid.')
    const form = await compute(formText(arrival))
    if (form === undefined) {
      const asked = 'a form of at most 1,000 fields and 256 KiB, or its hash is in bodySHA256 of the URL'
      return refused('malformed', `The body cannot be verified: Twilio's bodies are ${asked}.`)
    }
    let isOurs = false
    for (const url of spellings(arrival.url)) {
      for (const key of keys) {
        const expected = createHmac('sha1', key).update(url).update(form).digest('base64')
        isOurs = isSameText(expected, signature) || isOurs
      }
    }
    return isOurs ? genuine : wrongSignature(twilioHeader)
  }
}

/** The signed text of the body behind the URL; undefined when the signature does not cover the body. */
function* formText(arrival: Arrival): Sliced<string | undefined> {
  const { body, url } = arrival
  const hash = new URL(url).searchParams.get('bodySHA256')
  if (hash !== null) {
    const found = createHash('sha256')
    yield* hashing(found, body)
    return isSameText(found.digest('hex'), hash.toLowerCase()) ? '' : undefined
  }
  if (body.length === 0 && mediaTypeOf(arrival) === '') return ''
  const form = formOf(arrival)
  if (form === undefined) return undefined
  const values = new Map<string, Set<string>>()
  for (const [name, value] of form) values.set(name, (values.get(name) ?? new Set()).add(value))
  // By code units, as Twilio's own libraries sort. A value that comes twice counts once.
  return [...values.keys()]
    .sort()
    .flatMap((name) => [...(values.get(name) ?? [])].sort().map((value) => `${name}${value}`))
    .join('')
}

/** A URL with and without its port: Twilio signs either, depending on the product. */
function spellings(url: string): string[] {
  const [, scheme = '', host = '', port, rest = ''] = /^(https?):\/\/([^/?#:]+|\[[^\]]*\])(:\d+)?(.*)$/s.exec(url) ?? []
  if (scheme === '') return [url]
  const standard = scheme === 'https' ? ':443' : ':80'
  const bare = `${scheme}://${host}${rest}`
  return port === undefined ? [bare, `${scheme}://${host}${standard}${rest}`] : [url, bare]
}
