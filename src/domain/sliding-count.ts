import type { SteadyMs } from './clock.ts'

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
