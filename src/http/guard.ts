import type { FastifyInstance, FastifyRequest } from 'fastify'
import { apiRoot } from '../domain/api.ts'
import { AppError } from '../domain/app-error.ts'
import type { Clock } from '../domain/clock.ts'
import type { Caller, Need } from '../operations/access.ts'
import type { Authenticator } from '../operations/auth.ts'
import { KeyedRate } from '../operations/caller-limits.ts'
import type { HttpLimits } from './app.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The owner of the key; null before the key is checked, and on routes that ask for none. */
    caller: Caller | null
  }

  interface FastifyContextConfig {
    /** The permission that the caller must have. */
    need?: Need
  }
}

/** Puts every route of the scope behind a key. A route without a need cannot be declared. */
export function guard(scope: FastifyInstance, authenticator: Authenticator): void {
  scope.decorateRequest('caller', null)
  scope.addHook('onRoute', (route) => {
    const path = route.url.startsWith(apiRoot) ? route.url.slice(apiRoot.length) : route.url
    const need = route.config?.need
    if (need === undefined) throw new Error(`${route.method} ${path} is not declared by route().`)
  })
  scope.addHook('onRequest', (request, _reply, done) => {
    const admitted = authenticator.admit(request, request.routeOptions.config.need as Need)
    if (admitted === undefined) done()
    // Fastify owns the promise: it awaits it, and answers its rejection.
    return admitted
  })
}

/** How many seconds' worth of requests may come at once. */
const burstSeconds = 10

type RateName = 'apiRate' | 'apiRatePerApp' | 'portalRate' | 'publishRate' | 'changesPerMinute'

/**
 * Limits how often callers ask. Publishing has a limit of its own, which is off unless set. A caller of one application
 * shares two more limits with all others of that application: requests, and changes that are written to the audit log.
 */
export function limitRates(scope: FastifyInstance, clock: Clock, limits: Pick<HttpLimits, RateName>): void {
  const perSecond = (rate: number) =>
    rate === 0 ? undefined : new KeyedRate(Math.max(1, rate * burstSeconds), 1000 / rate)
  const rates: Readonly<Record<RateName, KeyedRate | undefined>> = {
    apiRate: perSecond(limits.apiRate),
    apiRatePerApp: perSecond(limits.apiRatePerApp),
    portalRate: perSecond(limits.portalRate),
    publishRate: perSecond(limits.publishRate),
    changesPerMinute:
      limits.changesPerMinute === 0
        ? undefined
        : new KeyedRate(limits.changesPerMinute, 60_000 / limits.changesPerMinute),
  }

  scope.addHook('onRequest', (request, _reply, done) => {
    const { caller, routeOptions } = request
    const need = routeOptions.config.need
    if (caller == null || need === undefined) return done()
    for (const [name, key] of claims(request, caller, need)) {
      const waitMs = rates[name]?.take(key, clock.steady()) ?? 0
      if (waitMs > 0) {
        const message = `Too many requests: the limit ${name} is ${limits[name]}.`
        return done(new AppError('rate_limited', message, [], { retryAfterMs: waitMs }))
      }
    }
    done()
  })
}

/** The limits that a request counts for, each with the key that it counts under. */
function* claims(
  { method }: FastifyRequest,
  { id, app, capabilities }: Caller,
  need: Need,
): Generator<readonly [RateName, string]> {
  if (need.scope === 'publish') {
    yield ['publishRate', id]
    return
  }
  yield [capabilities === undefined ? 'apiRate' : 'portalRate', id]
  if (app === null) return
  yield ['apiRatePerApp', app.id]
  const reads = method === 'GET' || method === 'HEAD'
  if (need.audited === 'all' || (need.audited === 'changes' && !reads)) yield ['changesPerMinute', app.id]
}
