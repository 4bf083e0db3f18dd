import type { SteadyMs } from './clock.ts'

/** A success gives back this many failures, so that a receiver that is well again is soon at its full rate. */
const restoredBySuccess = 2

/**
 * How often an endpoint may fail: `perMinute` in a minute saved up, and then one each minute's share. A success gives
 * failures back, so that a busy endpoint with a few errors is never slowed down. It holds whatever the endpoint's own
 * retry policy, circuit and rate are, for retries and replays alike: no tenant makes Sluice hammer a stranger's server.
 */
export class FailureBudget {
  readonly #intervalMs: number
  readonly #depthMs = 60_000
  #fullAt: SteadyMs = Number.NEGATIVE_INFINITY

  constructor(perMinute: number) {
    this.#intervalMs = 60_000 / perMinute
  }

  failed(now: SteadyMs): void {
    this.#fullAt = Math.max(this.#fullAt, now) + this.#intervalMs
  }

  succeeded(): void {
    this.#fullAt -= restoredBySuccess * this.#intervalMs
  }

  /**
   * When the next attempt may begin beside those under way: `now` or later. Once half is used up, each of those counts as a
   * failure, so that they do not fail together beyond the limit.
   */
  readyAt(now: SteadyMs, inFlight: number): SteadyMs {
    const usedMs = this.#fullAt - now
    if (usedMs < this.#depthMs / 2) return now
    return Math.max(now, now + usedMs + (inFlight + 1) * this.#intervalMs - this.#depthMs)
  }
}
