import type { Clock, SteadyMs } from './clock.ts'

/** Computing that may pause at each `yield`. */
export type Parts<T> = Generator<void, T>

/** Computes, at once or in turns of the event loop. */
export type Compute = <T>(parts: Parts<T>) => T | Promise<T>

/** Computing that a request does at once; most requests end within it. */
const firstSliceMs = 1
/** Computing of one piece of large work in one turn of the event loop. */
const sliceMs = 5

/**
 * Gives large pieces of work one turn of the event loop each. Without it, the work of ten clients that request a megabyte
 * each at the same time would run in one turn, and all other clients would wait for it.
 */
export class Turns {
  static readonly #known = new WeakMap<Clock, Turns>()
  readonly #clock: Clock
  readonly #waiting: (() => void)[] = []

  private constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The turns of all work that goes by this clock. */
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

  /** Computes in slices, the first of them at once. The answer is a promise only when there are more. */
  run<T>(parts: Parts<T>): T | Promise<T> {
    const first = this.#slice(parts, this.#clock.steady() + firstSliceMs)
    return first.done ? first.value : this.#others(parts)
  }

  async #others<T>(parts: Parts<T>): Promise<T> {
    for (;;) {
      await this.next()
      const slice = this.#slice(parts, this.#clock.steady() + sliceMs)
      if (slice.done) return slice.value
    }
  }

  #slice<T>(parts: Parts<T>, until: SteadyMs): IteratorResult<void, T> {
    for (;;) {
      const part = parts.next()
      if (part.done || this.#clock.steady() >= until) return part
    }
  }

  #go(): void {
    this.#waiting[0]?.()
    this.#waiting.shift()
    if (this.#waiting.length > 0) this.#clock.soon(() => this.#go())
  }
}

/** Computes to the end without a pause. */
export function allAtOnce<T>(parts: Parts<T>): T {
  for (;;) {
    const part = parts.next()
    if (part.done) return part.value
  }
}
