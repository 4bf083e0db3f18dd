import type { Clock } from '../domain/clock.ts'

/** What is done again and again, until it is stopped. */
export class Rhythm {
  readonly #clock: Clock
  readonly #cancels: (() => void)[] = []

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Does something this often, for the first time when that much time has passed. */
  every(ms: number, fn: () => void): void {
    const tick = () => {
      fn()
      this.#cancels[slot] = this.#clock.after(ms, tick)
    }
    const slot = this.#cancels.push(this.#clock.after(ms, tick)) - 1
  }

  stop(): void {
    for (const cancel of this.#cancels) cancel()
  }
}
