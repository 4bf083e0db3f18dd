import type { Need } from '../../operations/access.ts'
import type { FoundThings } from '../../operations/lookup.ts'
import type { Incoming } from '../../operations/route.ts'
import { toApplicationOut } from '../applications/schemas.ts'
import { shownTokenUrl } from '../credentials/rules.ts'
import { toStoredOut } from '../endpoints/schemas.ts'
import { nounNames } from '../nouns.ts'
import type { AuditEntry } from './rules.ts'

const longestJson = 16_384

const secretName = /secret|token(?!url$)|password|authorization|cookie|^key$|^apikey$|^privatekey$/i

/**
 * Whether a call that succeeded gets its row although no transaction of it has written one. A PATCH does not: it changed
 * nothing.
 */
export function isWrittenLate({ action }: AuditEntry): boolean {
  return !action.startsWith('PATCH ')
}

/** Makes the audit rows of an operation; undefined for an operation that is not audited. */
export function auditOf(
  method: string,
  path: string,
  need: Need,
): ((request: Incoming, found: FoundThings) => AuditEntry) | undefined {
  const reads = method.includes('GET') || method.includes('HEAD')
  if (need.audited === 'none' || (need.audited === 'changes' && reads)) return undefined
  const last = ['app', 'endpoint', ...nounNames].find((name) => path.endsWith(`/:${name}`))
  return (request, found) => {
    const isNew = last === undefined || found[last as keyof FoundThings] === undefined
    return {
      actor: request.caller?.id ?? '',
      ip: request.address ?? '',
      action: `${request.method} ${path}`,
      app: found.app?.id ?? null,
      target: request.url.split('?', 1)[0] as string,
      before: isNew ? null : beforeOf(found),
      after: request.body === undefined ? null : jsonOf(without(request.body, need.hidden)),
    }
  }
}

/** A body with the values of these fields hidden. */
function without(body: unknown, hidden: readonly string[] = []): unknown {
  if (hidden.length === 0 || typeof body !== 'object' || body === null) return body
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [name, hidden.includes(name) ? '***' : value]))
}

/** The thing at the end of the path as it is before the call; null for a new one. */
function beforeOf({ app, endpoint, ...found }: FoundThings): string | null {
  if (endpoint !== undefined) return jsonOf(toStoredOut(endpoint))
  const noun = nounNames.find((name) => found[name] !== undefined)
  if (noun !== undefined) return jsonOf(found[noun])
  return app === undefined ? null : jsonOf(toApplicationOut(app))
}

/** JSON without anything secret, or how long it would have been. */
function jsonOf(value: unknown): string {
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
      if (name === 'tokenUrl' && typeof inner === 'string') return [name, shownTokenUrl({ tokenUrl: inner })]
      if (name === 'bodyBase64' && typeof inner === 'string')
        return [name, { bytes: Buffer.byteLength(inner, 'base64') }]
      if (name === 'headers' && typeof inner === 'object' && inner !== null) {
        return [name, Object.fromEntries(Object.keys(inner).map((header) => [header, '***']))]
      }
      return [name, redacted(inner)]
    }),
  )
}
