import { createHash, timingSafeEqual } from 'node:crypto'

/** A request that arrived at the URL of a source. */
export interface Arrival {
  readonly method: string
  /** The whole URL that the sender called, with its query. Twilio signs it. */
  readonly url: string
  /** Values by lower-case name. A header that came twice is one text, joined by `, `, as Node and fetch do. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly body: Uint8Array
}

/** A request of which the body is not read yet. */
export type ArrivalHead = Omit<Arrival, 'body'>

/** An answer that a provider expects, word for word. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/**
 * The code of a refusal, which is stable. `wrong_method` is answered with 405, every other with 401: a sender that is not
 * the provider learns nothing from the difference.
 */
type RefusalCode = 'not_signed' | 'wrong_signature' | 'stale' | 'malformed' | 'wrong_method'

export interface Refusal {
  readonly kind: 'refused'
  readonly code: RefusalCode
  /** A sentence for the operator. It never contains a secret or a signature that would be right. */
  readonly reason: string
}

/** The keys that the signature needs cannot be had now. The request may be genuine: the sender tries again later. */
export interface Unavailable {
  readonly kind: 'unavailable'
  /** A sentence for the operator. The sender does not see it: it may name a URL. */
  readonly reason: string
  readonly retryAfterMs: number
}

/** A genuine event, to be stored with the bytes that came. */
export interface SourceEvent {
  readonly kind: 'event'
  /** The provider's id of the event, 1 to 256 visible ASCII characters; undefined when the event has none. */
  readonly eventId: string | undefined
  /** A valid name of an event type. */
  readonly eventType: string
  readonly contentType: string
}

/** A genuine handshake of the provider. Nothing is stored. */
export interface Handshake {
  readonly kind: 'answer'
  readonly answer: Answer
}

export type Judgement = SourceEvent | Handshake | Refusal | Unavailable

/** A proof that a request is genuine. */
export interface Genuine {
  readonly kind: 'genuine'
  /** The claims of a JWT. */
  readonly claims?: Readonly<Record<string, unknown>>
  /** Headers of another signature than the verified one, in lower case. The event takes no value from them. */
  readonly unproven?: readonly string[]
}

export type Proof = Genuine | Refusal | Unavailable

export const genuine: Genuine = { kind: 'genuine' }

export function refused(code: RefusalCode, reason: string): Refusal {
  return { kind: 'refused', code, reason }
}

export function unavailable(reason: string, retryAfterMs: number): Unavailable {
  return { kind: 'unavailable', reason, retryAfterMs }
}

/** Signatures, timestamps and tokens are far shorter. */
const valueLimit = 16_384

/** The value of a header; undefined when there is none, or one that no provider sends. */
export function headerOf({ headers }: Pick<Arrival, 'headers'>, name: string): string | undefined {
  // A plain read would find `constructor` in every record.
  const value = Object.hasOwn(headers, name) ? headers[name] : undefined
  return typeof value === 'string' && value.length <= valueLimit ? value : undefined
}

/** Whether two texts are the same, in a time that depends on the length of the second alone. */
export function isSameText(expected: string, found: string): boolean {
  const [one, other] = [Buffer.from(expected), Buffer.from(found)]
  return one.length === other.length && timingSafeEqual(one, other)
}

/** A parameter of the URL that is there once. */
export function parameterOf({ url }: Arrival, name: string): string | undefined {
  const values = URL.canParse(url) ? new URL(url).searchParams.getAll(name) : []
  return values.length === 1 ? values[0] : undefined
}

/** Hashes are compared, so that the time does not tell the length of a secret. */
export function isOneOf(expected: readonly string[], found: string): boolean {
  const hash = hashOf(found)
  let isOne = false
  for (const text of expected) isOne = isSameText(hashOf(text), hash) || isOne
  return isOne
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** The media type of a request, in lower case and without parameters. */
export function mediaTypeOf(arrival: Pick<Arrival, 'headers'>): string {
  return (headerOf(arrival, 'content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

/** Fields of a form: a body with more is no webhook. */
const formFieldsLimit = 1000
const formBytesLimit = 262_144
const ampersand = 0x26

/** The fields of a body that is a form, in their order; undefined for other bodies, and for forms without measure. */
export function formOf(arrival: Arrival): URLSearchParams | undefined {
  const { body } = arrival
  if (mediaTypeOf(arrival) !== 'application/x-www-form-urlencoded' || body.length > formBytesLimit) return undefined
  let fields = 1
  for (const byte of body) if (byte === ampersand && ++fields > formFieldsLimit) return undefined
  return new URLSearchParams(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8'))
}
