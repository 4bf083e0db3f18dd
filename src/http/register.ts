import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { TSchema } from 'typebox'
import { AppError, type FieldError } from '../domain/app-error.ts'
import { type FoundThings, finderOf } from './lookup.ts'
import { type Parts, Reply, type Route } from './route.ts'
import { compile, readQuery, refuseIf } from './validate.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The request as its handler sees it; null before it is checked. */
    call: CheckedCall | null
  }
}

/** A request after its checks; the things that its path names are added before the handler runs. */
export interface CheckedCall extends FoundThings {
  readonly params: Readonly<Record<string, string>>
  readonly query: unknown
  readonly body: unknown
  readonly request: FastifyRequest
}

const json = 'application/json; charset=utf-8'
const jsonLines = 'application/jsonl; charset=utf-8'

/**
 * Makes Fastify serve a route. A request is checked (`preValidation`) before its Idempotency-Key is reserved, and the
 * things in its path are looked up (`preHandler`) before the audit log takes note of them.
 */
export function register(scope: FastifyInstance, route: Route, parts: Parts): void {
  const check = checkerOf(route)
  const find = finderOf(route)
  const firstStatus = Number(Object.keys(route.answers)[0])
  scope.route({
    method: route.method,
    url: route.path,
    ...(route.bodyLimit && { bodyLimit: route.bodyLimit(parts) }),
    config: {
      ...(route.need !== 'open' && { need: route.need }),
      bodyOptional: true,
      answersSecret: route.answersSecret === true,
    },
    preValidation: (request, _reply, done) => {
      request.call = check(request)
      done()
    },
    preHandler: async ({ call }) => {
      if (find !== undefined && call !== null) await find(parts.store, call.params, call)
    },
    handler: async ({ call }, reply) => write(reply, firstStatus, await route.handle(call as never, parts)),
  })
}

/** Sets status and headers, and gives the body for Fastify to send. */
function write(reply: FastifyReply, firstStatus: number, handled: unknown): unknown {
  const answer = handled instanceof Reply ? handled : new Reply(firstStatus, handled)
  const { status, value, headers } = answer
  reply.code(status).headers(headers)
  if (Buffer.isBuffer(value)) reply.type(json)
  else if (value instanceof Readable) reply.type(jsonLines)
  return value
}

/** Compiles the checks of a route. Problems of the query and of the body are told together. */
function checkerOf(route: Route): (request: FastifyRequest) => CheckedCall {
  const { query: querySchema } = route
  const queryProblems = querySchema && compile(querySchema, 'query')
  const bodyOf = bodyReaderOf(route)
  return (request) => {
    const query = querySchema === undefined ? {} : readQuery(querySchema, request.query)
    const problems = queryProblems === undefined ? [] : queryProblems(query)
    const body = bodyOf(request.body, problems)
    refuseIf(problems)
    return { params: request.params as Record<string, string>, query, body, request }
  }
}

function bodyReaderOf({
  body: schema,
  bodyOptional = false,
}: Route): (body: unknown, problems: FieldError[]) => unknown {
  if (schema === undefined) return () => undefined
  const problemsOf = compile(schema as TSchema, 'body')
  return (body, problems) => {
    if (body === undefined && !bodyOptional) throw new AppError('invalid_json', 'The body is empty.')
    const value = body === undefined ? {} : body
    problems.push(...problemsOf(value))
    return value
  }
}
