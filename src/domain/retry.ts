import type { Random } from './clock.ts'

/** When a failed delivery is tried again. `waits` is either written out or grows exponentially up to a cap. */
export interface RetryPolicy {
  readonly waits:
    | { readonly kind: 'list'; readonly ms: readonly number[] }
    | {
        readonly kind: 'exponential'
        readonly baseMs: number
        readonly factor: number
        readonly capMs: number
        readonly maxAttempts: number
      }
  readonly jitter: Jitter
  /** Counted from the instant the delivery was first due. */
  readonly maxAgeMs: number
}

/** How much a wait may grow at random: `full` up to twice, `equal` up to one and a half times, `none` not at all. */
export type Jitter = 'full' | 'equal' | 'none'

const second = 1000
const minute = 60 * second
const hour = 60 * minute

/** The schedule the Standard Webhooks specification gives as its example: ten attempts over about three days. */
export const defaultRetryPolicy: RetryPolicy = {
  waits: {
    kind: 'list',
    ms: [5 * second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour],
  },
  jitter: 'equal',
  maxAgeMs: 5 * 24 * hour,
}

/** The wait after the given number of attempts, before jitter; undefined when no attempt is left. */
export function waitAfter(policy: RetryPolicy, attempts: number): number | undefined {
  if (policy.waits.kind === 'list') return policy.waits.ms[attempts - 1]
  const { baseMs, factor, capMs, maxAttempts } = policy.waits
  if (attempts >= maxAttempts) return undefined
  return Math.min(capMs, Math.round(baseMs * factor ** (attempts - 1)))
}

/** How many attempts the policy allows in all. */
export function maxAttempts(policy: RetryPolicy): number {
  return policy.waits.kind === 'list' ? policy.waits.ms.length + 1 : policy.waits.maxAttempts
}

/** Lengthens a wait at random. It never shortens one, so neither the policy nor a Retry-After is undercut. */
export function jittered(waitMs: number, jitter: Jitter, random: Random): number {
  const share = jitter === 'full' ? 1 : jitter === 'equal' ? 0.5 : 0
  return Math.ceil(waitMs + waitMs * share * random())
}
