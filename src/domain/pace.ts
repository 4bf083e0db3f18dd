import type { SteadyMs } from './clock.ts'

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
