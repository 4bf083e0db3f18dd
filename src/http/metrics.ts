import type { FastifyInstance } from 'fastify'
import type { Exposed } from '../metrics/exposition.ts'
import { read } from '../operations/access.ts'
import type { Authenticator } from '../operations/auth.ts'
import type { HttpContext } from './context.ts'
import { guard } from './guard.ts'
import { limitRates } from './rates.ts'

/** Metrics as the server offers them. */
export interface MetricsPage {
  /** Whether the API answers them without a key. */
  readonly isPublic: boolean
  /** The metrics in the form that an Accept header prefers. */
  write(accept: string | undefined): Promise<Exposed>
}

/** Answers `/metrics` of the API, to keys for the whole server with the scope `read`, or to everyone if that is set. */
export function metricsRoute(app: FastifyInstance, context: HttpContext, auth: Authenticator): void {
  const { metrics } = context
  if (metrics === undefined) return
  app.register(async (scope) => {
    if (!metrics.isPublic) {
      guard(scope, context.store, auth)
      limitRates(scope, context.clock, context.limits)
    }
    scope.get('/metrics', { config: metrics.isPublic ? {} : { need: read } }, async (request, reply) => {
      const { type, text } = await metrics.write(request.headers.accept)
      return reply.type(type).send(text)
    })
  })
}
