import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { AppError, type AppErrorCode } from '../domain/app-error.ts'
import { asAppError, problem, statusOf } from '../operations/errors.ts'
import { addAnswerHeaders } from './answer-headers.ts'
import { HungUp, hasHungUp } from './connection.ts'
import type { HttpContext } from './context.ts'

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

/** Answers any error as a problem (RFC 9457). */
export function answerError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  { onBug, onHangUp }: Pick<HttpContext, 'onBug' | 'onHangUp'>,
): void {
  const hungUp = isHangUp(error, request)
  // The client never sees this answer, but it ends the request, and with it the reservation of its Idempotency-Key.
  const known = hungUp ? new AppError('request_timeout', 'The client hung up.') : refusalOf(error)
  if (hungUp) onHangUp(request)
  else if (known === undefined) onBug(error)
  const code = known?.code ?? 'internal'
  const status = statusOf(code)
  addAnswerHeaders(reply)
  if (status === 401) reply.header('www-authenticate', 'Bearer realm="sluice"')
  const waitSeconds = known?.retryAfterSeconds ?? (status === 503 ? retryAfterSeconds : undefined)
  if (waitSeconds !== undefined) reply.header('retry-after', String(waitSeconds))
  // The rest of the body would be taken for the next request.
  if (status === 408 || status === 413) reply.header('connection', 'close')
  reply.code(status).type('application/problem+json').send(problem(known, request.url))
}

/** Whether the client hung up: before its change began, or in the middle of its body. */
function isHangUp(error: unknown, request: FastifyRequest): boolean {
  if (error instanceof HungUp) return true
  return hangUpCodes.has((error as NodeJS.ErrnoException).code ?? '') && hasHungUp(request)
}

/** The refusal that an error stands for; undefined for a bug. */
function refusalOf(error: unknown): AppError | undefined {
  const refusal = asAppError(error)
  if (refusal !== undefined) return refusal
  const { code = '', statusCode = 500 } = error as Partial<FastifyError>
  const known = fastifyErrors[code]
  if (known !== undefined) return new AppError(...known)
  return statusCode >= 400 && statusCode < 500
    ? new AppError('invalid_request', 'The request is not valid.')
    : undefined
}
