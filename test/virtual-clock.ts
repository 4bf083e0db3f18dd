import type { Clock } from '../src/domain/clock.ts'

interface Timer {
  readonly at: number
  readonly fn: () => void
}

/**
 * Time that stands still until told otherwise. `advance` runs every timer on its way in order, and after each lets
 * everything that follows from it happen at that same instant.
 */
export class VirtualClock implements Clock {
  #steady = 0
  #wallOffset: number
  #soon: (() => void)[] = []
  /** By instant; those of one instant in the order they were set. */
  readonly #timers: Timer[] = []

  constructor(startsAt = Date.UTC(2026, 0, 1)) {
    this.#wallOffset = startsAt
  }

  now(): number {
    return Math.floor(this.#steady + this.#wallOffset)
  }

  steady(): number {
    return this.#steady
  }

  after(ms: number, fn: () => void): () => void {
    const timer: Timer = { at: this.#steady + Math.max(0, ms), fn }
    this.#timers.splice(this.#timers.findLastIndex((other) => other.at <= timer.at) + 1, 0, timer)
    return () => {
      const i = this.#timers.indexOf(timer)
      if (i >= 0) this.#timers.splice(i, 1)
    }
  }

  soon(fn: () => void): void {
    this.#soon.push(fn)
  }

  /** The world's clock jumps; the steady one does not notice. */
  jump(ms: number): void {
    this.#wallOffset += ms
  }

  /** Lets everything that can happen without time passing happen. */
  async settle(): Promise<void> {
    do {
      const batch = this.#soon
      this.#soon = []
      for (const fn of batch) fn()
      // Every promise in Sluice's core resolves through microtasks; one turn of the real loop drains them all.
      await new Promise((resolve) => setImmediate(resolve))
    } while (this.#soon.length > 0)
  }

  /** When the next timer fires, if any is set. */
  nextTimerAt(): number | undefined {
    return this.#timers[0]?.at
  }

  /** Passes time, stopping at every timer on the way. */
  async advance(ms: number): Promise<void> {
    const until = this.#steady + ms
    await this.settle()
    for (;;) {
      const timer = this.#timers[0]
      // Sums of fractions round: a timer that is due but for that is due.
      if (!timer || timer.at > until + 1e-9) break
      this.#timers.shift()
      this.#steady = Math.max(this.#steady, timer.at)
      timer.fn()
      await this.settle()
    }
    this.#steady = Math.max(this.#steady, until)
  }
}
