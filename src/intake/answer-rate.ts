import type { SteadyMs } from '../domain/clock.ts'

const windowMs = 1000
/** Messages that may be under way whatever the rate, so that a burst is no overload. */
const allowance = 4096

/** How fast the store answers, and so how long what is under way will take. */
export class AnswerRate {
  #window = 0
  #answered = 0
  #answeredBefore = 0

  add(count: number, now: SteadyMs): void {
    this.#turn(now)
    this.#answered += count
  }

  /** How long the last of so many messages under way will take, beyond what is always permitted; 0 when nobody knows. */
  delayMs(unanswered: number, now: SteadyMs): number {
    if (unanswered <= allowance) return 0
    this.#turn(now)
    const perMs = (this.#answered + this.#answeredBefore) / (windowMs + now - this.#window * windowMs)
    return perMs === 0 ? 0 : (unanswered - allowance) / perMs
  }

  #turn(now: SteadyMs): void {
    const window = Math.floor(now / windowMs)
    if (window === this.#window) return
    this.#answeredBefore = window === this.#window + 1 ? this.#answered : 0
    this.#answered = 0
    this.#window = window
  }
}
