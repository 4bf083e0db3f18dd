import type { SteadyMs } from './clock.ts'

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
