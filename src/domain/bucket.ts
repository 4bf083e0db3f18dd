import type { SteadyMs } from './clock.ts'

/** How fast an endpoint may be called: `rate` tokens each `periodMs`, of which up to `burst` may be saved up. */
export interface RateLimit {
  readonly rate: number
  readonly periodMs: number
  readonly burst: number
}

/** The debt of an empty bucket: what a new owner assumes when the last one died without saying. */
export const emptyBucketDebt = Number.POSITIVE_INFINITY

/**
 * A token bucket kept as one instant (GCRA): `fullAt` is when the bucket will be full again if nothing more is sent.
 *
 * Two things make the limit hold where it is felt, at the receiver. A token is reserved when a delivery is planned and
 * spent when its request really leaves: a burst that waits 30 ms for its connections must not be followed at once by
 * the tokens that accrued meanwhile. And a sliver of the limit is kept back, because a network bunches what was sent
 * evenly: 20 ms of the rate from the burst, half a per cent from the rate.
 */
export class Bucket {
  #fullAt: SteadyMs
  #reserved = 0
  #intervalMs = 0
  #depthMs = 0

  /** `debtMs` is how far from full the bucket starts. */
  constructor(limit: RateLimit, now: SteadyMs, debtMs: number) {
    this.#fullAt = now + debtMs
    this.reshape(limit, now)
  }

  /** Goes on with another limit. What was saved up beyond the new burst is gone; no token is made. */
  reshape(limit: RateLimit, now: SteadyMs): void {
    const interval = limit.periodMs / limit.rate
    const keptBack = Math.min(limit.burst - 1, Math.ceil(20 / interval))
    this.#intervalMs = interval * 1.005
    this.#depthMs = (limit.burst - keptBack) * this.#intervalMs
    this.#fullAt = Math.min(this.#fullAt, now + this.#depthMs)
  }

  /** When a token can be had, if nothing else takes it: `now` or later. */
  readyAt(now: SteadyMs): SteadyMs {
    const level = Math.max(this.#fullAt, now) + (this.#reserved + 1) * this.#intervalMs
    // The epsilon forgives what adding and subtracting the same interval leaves behind.
    return Math.max(now, level - this.#depthMs - 1e-6)
  }

  /** Sets a token aside for a request about to leave. */
  reserve(): void {
    this.#reserved++
  }

  /** The request left: its token is spent as of now. */
  spend(now: SteadyMs): void {
    this.#reserved--
    this.#fullAt = Math.max(this.#fullAt, now) + this.#intervalMs
  }

  /** The request never left: its token goes back. */
  restore(): void {
    this.#reserved--
  }

  /** How far from full the bucket is, counting what is reserved as spent. */
  debtMs(now: SteadyMs): number {
    return Math.max(0, this.#fullAt - now) + this.#reserved * this.#intervalMs
  }
}
