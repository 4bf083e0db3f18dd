import type { Endpoint } from './endpoint.ts'
import type { Flow } from './flow.ts'
import { defaultRetryPolicy, type RetryPolicy } from './retry.ts'

/**
 * Why a delivery ends instead of being tried, if it does: its message has expired, or it has waited for too long since it
 * was first due. `expiresInMs` is null for a message that never expires.
 */
export function overdue(ageMs: number, expiresInMs: number | null, maxAgeMs: number): 'expired' | 'aged' | undefined {
  if (expiresInMs !== null && expiresInMs <= 0) return 'expired'
  return ageMs > maxAgeMs ? 'aged' : undefined
}

/** Up to `count` of the deliveries that have waited the longest, the oldest first. */
export function oldest<T extends { readonly ageMs: number }>(waiting: readonly T[], count: number): T[] {
  return waiting.toSorted((a, b) => b.ageMs - a.ageMs).slice(0, Math.max(0, count))
}

/** The endpoint's retry policy, with the endpoint's own limit for the age of a delivery. */
export function retryPolicyOf({ retry, flow }: Pick<Endpoint, 'retry' | 'flow'>): RetryPolicy {
  const policy = retry ?? defaultRetryPolicy
  return flow.maxAgeMs === null ? policy : { ...policy, maxAgeMs: flow.maxAgeMs }
}

/** How many deliveries may wait before the oldest give way; undefined for an endpoint whose oldest never do. */
export function trimmedTo({ flow }: Pick<Endpoint, 'flow'>, serverLimit: number): number | undefined {
  return flow.overflow === 'drop_oldest' ? (flow.maxWaiting ?? serverLimit) : undefined
}

/** How many deliveries may wait at an endpoint, null for the server's limit, and which give way beyond it. */
export type WaitingBound = Pick<Flow, 'maxWaiting' | 'overflow'>

/** Whether the endpoint has no bound of its own: the server's limit holds, and messages beyond it are refused. */
export function isUsualBound({ maxWaiting, overflow }: WaitingBound): boolean {
  return maxWaiting === null && overflow === 'refuse'
}
