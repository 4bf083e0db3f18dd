import type { Timings } from './timings.ts'

/**
 * The result of one attempt: a value, never an exception. The code is stable (API, metrics and docs use it); the error is a
 * sentence and may change.
 */
export interface Outcome {
  readonly code: OutcomeCode
  /** The status the receiver answered, 0 when it gave none. */
  readonly status: number
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

/** Names in lower case and their values. The name `…` says how many further headers were left out. */
export type ResponseHeaders = Readonly<Record<string, string>>

export type OutcomeCode =
  | 'delivered' //          2xx
  | 'refused' //            any other status
  | 'redirected' //         3xx: never followed
  | 'blocked' //            the address guard refused the target
  | 'dns_not_found'
  | 'dns_failed'
  | 'dns_timeout'
  | 'connect_refused'
  | 'connect_failed' //     no route, reset while connecting
  | 'connect_timeout'
  | 'tls_failed'
  | 'client_certificate' // the receiver refused the client certificate, or asks for one
  | 'token_failed' //       the token endpoint gave no access token, so nothing was sent
  | 'timeout' //            connected, but no complete status line and headers before the deadline
  | 'reset' //              the connection ended before an answer
  | 'invalid_http'
  | 'aborted' //            given up by Sluice: shutdown, or ownership was lost
  | 'internal' //           a fault of our own; a bug, recorded and retried
  | 'untried' //            no attempt's: a dead letter that ended without one

export const outcomeCodes: readonly OutcomeCode[] = [
  'delivered',
  'refused',
  'redirected',
  'blocked',
  'dns_not_found',
  'dns_failed',
  'dns_timeout',
  'connect_refused',
  'connect_failed',
  'connect_timeout',
  'tls_failed',
  'client_certificate',
  'token_failed',
  'timeout',
  'reset',
  'invalid_http',
  'aborted',
  'internal',
  'untried',
]

/**
 * The meaning of an outcome for its receiver's health. `unwell`: no answer, or 5xx. `crowded`: 429 without a time. `well`: an
 * answer, whether it accepts the message or not. `nothing`: a Retry-After, which the lane obeys, a 410, or no fault of the
 * receiver, such as a token endpoint that gives no token.
 */
export type HealthSignal = 'well' | 'unwell' | 'crowded' | 'nothing'

/** Outcomes that say nothing about the receiver: it was not asked. */
const noFault: ReadonlySet<OutcomeCode> = new Set(['aborted', 'internal', 'untried', 'token_failed'])

export function signalOf({
  code,
  status,
  retryAfterMs,
}: Pick<Outcome, 'code' | 'status' | 'retryAfterMs'>): HealthSignal {
  if (code === 'delivered' || code === 'redirected') return 'well'
  if (noFault.has(code)) return 'nothing'
  if (code !== 'refused') return 'unwell'
  if ((status === 429 || status === 503) && retryAfterMs !== undefined) return 'nothing'
  if (status === 410) return 'nothing'
  if (status === 429) return 'crowded'
  return status >= 500 ? 'unwell' : 'well'
}
