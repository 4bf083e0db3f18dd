import type { SteadyMs } from './clock.ts'

/** Deliveries that begin to wait, or end, per second: over the last ten seconds or so, and over the last five minutes or so. */
export interface FlowRate {
  readonly recent: number
  readonly lasting: number
}

/** How fast deliveries arrive in a queue and leave it. */
export interface FlowRates {
  readonly arrivals: FlowRate
  readonly departures: FlowRate
}

/** The present slice of a window counts together with the whole one before it. */
const recentSliceMs = 10_000
const lastingSliceMs = 150_000

/**
 * Counts arrivals and departures of one queue over two windows. There may be 100,000 of these, so that it is ten numbers and
 * no further object. A window reaches back one slice at least and two at most, and never beyond the first count.
 */
export class QueueFlow {
  #recentSlice = 0
  #recentIn = 0
  #recentInBefore = 0
  #recentOut = 0
  #recentOutBefore = 0
  #lastingSlice = 0
  #lastingIn = 0
  #lastingInBefore = 0
  #lastingOut = 0
  #lastingOutBefore = 0
  /** Counting began here: a younger flow is not thinned by time before it. */
  readonly #since: SteadyMs

  constructor(since: SteadyMs) {
    this.#since = since
    this.#recentSlice = Math.floor(since / recentSliceMs)
    this.#lastingSlice = Math.floor(since / lastingSliceMs)
  }

  arrived(count: number, now: SteadyMs): void {
    this.#turn(now)
    this.#recentIn += count
    this.#lastingIn += count
  }

  departed(count: number, now: SteadyMs): void {
    this.#turn(now)
    this.#recentOut += count
    this.#lastingOut += count
  }

  /** Whether nothing has happened within both windows. */
  isStill(now: SteadyMs): boolean {
    this.#turn(now)
    return this.#lastingIn + this.#lastingInBefore + this.#lastingOut + this.#lastingOutBefore === 0
  }

  ratesAt(now: SteadyMs): FlowRates {
    this.#turn(now)
    const recentMs = this.#lengthOf(recentSliceMs, this.#recentSlice, now)
    const lastingMs = this.#lengthOf(lastingSliceMs, this.#lastingSlice, now)
    const rate = (count: number, ms: number) => (count * 1000) / ms
    return {
      arrivals: {
        recent: rate(this.#recentIn + this.#recentInBefore, recentMs),
        lasting: rate(this.#lastingIn + this.#lastingInBefore, lastingMs),
      },
      departures: {
        recent: rate(this.#recentOut + this.#recentOutBefore, recentMs),
        lasting: rate(this.#lastingOut + this.#lastingOutBefore, lastingMs),
      },
    }
  }

  /** The time that a window covers; at least a second, so that the first delivery is no flood. */
  #lengthOf(sliceMs: number, slice: number, now: SteadyMs): number {
    const from = Math.max(this.#since, (slice - 1) * sliceMs)
    return Math.max(1000, now - from)
  }

  #turn(now: SteadyMs): void {
    const recent = Math.floor(now / recentSliceMs)
    if (recent === this.#recentSlice) return
    const isNext = recent === this.#recentSlice + 1
    this.#recentInBefore = isNext ? this.#recentIn : 0
    this.#recentOutBefore = isNext ? this.#recentOut : 0
    this.#recentIn = 0
    this.#recentOut = 0
    this.#recentSlice = recent
    const lasting = Math.floor(now / lastingSliceMs)
    if (lasting === this.#lastingSlice) return
    const isNextLasting = lasting === this.#lastingSlice + 1
    this.#lastingInBefore = isNextLasting ? this.#lastingIn : 0
    this.#lastingOutBefore = isNextLasting ? this.#lastingOut : 0
    this.#lastingIn = 0
    this.#lastingOut = 0
    this.#lastingSlice = lasting
  }
}

/** Nothing arrives or leaves. */
export const still: FlowRates = { arrivals: { recent: 0, lasting: 0 }, departures: { recent: 0, lasting: 0 } }
