import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { AppError, type AppErrorCode } from '../domain/app-error.ts'
import { StoreTrouble } from '../store/store.ts'
import { addAnswerHeaders } from './answer-headers.ts'
import { HungUp, hasHungUp } from './connection.ts'

interface Meaning {
  readonly status: number
  readonly title: string
}

/** Status and title of each code. The codes are stable; docs/errors.md explains them to callers. */
const meanings: Readonly<Record<AppErrorCode | 'internal', Meaning>> = {
  invalid_request: { status: 400, title: 'Invalid request' },
  invalid_json: { status: 400, title: 'Invalid JSON' },
  invalid_utf8: { status: 400, title: 'Invalid UTF-8' },
  duplicate_key: { status: 400, title: 'Duplicate key' },
  forbidden_key: { status: 400, title: 'Forbidden key' },
  too_deep: { status: 400, title: 'Nested too deep' },
  too_many_keys: { status: 400, title: 'Too many keys' },
  missing_payload: { status: 400, title: 'Missing payload' },
  authentication_failed: { status: 401, title: 'Authentication failed' },
  insufficient_access: { status: 403, title: 'Insufficient access' },
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
  overloaded: { status: 429, title: 'Overloaded' },
  rate_limited: { status: 429, title: 'Rate limited' },
  headers_too_large: { status: 431, title: 'Headers too large' },
  internal: { status: 500, title: 'Internal error' },
  closed: { status: 503, title: 'Closed' },
  unavailable: { status: 503, title: 'Unavailable' },
}

/** Errors of Fastify before a route is reached, as codes of the API. */
const fastifyErrors: Readonly<Record<string, readonly [AppErrorCode, string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['payload_too_large', 'The body is larger than this server accepts.'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'The body must be application/json.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['invalid_request', 'The body is not as long as its content-length says.'],
  FST_ERR_BAD_URL: ['invalid_request', 'The path is not a valid one.'],
}

/** Errors by which a hang-up shows: in the middle of a body, and in the middle of an answer that is streamed. */
const hangUpCodes: ReadonlySet<string> = new Set(['ECONNRESET', 'ERR_STREAM_PREMATURE_CLOSE'])

/** How long a client should wait when the store cannot answer: long enough for a failover to make headway. */
const retryAfterSeconds = 2

/** The log of requests that ended badly. */
export interface Listeners {
  /** An error that no caller can have caused. */
  readonly onBug: (error: unknown) => void
  /** A client that hung up before its request was carried out. */
  readonly onHangUp: (request: { readonly method: string; readonly url: string }) => void
}

/** Answers any error as a problem (RFC 9457). */
export function answerError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  { onBug, onHangUp }: Listeners,
): void {
  const hungUp = isHangUp(error, request)
  // The answer reaches nobody, but it ends the request, and with it the reservation of its Idempotency-Key.
  const known = hungUp ? new AppError('request_timeout', 'The client hung up.') : asAppError(error)
  if (hungUp) onHangUp(request)
  else if (known === undefined) onBug(error)
  const code = known?.code ?? 'internal'
  const { status } = meanings[code]
  addAnswerHeaders(reply)
  if (status === 401) reply.header('www-authenticate', 'Bearer realm="sluice"')
  const waitSeconds = known?.retryAfterSeconds ?? (status === 503 ? retryAfterSeconds : undefined)
  if (waitSeconds !== undefined) reply.header('retry-after', String(waitSeconds))
  // What is left of the body would be taken for the next request.
  if (status === 408 || status === 413) reply.header('connection', 'close')
  reply.code(status).type('application/problem+json').send(problem(known, request.url))
}

/** The body of an answer to an error; undefined stands for a fault of our own, of which nothing is told. */
export function problem(error: AppError | undefined, instance: string): string {
  const code = error?.code ?? 'internal'
  const { status, title } = meanings[code]
  // Svix's SDKs parse the detail of a 422 as a list of fields, each a path of texts, and that of any other status as text.
  const detail =
    error?.code === 'validation'
      ? error.fields.map(({ at, message, type }) => ({ loc: at.map(String), msg: message, type }))
      : (error?.message ?? 'Something went wrong on our side; it has been logged.')
  return JSON.stringify({
    type: `urn:sluice:error:${code}`,
    title,
    status,
    detail,
    instance: instance.slice(0, 512),
    code,
  })
}

/** The status a code is answered with. */
export function statusOf(code: AppErrorCode): number {
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

/** Whether the client hung up: before its change began, or in the middle of its body. */
function isHangUp(error: unknown, request: FastifyRequest): boolean {
  if (error instanceof HungUp) return true
  return hangUpCodes.has((error as NodeJS.ErrnoException).code ?? '') && hasHungUp(request)
}

/** The refusal that an error stands for; undefined for a bug. */
export function asAppError(error: unknown): AppError | undefined {
  if (error instanceof AppError) return error
  if (error instanceof StoreTrouble) {
    return new AppError('unavailable', error.detail ?? 'The store cannot answer at the moment.', [], { cause: error })
  }
  const { code = '', statusCode = 500 } = error as Partial<FastifyError>
  const known = fastifyErrors[code]
  if (known !== undefined) return new AppError(...known)
  return statusCode >= 400 && statusCode < 500
    ? new AppError('invalid_request', 'The request is not valid.')
    : undefined
}
