import Fastify, { type FastifyInstance } from 'fastify'
import type { Clock } from '../domain/clock.ts'
import { routes } from '../features/routes.ts'
import { read } from '../operations/access.ts'
import { type Limits, type ServiceDeps, type Services, servicesOf } from '../operations/services.ts'
import {
  allowOrigins,
  answerError,
  answerOddRequests,
  answerOtherMethods,
  clientErrorAnswers,
  setAnswerHeaders,
} from './answers.ts'
import { rememberAddresses } from './connection.ts'
import { ConnectionLimit } from './connection-limit.ts'
import { guard, limitRates } from './guard.ts'
import type { MetricsPage } from './metrics.ts'
import { type PageOptions, pageAnswers } from './pages.ts'
import { Pipelining } from './pipelining.ts'
import { acceptBodies, register } from './register.ts'
import { boundUnread, boundUploads } from './transfers.ts'

/** The parts of the program that the server works with. */
export interface HttpDeps extends ServiceDeps, PageOptions {
  /** How long a client may take to send a request. */
  readonly requestTimeoutMs: number
  readonly limits: HttpLimits
  /** Networks of proxies whose `X-Forwarded-For` names the client. */
  readonly trustedProxies: readonly string[]
  /** Missing where no metrics are offered. */
  readonly metrics?: MetricsPage
  /**
   * Logs a client that hung up before its request was carried out. It gets the route, such as `/in/:token`, and not the path:
   * in the path of a source stands its secret.
   */
  readonly onHangUp: (request: { readonly method: string; readonly route: string | null }) => void
  /** Logs that a connection came when all places were taken. */
  readonly onFull?: () => void
}

/** How much of the server one client may take; the names are those of the settings, which refusals mention. */
export interface HttpLimits extends Limits {
  /** Connections of all clients. */
  readonly maxConnections: number
  /** How long a client may leave an answer unread. */
  readonly writeTimeout: number
  /** Bytes of answers that one client, and all together, may leave unread. */
  readonly maxUnreadPerClient: number
  readonly maxUnread: number
  /** Bytes of request bodies that may be arriving from one client, and from all. */
  readonly maxUploadPerClient: number
  readonly maxUpload: number
  /** Bytes a second at which a request body must arrive. */
  readonly uploadPace: number
  /** Requests a second: of a key, of a portal token, of all callers of one application, and publishes of a key. */
  readonly apiRate: number
  readonly portalRate: number
  readonly apiRatePerApp: number
  readonly publishRate: number
  /** Audited changes a minute of all callers of one application. */
  readonly changesPerMinute: number
}

const sweepMs = 20

/**
 * Builds the API. A request goes: route → key (`onRequest`) → bytes of its body → the pipeline of its route
 * (`operations/pipeline.ts`) → answer; any error on the way goes through `answerError`.
 */
export function buildApp(deps: HttpDeps, services: Services = servicesOf(deps)): FastifyInstance {
  const app = Fastify({
    logger: false,
    bodyLimit: deps.bodyLimitBytes,
    requestTimeout: deps.requestTimeoutMs,
    // Slower than any client that means well; checked every second, because Node looks only that often.
    http: {
      headersTimeout: Math.min(10_000, deps.requestTimeoutMs),
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
    clientErrorHandler: clientErrorAnswers(deps.clock, () => pipelining),
    frameworkErrors: (error, request, reply) => answerError(error, request, reply as never, deps),
  })
  const limit = new ConnectionLimit(app.server, deps.limits.maxConnections, deps.clock, deps.onFull)
  const pipelining = new Pipelining(app.server, deps.clock, limit)
  app.setErrorHandler((error, request, reply) => answerError(error, request, reply, deps))
  const pages = pageAnswers(deps)
  app.setNotFoundHandler((request, reply) => pages.answer(request, reply))
  app.removeAllContentTypeParsers()
  rememberAddresses(app, deps.trustedProxies)
  setAnswerHeaders(app)
  answerOddRequests(app)
  allowOrigins(app)
  answerOtherMethods(app)
  endConnectionsOnClose(app, deps.clock)
  app.addHook('preClose', async () => {
    services.live.close()
    await services.arrivals.close()
  })
  boundUnread(app, deps.clock, deps.limits)

  app.register(async (open) => {
    // Bodies from senders without a key: those of sources.
    boundUploads(open, deps.clock, deps.bodyLimitBytes, deps.limits, 'answered')
    acceptBodies(open)
    for (const route of routes) if (route.need === 'open') register(open, route, services)
  })
  app.register(async (closed) => {
    guard(closed, services.auth)
    limitRates(closed, deps.clock, deps.limits)
    boundUploads(closed, deps.clock, deps.bodyLimitBytes, deps.limits, 'read')
    acceptBodies(closed)
    for (const route of routes) if (route.need !== 'open') register(closed, route, services)
  })
  offerMetrics(app, deps, services)
  app.register(async (open) => pages.declare(open))
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

/** Answers `/metrics` of the API, to keys for the whole server with the scope `read`, or to everyone if that is set. */
function offerMetrics(app: FastifyInstance, deps: HttpDeps, { auth }: Services): void {
  const { metrics } = deps
  if (metrics === undefined) return
  app.register(async (scope) => {
    if (!metrics.isPublic) {
      guard(scope, auth)
      limitRates(scope, deps.clock, deps.limits)
    }
    scope.get('/metrics', { config: metrics.isPublic ? {} : { need: read } }, async (request, reply) => {
      const { type, text } = await metrics.write(request.headers.accept)
      return reply.type(type).send(text)
    })
  })
}
