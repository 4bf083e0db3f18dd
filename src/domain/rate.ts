import type { SteadyMs } from './clock.ts'
import { invariant } from './invariant.ts'

/** How fast an endpoint may be called: `rate` tokens each `periodMs`, of which up to `burst` may be saved up. */
export interface RateLimit {
  readonly rate: number
  readonly periodMs: number
  readonly burst: number
}

/** The debt of an empty bucket, which a new owner assumes when the last one died without releasing the lane. */
export const emptyBucketDebt = Number.POSITIVE_INFINITY

/** The last tokens of a burst are given out this much later than the burst allows. */
const keptBackMs = 20

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
  #limit: RateLimit

  /** `debtMs` is how far from full the bucket starts. */
  constructor(limit: RateLimit, now: SteadyMs, debtMs: number) {
    this.#limit = limit
    this.#shape(limit)
    this.#fullAt = now + Math.min(debtMs, this.#depthMs)
  }

  get limit(): RateLimit {
    return this.#limit
  }

  /** Continues with another limit. Tokens saved up beyond the new burst are gone; no token is made. */
  reshape(limit: RateLimit, now: SteadyMs): void {
    // Carried over as tokens: the same milliseconds of debt are 100 tokens at 100/s and less than one at 1/min.
    const saved = (this.#depthMs - Math.max(0, this.#fullAt - now)) / this.#intervalMs
    this.#shape(limit)
    this.#fullAt = now + Math.max(0, this.#depthMs - saved * this.#intervalMs)
  }

  /** When the next token is free: `now` or later. */
  readyAt(now: SteadyMs): SteadyMs {
    const waitMs = Math.max(0, this.#fullAt - now) + (this.#reserved + 1) * this.#intervalMs - this.#depthMs
    // Rounding is forgiven, so that a lane that waited until then does not wait again: after a year of uptime the steady
    // clock's numbers are 0.000004 ms apart.
    return waitMs > Math.min(0.001, this.#intervalMs / 1000) ? now + waitMs : now
  }

  /** Sets a token aside for a request about to leave. */
  reserve(): void {
    this.#reserved++
  }

  /** The request left: its token is spent as of now. */
  spend(now: SteadyMs): void {
    invariant(this.#reserved > 0, 'a token is reserved before it is spent')
    this.#reserved--
    this.#fullAt = Math.max(this.#fullAt, now) + this.#intervalMs
  }

  /** The request never left: its token goes back. */
  restore(): void {
    invariant(this.#reserved > 0, 'a token is reserved before it goes back')
    this.#reserved--
  }

  /** How far from full the bucket is, counting reserved tokens as spent. */
  debtMs(now: SteadyMs): number {
    return Math.max(0, this.#fullAt - now) + this.#reserved * this.#intervalMs
  }

  #shape(limit: RateLimit): void {
    this.#limit = limit
    this.#intervalMs = (limit.periodMs / limit.rate) * 1.005
    this.#depthMs = Math.max(this.#intervalMs, limit.burst * this.#intervalMs - keptBackMs)
  }
}

/** A success gives back this many failures, so that a receiver that is well again is soon at its full rate. */
const restoredBySuccess = 2

/** A minute, and the time in which a used-up budget is full again. */
const budgetMs = 60_000

/**
 * How often an endpoint may fail: at most `perMinute` in any minute. Half of them may come at once and the other half evenly
 * over a minute: a bucket that held all and filled up meanwhile let twice as many through. A success gives failures back,
 * so that a busy endpoint with a few errors is not slowed down. It limits retries and replays under every retry policy,
 * circuit and rate: no tenant can make Sluice flood a stranger's server.
 */
export class FailureBudget {
  readonly #intervalMs: number
  #fullAt: SteadyMs = Number.NEGATIVE_INFINITY

  constructor(perMinute: number) {
    this.#intervalMs = (2 * budgetMs) / perMinute
  }

  failed(now: SteadyMs): void {
    this.#fullAt = Math.max(this.#fullAt, now) + this.#intervalMs
  }

  succeeded(): void {
    this.#fullAt -= restoredBySuccess * this.#intervalMs
  }

  /**
   * When the next attempt may begin beside those under way: `now` or later. After a failure, each of those counts as one, so
   * that they do not fail together beyond the limit. With none to make up for, any number may be under way: where that is
   * more than half the limit and all of them fail at once, they are that many.
   */
  readyAt(now: SteadyMs, inFlight: number): SteadyMs {
    const usedMs = this.#fullAt - now
    if (usedMs <= 0) return now
    return Math.max(now, now + usedMs + (inFlight + 1) * this.#intervalMs - budgetMs)
  }
}

/**
 * A temporary rate below the usual one: after a circuit closed, and after a 429. It climbs in a straight line and ends when
 * it reaches the usual rate. It applies beside the bucket and never instead of it, so that it can only slow a lane down.
 *
 * Rates are per millisecond. Nothing is saved up: after a silence one request may leave at once, the next an interval later.
 */
export class Pace {
  /** The usual rate, at which the pace ends. */
  readonly full: number
  #rate: number
  #climb: number
  #from: SteadyMs
  #lastAt: SteadyMs

  /** From `rate` to `full` at the speed that leads from nothing to `full` in `climbMs`. */
  constructor(rate: number, full: number, climbMs: number, now: SteadyMs) {
    this.full = full
    this.#rate = Math.min(rate, full)
    this.#climb = full / climbMs
    this.#from = now
    this.#lastAt = now
  }

  /** When the usual rate is reached and the pace no longer matters. */
  get endsAt(): SteadyMs {
    return this.#from + (this.full - this.#rate) / this.#climb
  }

  /** How long the climb from nothing to the usual rate takes. */
  get climbMs(): number {
    return this.full / this.#climb
  }

  rateAt(now: SteadyMs): number {
    return Math.min(this.full, this.#rate + this.#climb * Math.max(0, now - this.#from))
  }

  /** When the next request may leave: `now` or later. */
  readyAt(now: SteadyMs): SteadyMs {
    const { endsAt } = this
    if (now >= endsAt) return now
    // The rate climbs meanwhile: one request is due once the area under the line, r·t + climb·t²/2, has grown to one.
    const rate = this.rateAt(this.#lastAt)
    const intervalMs = 2 / (rate + Math.sqrt(rate * rate + 2 * this.#climb))
    return Math.max(now, Math.min(endsAt, this.#lastAt + intervalMs))
  }

  /** A request leaves. */
  take(now: SteadyMs): void {
    this.#lastAt = now
  }

  /** Continues at half the rate, but not below `least`, at a speed that climbs all the way in `climbMs`. */
  halve(least: number, climbMs: number, now: SteadyMs): void {
    this.#rate = Math.min(this.full, Math.max(least, this.rateAt(now) / 2))
    this.#climb = this.full / climbMs
    this.#from = now
  }
}

/**
 * Counts over a sliding window in slices of half the window, of which it keeps the last two: the counts reach back at least
 * half a window and at most one and a half.
 */
export class SlidingCount {
  #until: SteadyMs = Number.NEGATIVE_INFINITY
  #good = 0
  #bad = 0
  #goodBefore = 0
  #badBefore = 0

  count(good: boolean, windowMs: number, now: SteadyMs): void {
    if (now >= this.#until) {
      const isNext = now < this.#until + windowMs / 2
      this.#goodBefore = isNext ? this.#good : 0
      this.#badBefore = isNext ? this.#bad : 0
      this.#good = 0
      this.#bad = 0
      this.#until = now + windowMs / 2
    }
    if (good) this.#good++
    else this.#bad++
  }

  get total(): number {
    return this.#good + this.#goodBefore + this.bad
  }

  get bad(): number {
    return this.#bad + this.#badBefore
  }

  /** The count of the larger slice. */
  get peak(): number {
    return Math.max(this.#good + this.#bad, this.#goodBefore + this.#badBefore)
  }

  clear(): void {
    this.#until = Number.NEGATIVE_INFINITY
    this.#good = 0
    this.#bad = 0
    this.#goodBefore = 0
    this.#badBefore = 0
  }
}

/** The length of one counted span. */
const spanMs = 10_000

/**
 * The recent rate of ended attempts. Noting one costs a comparison and an addition: the current span is counted, the span
 * before it is remembered, and the rate is taken over both.
 */
export class Throughput {
  #from: SteadyMs
  #count = 0
  #before = 0
  /** The length of the span before, 0 while there is none. */
  #beforeMs = 0

  constructor(now: SteadyMs) {
    this.#from = now
  }

  note(now: SteadyMs): void {
    if (now - this.#from >= spanMs) this.#turn(now)
    this.#count++
  }

  /** The time that the rate is taken over. */
  seenMs(now: SteadyMs): number {
    return now - this.#from + this.#beforeMs
  }

  /** Attempts per second over the last ten to twenty seconds; undefined in the first second. */
  perSecond(now: SteadyMs): number | undefined {
    if (now - this.#from >= spanMs) this.#turn(now)
    const seenMs = now - this.#from + this.#beforeMs
    return seenMs < 1000 ? undefined : ((this.#count + this.#before) / seenMs) * 1000
  }

  #turn(now: SteadyMs): void {
    const isNext = now - this.#from < 2 * spanMs
    this.#before = isNext ? this.#count : 0
    this.#beforeMs = spanMs
    this.#count = 0
    this.#from = isNext ? this.#from + spanMs : now
  }
}

/** The recent rate of events: over the current window and the whole one before it. */
export class RecentRate {
  readonly #windowMs: number
  #window = 0
  #count = 0
  #countBefore = 0

  constructor(windowMs: number) {
    this.#windowMs = windowMs
  }

  add(count: number, now: SteadyMs): void {
    this.#turn(now)
    this.#count += count
  }

  perMs(now: SteadyMs): number {
    this.#turn(now)
    return (this.#count + this.#countBefore) / (this.#windowMs + now - this.#window * this.#windowMs)
  }

  #turn(now: SteadyMs): void {
    const window = Math.floor(now / this.#windowMs)
    if (window === this.#window) return
    this.#countBefore = window === this.#window + 1 ? this.#count : 0
    this.#count = 0
    this.#window = window
  }
}
