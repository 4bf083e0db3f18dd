import type { IncomingHttpHeaders } from 'node:http'
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest, onSendHookHandler } from 'fastify'
import { jsonType } from '../domain/api.ts'
import { AppError } from '../domain/app-error.ts'
import type { Clock } from '../domain/clock.ts'
import { Turns } from '../domain/turns.ts'
import { usedKey } from '../intake/publication.ts'
import type { Scanner } from '../json/scan.ts'
import {
  type BodyKind,
  type CheckedCall,
  checkCall,
  hasKey,
  onceOf,
  parseBody,
  queryOf,
  replayed,
} from '../operations/check.ts'
import { finderOf } from '../operations/lookup.ts'
import type { Parts } from '../operations/parts.ts'
import { keepsAnswer, Reply, type Route, urlOf } from '../operations/route.ts'
import { IgnoredFields, treatmentOf, unknownFieldsHeader } from '../operations/unknown-names.ts'
import { checkEncoding } from '../operations/validate.ts'
import type { Once } from '../store/publishing.ts'
import { announcedBytes } from './connection.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The request as its handler sees it; null before it is checked. */
    call: CheckedCall | null
    /** The key the request is carried out under, once it is. */
    once: Once | null
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
    // One route for both: Fastify's own route for HEAD would take as long to register as that for GET.
    method: route.method === 'GET' ? ['GET', 'HEAD'] : route.method,
    url: urlOf(route),
    ...(route.bodyLimit && { bodyLimit: route.bodyLimit(parts) }),
    config: { ...(route.need !== 'open' && { need: route.need }) },
    ...(route.admit && { onRequest: (request: FastifyRequest) => route.admit?.(request, parts) }),
    preValidation: [
      (request, reply, done) => {
        const treatment = treatmentOf(request.headers[unknownFieldsHeader], parts.limits.unknownFields)
        request.call = checkCall(route, request, new IgnoredFields(treatment))
        nameIgnored(reply, request.call)
        done()
      },
      ...(find === undefined ? [] : [({ call }: FastifyRequest) => find(parts.store, call as CheckedCall)]),
    ],
    ...(keepsAnswer(route) && answerOnce(parts)),
    ...(route.method === 'GET' && { onSend: leaveBodyOut }),
    handler: async ({ call }, reply) => {
      const handled = await route.handle(call as never, parts)
      nameIgnored(reply, call as CheckedCall)
      return write(reply, route, handled)
    },
  })
}

function nameIgnored(reply: FastifyReply, { ignored }: CheckedCall): void {
  if (!ignored.isEmpty) reply.header('sluice-ignored-fields', String(ignored))
}

/** An answer to HEAD has the length of the body, and no body. */
const leaveBodyOut: onSendHookHandler = ({ method }, reply, payload, done) => {
  if (method !== 'HEAD') return done(null, payload)
  const bytes = bytesOf(payload)
  if (bytes !== undefined && bytes.length > 0) reply.header('content-length', bytes.length)
  done(null, null)
}

/** Sets status and headers, and gives the body for Fastify to send. A plain value has the first status of the route. */
function write(reply: FastifyReply, { answers }: Route, handled: unknown): unknown {
  const answer = handled instanceof Reply ? handled : new Reply(Number(Object.keys(answers)[0]), handled)
  const { status, value, headers } = answer
  const schema = answers[status]
  reply.code(status).headers(headers)
  if (schema === null) return undefined
  if (Buffer.isBuffer(value) || value instanceof Readable) {
    const type = schema === undefined || !('lines' in schema) ? jsonType : 'events' in schema ? events : jsonLines
    if (!reply.hasHeader('content-type')) reply.type(type)
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

type Params = Readonly<Record<string, string>>

/** How long a request may be under way before it counts as lost with the process that ran it. */
const reserveMs = 60_000

/**
 * The hooks of a route that happens once per Idempotency-Key: its answer is kept and given again. A request that was refused
 * leaves no trace.
 */
function answerOnce({ store, onBug }: Pick<Parts, 'store' | 'onBug'>) {
  async function preHandler(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    if (!hasKey(request)) return
    const names = namesOf(request)
    const once = onceOf(request, names, `${queryOf(request.url)}\n${JSON.stringify(request.body)}`)
    const reservation = await store.reserve(once, reserveMs)
    if (reservation.state === 'mismatch') throw usedKey()
    if (reservation.state === 'in_flight') {
      throw new AppError('request_in_flight', 'A request with the same Idempotency-Key is being carried out.')
    }
    if (reservation.state === 'reserved') {
      request.once = once
      return
    }
    const { status, body } = reservation.answer
    reply.code(status).headers(replayed)
    if (body.byteLength > 0) reply.header('content-type', jsonType)
    await reply.send(body.byteLength > 0 ? body : undefined)
  }

  async function onSend({ once }: FastifyRequest, reply: FastifyReply, payload: unknown): Promise<void> {
    if (once === null) return
    try {
      const body = bytesOf(payload)
      const succeeded = reply.statusCode >= 200 && reply.statusCode < 300
      if (succeeded && body !== undefined) await store.complete(once, { status: reply.statusCode, body })
      else await store.abandon(once)
    } catch (error) {
      // The request is carried out, and its caller must learn so. The key frees itself.
      onBug(error)
    }
  }

  return { preHandler, onSend }
}

/** An answer as bytes; undefined when it is a stream. */
function bytesOf(payload: unknown): Uint8Array | undefined {
  if (payload === undefined || payload === null) return new Uint8Array(0)
  if (typeof payload === 'string') return Buffer.from(payload)
  return payload instanceof Uint8Array ? payload : undefined
}

/** The things that a path names, each by its id where it has one; a uid or an eventId is another name for the same. */
function namesOf({ params, call }: FastifyRequest): Params {
  const found: Readonly<Record<string, unknown>> = { ...call }
  return Object.fromEntries(
    Object.entries(params as Params).map(([name, ref]) => [name, (found[name] as { id?: string })?.id ?? ref]),
  )
}
