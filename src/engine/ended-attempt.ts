import type { SteadyMs } from '../domain/clock.ts'
import { replay } from '../domain/delivery.ts'
import { judge, type LaneEffect, laneEffect, type Verdict } from '../domain/judge.ts'
import type { Ended } from '../domain/lane.ts'
import { counts, type Outcome } from '../domain/outcome.ts'
import { drawsOf, oneAttempt } from '../domain/retry.ts'
import type { Delivery } from './delivery.ts'

/** An attempt that ended. One value goes from the pump to the lane, the verdict, the settle queue and those who watch. */
export interface EndedAttempt {
  readonly delivery: Delivery
  /** The outcome as it may be recorded. */
  readonly outcome: Outcome
  /** How the receiver's answer changes the lane. */
  readonly effect: LaneEffect
  readonly at: SteadyMs
}

/** An attempt with an id and the verdict on its delivery, to be recorded. */
export interface JudgedAttempt extends EndedAttempt {
  readonly id: string
  readonly verdict: Verdict
}

const nothing = { status: 0, wish: undefined, retryAfterMs: undefined, response: undefined, durationMs: 0 } as const
const cutOff = 'Sluice stopped before an answer came. The attempt does not count, and the delivery is sent again.'

/** The end of an attempt that may not leave, because the worker may have lost its lanes. */
export const aborted: Outcome = { ...nothing, code: 'aborted', error: 'the worker was no longer sure of its lease' }
/** The end of an attempt whose message was removed meanwhile. */
export const vanished: Outcome = { ...nothing, code: 'internal', error: 'the message no longer exists' }

export function endOf(delivery: Delivery, given: Outcome, isStopping: boolean, at: SteadyMs): EndedAttempt {
  const known = given.code === 'aborted' && isStopping ? { ...given, error: cutOff } : given
  const outcome = delivery.erased ? withoutAnswer(known, delivery.erased) : known
  return { delivery, outcome, effect: laneEffect(outcome), at }
}

/** An outcome without anything that the receiver wrote. */
function withoutAnswer(outcome: Outcome, why: 'erased' | 'perhaps erased'): Outcome {
  const was = why === 'erased' ? 'was erased' : 'may have been erased'
  const error = outcome.error === undefined ? undefined : `the message ${was} while it was being sent`
  return { ...outcome, error, response: undefined, responseHeaders: undefined }
}

/** The attempt as the scheduler learns from it; undefined when none was made, or when the worker gave it up. */
export function asLearnt({ delivery, outcome, at }: EndedAttempt): Ended | undefined {
  if (outcome === vanished || outcome.code === 'aborted' || outcome.code === 'internal') return undefined
  const result = outcome.code === 'delivered' ? 'delivered' : outcome.code === 'blocked' ? 'nothing' : 'failed'
  return { slotMs: at - delivery.startedAt, result }
}

/** The verdict on the delivery. In an ordered lane, a delivery that is tried again keeps its place. */
export function verdictOn({ delivery, outcome, at }: EndedAttempt, leastRetryWaitMs: number): Verdict {
  if (outcome === vanished) return { state: 'dead', reason: 'exhausted' }
  const { owned, row, bornAt, expiresAt } = delivery
  if (!counts(outcome.code)) return delivery.inPlace({ state: 'waiting', waitMs: leastRetryWaitMs })
  const [ageMs, expiresInMs] = [at - bornAt, expiresAt - at]
  const draw = drawsOf(row.message, owned.endpoint.key)
  const policy = row.class === replay && !owned.endpoint.flow.retryReplays ? oneAttempt : owned.policy
  return delivery.inPlace(judge(row.attempts + 1, ageMs, outcome, policy, draw, expiresInMs, leastRetryWaitMs))
}
