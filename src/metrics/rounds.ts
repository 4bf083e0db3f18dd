import type { Clock, SteadyMs } from '../domain/clock.ts'

/** The shortest pause between two steps; a slow step is followed by one that keeps a round to a twelfth of the time. */
const stepPauseMs = 5
const stepShare = 12
/** A long round is followed by a wait that keeps the steps of all rounds to a fiftieth of the time. */
const roundShare = 50

interface RoundsDeps {
  readonly clock: Clock
  /** Trouble with the store, which only delays the next round. */
  readonly onTrouble?: ((error: unknown) => void) | undefined
}

/** Rounds of a count in the background, each in small steps, until they are stopped. */
export class Rounds {
  readonly #deps: RoundsDeps
  readonly #everyMs: number
  readonly #count: () => Promise<void>
  readonly #share: number
  #isRunning = false
  #stepSince: SteadyMs = 0
  /** The time of all steps of this round but the last. */
  #busyMs = 0
  #cancel = () => {}
  /** The instant before which the next round does not begin, whatever hurries it; undefined while one is under way. */
  #soonest: SteadyMs | undefined

  constructor(deps: RoundsDeps, everyMs: number, count: () => Promise<void>, share = roundShare) {
    this.#deps = deps
    this.#everyMs = everyMs
    this.#count = count
    this.#share = share
  }

  get isRunning(): boolean {
    return this.#isRunning
  }

  /** Begins the first round; harmless while rounds run. */
  start(): void {
    if (this.#isRunning) return
    this.#isRunning = true
    this.#later(0)
  }

  stop(): void {
    this.#isRunning = false
    this.#cancel()
  }

  /** Has the next round begin within this time, but never so soon that rounds take more than their share. */
  hurry(withinMs: number): void {
    if (!this.#isRunning || this.#soonest === undefined) return
    const { clock } = this.#deps
    const waitMs = Math.max(withinMs, this.#soonest - clock.steady())
    // Once is enough: whatever hurries later finds that round ahead.
    this.#soonest = undefined
    this.#cancel()
    this.#later(waitMs)
  }

  /** The pause between two steps of a round; it ends early when the rounds are stopped. */
  pause(): Promise<void> {
    const { clock } = this.#deps
    const stepMs = clock.steady() - this.#stepSince
    this.#busyMs += stepMs
    const pauseMs = Math.max(stepPauseMs, (stepShare - 1) * stepMs)
    return new Promise((resolve) => {
      const end = () => {
        this.#stepSince = clock.steady()
        resolve()
      }
      const cancel = clock.after(pauseMs, end)
      this.#cancel = () => {
        cancel()
        end()
      }
    })
  }

  #later(ms: number): void {
    if (this.#isRunning) this.#cancel = this.#deps.clock.after(ms, () => void this.#run())
  }

  async #run(): Promise<void> {
    const { clock, onTrouble } = this.#deps
    this.#stepSince = clock.steady()
    this.#busyMs = 0
    this.#soonest = undefined
    let waitMs = this.#everyMs
    try {
      await this.#count()
      this.#soonest = clock.steady() + this.#share * this.#busyMs
      waitMs = Math.max(this.#everyMs, this.#share * this.#busyMs)
    } catch (error) {
      onTrouble?.(error)
    }
    this.#later(waitMs)
  }
}

/** Keeps the few items with the highest figures of any number. */
export class Worst<Item> {
  /** The highest first. */
  readonly list: Item[] = []
  readonly #kept: number
  readonly #figure: (item: Item) => number

  constructor(kept: number, figure: (item: Item) => number) {
    this.#kept = kept
    this.#figure = figure
  }

  offer(item: Item): void {
    const { list } = this
    const figure = this.#figure(item)
    const last = list.at(-1)
    if (list.length >= this.#kept && (last === undefined || this.#figure(last) >= figure)) return
    let [low, high] = [0, list.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#figure(list[middle] as Item) >= figure) low = middle + 1
      else high = middle
    }
    list.splice(low, 0, item)
    if (list.length > this.#kept) list.pop()
  }
}
