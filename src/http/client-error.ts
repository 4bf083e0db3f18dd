import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { AppError } from '../domain/app-error.ts'
import { problem, statusOf } from '../operations/errors.ts'
import { answerHeaders } from './answer-headers.ts'

/**
 * Answers bytes that are no HTTP request at all, and requests that took too long to arrive, with a problem like any other
 * error, and closes the connection.
 */
export function answerClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
  // A client that has hung up reads no answer; a socket that was written to already would carry two.
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) return void socket.destroy()
  endWith(socket, describe(error))
}

/** Answers the requests that Node answers by itself, without a body, or not at all. */
export function answerOddRequests(app: FastifyInstance): void {
  app.server.on('checkExpectation', ({ url = '' }: IncomingMessage, response: ServerResponse) => {
    const failed = new AppError('expectation_failed', 'The server meets no expectation but 100-continue.')
    const body = problem(failed, url)
    const length = { 'content-length': Buffer.byteLength(body) }
    // The client may send its body or not, so the next request cannot be told apart.
    response.writeHead(statusOf(failed.code), { ...problemHeaders, ...length, connection: 'close' }).end(body)
  })
  app.server.on('connect', ({ url = '' }: IncomingMessage, socket: Duplex) => {
    // Once Node has handed the connection over, an error of it has no other listener.
    socket.on('error', () => socket.destroy())
    endWith(socket, new AppError('method_not_allowed', 'The server is no proxy: CONNECT is not supported.'), url)
  })
  app.addHook('onRequest', (request, _reply, done) => {
    const { httpVersion, headers } = request.raw
    const isMissing = headers.host === undefined && httpVersion === '1.1'
    done(isMissing ? new AppError('invalid_request', 'The header host is missing.') : undefined)
  })
}

const problemHeaders = { 'content-type': 'application/problem+json', ...answerHeaders }

function endWith(socket: Duplex, error: AppError, url = ''): void {
  const body = problem(error, url)
  const status = statusOf(error.code)
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    ...Object.entries(problemHeaders).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

function describe({ code }: NodeJS.ErrnoException): AppError {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new AppError('request_timeout', 'The request did not arrive in time.')
  }
  if (code === 'HPE_HEADER_OVERFLOW') return new AppError('headers_too_large', 'The headers are too large.')
  return new AppError('invalid_request', 'The request is not valid HTTP.')
}
