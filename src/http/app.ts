import Fastify, { type FastifyInstance } from 'fastify'
import { AppError } from '../domain/app-error.ts'
import type { Clock } from '../domain/clock.ts'
import { Authenticator } from './auth.ts'
import { checkEncoding, readJson } from './body.ts'
import { answerClientError } from './client-error.ts'
import type { HttpContext } from './context.ts'
import { allowOrigins } from './cors.ts'
import { answerError } from './errors.ts'
import { answerOtherMethods } from './other-methods.ts'
import { applicationRoutes } from './routes/application.ts'
import { attemptRoutes } from './routes/attempt.ts'
import { endpointRoutes } from './routes/endpoint.ts'
import { healthRoutes } from './routes/health.ts'
import { messageRoutes, publishRoute } from './routes/message.ts'
import { docsRoute, openApiRoute } from './routes/reference.ts'

const sweepMs = 20

/**
 * Builds the API. A request goes: route → key (`onRequest`) → bytes → checked JSON, or for a publish the bytes
 * themselves → handler → answer; any error on the way goes through `answerError`.
 */
export function buildApp(context: HttpContext): FastifyInstance {
  const app = Fastify({
    logger: false,
    bodyLimit: context.bodyLimitBytes,
    requestTimeout: context.requestTimeoutMs,
    // Slower than any client that means well; checked every second, because Node looks only that often.
    http: { headersTimeout: Math.min(10_000, context.requestTimeoutMs), connectionsCheckingInterval: 1000 },
    keepAliveTimeout: 75_000,
    // While closing, what comes in on a connection that is still open is answered like anything before it.
    return503OnClosing: false,
    routerOptions: {
      ignoreTrailingSlash: true,
      // Svix's SDK 1.x asks for //api/v1 when its server URL ends with a slash.
      ignoreDuplicateSlashes: true,
      maxParamLength: 256,
    },
    clientErrorHandler: answerClientError,
    frameworkErrors: (error, request, reply) => answerError(error, request, reply as never, context.onBug),
  })
  app.setErrorHandler((error, request, reply) => answerError(error, request, reply, context.onBug))
  app.setNotFoundHandler(() => {
    throw new AppError('not_found', 'There is no such route.')
  })
  app.removeAllContentTypeParsers()
  allowOrigins(app)
  const answerOthers = answerOtherMethods(app)
  endConnectionsOnClose(app, context.clock)

  app.register(
    async (api) => {
      api.register(async (open) => {
        healthRoutes(open, context)
        openApiRoute(open)
      })
      api.register(async (closed) => {
        requireKey(closed, context)
        closed.register(async (publishing) => {
          acceptJson(publishing, (body) => body)
          publishRoute(publishing, context)
        })
        closed.register(async (rest) => {
          acceptJson(rest, (body) => readJson(context.scanner, body))
          requireBody(rest)
          applicationRoutes(rest, context)
          endpointRoutes(rest, context)
          messageRoutes(rest, context)
          attemptRoutes(rest, context)
        })
      })
    },
    { prefix: '/api/v1' },
  )
  app.register(async (open) => docsRoute(open))
  app.register(async () => answerOthers())
  return app
}

function requireKey(scope: FastifyInstance, { store, clock, apiKey }: HttpContext): void {
  const authenticator = new Authenticator(store, clock, apiKey)
  scope.addHook('onRequest', (request, _reply, done) => authenticator.admit(request.headers.authorization, done))
}

/**
 * Closing ends the connections that are idle at that moment. Those that are busy would stay open behind their answer
 * until they time out, 75 s later; so look again until all have gone.
 */
function endConnectionsOnClose(app: FastifyInstance, clock: Clock): void {
  app.addHook('preClose', (done) => {
    if (app.server.listening) {
      let cancel = () => {}
      const sweep = () => {
        app.server.closeIdleConnections()
        cancel = clock.after(sweepMs, sweep)
      }
      app.server.once('close', () => cancel())
      sweep()
    }
    done()
  })
}

/** Bodies are JSON in UTF-8 and nothing else. */
function acceptJson(scope: FastifyInstance, read: (body: Buffer) => unknown): void {
  scope.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    try {
      checkEncoding(request.headers['content-type'], request.headers['content-encoding'])
      done(null, read(body as Buffer))
    } catch (error) {
      done(error as Error)
    }
  })
}

/** Without a content type nothing is read; a route that takes a body would otherwise find none. */
function requireBody(scope: FastifyInstance): void {
  scope.addHook('preValidation', (request, _reply, done) => {
    const missing = request.body === undefined && (request.method === 'POST' || request.method === 'PATCH')
    done(missing ? new AppError('invalid_json', 'The body is empty.') : undefined)
  })
}
