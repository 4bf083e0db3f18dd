import type { EpochMs } from '../../domain/clock.ts'
import { Health } from '../../domain/health.ts'

/**
 * Whose delay it is that deliveries wait: the receiver's, which is slow, fails or asks for silence; a limit's that an operator
 * set; or ours, for want of a worker, a slot or the store.
 */
export const delays = ['ours', 'receiver', 'limit'] as const
export type Delay = (typeof delays)[number]

/** A lane that is due and has no owner for this long waits for a worker. */
const unclaimedMs = 10_000

/** The stored facts of a lane that decide. */
interface DelayedLane {
  readonly now: EpochMs
  readonly owner: number | null
  readonly dueAt: EpochMs | null
  readonly holdUntil: EpochMs
  readonly notBefore: EpochMs
  readonly workersServing: number
  readonly health: string | null
  readonly healthAgeMs: number
}

/** Whose delay it is that deliveries of a lane are late, by its stored state; `waitsForSlot` is its owner's word. */
export function delayOf(lane: DelayedLane, waitsForSlot: boolean): Delay {
  const { now, owner, dueAt, holdUntil, notBefore, workersServing, health, healthAgeMs } = lane
  if (workersServing === 0 || waitsForSlot) return 'ours'
  const { circuit, pace } = new Health(health, healthAgeMs, now)
  if (holdUntil > now || circuit !== 'closed' || pace !== undefined) return 'receiver'
  if (owner !== null) return notBefore > now ? 'limit' : 'receiver'
  if (dueAt !== null && dueAt <= now - unclaimedMs) return 'ours'
  return 'limit'
}
