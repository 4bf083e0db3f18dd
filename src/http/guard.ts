import type { FastifyInstance } from 'fastify'
import type { Store } from '../store/store.ts'
import { type Need, needOf } from './access.ts'
import { leaveTrail } from './audit-trail.ts'
import type { Authenticator } from './auth.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the caller must be permitted; set for every route from `access.ts`. */
    need?: Need
    /** Whether a body may be left out. */
    bodyOptional?: boolean
    /** Whether the answer holds a secret, so that nothing may keep it. */
    answersSecret?: boolean
  }
}

const prefix = '/api/v1'

/**
 * Puts every route of the scope behind a key. What each needs is looked up once, as it is declared (`access.ts`); what it
 * changes is written to the audit log.
 */
export function guard(scope: FastifyInstance, store: Store, authenticator: Authenticator): void {
  scope.decorateRequest('caller', null)
  scope.decorateRequest('trail', null)
  scope.addHook('onRoute', (route) => {
    const path = route.url.startsWith(prefix) ? route.url.slice(prefix.length) : route.url
    const need = route.config?.need ?? needOf([route.method].flat()[0] as string, path)
    route.config = { ...route.config, need }
    leaveTrail(route, path, need, store)
  })
  scope.addHook('onRequest', (request, _reply, done) => {
    const admitted = authenticator.admit(request, request.routeOptions.config.need as Need)
    if (admitted === undefined) done()
    // Fastify owns the promise: it awaits it, and answers its rejection.
    return admitted
  })
}
