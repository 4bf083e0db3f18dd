import type { EpochMs } from './clock.ts'
import type { Secret } from './endpoint.ts'

/** Each one that still signs makes every delivery a little longer. */
export const olderSecretsLimit = 10

/**
 * An endpoint's secrets after a change of its secret: the new one first, those it replaces until the grace has passed (or
 * until they would have expired anyway), and nothing that has expired. Undefined when too many would go on signing.
 */
export function rotated(secrets: readonly Secret[], next: string, now: EpochMs, graceMs: number): Secret[] | undefined {
  const older = secrets
    .filter(({ secret }) => secret !== next)
    .map(({ secret, expiresAt }) => ({ secret, expiresAt: Math.min(expiresAt ?? Infinity, now + graceMs) }))
    .filter(({ expiresAt }) => expiresAt > now)
  if (older.length > olderSecretsLimit) return undefined
  return [{ secret: next, expiresAt: null }, ...older]
}
