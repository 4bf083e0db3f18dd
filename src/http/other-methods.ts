import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import { AppError } from '../domain/app-error.ts'

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

const methods: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']

/**
 * Answers the methods that a path does not have: OPTIONS with those it has, any other with 405. Called before the
 * routes are declared; what it gives back is called after.
 */
export function answerOtherMethods(app: FastifyInstance): () => void {
  const allowed = new Map<string, Set<string>>()
  app.addHook('onRoute', ({ url, method }) => {
    const known = allowed.get(url) ?? new Set()
    for (const name of [method].flat()) known.add(name)
    allowed.set(url, known)
  })
  return () => {
    // As they are declared, before what is declared here counts as theirs.
    const declared = [...allowed].map(([url, names]) => ({ url, names: [...names] }))
    for (const { url } of declared) {
      // A name that is a word of ours may be a caller's own, too: a message can have the eventId `batch`.
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
        // Before the body is read: whatever it is, it does not matter.
        onRequest: (_request, reply, done) => {
          reply.header('allow', allow)
          done(new AppError('method_not_allowed', `This path takes ${allow}.`))
        },
        handler: () => {},
      })
    }
  }
}

/** Whether what one path stands for includes another, whose words may stand for names there. */
function covers(pattern: string, url: string): boolean {
  const [theirs, ours] = [pattern.split('/'), url.split('/')]
  return theirs.length === ours.length && theirs.every((part, i) => part === ours[i] || part.startsWith(':'))
}
