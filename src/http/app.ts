import Fastify, { type FastifyInstance } from 'fastify'
import { AppError } from '../domain/app-error.ts'
import type { Clock } from '../domain/clock.ts'
import { setAnswerHeaders } from './answer-headers.ts'
import { Authenticator } from './auth.ts'
import { checkEncoding, readJson } from './body.ts'
import { answerClientError, answerOddRequests } from './client-error.ts'
import { rememberAddresses } from './connection.ts'
import type { HttpContext } from './context.ts'
import { allowOrigins } from './cors.ts'
import { answerError } from './errors.ts'
import { Explainer } from './explainer.ts'
import { guard } from './guard.ts'
import { answerOnce } from './idempotency.ts'
import { nouns } from './nouns.ts'
import { answerOtherMethods } from './other-methods.ts'
import { limitRates } from './rates.ts'
import { register } from './register.ts'
import { attemptRoutes } from './routes/attempt.ts'
import { deadRoutes } from './routes/dead.ts'
import { deadImportRoute } from './routes/dead-import.ts'
import { messageRoutes } from './routes/message.ts'
import { messageExpungeRoutes } from './routes/message-expunge.ts'
import { messageListRoutes } from './routes/message-list.ts'
import { portalRoute } from './routes/portal.ts'
import { batchRoute, precheckRoute, publishRoute, rawRoute } from './routes/publish.ts'
import { docsRoute, openApiRoute } from './routes/reference.ts'
import { scheduleRoutes, scheduleWriteRoutes, splitBody } from './routes/schedule.ts'
import { boundUnread } from './unread.ts'
import { boundUploads } from './uploads.ts'

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
    http: {
      headersTimeout: Math.min(10_000, context.requestTimeoutMs),
      connectionsCheckingInterval: 1000,
      requireHostHeader: false,
    },
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
    frameworkErrors: (error, request, reply) => answerError(error, request, reply as never, context),
  })
  app.setErrorHandler((error, request, reply) => answerError(error, request, reply, context))
  app.setNotFoundHandler(() => {
    throw new AppError('not_found', 'There is no such route.')
  })
  app.removeAllContentTypeParsers()
  rememberAddresses(app)
  setAnswerHeaders(app)
  answerOddRequests(app)
  allowOrigins(app)
  const answerOthers = answerOtherMethods(app)
  endConnectionsOnClose(app, context.clock)
  boundUnread(app, context.limits)

  const auth = new Authenticator(context)
  const parts = { ...context, auth, explainer: new Explainer(context.store, context.clock) }
  const routes = nouns.flatMap((noun) => noun.routes)

  app.decorateRequest('call', null)
  app.register(
    async (api) => {
      api.register(async (open) => {
        for (const route of routes.filter(({ need }) => need === 'open')) register(open, route, parts)
        openApiRoute(open)
      })
      api.register(async (closed) => {
        guard(closed, context.store, auth)
        limitRates(closed, context.clock, context.limits)
        boundUploads(closed, context.clock, context.bodyLimitBytes, context.limits)
        closed.register(async (publishing) => {
          acceptJson(publishing, (body) => body)
          publishRoute(publishing, context)
          batchRoute(publishing, context)
        })
        closed.register(async (scheduling) => {
          acceptJson(scheduling, (body) => splitBody(context.scanner, body))
          answerOnce(scheduling, context)
          scheduleWriteRoutes(scheduling, context)
        })
        closed.register(async (raw) => {
          acceptAnything(raw)
          rawRoute(raw, context)
        })
        closed.register(async (rest) => {
          acceptJson(rest, (body) => readJson(context.scanner, body))
          requireBody(rest)
          answerOnce(rest, context)
          precheckRoute(rest, context)
          for (const route of routes.filter(({ need }) => need !== 'open')) register(rest, route, parts)
          messageRoutes(rest, context)
          messageListRoutes(rest, context)
          messageExpungeRoutes(rest, context)
          scheduleRoutes(rest, context)
          attemptRoutes(rest, context)
          deadRoutes(rest, context)
          rest.register(async (lines) => {
            acceptLines(lines)
            deadImportRoute(lines, context)
          })
        })
      })
    },
    { prefix: '/api/v1' },
  )
  app.register(async (open) => {
    docsRoute(open)
    portalRoute(open)
  })
  app.register(async () => answerOthers())
  return app
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
    const { method, body, routeOptions } = request
    const takesBody = method === 'POST' || method === 'PUT' || method === 'PATCH'
    const missing = takesBody && body === undefined && routeOptions.config.bodyOptional !== true
    done(missing ? new AppError('invalid_json', 'The body is empty.') : undefined)
  })
}

/** Bodies are lines of JSON, which are taken apart by whoever knows what one means. */
function acceptLines(scope: FastifyInstance): void {
  const types = ['application/jsonl', 'application/x-ndjson', 'application/x-jsonlines']
  scope.addContentTypeParser(types, { parseAs: 'buffer' }, (request, body, done) => {
    try {
      checkEncoding(request.headers['content-type'], request.headers['content-encoding'])
      done(null, body)
    } catch (error) {
      done(error as Error)
    }
  })
}

/** Bodies are bytes of any type, or of none. */
function acceptAnything(scope: FastifyInstance): void {
  scope.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body, done) => {
    try {
      checkEncoding(undefined, request.headers['content-encoding'])
      done(null, body)
    } catch (error) {
      done(error as Error)
    }
  })
}
