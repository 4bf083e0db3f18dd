/**
 * Codes of all errors of this package. They are stable: programs and dashboards may compare them. `receive` answers with
 * the status beside a code.
 */
export const errorStatus = {
  /** The request has no signature, or no id or timestamp that the signature needs. */
  not_signed: 401,
  /** The timestamp is not a whole number of seconds. */
  malformed_timestamp: 401,
  /** The request was signed longer ago than the tolerance. */
  too_old: 401,
  /** The request was signed further in the future than the tolerance. */
  too_new: 401,
  /** No secret of the receiver made the signature. */
  wrong_signature: 401,
  /** The request has no id, so that a duplicate could not be recognized. */
  no_id: 400,
  /** The sender hung up before the end of the body. */
  body_incomplete: 400,
  /** The body is longer than the receiver allows. */
  body_too_large: 413,
  /** Another part of the program read the body before it could be verified. */
  body_consumed: 500,
  /** The receiver has no secret: the environment that it comes from does not have it. */
  no_secret: 500,
  /** The secret cannot be used for the signature profile. */
  invalid_secret: 500,
  /** The runtime has no ed25519 in its WebCrypto. */
  unsupported_algorithm: 500,
} as const

export type ErrorCode = keyof typeof errorStatus

/** An error of this package. `code` says which, `remedy` what to do about it. */
export class ReceiverError extends Error {
  override readonly name: string = 'ReceiverError'
  readonly code: ErrorCode
  readonly remedy: string

  constructor(code: ErrorCode, message: string, remedy: string, options?: ErrorOptions) {
    super(`${message} ${remedy}`, options)
    this.code = code
    this.remedy = remedy
  }

  /** The status of the answer to the request that caused the error. */
  get status(): number {
    return errorStatus[this.code]
  }
}

/** The request was not signed with the receiver's secret, or not within the tolerance. */
export class SignatureError extends ReceiverError {
  override readonly name = 'SignatureError'
  /** The problem in a few words, such as `the signature is wrong`. */
  readonly problem: string

  constructor(code: ErrorCode, problem: string, remedy: string) {
    super(code, `The webhook is not genuine: ${problem}.`, remedy)
    this.problem = problem
  }
}

/** The receiver was set up with a text that is no secret for its signature profile. */
export class SecretError extends ReceiverError {
  override readonly name = 'SecretError'
}
