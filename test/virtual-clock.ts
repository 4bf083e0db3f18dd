import type { Clock } from '../src/domain/clock.ts'

interface Timer {
  readonly at: number
  readonly fn: () => void
}

/** One turn of the real loop, in which all microtasks run and files and sockets have a chance. */
async function turnLoop(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}

/**
 * Runs all microtasks: a tick that is asked for within one comes after the last. Enough where every promise resolves through
 * microtasks, and a quarter cheaper in the simulation than a turn of the loop.
 */
export async function runMicrotasks(): Promise<void> {
  await undefined
  await new Promise<void>((resolve) => process.nextTick(resolve))
}

/**
 * Time that stands still until a test moves it. `advance` runs every timer on its way in order, and after each lets
 * everything that follows from it happen at that same instant.
 */
export class VirtualClock implements Clock {
  #steady = 0
  #wallOffset: number
  #soon: (() => void)[] = []
  /** By instant; those of one instant in the order they were set. */
  readonly #timers: Timer[] = []
  readonly #drain: () => Promise<void>

  constructor(startsAt = Date.UTC(2026, 0, 1), drain = turnLoop) {
    this.#wallOffset = startsAt
    this.#drain = drain
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

  afterPromises(fn: () => void): void {
    queueMicrotask(fn)
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
      await this.#drain()
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

/** Virtual time beside a server: turns of the loop come by themselves, as requests need them, and time passes only by `advance`. */
export class ServerClock extends VirtualClock {
  override soon(fn: () => void): void {
    setImmediate(fn)
  }
}
