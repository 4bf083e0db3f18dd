import type { FastifyInstance } from 'fastify'
import { AppError, type AppErrorCode, type FieldError } from '../domain/app-error.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** Asks for an operation of the API, such as `('GET', '/app/acme')`; rejects with AppError when it is refused. */
export type Request = <T = unknown>(method: Method, path: string, body?: unknown) => Promise<T>

interface Problem {
  readonly code: AppErrorCode | 'internal'
  readonly detail: string | readonly { readonly loc: string[]; readonly msg: string; readonly type: string }[]
}

/**
 * Speaks to the API without a socket, so that managing from inside a program obeys every rule that managing from outside
 * does. `open` is called when the first request is made: a program that only publishes never builds an API.
 */
export function inProcess(open: () => FastifyInstance, key: string): { request: Request; close(): Promise<void> } {
  let api: FastifyInstance | undefined

  return {
    async request<T>(method: Method, path: string, body?: unknown): Promise<T> {
      api ??= open()
      const answer = await api.inject({
        method,
        url: `/api/v1${path}`,
        headers: {
          authorization: `Bearer ${key}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { payload: JSON.stringify(body) }),
      })
      if (answer.statusCode >= 400) throw errorOf(answer.json(), Number(answer.headers['retry-after']))
      return (answer.body === '' ? undefined : answer.json()) as T
    },
    async close() {
      await api?.close()
    },
  }
}

function errorOf({ code, detail }: Problem, retryAfterSeconds: number): Error {
  if (code === 'internal') return new Error('Sluice failed for no fault of the caller; its log says how.')
  if (typeof detail === 'string') {
    return new AppError(code, detail, [], Number.isNaN(retryAfterSeconds) ? {} : { retryAfterSeconds })
  }
  return invalid(detail.map(({ loc, msg, type }) => ({ at: loc, message: msg, type })))
}

/** The error for fields that are wrong. Its message names them all: a program's log may show nothing else. */
export function invalid(fields: readonly FieldError[]): AppError {
  const list = fields.map(({ at, message }) => `${at.slice(1).join('.')} ${message.replace(/\.$/, '')}`).join('; ')
  return new AppError('validation', `Some fields are not valid: ${list}.`, fields)
}
