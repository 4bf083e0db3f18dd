import type { Clock } from '../../src/domain/clock.ts'
import type { VirtualClock } from '../virtual-clock.ts'

/**
 * One simulated process: its timers stop when it dies, and what it was waiting for never comes.
 * A process may also stall (SIGSTOP, a long collection): its timers fire late, all at once.
 */
export class SimProcess {
  readonly name: string
  readonly clock: Clock
  alive = true
  diedAt = Number.POSITIVE_INFINITY
  #stalledUntil = 0
  readonly #onDeath: (() => void)[] = []

  constructor(name: string, world: VirtualClock) {
    this.name = name
    const run = (fn: () => void) => {
      if (!this.alive) return
      const wait = this.#stalledUntil - world.steady()
      if (wait > 0) world.after(wait, () => run(fn))
      else fn()
    }
    this.clock = {
      now: () => world.now(),
      steady: () => world.steady(),
      after: (ms, fn) => world.after(ms, () => run(fn)),
      soon: (fn) => world.soon(() => run(fn)),
      afterPromises: (fn) => world.afterPromises(() => run(fn)),
    }
  }

  kill(now: number): void {
    if (!this.alive) return
    this.alive = false
    this.diedAt = now
    for (const fn of this.#onDeath) fn()
  }

  stall(until: number): void {
    this.#stalledUntil = Math.max(this.#stalledUntil, until)
  }

  onDeath(fn: () => void): void {
    this.#onDeath.push(fn)
  }

  /** Passes a value on when this process gets to run; never, if it is dead by then. */
  whenRunning<T>(world: VirtualClock, value: T): Promise<T> {
    return new Promise((resolve) => {
      const wait = this.#stalledUntil - world.steady()
      if (!this.alive) return
      if (wait > 0) world.after(wait, () => this.alive && resolve(value))
      else resolve(value)
    })
  }
}
