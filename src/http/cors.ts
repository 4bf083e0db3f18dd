import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/** Beside the headers every page may read: what tells it when to try again, and which methods there are. */
const readable = 'retry-after, allow, www-authenticate'
const rememberedSeconds = 86_400

/**
 * Lets pages of any origin use the API. Nothing here trusts a cookie or the caller's address: a page can do no more
 * than the key it was given, so there is no origin to keep out. Who sends no `Origin` is no page and pays nothing.
 */
export function allowOrigins(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    if (request.headers.origin !== undefined) {
      reply.header('access-control-allow-origin', '*').header('access-control-expose-headers', readable)
    }
    done()
  })
}

/** What a browser asks before it sends a request of its own: may it? */
export function answerPreflight(request: FastifyRequest, reply: FastifyReply, methods: string): void {
  if (request.headers['access-control-request-method'] === undefined) return
  reply
    .header('access-control-allow-methods', methods)
    // The star stands for all headers but this one.
    .header('access-control-allow-headers', '*, authorization')
    .header('access-control-max-age', String(rememberedSeconds))
}
