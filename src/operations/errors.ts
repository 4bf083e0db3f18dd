import { AppError, type AppErrorCode, type FieldError } from '../domain/app-error.ts'
import { StoreTrouble } from '../store/store.ts'

interface Meaning {
  readonly status: number
  readonly title: string
}

/** Status and title of each code. The codes are stable; docs/errors.md explains them to callers. */
const meanings: Readonly<Record<AppErrorCode | 'internal', Meaning>> = {
  invalid_request: { status: 400, title: 'Invalid request' },
  missing_payload: { status: 400, title: 'Missing payload' },
  authentication_failed: { status: 401, title: 'Authentication failed' },
  insufficient_access: { status: 403, title: 'Insufficient access' },
  forgery_suspected: { status: 403, title: 'Forgery suspected' },
  not_found: { status: 404, title: 'Not found' },
  method_not_allowed: { status: 405, title: 'Method not allowed' },
  request_timeout: { status: 408, title: 'Request timeout' },
  conflict: { status: 409, title: 'Conflict' },
  damaged_record: { status: 409, title: 'Damaged record' },
  quota_exceeded: { status: 409, title: 'Quota exceeded' },
  request_in_flight: { status: 409, title: 'Request in flight' },
  event_type_exists: { status: 409, title: 'Event type exists' },
  payload_too_large: { status: 413, title: 'Payload too large' },
  unsupported_media_type: { status: 415, title: 'Unsupported media type' },
  expectation_failed: { status: 417, title: 'Expectation failed' },
  validation: { status: 422, title: 'Validation failed' },
  invalid_json: { status: 422, title: 'Invalid JSON' },
  invalid_utf8: { status: 422, title: 'Invalid UTF-8' },
  duplicate_key: { status: 422, title: 'Duplicate key' },
  forbidden_key: { status: 422, title: 'Forbidden key' },
  too_deep: { status: 422, title: 'Nested too deep' },
  too_many_keys: { status: 422, title: 'Too many keys' },
  overloaded: { status: 429, title: 'Overloaded' },
  rate_limited: { status: 429, title: 'Rate limited' },
  headers_too_large: { status: 431, title: 'Headers too large' },
  internal: { status: 500, title: 'Internal error' },
  closed: { status: 503, title: 'Closed' },
  unavailable: { status: 503, title: 'Unavailable' },
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
