import type { EpochMs } from './clock.ts'
import { type FlowRates, still } from './queue-flow.ts'

/**
 * How many deliveries wait, as of an instant: of an endpoint, an application or the server. It is the one type of all figures
 * of queues, and the ledger is the one source of them.
 */
export interface QueueFigures extends FlowRates {
  /** Deliveries that wait or are under way: each stays in its queue until its end is recorded. */
  readonly waiting: number
  readonly byClass: readonly [fresh: number, timed: number, replay: number]
  /** Since when the delivery has been waiting that has waited the longest; null without one. */
  readonly oldestSince: EpochMs | null
  /** Whether every delivery was counted, and all that came and went since. Otherwise the figure is about right. */
  readonly isExact: boolean
  /** The instant of the figures. */
  readonly asOf: EpochMs
}

/** The figures of several queues together. */
export interface QueueTotals extends QueueFigures {
  /** Endpoints with waiting deliveries. */
  readonly endpoints: number
}

/** An empty queue. */
export function emptyQueue(asOf: EpochMs, isExact: boolean): QueueFigures {
  return { waiting: 0, byClass: [0, 0, 0], oldestSince: null, isExact, asOf, ...still }
}

/** The place of a delivery in its queue. */
export interface Position {
  /** Deliveries that are served before it. */
  readonly ahead: number
  readonly isExact: boolean
}
