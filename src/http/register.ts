import type { IncomingHttpHeaders } from 'node:http'
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { jsonType } from '../domain/api.ts'
import { AppError } from '../domain/app-error.ts'
import type { Clock } from '../domain/clock.ts'
import { Turns } from '../domain/turns.ts'
import type { Scanner } from '../json/scan.ts'
import { type BodyKind, type CheckedCall, checkCall, parseBody } from '../operations/check.ts'
import { finderOf } from '../operations/lookup.ts'
import type { Parts } from '../operations/parts.ts'
import { keepsAnswer, Reply, type Route, urlOf } from '../operations/route.ts'
import { checkEncoding } from '../operations/validate.ts'
import { answerOnce } from './idempotency.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The request as its handler sees it; null before it is checked. */
    call: CheckedCall | null
  }
}

/** Reading this much takes half a millisecond or more. */
const largeBodyBytes = 64 * 1024
const lineTypes = ['application/jsonl', 'application/x-ndjson', 'application/x-jsonlines']
const jsonLines = 'application/jsonl; charset=utf-8'
const events = 'text/event-stream; charset=utf-8'

/**
 * Makes Fastify serve a route. A request is checked and the things in its path are looked up (`preValidation`) before
 * its Idempotency-Key is reserved (`preHandler`) and the audit log takes note of it.
 */
export function register(scope: FastifyInstance, route: Route, parts: Parts): void {
  const find = finderOf(route)
  scope.route({
    method: route.method,
    url: urlOf(route),
    ...(route.bodyLimit && { bodyLimit: route.bodyLimit(parts) }),
    config: { ...(route.need !== 'open' && { need: route.need }) },
    ...(route.admit && { onRequest: (request: FastifyRequest) => route.admit?.(request, parts) }),
    preValidation: [
      (request, _reply, done) => {
        request.call = checkCall(route, request)
        done()
      },
      ...(find === undefined ? [] : [({ call }: FastifyRequest) => find(parts.store, call as CheckedCall)]),
    ],
    ...(keepsAnswer(route) && answerOnce(parts)),
    handler: async ({ call }, reply) => write(reply, route, await route.handle(call as never, parts)),
  })
}

/** Sets status and headers, and gives the body for Fastify to send. A plain value has the first status of the route. */
function write(reply: FastifyReply, { answers }: Route, handled: unknown): unknown {
  const answer = handled instanceof Reply ? handled : new Reply(Number(Object.keys(answers)[0]), handled)
  const { status, value, headers } = answer
  reply.code(status).headers(headers)
  if (Buffer.isBuffer(value) || value instanceof Readable) {
    const schema = answers[status] ?? null
    reply.type(schema === null || !('lines' in schema) ? jsonType : 'events' in schema ? events : jsonLines)
  }
  return value
}

/**
 * Makes a scope take in bodies of one kind. A body without a content type is JSON. A request without a body is accepted
 * whatever its content type says, and however its body of no bytes is framed.
 */
export function acceptBodies(scope: FastifyInstance, kind: BodyKind, scanner: Scanner, clock: Clock): void {
  if (kind === 'any') {
    return accept(scope, clock, (body, headers) => {
      checkEncoding(undefined, headers['content-encoding'])
      return body
    })
  }
  const ofLines = new Set(kind === 'lines' ? lineTypes : [])
  scope.addHook('preParsing', ({ headers }, _reply, _payload, done) => {
    const bytes = announcedBytes(headers)
    if (bytes === 0) delete headers['content-type']
    // A chunked body may turn out to have no bytes.
    else if (bytes !== undefined) checkType(headers, ofLines)
    done()
  })
  accept(scope, clock, (body, headers) => {
    if (body.length === 0) return undefined
    checkType(headers, ofLines)
    checkEncoding(headers['content-type'], headers['content-encoding'])
    return ofLines.has(mediaType(headers) ?? '') ? body : parseBody(kind, scanner, body)
  })
}

/** The length of the body; 0 without one, undefined when only its end shows. */
function announcedBytes(headers: IncomingHttpHeaders): number | undefined {
  const length = headers['content-length']
  if (length !== undefined) return Number(length)
  return headers['transfer-encoding'] === undefined ? 0 : undefined
}

function checkType(headers: IncomingHttpHeaders, others: ReadonlySet<string>): void {
  const type = mediaType(headers)
  if (type === undefined || type === 'application/json' || others.has(type)) return
  throw new AppError('unsupported_media_type', `The body must be application/json; it is ${type || 'of no type'}.`)
}

function mediaType(headers: IncomingHttpHeaders): string | undefined {
  const type = headers['content-type']
  return type === 'application/json' ? type : type?.split(';', 1)[0]?.trim().toLowerCase()
}

/** Reads bodies of all types. A large body is read in a turn of its own, so that many of them never make one long turn. */
function accept(
  scope: FastifyInstance,
  clock: Clock,
  read: (body: Buffer, headers: IncomingHttpHeaders) => unknown,
): void {
  const turns = Turns.by(clock)
  // Named beside all others, JSON is found without parsing the header of each request.
  scope.addContentTypeParser(['*', 'application/json'], { parseAs: 'buffer' }, ({ headers }, body, done) => {
    const bytes = body as Buffer
    try {
      if (bytes.length >= largeBodyBytes) return turns.next().then(() => read(bytes, headers))
      done(null, read(bytes, headers))
    } catch (error) {
      done(error as Error)
    }
    return undefined
  })
}
