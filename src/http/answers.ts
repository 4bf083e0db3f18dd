import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type Duplex, finished, Readable } from 'node:stream'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { jsonType } from '../domain/api.ts'
import { AppError, type AppErrorCode } from '../domain/app-error.ts'
import type { Clock } from '../domain/clock.ts'
import { Backlog } from '../domain/turns.ts'
import { asAppError, problem, statusOf } from '../operations/errors.ts'
import { STATUS_CODES } from '../wire/network.ts'
import type { HttpDeps } from './app.ts'
import { HungUp, hasHungUp } from './connection.ts'
import type { Pipelining } from './pipelining.ts'

/** Node's code for a request that did not arrive in time. */
const requestTimeout = 'ERR_HTTP_REQUEST_TIMEOUT'

const problemJson = 'application/problem+json'

/**
 * Headers of every answer of the API: no browser may guess another type than the one named, and no cache may keep what
 * was shown to the owner of one key.
 */
const answerHeaders = { 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' } as const

/** Sets the headers of every answer, errors included. A page that may be kept names its own. */
export function setAnswerHeaders(app: FastifyInstance): void {
  app.addHook('onRequest', (_request, reply, done) => {
    reply.headers(answerHeaders)
    done()
  })
}

/** Errors of Fastify before a route is reached, as codes of the API. */
const fastifyErrors: Readonly<Record<string, readonly [AppErrorCode, string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['payload_too_large', 'The body is larger than this server accepts (bodyLimit).'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'The body must be application/json.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['invalid_request', 'The body is not as long as its content-length says.'],
  FST_ERR_BAD_URL: ['invalid_request', 'The path is not a valid one.'],
}

/** Errors by which a hang-up shows: in the middle of a body, and in the middle of an answer that is streamed. */
const hangUpCodes: ReadonlySet<string> = new Set(['ECONNRESET', 'ERR_STREAM_PREMATURE_CLOSE'])

/** How long a client should wait when the store cannot answer: long enough for a failover to make headway. */
const retryAfterSeconds = 2

/** Time and bytes that the rest of a refused body may take; beyond them the connection ends without it. */
const lingerMs = 10_000
const lingerBytes = 64 * 1024 * 1024

/**
 * The content type of an error: plain JSON, unless the client asks for a problem (RFC 9457). Older SDKs of Svix read an
 * error only when it is `application/json`.
 */
function errorType(accept: string | undefined): string {
  const asked = accept?.split(',').some((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
    return type === problemJson && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))
  })
  return asked === true ? problemJson : jsonType
}

/** Answers any error as a problem (RFC 9457). */
export function answerError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  deps: Pick<HttpDeps, 'onBug' | 'onHangUp' | 'onRefusedPublish' | 'clock' | 'requestTimeoutMs'>,
): void {
  const { onBug, onHangUp, onRefusedPublish } = deps
  const hungUp = isHangUp(error, request)
  // The client never sees this answer, but it ends the request, and with it the reservation of its Idempotency-Key.
  const known = hungUp ? new AppError('request_timeout', 'The client hung up.') : refusalOf(error)
  if (hungUp) onHangUp({ method: request.method, route: request.routeOptions?.url ?? null })
  else if (known === undefined) onBug(error)
  const code = known?.code ?? 'internal'
  if (!hungUp && request.routeOptions?.config?.need?.scope === 'publish') onRefusedPublish?.(code)
  const status = statusOf(code)
  // Again: no hook ran before an error of Fastify itself.
  reply.headers(answerHeaders)
  if (status === 401) reply.header('www-authenticate', 'Bearer realm="sluice"')
  const waitSeconds = known?.retryAfterSeconds ?? (status === 503 ? retryAfterSeconds : undefined)
  if (waitSeconds !== undefined) reply.header('retry-after', String(waitSeconds))
  // The rest of the body would be taken for the next request.
  if (status === 408 || status === 413) reply.header('connection', 'close')
  reply.code(status).type(errorType(request.headers.accept))
  const body = problem(known, request.url)
  const endsEarly = reply.getHeader('connection') === 'close' && !request.raw.complete && !hungUp && status !== 408
  if (!endsEarly) return void reply.send(body)
  // Half of the time that Node allows for the whole request, so that this answer is the only one.
  const limitMs = Math.min(lingerMs, deps.requestTimeoutMs / 2)
  reply.header('content-length', Buffer.byteLength(body))
  reply.send(Readable.from(afterRest(body, request.raw, deps.clock, limitMs), { objectMode: false }))
}

/**
 * Sends an answer, and ends it when the rest of the request has arrived. A connection that is closed before that is
 * reset, and the client, busy with its body, would never read the answer.
 */
async function* afterRest(body: string, request: IncomingMessage, clock: Clock, limitMs: number) {
  yield Buffer.from(body)
  const stop = new AbortController()
  const cancel = clock.after(limitMs, () => stop.abort())
  let bytes = 0
  const count = (chunk: Uint8Array) => {
    bytes += chunk.length
    if (bytes > lingerBytes) stop.abort()
  }
  request.on('data', count)
  await new Promise<void>((resolve) => finished(request, { signal: stop.signal, writable: false }, () => resolve()))
  cancel()
  request.off('data', count)
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

/**
 * Answers bytes that are no HTTP request at all, and requests that took too long to arrive, with a problem like any other
 * error, and closes the connection. Requests before them that had arrived whole are answered first: the answer to a
 * publish says whether it is stored, whatever follows it in the same packet.
 */
export function clientErrorAnswers(
  clock: Clock,
  pipelining: () => Pipelining,
): (error: NodeJS.ErrnoException, socket: Duplex) => void {
  const answer = (error: NodeJS.ErrnoException, socket: Duplex) => {
    const end = () => (socket.writable ? endWith(socket, parserRefusal(error)) : (socket as Socket).destroySoon())
    const connection = pipelining().of(socket)
    if (connection === undefined) end()
    else connection.endAfterAnswers(end)
  }
  // Node finds all that are too late at once, once a second: 5,000 answers take 0.3 s.
  const late = new Backlog<readonly [NodeJS.ErrnoException, Duplex]>(clock, ([error, socket]) => {
    if (!socket.destroyed) answer(error, socket)
  })
  return (error, socket) => {
    // A client that has hung up reads no answer.
    if (error.code === 'ECONNRESET' || socket.destroyed) return void socket.destroy()
    if (error.code !== requestTimeout) return answer(error, socket)
    // Bytes that wait for this server are not late. If the client stops, the connection ends like an idle one.
    if (pipelining().of(socket)?.isHeld !== true) late.add([error, socket])
  }
}

/** Headers of which a second one may contradict the first, and of which Node keeps the first: another reader may take the last. */
const singleHeaders: ReadonlySet<string> = new Set(['host', 'authorization'])

/** The name of a header that came twice and must not. */
function repeatedHeader(raw: readonly string[]): string | undefined {
  const seen = new Set<string>()
  for (let i = 0; i < raw.length; i += 2) {
    const { length } = raw[i] as string
    if (length !== 4 && length !== 13) continue
    const name = (raw[i] as string).toLowerCase()
    if (!singleHeaders.has(name)) continue
    if (seen.has(name)) return name
    seen.add(name)
  }
  return undefined
}

/** Answers the requests that Node answers by itself, without a body, or not at all. */
export function answerOddRequests(app: FastifyInstance): void {
  app.server.on('checkExpectation', ({ url = '', headers }: IncomingMessage, response: ServerResponse) => {
    const failed = new AppError('expectation_failed', 'The server meets no expectation but 100-continue.')
    const body = problem(failed, url)
    const length = { 'content-length': Buffer.byteLength(body), 'content-type': errorType(headers.accept) }
    // The client may send its body or not, so the start of the next request is unknown.
    response.writeHead(statusOf(failed.code), { ...answerHeaders, ...length, connection: 'close' }).end(body)
  })
  app.server.on('connect', ({ url = '' }: IncomingMessage, socket: Duplex) => {
    // Once Node has handed the connection over, an error of it has no other listener.
    socket.on('error', () => socket.destroy())
    endWith(socket, new AppError('method_not_allowed', 'The server is no proxy: CONNECT is not supported.'), url)
  })
  app.addHook('onRequest', (request, _reply, done) => {
    const { httpVersion, headers, rawHeaders } = request.raw
    const isMissing = headers.host === undefined && httpVersion === '1.1'
    if (isMissing) return done(new AppError('invalid_request', 'The header host is missing.'))
    const repeated = repeatedHeader(rawHeaders)
    done(
      repeated === undefined
        ? undefined
        : new AppError('invalid_request', `The header ${repeated} came twice; send it once.`),
    )
  })
}

function endWith(socket: Duplex, error: AppError, url = ''): void {
  const body = problem(error, url)
  const status = statusOf(error.code)
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `content-type: ${jsonType}`,
    ...Object.entries(answerHeaders).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

function parserRefusal({ code }: NodeJS.ErrnoException): AppError {
  if (code === requestTimeout) {
    return new AppError('request_timeout', 'The request did not arrive in time (requestTimeout).')
  }
  if (code === 'HPE_HEADER_OVERFLOW') return new AppError('headers_too_large', 'The headers are too large.')
  return new AppError('invalid_request', 'The request is not valid HTTP.')
}

/** Headers that a page may read beside the ones that CORS always allows. */
const readableHeaders = 'retry-after, allow, www-authenticate, sluice-ignored-fields'
const preflightSeconds = 86_400

/**
 * Lets pages of any origin use the API with a key. The answer never allows credentials, so no page of another origin reads
 * anything under a session cookie, and `refuseForgery` refuses its requests. A request without `Origin` skips this.
 */
export function allowOrigins(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    if (request.headers.origin !== undefined) {
      reply.header('access-control-allow-origin', '*').header('access-control-expose-headers', readableHeaders)
    }
    done()
  })
}

/** Answers the preflight request of a browser (CORS). */
function answerPreflight(request: FastifyRequest, reply: FastifyReply, methods: string): void {
  if (request.headers['access-control-request-method'] === undefined) return
  reply
    .header('access-control-allow-methods', methods)
    // The star stands for all headers but this one.
    .header('access-control-allow-headers', '*, authorization')
    .header('access-control-max-age', String(preflightSeconds))
}

/** A path as it is declared, cut at its slashes, and the methods that it has. */
interface Declared {
  readonly parts: readonly string[]
  readonly methods: Set<string>
}

/**
 * Answers the methods that a path does not have: OPTIONS with those it has, any other with 405 before its body is read.
 * Called before the routes are declared. A route for each of these answers would double the time that a start takes.
 */
export function answerOtherMethods(app: FastifyInstance): void {
  const byUrl = new Map<string, Declared>()
  app.addHook('onRoute', ({ url, method }) => {
    const { methods } = byUrl.get(url) ?? { methods: new Set() }
    byUrl.set(url, { parts: segmentsOf(url), methods })
    for (const name of [method].flat()) methods.add(name)
  })
  app.addHook('onRequest', (request, reply, done) => {
    const known = request.is404 ? methodsAt(request.url, byUrl.values()) : undefined
    if (known === undefined || known.size === 0) return done()
    const allow = [...known, 'OPTIONS'].join(', ')
    reply.header('allow', allow)
    if (request.method !== 'OPTIONS') return done(new AppError('method_not_allowed', `This path takes ${allow}.`))
    answerPreflight(request, reply, allow)
    reply.code(204).send()
  })
}

/**
 * The methods of a requested path. Several declared paths may include it: a message can have the eventId `batch`, which
 * is a word in another path.
 */
function methodsAt(url: string, declared: Iterable<Declared>): ReadonlySet<string> {
  // The star asks about the server itself, which answers for its first page.
  const path = url === '*' ? [] : segmentsOf(url.split('?', 1)[0] as string).map(decoded)
  const known = new Set<string>()
  for (const { parts, methods } of declared) {
    if (parts.length !== path.length) continue
    if (parts.every((part, i) => part === path[i] || part.startsWith(':'))) for (const name of methods) known.add(name)
  }
  return known
}

/** The words of a path. The router takes two slashes for one, and ignores one at the end. */
function segmentsOf(path: string): string[] {
  return path.split('/').filter((part) => part !== '')
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
