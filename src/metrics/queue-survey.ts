import type { Clock, SteadyMs } from '../domain/clock.ts'
import { type Sliced, Turns } from '../domain/turns.ts'
import type { QueueCursor, Store, WaitingCount, WaitingCounts } from '../store/store.ts'

/**
 * Rows counted at once: 1.5 ms of SQLite's time where each is of another endpoint (5,000 such rows took 17 ms), and half a
 * millisecond within one long queue, where more are counted.
 */
export const surveyRows = { short: 500, long: 5000 } as const
/** Between two counts of everything. */
const countEveryMs = 5000

/** Deliveries that were due longer ago than this are behind. */
const behindMs = 60_000

/** The waiting deliveries of each endpoint that has any. */
export type Counted = ReadonlyMap<number, { readonly app: number; readonly count: number }>

/** The waiting deliveries of the whole store, as of the end of one count. */
export interface WaitingFigures {
  readonly at: SteadyMs
  /** By class: fresh, timed, replay. */
  readonly byClass: readonly [number, number, number]
  /** Deliveries that were due more than `behindMs` ago, of endpoints that are neither paused nor disabled. */
  readonly behind: number
  /** How long the oldest due delivery of such an endpoint has been due; 0 without one. */
  readonly oldestDueMs: number
  /** Endpoints with waiting deliveries. */
  readonly endpoints: number
  /** Endpoints with the most waiting deliveries, the worst first. */
  readonly worst: readonly EndpointCount[]
}

/** The number of waiting deliveries, or of failures, of an endpoint. */
export interface EndpointCount {
  readonly endpoint: number
  readonly app: number
  readonly count: number
}

interface QueueSurveyDeps {
  readonly store: Pick<Store, 'surveyWaiting'>
  readonly clock: Clock
  /** How many endpoints with the most waiting deliveries are named. */
  readonly worstKept?: number
  /** Trouble with the store, which only delays the next count. */
  readonly onTrouble?: (error: unknown) => void
}

/**
 * The one count of all waiting deliveries: again and again in the background, a few thousand rows at a time. Admission and
 * metrics both go by it.
 */
export class QueueSurvey {
  readonly #deps: QueueSurveyDeps
  readonly #rounds: Rounds
  readonly #listeners: ((counted: Counted) => Sliced<void>)[] = []
  #latest: WaitingFigures | undefined

  constructor(deps: QueueSurveyDeps) {
    this.#deps = deps
    this.#rounds = new Rounds(deps, countEveryMs, () => this.#count())
  }

  /** The figures of the last count; undefined before the first. */
  get latest(): WaitingFigures | undefined {
    return this.#latest
  }

  /** Counts from now on until `stop`. The listener takes each count in, in parts. */
  start(listener?: (counted: Counted) => Sliced<void>): void {
    if (listener !== undefined) this.#listeners.push(listener)
    this.#rounds.start()
  }

  stop(): void {
    this.#rounds.stop()
  }

  async #count(): Promise<void> {
    const { store, clock, worstKept = 0 } = this.#deps
    const sums = new Sums()
    let after: QueueCursor | null = null
    let inQueue = false
    do {
      if (after !== null) await this.#rounds.pause()
      if (!this.#rounds.isRunning) return
      const rows = inQueue ? surveyRows.long : surveyRows.short
      const page: WaitingCounts = await store.surveyWaiting(after, rows, behindMs, inQueue)
      if (!this.#rounds.isRunning) return
      for (const each of page.counts) sums.add(each)
      after = page.next
      const [only, other] = page.counts
      inQueue = other === undefined && only !== undefined && only.endpoint === after?.endpoint
    } while (after !== null)
    const turns = Turns.by(clock)
    const worst = await turns.run(worstOf(sums.counted, worstKept))
    this.#latest = { ...sums.figures(), at: clock.steady(), endpoints: sums.counted.size, worst }
    for (const listener of this.#listeners) {
      if (!this.#rounds.isRunning) return
      await turns.run(listener(sums.counted))
    }
  }
}

/** The shortest pause between two steps; a slow step is followed by one that keeps a round to a twelfth of the time. */
const stepPauseMs = 5
const stepShare = 12
/** A long round is followed by a wait that keeps the steps of all rounds to a fiftieth of the time. */
const roundShare = 50

/** Rounds of a count in the background, each in small steps, until they are stopped. */
export class Rounds {
  readonly #deps: Pick<QueueSurveyDeps, 'clock' | 'onTrouble'>
  readonly #everyMs: number
  readonly #count: () => Promise<void>
  readonly #share: number
  #isRunning = false
  #stepSince: SteadyMs = 0
  /** The time of all steps of this round but the last. */
  #busyMs = 0
  #cancel = () => {}

  /** Trouble in a round only delays the next one. */
  constructor(
    deps: Pick<QueueSurveyDeps, 'clock' | 'onTrouble'>,
    everyMs: number,
    count: () => Promise<void>,
    share = roundShare,
  ) {
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
    let waitMs = this.#everyMs
    try {
      await this.#count()
      waitMs = Math.max(this.#everyMs, this.#share * this.#busyMs)
    } catch (error) {
      onTrouble?.(error)
    }
    this.#later(waitMs)
  }
}

class Sums {
  readonly counted = new Map<number, { readonly app: number; count: number }>()
  readonly #byClass: [number, number, number] = [0, 0, 0]
  #behind = 0
  #oldestDueMs = 0

  add({ endpoint, app, class: itsClass, count, late, dueAgoMs, stopped }: WaitingCount): void {
    const known = this.counted.get(endpoint)
    if (known === undefined) this.counted.set(endpoint, { app, count })
    else known.count += count
    this.#byClass[itsClass] += count
    if (stopped) return
    this.#behind += late
    this.#oldestDueMs = Math.max(this.#oldestDueMs, dueAgoMs)
  }

  figures() {
    return { byClass: this.#byClass, behind: this.#behind, oldestDueMs: this.#oldestDueMs }
  }
}

/** With 100,000 endpoints it takes some tens of milliseconds, and pauses in between. */
function* worstOf(counted: Counted, kept: number): Sliced<readonly EndpointCount[]> {
  const worst = new Worst<EndpointCount>(kept, ({ count }) => count)
  if (kept === 0) return []
  for (const [endpoint, { app, count }] of counted) {
    yield
    worst.offer({ endpoint, app, count })
  }
  return worst.list
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
