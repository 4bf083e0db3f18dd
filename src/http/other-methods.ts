import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
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
    byUrl.set(url, { parts: partsOf(url), methods })
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
  const path = url === '*' ? [] : partsOf(url.split('?', 1)[0] as string).map(decoded)
  const known = new Set<string>()
  for (const { parts, methods } of declared) {
    if (parts.length !== path.length) continue
    if (parts.every((part, i) => part === path[i] || part.startsWith(':'))) for (const name of methods) known.add(name)
  }
  return known
}

/** The words of a path. The router takes two slashes for one, and ignores one at the end. */
function partsOf(path: string): string[] {
  return path.split('/').filter((part) => part !== '')
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
