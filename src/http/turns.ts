import type { Clock } from '../domain/clock.ts'

/**
 * Lets large pieces of work have one turn of the event loop each, whoever they are for: ten clients that ask for a megabyte
 * each at the same time would otherwise have it in the same turn, in which everybody else waits for all of them.
 */
export class Turns {
  static readonly #known = new WeakMap<Clock, Turns>()
  readonly #clock: Clock
  readonly #waiting: (() => void)[] = []

  private constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The turns of all who go by this clock. */
  static by(clock: Clock): Turns {
    const known = Turns.#known.get(clock) ?? new Turns(clock)
    Turns.#known.set(clock, known)
    return known
  }

  /** Resolves in a turn in which no other piece of large work begins. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      if (this.#waiting.length === 1) this.#clock.soon(() => this.#go())
    })
  }

  #go(): void {
    this.#waiting[0]?.()
    this.#waiting.shift()
    if (this.#waiting.length > 0) this.#clock.soon(() => this.#go())
  }
}
