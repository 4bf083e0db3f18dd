import type { Clock } from '../src/domain/clock.ts'

interface Timer {
  readonly at: number
  /** Timers of one instant fire in the order in which they were set. */
  readonly order: number
  fn: (() => void) | undefined
}

/** A binary heap: a simulated fleet has a hundred thousand timers at once. A cancelled timer stays until its instant. */
class Timers {
  readonly #heap: Timer[] = []
  #set = 0

  add(at: number, fn: () => void): Timer {
    const timer: Timer = { at, order: this.#set++, fn }
    const heap = this.#heap
    let i = heap.push(timer) - 1
    for (let parent = (i - 1) >> 1; i > 0 && isBefore(timer, heap[parent] as Timer); parent = (i - 1) >> 1) {
      heap[i] = heap[parent] as Timer
      i = parent
    }
    heap[i] = timer
    return timer
  }

  /** The next timer that was not cancelled. */
  get first(): Timer | undefined {
    while (this.#heap.length > 0 && this.#heap[0]?.fn === undefined) this.shift()
    return this.#heap[0]
  }

  shift(): void {
    const heap = this.#heap
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return
    let i = 0
    for (let child = 1; child < heap.length; child = 2 * i + 1) {
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Timer, heap[child] as Timer)) child++
      if (!isBefore(heap[child] as Timer, last)) break
      heap[i] = heap[child] as Timer
      i = child
    }
    heap[i] = last
  }
}

function isBefore(one: Timer, other: Timer): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order)
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
  readonly #timers = new Timers()
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
    const timer = this.#timers.add(this.#steady + Math.max(0, ms), fn)
    return () => {
      timer.fn = undefined
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
    return this.#timers.first?.at
  }

  /** Passes time, stopping at every timer on the way. */
  async advance(ms: number): Promise<void> {
    const until = this.#steady + ms
    await this.settle()
    for (;;) {
      const timer = this.#timers.first
      // Sums of fractions round: a timer that is due but for that is due.
      if (timer?.fn === undefined || timer.at > until + 1e-9) break
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
