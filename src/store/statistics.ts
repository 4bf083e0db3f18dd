import type { EpochMs } from '../domain/clock.ts'

/** Numbers for people. Each call looks at a bounded number of rows, so that no question holds up the rest. */
export interface Statistics {
  /**
   * Counts attempts at an endpoint made after `after` and not after `until`, from the earliest on, until it has seen
   * enough of them; `reached` is the instant up to which it counted.
   */
  countAttempts(endpoint: number, after: EpochMs, until: EpochMs): Promise<AttemptCount>
  /** Deliveries waiting at an endpoint, counted up to the limit. */
  countWaiting(endpoint: number, limit: number): Promise<number>
}

export interface AttemptCount {
  readonly delivered: number
  readonly failed: number
  readonly reached: EpochMs
}

/** About how many attempts one call counts. */
export const attemptsPerCount = 5000
