/**
 * The result of one attempt: a value, never an exception. The code is stable (API, metrics and docs use it); the error is a
 * sentence and may change.
 */
export interface Outcome {
  readonly code: OutcomeCode
  /** The status the receiver answered, 0 when it gave none. */
  readonly status: number
  /** The wish that its answer states beside the one delivery, as the kind of the destination reads it; undefined for none. */
  readonly wish: Wish | undefined
  /** The wait that Retry-After asked for, bounded, or until the next request for a token; undefined without either. */
  readonly retryAfterMs: number | undefined
  /** The first bytes of the answer's body, as they came. */
  readonly response: Uint8Array | undefined
  /** The headers of the answer, bounded and without secrets: `ResponseHeaders` as JSON text. Undefined without an answer. */
  readonly responseHeaders?: string | undefined
  readonly error: string | undefined
  readonly durationMs: number
  /** The split of the duration; undefined when no attempt was made. */
  readonly timings?: Timings | undefined
}

/**
 * The wish of a receiver, whatever its kind. `gone`: no deliveries any more. `silence`: none for `retryAfterMs`. `fewer`: a lower
 * rate. `relief`: it says that it is unwell.
 */
export type Wish = 'gone' | 'silence' | 'fewer' | 'relief'

/** Names in lower case and their values. The name `…` says how many further headers were left out. */
export type ResponseHeaders = Readonly<Record<string, string>>

/** The codes of outcomes. */
export const outcomeCodes = [
  'delivered', //          2xx
  'refused', //            any other status
  'redirected', //         3xx: never followed
  'blocked', //            the address guard refused the target
  'dns_not_found',
  'dns_failed',
  'dns_timeout',
  'connect_refused',
  'connect_failed', //     no route, reset while connecting
  'connect_timeout',
  'tls_failed',
  'client_certificate', // the receiver refused the client certificate, or asks for one
  'proxy_failed', //       the egress proxy made no connection, so nothing was sent
  'token_failed', //       the token endpoint gave no access token, so nothing was sent
  'timeout', //            connected, but no complete status line and headers before the deadline
  'reset', //              the connection ended before an answer
  'invalid_http',
  'aborted', //            given up by Sluice: recorded at a shutdown, and not when ownership was lost
  'internal', //           a fault of our own; a bug, recorded and retried
  'untried', //            no attempt's: a dead letter that ended without one
] as const
export type OutcomeCode = (typeof outcomeCodes)[number]

/**
 * The meaning of an outcome for its receiver's health. `unwell`: no answer, or one that says so. `crowded`: a wish for fewer
 * deliveries. `well`: an answer, whether it accepts the message or not. `nothing`: a wish for silence, which the lane obeys, or for
 * no deliveries any more, or no fault of the receiver, such as a token endpoint that gives no token or an egress proxy that is down.
 */
export type HealthSignal = 'well' | 'unwell' | 'crowded' | 'nothing'

/** Whether an attempt counts, against its delivery and its receiver. An attempt that Sluice gave up does not. */
export function counts(code: OutcomeCode): boolean {
  return code !== 'aborted'
}

/** Outcomes that say nothing about the receiver: it was not asked. */
const noFault: ReadonlySet<OutcomeCode> = new Set(['aborted', 'internal', 'untried', 'proxy_failed', 'token_failed'])

export function signalOf({ code, wish }: Pick<Outcome, 'code' | 'wish'>): HealthSignal {
  if (code === 'delivered' || code === 'redirected') return 'well'
  if (noFault.has(code)) return 'nothing'
  if (code !== 'refused') return 'unwell'
  if (wish === 'silence' || wish === 'gone') return 'nothing'
  if (wish === 'fewer') return 'crowded'
  return wish === 'relief' ? 'unwell' : 'well'
}

/**
 * The split of an attempt's time. The parts follow each other; the rest of the attempt is the answer after its first byte,
 * or the wait for an answer that never came. A part that did not take place is null: a connection that was open already has
 * none of the first three, an address needs no DNS, and `http` has no TLS. A part that failed counts up to its failure.
 */
export interface Timings {
  /** Whether the attempt used a connection that was open already. */
  readonly reused: boolean
  readonly dnsMs: number | null
  readonly connectMs: number | null
  readonly tlsMs: number | null
  /** From the open connection to the first byte of the answer; null without an answer. */
  readonly firstByteMs: number | null
  /**
   * The time before the first part: above 0 when the receiver had closed the connection that the attempt found, so that it
   * opened another one. It is not stored.
   */
  readonly beforeMs?: number
}

/**
 * The timings in the form in which they are stored: whole milliseconds, `dns,connect,tls,firstByte`, or only the first byte
 * on a connection that was open already. Most attempts are such, and most are stored in one or two characters.
 */
export function writeTimings({ reused, dnsMs, connectMs, tlsMs, firstByteMs }: Timings): string {
  if (reused) return whole(firstByteMs)
  return `${whole(dnsMs)},${whole(connectMs)},${whole(tlsMs)},${whole(firstByteMs)}`
}

/** The timings in a stored text; null for an attempt that has none. */
export function readTimings(text: string | null): Timings | null {
  if (text === null) return null
  const parts = text.split(',').map((part) => (part === '' ? null : Number(part)))
  if (parts.length === 1) {
    return { reused: true, dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: parts[0] ?? null }
  }
  const [dnsMs = null, connectMs = null, tlsMs = null, firstByteMs = null] = parts
  return { reused: false, dnsMs, connectMs, tlsMs, firstByteMs }
}

/** The timings in words, such as `dns 3, connect 12, tls 40, first byte 105`, all in milliseconds. */
export function describeTimings({ reused, dnsMs, connectMs, tlsMs, firstByteMs }: Timings): string {
  const parts: [string, number | null][] = [
    ['dns', dnsMs],
    ['connect', connectMs],
    ['tls', tlsMs],
    ['first byte', firstByteMs],
  ]
  const known = parts.flatMap(([name, ms]) => (ms === null ? [] : [`${name} ${Math.round(ms)}`]))
  return [...(reused ? ['reused'] : []), ...known].join(', ')
}

function whole(ms: number | null): string {
  return ms === null ? '' : String(Math.round(ms))
}
