import { Health } from '../../domain/health.ts'
import type { LaneState } from '../../store/lanes.ts'

/**
 * Whose delay it is that deliveries wait: the receiver's, which is slow, fails or asks for silence; a limit's that an operator
 * set; or ours, for want of a worker, a slot or the store.
 */
export const delays = ['ours', 'receiver', 'limit'] as const
export type Delay = (typeof delays)[number]

/** A lane that is due and has no owner for this long waits for a worker. */
const unclaimedMs = 10_000

/** Whose delay it is that deliveries of a lane are late, by its stored state; `waitsForSlot` is its owner's word. */
export function delayOf(lane: LaneState, waitsForSlot: boolean): Delay {
  const { now, owner, dueAt, holdUntil, notBefore, workersServing, health, healthAgeMs } = lane
  if (workersServing === 0 || waitsForSlot) return 'ours'
  const { circuit, pace } = new Health(health, healthAgeMs, now)
  if (holdUntil > now || circuit !== 'closed' || pace !== undefined) return 'receiver'
  if (owner !== null) return notBefore > now ? 'limit' : 'receiver'
  if (dueAt !== null && dueAt <= now - unclaimedMs) return 'ours'
  return 'limit'
}
