/**
 * The result of one attempt: a value, never an exception. The code is stable (API, metrics and docs use it); the error is a
 * sentence and may change.
 */
export interface Outcome {
  readonly code: OutcomeCode
  /** The status the receiver answered, 0 when it gave none. */
  readonly status: number
  /** The wait that Retry-After asked for, bounded; undefined without a usable one. */
  readonly retryAfterMs: number | undefined
  /** The first bytes of the answer's body, as they came. */
  readonly response: Uint8Array | undefined
  readonly error: string | undefined
  readonly durationMs: number
}

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
  | 'timeout' //            connected, but no complete status line and headers before the deadline
  | 'reset' //              the connection ended before an answer
  | 'invalid_http'
  | 'aborted' //            given up by Sluice: shutdown, or ownership was lost
  | 'internal' //           a fault of our own; a bug, recorded and retried
  | 'untried' //            no attempt's: a dead letter that ended without one
