import type { SteadyMs } from './clock.ts'

/** How long a span is that is counted by itself. */
const spanMs = 10_000

/**
 * Counts what happens and tells how often it did of late. Noting one costs a comparison and an addition: the span under
 * way is counted, the one before it is remembered, and what is told weighs both.
 */
export class Throughput {
  #from: SteadyMs
  #count = 0
  #before = 0
  /** How long it has been counted, at most the span before. */
  #beforeMs = 0

  constructor(now: SteadyMs) {
    this.#from = now
  }

  note(now: SteadyMs): void {
    if (now - this.#from >= spanMs) this.#turn(now)
    this.#count++
  }

  /** How many a second, over the last ten to twenty; undefined when too little time was seen to tell. */
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
