import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { apiRoot } from '../domain/api.ts'
import type { Caller, Need } from '../operations/access.ts'
import { auditOf, isWrittenLate } from '../operations/audit-trail.ts'
import type { Authenticator } from '../operations/auth.ts'
import type { Trail } from '../store/auditing.ts'
import type { Store } from '../store/store.ts'
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
