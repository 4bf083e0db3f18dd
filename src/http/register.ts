import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type CheckedCall, checkerOf } from './check.ts'
import { finderOf } from './lookup.ts'
import { type Parts, Reply, type Route } from './route.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The request as its handler sees it; null before it is checked. */
    call: CheckedCall | null
  }
}

const json = 'application/json; charset=utf-8'
const jsonLines = 'application/jsonl; charset=utf-8'

/**
 * Makes Fastify serve a route. A request is checked and the things in its path are looked up (`preValidation`) before
 * its Idempotency-Key is reserved (`preHandler`) and the audit log takes note of it.
 */
export function register(scope: FastifyInstance, route: Route, parts: Parts): void {
  const check = checkerOf(route)
  const find = finderOf(route)
  scope.route({
    method: route.method,
    url: route.path,
    ...(route.bodyLimit && { bodyLimit: route.bodyLimit(parts) }),
    config: {
      ...(route.need !== 'open' && { need: route.need }),
      answersSecret: route.answersSecret === true,
    },
    preValidation: [
      (request, _reply, done) => {
        request.call = check(request)
        done()
      },
      ...(find === undefined ? [] : [({ call }: FastifyRequest) => find(parts.store, call as CheckedCall)]),
    ],
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
    reply.type(schema !== null && 'lines' in schema ? jsonLines : json)
  }
  return value
}
