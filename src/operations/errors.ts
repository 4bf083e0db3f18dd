import { AppError, type AppErrorCode, type FieldError } from '../domain/app-error.ts'
import { StoreTrouble } from '../store/store.ts'

type Meaning = readonly [status: number, title: string, remedy: string]

/** Status and title of each code, and its cause and remedy in the words of docs/errors.md. The codes are stable. */
const meanings: Readonly<Record<AppErrorCode | 'internal', Meaning>> = {
  invalid_request: [400, 'Invalid request', 'the path, the headers or the query are malformed'],
  missing_payload: [
    400,
    'Missing payload',
    'the content of the message was expunged, or its payload was erased once delivered (`eraseDelivered`), so it cannot be sent again',
  ],
  authentication_failed: [401, 'Authentication failed', 'the key is missing or not valid'],
  not_verified: [
    401,
    'Not verified',
    'a request to a source without a valid signature; `sluice source samples` and `GET …/source/{source_id}/sample` show why it was refused',
  ],
  insufficient_access: [
    403,
    'Insufficient access',
    'the key or token is valid, but its scope does not allow this operation',
  ],
  forgery_suspected: [
    403,
    'Forgery suspected',
    'the request carries a session cookie, but comes from a page of another origin or lacks the CSRF token',
  ],
  not_found: [404, 'Not found', 'the object does not exist, or belongs to another application'],
  method_not_allowed: [405, 'Method not allowed', '`Allow` lists the methods'],
  request_timeout: [
    408,
    'Request timeout',
    'the request took too long to arrive, or its body came slower than `uploadPace`',
  ],
  conflict: [
    409,
    'Conflict',
    'the `uid`, `eventId` or name is taken; an endpoint gets pseudonyms of the region; the task has ended; or no delivery blocks the lane',
  ],
  damaged_record: [
    409,
    'Damaged record',
    'the stored secret or headers of the endpoint do not open (its `damaged` says which): rotate the secret, replace the headers with PUT, or delete the endpoint',
  ],
  quota_exceeded: [
    409,
    'Quota exceeded',
    'the setting in the message allows no more endpoints, schedules or event types',
  ],
  request_in_flight: [
    409,
    'Request in flight',
    'a request with the same `Idempotency-Key` is under way; repeat yours to get its answer',
  ],
  event_type_exists: [409, 'Event type exists', 'an event type has that name; replace it with PUT'],
  payload_too_large: [
    413,
    'Payload too large',
    'the body exceeds `bodyLimit` (1 MiB by default, at most 64 MiB), a batch makes more than 30,000 deliveries, or the schemas of an OpenAPI import have more than 100,000 values',
  ],
  unsupported_media_type: [
    415,
    'Unsupported media type',
    'the body has another content type than `application/json`, or is compressed',
  ],
  expectation_failed: [
    417,
    'Expectation failed',
    'an `Expect` header other than `100-continue`; send the request without it',
  ],
  validation: [
    422,
    'Validation failed',
    '`detail` lists the wrong fields: the first 20, and a last entry of type `more` with the number of the others. The contents of an oversized list, object or text are not checked',
  ],
  invalid_json: [422, 'Invalid JSON', 'the body is not JSON (RFC 8259: no byte order mark, no trailing comma, no NaN)'],
  invalid_utf8: [422, 'Invalid UTF-8', 'the body is not UTF-8'],
  duplicate_key: [422, 'Duplicate key', 'an object has the same key twice, compared after escapes are resolved'],
  forbidden_key: [422, 'Forbidden key', '`__proto__`, `constructor` or `prototype` outside of `payload`'],
  too_deep: [422, 'Nested too deep', 'more than 101 levels: a payload may have 100'],
  too_many_keys: [
    422,
    'Too many keys',
    'more than 10,000 keys, or more than 50,000 values outside of a published payload',
  ],
  overloaded: [429, 'Overloaded', 'too many deliveries wait; `Retry-After` says when there will be room'],
  rate_limited: [
    429,
    'Rate limited',
    'too many requests for the setting in the message, too many unread or unfinished bytes, or too many wrong keys from this address (valid keys still work); `Retry-After` says when to try again',
  ],
  headers_too_large: [431, 'Headers too large', 'more than 16 KiB of headers'],
  internal: [500, 'Internal error', 'a bug in Sluice; the log has it'],
  closed: [503, 'Closed', 'library only: this Sluice was closed; open another with `openSluice`'],
  unavailable: [
    503,
    'Unavailable',
    'the store does not answer, or its file was deleted or replaced (`detail` says which); `Retry-After` says when to try again',
  ],
}

/** The body of an answer to an error; undefined stands for a bug, which the answer does not describe. */
export function problem(error: AppError | undefined, instance: string): string {
  const code = error?.code ?? 'internal'
  const [status, title] = meanings[code]
  const message = error?.message ?? 'Something went wrong on our side; it has been logged.'
  // Svix's SDKs parse the detail of a 422 as a list of fields, each a path of texts, and that of any other status as text.
  const detail = status === 422 ? problemsOf(error?.fields ?? [], message, code) : message
  return JSON.stringify({
    type: `urn:sluice:error:${code}`,
    title,
    status,
    detail,
    instance: instance.slice(0, 512),
    code,
  })
}

/** The fields that are wrong; the whole body where the error names none. */
function problemsOf(fields: readonly FieldError[], message: string, type: string) {
  if (fields.length === 0) return [{ loc: ['body'], msg: message, type }]
  return fields.map((field) => ({ loc: field.at.map(String), msg: field.message, type: field.type }))
}

export function remedyOf(code: string): string {
  return meanings[code as keyof typeof meanings][2]
}

export function statusOf(code: AppErrorCode | 'internal'): number {
  return meanings[code][0]
}

/** The codes that share each status, and what the first of them is called. */
export function codesByStatus(): Map<number, { readonly title: string; readonly codes: string[] }> {
  const byStatus = new Map<number, { readonly title: string; readonly codes: string[] }>()
  for (const [code, [status, title]] of Object.entries(meanings)) {
    const known = byStatus.get(status)
    if (known === undefined) byStatus.set(status, { title, codes: [code] })
    else known.codes.push(code)
  }
  return byStatus
}

/** The refusal that an error stands for; undefined for a bug. */
export function asAppError(error: unknown): AppError | undefined {
  if (error instanceof AppError) return error
  if (error instanceof StoreTrouble) {
    return new AppError('unavailable', error.detail ?? 'The store cannot answer at the moment.', [], { cause: error })
  }
  return undefined
}
