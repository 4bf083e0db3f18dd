import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { apiRoot } from '../domain/api.ts'
import { AppError } from '../domain/app-error.ts'
import type { Clock } from '../domain/clock.ts'
import { auditOf, isWrittenLate } from '../features/audit/service.ts'
import type { Trail } from '../features/audit/store.ts'
import type { Caller, Need } from '../operations/access.ts'
import type { Authenticator } from '../operations/auth.ts'
import { KeyedRate } from '../operations/caller-limits.ts'
import type { Store } from '../store/store.ts'
import type { HttpLimits } from './app.ts'
import { HungUp, hasHungUp } from './connection.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The owner of the key; null before the key is checked, and on routes that ask for none. */
    caller: Caller | null
    /** The audit row of the request; null for a request that is not audited. */
    trail: Trail | null
  }

  interface FastifyContextConfig {
    /** The permission that the caller must have. */
    need?: Need
  }
}

/**
 * Puts every route of the scope behind a key. A route without a need cannot be declared. Changes are written to the audit
 * log.
 */
export function guard(scope: FastifyInstance, store: Store, authenticator: Authenticator): void {
  scope.decorateRequest('caller', null)
  scope.decorateRequest('trail', null)
  scope.addHook('onRoute', (route) => {
    const path = route.url.startsWith(apiRoot) ? route.url.slice(apiRoot.length) : route.url
    const need = route.config?.need
    if (need === undefined) throw new Error(`${route.method} ${path} is not declared by route().`)
    leaveTrail(route, path, need, store)
  })
  scope.addHook('onRequest', (request, _reply, done) => {
    const admitted = authenticator.admit(request, request.routeOptions.config.need as Need)
    if (admitted === undefined) done()
    // Fastify owns the promise: it awaits it, and answers its rejection.
    return admitted
  })
}

/**
 * Writes one audit row for every changing call that succeeds: in the transaction of the change, or else before the
 * answer, which is then no success if the row cannot be written. It covers every route that is not a read, and the
 * routes that show a secret.
 */
function leaveTrail(route: RouteOptions, path: string, need: Need, store: Store): void {
  const entryOf = auditOf([route.method].flat().join(), path, need)
  if (entryOf === undefined) return
  const { handler } = route
  route.handler = async function (request: FastifyRequest, reply: FastifyReply) {
    const trail = { entry: entryOf(request, request.call ?? {}), written: false }
    // Nothing has begun yet. From here on the change and its row are made, even if the client hangs up.
    if (hasHungUp(request)) throw new HungUp()
    request.trail = trail
    return store.trailing(trail, () => handler.call(this, request, reply))
  }
  route.onSend = [
    ...[route.onSend ?? []].flat(),
    async ({ trail }, reply, payload) => {
      if (trail === null || trail.written) return payload
      // Work that still runs for this call must not write the row a second time.
      trail.written = true
      if (reply.statusCode < 300 && isWrittenLate(trail.entry)) await store.appendAudit(trail.entry)
      return payload
    },
  ]
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
