import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import { AppError } from '../domain/app-error.ts'

/** Headers that a page may read beside the ones that CORS always allows. */
const readable = 'retry-after, allow, www-authenticate'
const rememberedSeconds = 86_400

/**
 * Lets pages of any origin use the API with a key. The answer never allows credentials, so no page of another origin reads
 * anything under a session cookie, and `refuseForgery` refuses its requests. A request without `Origin` skips this.
 */
export function allowOrigins(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    if (request.headers.origin !== undefined) {
      reply.header('access-control-allow-origin', '*').header('access-control-expose-headers', readable)
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
    .header('access-control-max-age', String(rememberedSeconds))
}

const methods: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']

/**
 * Answers the methods that a path does not have: OPTIONS with those it has, any other with 405. Called before the
 * routes are declared; the returned function is called after.
 */
export function answerOtherMethods(app: FastifyInstance): () => void {
  const allowed = new Map<string, Set<string>>()
  app.addHook('onRoute', ({ url, method }) => {
    const known = allowed.get(url) ?? new Set()
    for (const name of [method].flat()) known.add(name)
    allowed.set(url, known)
  })
  return () => {
    // A copy, because the routes declared below would be added to it.
    const declared = [...allowed].map(([url, names]) => ({ url, names: [...names] }))
    for (const { url } of declared) {
      // A word in one path may be a name in another: a message can have the eventId `batch`.
      const known = new Set(declared.flatMap((other) => (covers(other.url, url) ? other.names : [])))
      const allow = [...known, 'OPTIONS'].join(', ')
      app.route({
        method: 'OPTIONS',
        url,
        onRequest: (request, reply) => {
          reply.header('allow', allow)
          answerPreflight(request, reply, allow)
          reply.code(204).send()
        },
        handler: () => {},
      })
      const others = methods.filter((method) => !known.has(method))
      if (others.length === 0) continue
      app.route({
        method: others,
        url,
        // Refused before the body is read.
        onRequest: (_request, reply, done) => {
          reply.header('allow', allow)
          done(new AppError('method_not_allowed', `This path takes ${allow}.`))
        },
        handler: () => {},
      })
    }
  }
}

/** Whether one path includes another: its names stand for any word of the other. */
function covers(pattern: string, url: string): boolean {
  const [theirs, ours] = [pattern.split('/'), url.split('/')]
  return theirs.length === ours.length && theirs.every((part, i) => part === ours[i] || part.startsWith(':'))
}
