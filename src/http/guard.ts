import type { FastifyInstance } from 'fastify'
import type { Store } from '../store/store.ts'
import type { Need } from './access.ts'
import { leaveTrail } from './audit-trail.ts'
import type { Authenticator } from './auth.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the caller must be permitted. */
    need?: Need
    /** Whether the answer holds a secret, which no Idempotency-Key may keep. */
    answersSecret?: boolean
  }
}

const prefix = '/api/v1'

/**
 * Puts every route of the scope behind a key. A route without a need cannot be declared. Changes are written to the audit
 * log.
 */
export function guard(scope: FastifyInstance, store: Store, authenticator: Authenticator): void {
  scope.decorateRequest('caller', null)
  scope.decorateRequest('trail', null)
  scope.addHook('onRoute', (route) => {
    const path = route.url.startsWith(prefix) ? route.url.slice(prefix.length) : route.url
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
