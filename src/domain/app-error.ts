/**
 * What a caller did wrong. The code is stable and listed in docs/errors.md; http/errors.ts maps it to a status.
 * `fields` names what is wrong where, when there is more than one thing to say.
 */
export class AppError extends Error {
  override readonly name = 'AppError'
  readonly code: AppErrorCode
  readonly fields: readonly FieldError[]
  /** When trying again has a chance, if that is known. */
  readonly retryAfterSeconds: number | undefined

  constructor(
    code: AppErrorCode,
    message: string,
    fields: readonly FieldError[] = [],
    options?: ErrorOptions & { readonly retryAfterSeconds?: number },
  ) {
    super(message, options)
    this.code = code
    this.fields = fields
    this.retryAfterSeconds = options?.retryAfterSeconds
  }
}

/** A name that names nothing. The name is told as it was given, where it is known. */
export function noSuch(noun: string, name?: string): AppError {
  const sentence = name === undefined ? `There is no such ${noun}.` : `There is no ${noun} ${JSON.stringify(name)}.`
  return new AppError('not_found', sentence)
}

/** `at` is the path to the value, such as `['body', 'throttleRate']`. */
export interface FieldError {
  readonly at: readonly (string | number)[]
  readonly message: string
  readonly type: string
}

export type AppErrorCode =
  | 'invalid_json'
  | 'duplicate_key'
  | 'too_deep'
  | 'too_many_keys'
  | 'forbidden_key'
  | 'invalid_utf8'
  | 'invalid_request'
  | 'payload_too_large'
  | 'unsupported_media_type'
  | 'validation'
  | 'authentication_failed'
  | 'insufficient_access'
  | 'not_found'
  | 'method_not_allowed'
  | 'missing_payload'
  | 'conflict'
  | 'quota_exceeded'
  | 'damaged_record'
  | 'overloaded'
  | 'request_in_flight'
  | 'event_type_exists'
  | 'request_timeout'
  | 'expectation_failed'
  | 'headers_too_large'
  | 'rate_limited'
  | 'closed'
  | 'unavailable'

/** One more of a kind of which there may be only so many. `setting` is the name of the limit. */
export function quotaExceeded(owner: string, count: number, kind: string, setting: string): AppError {
  return new AppError('quota_exceeded', `${owner} may have ${count} ${kind} (${setting}); delete one first.`)
}
