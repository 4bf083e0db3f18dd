import type { Clock, SteadyMs } from './clock.ts'

/** Computing that may pause at each `yield`. */
export type Sliced<T> = Generator<void, T>

/** Computes, at once or in turns of the event loop. */
export type Compute = <T>(parts: Sliced<T>) => T | Promise<T>

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
  run<T>(parts: Sliced<T>): T | Promise<T> {
    const first = this.#slice(parts, this.#clock.steady() + firstSliceMs)
    return first.done ? first.value : this.#others(parts)
  }

  async #others<T>(parts: Sliced<T>): Promise<T> {
    for (;;) {
      await this.next()
      const slice = this.#slice(parts, this.#clock.steady() + sliceMs)
      if (slice.done) return slice.value
    }
  }

  #slice<T>(parts: Sliced<T>, until: SteadyMs): IteratorResult<void, T> {
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

/**
 * Many small pieces of work that became due at the same moment, in the order of asking: in each turn as many as fit into a
 * slice, and at least one. An item that waits already keeps its place.
 */
export class Backlog<T> {
  readonly #clock: Clock
  readonly #work: (item: T, until: SteadyMs) => void
  readonly #waiting = new Set<T>()
  #isGoing = false

  /** `work` does one item, and stops at `until` if the item is long. */
  constructor(clock: Clock, work: (item: T, until: SteadyMs) => void) {
    this.#clock = clock
    this.#work = work
  }

  add(item: T): void {
    this.#waiting.add(item)
    if (this.#isGoing) return
    this.#isGoing = true
    this.#clock.soon(() => this.#go())
  }

  delete(item: T): void {
    this.#waiting.delete(item)
  }

  #go(): void {
    const until = this.#clock.steady() + sliceMs
    for (const item of this.#waiting) {
      this.#waiting.delete(item)
      this.#work(item, until)
      if (this.#clock.steady() >= until) break
    }
    this.#isGoing = this.#waiting.size > 0
    if (this.#isGoing) this.#clock.soon(() => this.#go())
  }
}

/** Computes to the end without a pause. */
export function allAtOnce<T>(parts: Sliced<T>): T {
  for (;;) {
    const part = parts.next()
    if (part.done) return part.value
  }
}

/**
 * Work that is done in bounded steps, one after the other while there is more, with a turn for everything else in between.
 * A request while a step is under way leads to one more step.
 */
export class Job {
  readonly #clock: Clock
  readonly #step: () => Promise<boolean>
  readonly #onTrouble: (error: unknown) => void
  #endedAt: SteadyMs = Number.NEGATIVE_INFINITY
  #underWay = false
  #requested = false
  #stopped = false

  /** `step` answers whether there is more to do. After trouble the rest waits for the next request. */
  constructor(clock: Clock, step: () => Promise<boolean>, onTrouble: (error: unknown) => void) {
    this.#clock = clock
    this.#step = step
    this.#onTrouble = onTrouble
  }

  /** Requests that the work there is now is done. */
  request(): void {
    this.#requested = true
    if (!this.#underWay && !this.#stopped) void this.#run()
  }

  /** Whether a step is under way or requested. */
  get busy(): boolean {
    return this.#underWay || this.#requested
  }

  /** When the last step ended. */
  get endedAt(): SteadyMs {
    return this.#endedAt
  }

  stop(): void {
    this.#stopped = true
  }

  /** Never rejects: trouble goes to its listener. */
  async #run(): Promise<void> {
    this.#underWay = true
    this.#requested = false
    try {
      const more = await this.#step()
      this.#endedAt = this.#clock.steady()
      this.#underWay = false
      this.#requested ||= more
      if (this.#requested && !this.#stopped) this.#clock.soon(() => void (this.#underWay || this.#run()))
    } catch (error) {
      this.#underWay = false
      this.#onTrouble(error)
    }
  }
}
