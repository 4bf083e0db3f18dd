import { AppError, type AppErrorCode, type FieldError } from '../domain/app-error.ts'
import { StoreTrouble } from '../store/store.ts'

interface Meaning {
  readonly status: number
  readonly title: string
  /** The cause and the remedy, in the words of docs/errors.md. */
  readonly remedy: string
}

/** Status, title and remedy of each code. The codes are stable. */
const meanings: Readonly<Record<AppErrorCode | 'internal', Meaning>> = {
  invalid_request: {
    status: 400,
    title: 'Invalid request',
    remedy: 'the path, the headers or the query are malformed',
  },
  missing_payload: {
    status: 400,
    title: 'Missing payload',
    remedy:
      'the content of the message was expunged, or its payload was erased once delivered (`eraseDelivered`), so it cannot be sent again',
  },
  authentication_failed: {
    status: 401,
    title: 'Authentication failed',
    remedy: 'the key is missing or not valid',
  },
  not_verified: {
    status: 401,
    title: 'Not verified',
    remedy:
      'a request to a source without a right signature; `sluice source samples` and `GET …/source/{source_id}/sample` show why it was refused',
  },
  insufficient_access: {
    status: 403,
    title: 'Insufficient access',
    remedy: 'the key or token is valid, but its scope does not allow this operation',
  },
  forgery_suspected: {
    status: 403,
    title: 'Forgery suspected',
    remedy:
      'the request carries a session cookie, but comes from a page of another origin or lacks the token against forgery',
  },
  not_found: {
    status: 404,
    title: 'Not found',
    remedy: 'the object does not exist, or belongs to another application',
  },
  method_not_allowed: {
    status: 405,
    title: 'Method not allowed',
    remedy: '`Allow` lists the methods',
  },
  request_timeout: {
    status: 408,
    title: 'Request timeout',
    remedy: 'the request took too long to arrive, or its body came slower than `uploadPace`',
  },
  conflict: {
    status: 409,
    title: 'Conflict',
    remedy:
      'the `uid`, `eventId` or name is taken; an endpoint gets pseudonyms of the region; the task has ended; or no delivery blocks the lane',
  },
  damaged_record: {
    status: 409,
    title: 'Damaged record',
    remedy:
      'the stored secret or headers of the endpoint do not open (its `damaged` says which): rotate the secret, replace the headers with PUT, or delete the endpoint',
  },
  quota_exceeded: {
    status: 409,
    title: 'Quota exceeded',
    remedy: 'the setting in the message allows no more endpoints, schedules or event types',
  },
  request_in_flight: {
    status: 409,
    title: 'Request in flight',
    remedy: 'a request with the same `Idempotency-Key` is under way; repeat yours to get its answer',
  },
  event_type_exists: {
    status: 409,
    title: 'Event type exists',
    remedy: 'an event type has that name; replace it with PUT',
  },
  payload_too_large: {
    status: 413,
    title: 'Payload too large',
    remedy:
      'the body exceeds `bodyLimit` (1 MiB by default, at most 64 MiB), a batch makes more than 30,000 deliveries, or the schemas of an OpenAPI import have more than 100,000 values',
  },
  unsupported_media_type: {
    status: 415,
    title: 'Unsupported media type',
    remedy: 'the body has another content type than `application/json`, or is compressed',
  },
  expectation_failed: {
    status: 417,
    title: 'Expectation failed',
    remedy: 'an `Expect` header other than `100-continue`; send the request without it',
  },
  validation: {
    status: 422,
    title: 'Validation failed',
    remedy:
      '`detail` lists the wrong fields: the first 20, and a last entry of type `more` with the number of the others. An oversized list, object or text is reported without a look inside',
  },
  invalid_json: {
    status: 422,
    title: 'Invalid JSON',
    remedy: 'the body is not JSON (RFC 8259: no byte order mark, no trailing comma, no NaN)',
  },
  invalid_utf8: {
    status: 422,
    title: 'Invalid UTF-8',
    remedy: 'the body is not UTF-8',
  },
  duplicate_key: {
    status: 422,
    title: 'Duplicate key',
    remedy: 'an object has the same key twice, compared after escapes are resolved',
  },
  forbidden_key: {
    status: 422,
    title: 'Forbidden key',
    remedy: '`__proto__`, `constructor` or `prototype` outside of `payload`',
  },
  too_deep: {
    status: 422,
    title: 'Nested too deep',
    remedy: 'more than 101 levels: a payload may have 100',
  },
  too_many_keys: {
    status: 422,
    title: 'Too many keys',
    remedy: 'more than 10,000 keys, or more than 50,000 values outside of a published payload',
  },
  overloaded: {
    status: 429,
    title: 'Overloaded',
    remedy: 'too many deliveries wait; `Retry-After` says when there will be room',
  },
  rate_limited: {
    status: 429,
    title: 'Rate limited',
    remedy:
      'too many requests for the setting in the message, too many unread or unfinished bytes, or too many wrong keys from this address (right keys still work); `Retry-After` says when to try again',
  },
  headers_too_large: {
    status: 431,
    title: 'Headers too large',
    remedy: 'more than 16 KiB of headers',
  },
  internal: {
    status: 500,
    title: 'Internal error',
    remedy: 'a bug in Sluice; the log has it',
  },
  closed: {
    status: 503,
    title: 'Closed',
    remedy: 'library only: this Sluice was closed; open another with `openSluice`',
  },
  unavailable: {
    status: 503,
    title: 'Unavailable',
    remedy:
      'the store does not answer, or its file was deleted or replaced (`detail` says which); `Retry-After` says when to try again',
  },
}

/** The body of an answer to an error; undefined stands for a bug, which the answer does not describe. */
export function problem(error: AppError | undefined, instance: string): string {
  const code = error?.code ?? 'internal'
  const { status, title } = meanings[code]
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

/** The cause of a code and its remedy. */
export function remedyOf(code: string): string {
  return meanings[code as keyof typeof meanings].remedy
}

/** The status a code is answered with. */
export function statusOf(code: AppErrorCode | 'internal'): number {
  return meanings[code].status
}

/** The codes that share each status, and what the first of them is called. */
export function codesByStatus(): Map<number, { readonly title: string; readonly codes: string[] }> {
  const byStatus = new Map<number, { readonly title: string; readonly codes: string[] }>()
  for (const [code, { status, title }] of Object.entries(meanings)) {
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
