import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { AppError } from '../domain/app-error.ts'
import { problem, statusOf } from './errors.ts'

/**
 * Answers what is no HTTP request at all, or one that took too long to arrive, in the same words as any other error,
 * and closes the connection.
 */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  // A client that is gone wants no answer; one that was already answering would be confused by a second.
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) return void socket.destroy()
  const { status, body } = describe(error)
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/problem+json',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

function describe({ code }: NodeJS.ErrnoException): { status: number; body: string } {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    const late = new AppError('request_timeout', 'The request did not arrive in time.')
    return { status: statusOf(late.code), body: problem(late, '') }
  }
  if (code === 'HPE_HEADER_OVERFLOW') {
    const body = problem(new AppError('invalid_request', 'The headers are too large.'), '')
    return { status: 431, body: body.replace('"status":400', '"status":431') }
  }
  const malformed = new AppError('invalid_request', 'The request is not valid HTTP.')
  return { status: statusOf(malformed.code), body: problem(malformed, '') }
}
