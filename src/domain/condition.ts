import { growthOf } from './forecast.ts'
import type { FlowRates } from './queue-flow.ts'

/**
 * The state of an endpoint's queue in one word, the same on every surface:
 *   keeping_up     — deliveries go out as they come;
 *   catching_up    — a backlog shrinks, or stays as it is;
 *   falling_behind — a backlog grows;
 *   blocked        — nothing goes out, and that ends by itself;
 *   stopped        — nothing goes out until an operator acts.
 */
export const conditions = ['keeping_up', 'catching_up', 'falling_behind', 'blocked', 'stopped'] as const
export type Condition = (typeof conditions)[number]

/** The load of a queue, which has a memory: a word that flickers says nothing. */
export interface Load {
  /** Whether there is a backlog. */
  readonly isBehind: boolean
  readonly isGrowing: boolean
}

export const noLoad: Load = { isBehind: false, isGrowing: false }

/** A backlog begins when its deliveries take longer than this at the pace of the queue, and ends below the other time. */
const behindFromMs = 10_000
const behindUntilMs = 4000
/** So few deliveries are no backlog, however slow the queue is. */
const fewDeliveries = 2

/**
 * The load of a queue after a look at its figures. `underWay` of the waiting deliveries are being sent. A queue that grew is
 * said to grow until it shrinks.
 */
export function loadOf(before: Load, waiting: number, underWay: number, flow: FlowRates): Load {
  const backlog = Math.max(0, waiting - underWay)
  if (backlog < fewDeliveries) return noLoad
  const { recent, lasting } = flow.departures
  const pace = recent > 0 ? recent : lasting
  const drainMs = pace > 0 ? (backlog / pace) * 1000 : Number.POSITIVE_INFINITY
  const isBehind = drainMs > (before.isBehind ? behindUntilMs : behindFromMs)
  if (!isBehind) return noLoad
  const isGrowing = growthOf(flow) > 0 || (before.isGrowing && flow.arrivals.recent > flow.departures.recent)
  return { isBehind, isGrowing }
}

/** The obstacle that keeps the deliveries of a lane from going out: an operator ends it, or time does. */
export type Obstacle = 'operator' | 'time' | 'none'

export function conditionOf(obstacle: Obstacle, { isBehind, isGrowing }: Load, waiting: number): Condition {
  if (obstacle === 'operator') return 'stopped'
  if (obstacle === 'time' && waiting > 0) return 'blocked'
  if (!isBehind) return 'keeping_up'
  return isGrowing ? 'falling_behind' : 'catching_up'
}
