import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError } from '../domain/app-error.ts'
import type { Clock } from '../domain/clock.ts'
import type { Caller, Need } from '../operations/access.ts'
import { KeyedRate } from '../operations/keyed-rate.ts'
import type { HttpLimits } from './context.ts'

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
