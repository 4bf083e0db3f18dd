import { AppError } from '../domain/app-error.ts'
import { digest, keyLifeMs } from '../intake/publication.ts'
import type { Once } from '../store/publishing.ts'
import type { Incoming } from './route.ts'

const keyLimit = 255

/** The header of an answer that was given before: nothing was carried out for this request. */
export const replayed = { 'idempotent-replayed': 'true' } as const

/** Whether the request has an Idempotency-Key. */
export function hasKey({ headers }: Incoming): boolean {
  return headers['idempotency-key'] !== undefined
}

/**
 * The once-only key of a request with an Idempotency-Key: its own for each caller, route and thing that the path names.
 * `names` are the things by the one name that each has, because a path has several spellings. `content` is all that makes
 * the request what it is; the same key with another content is refused.
 */
export function onceOf(
  request: Incoming,
  names: Readonly<Record<string, string | number>>,
  content: Uint8Array | string,
): Once {
  const key = request.headers['idempotency-key']
  if (typeof key !== 'string' || key.length === 0 || key.length > keyLimit) {
    const field = {
      at: ['header', 'idempotency-key'],
      message: `must have 1 to ${keyLimit} characters`,
      type: 'length',
    }
    throw new AppError('validation', 'The Idempotency-Key is not valid.', [field])
  }
  const parts = ['request', request.caller?.id ?? '', request.routeOptions.url ?? '']
  for (const name of Object.keys(names)) parts.push(name, String(names[name]))
  parts.push(key)
  return { hash: digest(...parts), fingerprint: digest(content), ttlMs: keyLifeMs }
}

/** The query of a URL. */
export function queryOf(url: string): string {
  const start = url.indexOf('?')
  return start < 0 ? '' : url.slice(start + 1)
}
