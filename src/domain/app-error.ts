/**
 * A mistake of a caller. The code is stable and listed in docs/errors.md; http/errors.ts maps it to a status. `fields` lists
 * the problems of single fields.
 */
export class AppError extends Error {
  override readonly name = 'AppError'
  readonly code: AppErrorCode
  readonly fields: readonly FieldError[]
  /** After how long a retry may succeed, if that is known: whole seconds, as the header Retry-After has them. */
  readonly retryAfterSeconds: number | undefined

  constructor(
    code: AppErrorCode,
    message: string,
    fields: readonly FieldError[] = [],
    options?: ErrorOptions & { readonly retryAfterMs?: number },
  ) {
    const waitMs = options?.retryAfterMs
    const { stackTraceLimit } = Error
    // Load is the reason of such an error, and load brings thousands of them per second: 28 µs each with a trace.
    if (waitMs !== undefined) Error.stackTraceLimit = 0
    super(message, options)
    Error.stackTraceLimit = stackTraceLimit
    this.code = code
    this.fields = fields
    this.retryAfterSeconds = waitMs === undefined ? undefined : Math.ceil(waitMs / 1000)
  }
}

/** The error for an unknown name, which it repeats. */
export function noSuch(noun: string, name: string): AppError {
  return new AppError('not_found', `There is no ${noun} ${JSON.stringify(name)}.`)
}

/** The error for an unknown path, which it repeats up to a length that no reader minds. */
export function noRoute(method: string, path: string): AppError {
  return new AppError('not_found', `There is no route ${method} ${path.split('?', 1)[0]?.slice(0, 256)}.`)
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
  | 'forgery_suspected'
  | 'not_verified'
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

/** The error for one more of a limited kind. `setting` is the name of the limit. */
export function quotaExceeded(owner: string, count: number, kind: string, setting?: string): AppError {
  const by = setting === undefined ? '' : ` (${setting})`
  return new AppError('quota_exceeded', `${owner} may have ${count} ${kind}${by}; delete one first.`)
}
