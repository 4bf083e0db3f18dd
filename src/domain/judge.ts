import type { Flow } from './flow.ts'
import type { Outcome } from './outcome.ts'
import { type Draw, drawnWait, type RetryPolicy } from './retry.ts'

/** The verdict on a delivery after one attempt. */
export type Verdict =
  | { readonly state: 'delivered' }
  | { readonly state: 'dead'; readonly reason: DeadReason }
  | { readonly state: 'waiting'; readonly waitMs: number }
  /** As waiting, but the delivery keeps its place in an ordered lane. */
  | { readonly state: 'delayed'; readonly waitMs: number }
  /** The delivery used up its attempts and blocks those behind it until an operator acts. */
  | { readonly state: 'blocked' }

/**
 * Why a delivery is dead. By its attempts: `exhausted`, none left; `aged`, no time left; `gone`, the receiver answered 410.
 * Without one: `expired`, its message's time was up; `overflow`, too many waited; `disabled`, published for an endpoint that
 * drops what comes while it is disabled; `skipped`, an operator took it out of the way; `unshapable`, the shape of
 * the endpoint cannot be applied to this payload; `unfiltered`, the endpoint's filter would have taken too long.
 */
export const deadReasons = [
  'exhausted',
  'aged',
  'gone',
  'expired',
  'overflow',
  'disabled',
  'skipped',
  'unshapable',
  'unfiltered',
] as const
export type DeadReason = (typeof deadReasons)[number]

/** The effect of an attempt on the whole endpoint, beside the one delivery. */
export interface LaneEffect {
  /** Nothing more is sent to the endpoint for this long. */
  readonly holdMs: number | undefined
  /** The receiver wants no more deliveries at all. */
  readonly disable: boolean
}

const noEffect: LaneEffect = { holdMs: undefined, disable: false }

/**
 * Decides the verdict on a delivery after one attempt. Pure: same inputs, same verdict.
 * `attempts` counts the one just made, `draw` makes the delivery's random numbers; `ageMs` is the time since the delivery was first due, `expiresInMs` the time until
 * it expires, and `leastWaitMs` the server's floor for every wait.
 */
export function judge(
  attempts: number,
  ageMs: number,
  outcome: Outcome,
  policy: RetryPolicy,
  draw: Draw,
  expiresInMs = Number.POSITIVE_INFINITY,
  leastWaitMs = 0,
): Verdict {
  if (outcome.code === 'delivered') return { state: 'delivered' }
  if (outcome.wish === 'gone') return { state: 'dead', reason: 'gone' }

  const drawnMs = drawnWait(policy, attempts, draw)
  if (drawnMs === undefined) return { state: 'dead', reason: 'exhausted' }

  const askedMs = outcome.retryAfterMs === undefined ? undefined : Math.ceil(outcome.retryAfterMs)
  // The wait for a token is no wish of the receiver, so the policy's wait holds beside it.
  const isExact = policy.retryAfter !== 'later' && outcome.code !== 'token_failed'
  const decidedMs = askedMs !== undefined && isExact ? askedMs : Math.max(drawnMs, askedMs ?? 0)
  // Jitter, a policy from before the server had this floor, and a Retry-After of 0 all obey it.
  const waitMs = Math.max(leastWaitMs, decidedMs)
  // A wait that ends past one of the limits would only postpone the same end.
  if (waitMs >= expiresInMs) return { state: 'dead', reason: 'expired' }
  if (ageMs + waitMs > policy.maxAgeMs) return { state: 'dead', reason: 'aged' }
  return { state: 'waiting', waitMs }
}

/**
 * The verdict on a delivery that keeps its place in an ordered lane: it waits there for its retry. Where a dead delivery
 * blocks, it also stays there when its attempts are used up or the receiver answered 410. Expiry ends every wait.
 */
export function inPlace(verdict: Verdict, deadHead: Flow['deadHead']): Verdict {
  if (verdict.state === 'waiting') return { state: 'delayed', waitMs: verdict.waitMs }
  if (verdict.state !== 'dead' || deadHead === 'skip') return verdict
  return verdict.reason === 'exhausted' || verdict.reason === 'gone' ? { state: 'blocked' } : verdict
}

/**
 * Decides the effect on the endpoint's lane. A Retry-After holds for the receiver, not for one message; so does a token
 * endpoint that gives no token.
 */
export function laneEffect(outcome: Outcome): LaneEffect {
  if (outcome.wish === 'gone') return { holdMs: undefined, disable: true }
  if (outcome.code === 'token_failed') return { holdMs: outcome.retryAfterMs, disable: false }
  if (outcome.wish === 'silence') return { holdMs: outcome.retryAfterMs, disable: false }
  return noEffect
}

/**
 * Why a delivery ends instead of being tried, if it does: its message has expired, or it has waited for too long since it
 * was first due. `expiresInMs` is null for a message that never expires.
 */
export function overdue(ageMs: number, expiresInMs: number | null, maxAgeMs: number): 'expired' | 'aged' | undefined {
  if (expiresInMs !== null && expiresInMs <= 0) return 'expired'
  return ageMs > maxAgeMs ? 'aged' : undefined
}
