import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import type { AuditEntry } from '../domain/audit.ts'
import type { Trail } from '../store/access.ts'
import type { Store } from '../store/store.ts'
import type { Need } from './access.ts'
import { toApplicationOut } from './api/application-schema.ts'
import { toEndpointOut } from './api/endpoint-schema.ts'
import { HungUp, hasHungUp } from './connection.ts'
import type { FoundThings } from './lookup.ts'
import type { Incoming } from './route.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What the request is written down as, if it changes anything; null when it is not. */
    trail: Trail | null
  }
}

const longestJson = 16_384
const secretName = /secret|token|password|authorization|cookie|^key$|^apikey$/i

/**
 * Writes one row of the audit log for every changing call that succeeds: in the transaction that changes something, or
 * else before the call is answered, which is then not answered as a success if the row cannot be written. It hangs on
 * every route that is not a read, so none can forget it, and on those that show a secret.
 */
export function leaveTrail(route: RouteOptions, path: string, need: Need, store: Store): void {
  const entryOf = auditOf([route.method].flat().join(), path, need)
  if (entryOf === undefined) return
  const { handler } = route
  route.handler = async function (request: FastifyRequest, reply: FastifyReply) {
    const trail = { entry: entryOf(request, request.call ?? {}), written: false }
    // The last moment at which nothing has begun. From here on the change and its row are made, whoever listens.
    if (hasHungUp(request)) throw new HungUp()
    request.trail = trail
    return store.trailing(trail, () => handler.call(this, request, reply))
  }
  route.onSend = [
    ...[route.onSend ?? []].flat(),
    async ({ trail }, reply, payload) => {
      if (trail === null || trail.written) return payload
      // From here on nothing that is still running takes the row along.
      trail.written = true
      if (reply.statusCode < 300) await store.appendAudit(trail.entry)
      return payload
    },
  ]
}

/** Carries out a call that came without Fastify, and writes its row in the same transaction or behind it. */
export async function audited<T>(store: Store, entry: AuditEntry, carryOut: () => Promise<T>): Promise<T> {
  const trail = { entry, written: false }
  const answer = await store.trailing(trail, carryOut)
  if (!trail.written) {
    trail.written = true
    await store.appendAudit(entry)
  }
  return answer
}

/** Makes the rows of an operation; undefined for one that the audit log takes no note of. */
export function auditOf(
  method: string,
  path: string,
  need: Need,
): ((request: Incoming, found: FoundThings) => AuditEntry) | undefined {
  const reads = method.includes('GET') || method.includes('HEAD')
  if (need.audited === 'none' || (need.audited === 'changes' && reads)) return undefined
  const last = ['app', 'endpoint', 'schedule'].find((name) => path.endsWith(`/:${name}`))
  return (request, found) => {
    const isNew = last === undefined || found[last as keyof FoundThings] === undefined
    return {
      actor: request.caller?.id ?? '',
      ip: request.address ?? '',
      action: `${method} ${path}`,
      app: found.app?.id ?? null,
      target: request.url.split('?', 1)[0] as string,
      before: isNew ? null : beforeOf(found),
      after: request.body === undefined ? null : jsonOf(request.body),
    }
  }
}

/** The thing at the end of the path as it is before the call; null for a new one. */
function beforeOf({ app, endpoint, schedule }: FoundThings): string | null {
  if (app === undefined) return null
  if (schedule !== undefined) return jsonOf(schedule)
  return jsonOf(endpoint === undefined ? toApplicationOut(app) : toEndpointOut(endpoint))
}

/** JSON without anything secret, or how long it would have been. */
export function jsonOf(value: unknown): string {
  const text = JSON.stringify(redacted(value)) ?? 'null'
  return text.length <= longestJson ? text : JSON.stringify({ tooLong: text.length })
}

function redacted(value: unknown): unknown {
  if (value instanceof Uint8Array) return { bytes: value.byteLength }
  if (Array.isArray(value)) return value.map(redacted)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      if (secretName.test(name) && inner !== null) return [name, '***']
      if (name === 'headers' && typeof inner === 'object' && inner !== null) {
        return [name, Object.fromEntries(Object.keys(inner).map((header) => [header, '***']))]
      }
      return [name, redacted(inner)]
    }),
  )
}
