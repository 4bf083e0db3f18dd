import type { IncomingMessage, ServerResponse } from 'node:http'
import { answerNode } from './node.ts'
import type { Receiver } from './receive.ts'

/** The part of a Fastify instance that is used. */
export interface FastifyScope {
  route(route: {
    method: string[]
    url: string
    onRequest(request: { readonly raw: IncomingMessage }, reply: FastifyReply): Promise<unknown>
    handler(): Promise<unknown>
  }): unknown
}

interface FastifyReply {
  readonly raw: ServerResponse
  code(status: number): FastifyReply
  headers(values: Record<string, string>): FastifyReply
  send(body: Uint8Array): FastifyReply
}

/** A plugin for Fastify: `app.register(fastifyReceiver(receiver, '/webhooks'))`. */
export function fastifyReceiver(receiver: Receiver, path: string): (scope: FastifyScope) => Promise<void> {
  return async (scope) => {
    scope.route({
      method: ['POST', 'PUT'],
      url: path,
      // Fastify reads and parses a body after this hook, so that no parser, content type or limit of the app interferes.
      async onRequest(request, reply) {
        const remedy = 'Read the body in no hook that runs before the receiver.'
        const { status, headers, body } = await answerNode(receiver, request.raw, reply.raw, remedy)
        return reply.code(status).headers(headers).send(body)
      },
      handler: async () => {},
    })
  }
}
