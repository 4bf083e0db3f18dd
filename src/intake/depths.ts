import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { QueueCursor, Store } from '../store/store.ts'

/** Rows counted at once: about half a millisecond of SQLite's time. */
const rowsPerPage = 5000
const pagePauseMs = 5
/** Between two counts of everything; a long one is followed by a pause that keeps it below a twentieth of the time. */
const countEveryMs = 5000
const countShare = 20
const flowWindowMs = 10_000

/** What waits in one place, and how fast it drains. */
export class Depth {
  waiting = 0
  #window = 0
  #ended = 0
  #endedBefore = 0

  end(now: SteadyMs): void {
    this.waiting = Math.max(0, this.waiting - 1)
    this.#turn(now)
    this.#ended++
  }

  /** Deliveries that ended here per second, of late. */
  endedPerSecond(now: SteadyMs): number {
    this.#turn(now)
    const elapsedMs = now - this.#window * flowWindowMs
    return ((this.#ended + this.#endedBefore) * 1000) / (flowWindowMs + elapsedMs)
  }

  /** Whether forgetting it forgets nothing. */
  isIdle(now: SteadyMs): boolean {
    return this.waiting === 0 && this.endedPerSecond(now) === 0
  }

  #turn(now: SteadyMs): void {
    const window = Math.floor(now / flowWindowMs)
    if (window === this.#window) return
    this.#endedBefore = window === this.#window + 1 ? this.#ended : 0
    this.#ended = 0
    this.#window = window
  }
}

/**
 * How many deliveries wait: for each endpoint, for each application, in all. Kept in memory by what this process publishes
 * and settles, so that asking costs nothing, and set right by counting the store's rows in the background, a few thousand
 * at a time: others publish and settle too. So it is exact for one process and near the truth for many.
 */
export class Depths {
  readonly server = new Depth()
  readonly #applications = new Map<number, Depth>()
  readonly #endpoints = new Map<number, Depth>()
  /** Whose endpoints they are. */
  readonly #owners = new Map<number, number>()
  readonly #clock: Clock
  #stop: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  endpoint(endpoint: number): Depth | undefined {
    return this.#endpoints.get(endpoint)
  }

  application(app: number): Depth | undefined {
    return this.#applications.get(app)
  }

  /** Notes deliveries that begin to wait, or with -1 that do not after all. */
  add(app: number, endpoints: readonly number[], by: 1 | -1): void {
    for (const endpoint of endpoints) {
      const depth = this.#endpointOf(app, endpoint)
      depth.waiting = Math.max(0, depth.waiting + by)
    }
    const application = this.#applicationOf(app)
    application.waiting = Math.max(0, application.waiting + by * endpoints.length)
    this.server.waiting = Math.max(0, this.server.waiting + by * endpoints.length)
  }

  /** Notes that a delivery ended. */
  ended(app: number, endpoint: number, now: SteadyMs): void {
    this.#endpointOf(app, endpoint).end(now)
    this.#applicationOf(app).end(now)
    this.server.end(now)
  }

  /** Counts the store's rows from now on until `stop`. Trouble only makes the counts older. */
  follow(store: Pick<Store, 'surveyWaiting'>, onTrouble: (error: unknown) => void = () => {}): void {
    let startedAt = this.#clock.steady()
    let counted = new Map<number, number>()
    const later = (ms: number, cursor: QueueCursor | null) => {
      this.#stop = this.#clock.after(ms, () => void step(cursor))
    }
    const step = async (cursor: QueueCursor | null): Promise<void> => {
      if (cursor === null) {
        startedAt = this.#clock.steady()
        counted = new Map()
      }
      try {
        const page = await store.surveyWaiting(cursor, rowsPerPage)
        if (this.#stop === undefined) return
        for (const { app, endpoint, count } of page.counts) {
          this.#owners.set(endpoint, app)
          counted.set(endpoint, (counted.get(endpoint) ?? 0) + count)
        }
        if (page.next !== null) return later(pagePauseMs, page.next)
        this.#setRight(counted)
        later(Math.max(countEveryMs, countShare * (this.#clock.steady() - startedAt)), null)
      } catch (error) {
        onTrouble(error)
        if (this.#stop !== undefined) later(countEveryMs, null)
      }
    }
    later(0, null)
  }

  stop(): void {
    this.#stop?.()
    this.#stop = undefined
  }

  #setRight(counted: ReadonlyMap<number, number>): void {
    const now = this.#clock.steady()
    for (const [endpoint, count] of counted) this.#set(endpoint, count)
    for (const [endpoint, depth] of this.#endpoints) {
      if (!counted.has(endpoint)) this.#set(endpoint, 0)
      if (!depth.isIdle(now)) continue
      this.#endpoints.delete(endpoint)
      this.#owners.delete(endpoint)
    }
    for (const [app, depth] of this.#applications) if (depth.isIdle(now)) this.#applications.delete(app)
  }

  #set(endpoint: number, count: number): void {
    const app = this.#owners.get(endpoint) ?? 0
    const depth = this.#endpointOf(app, endpoint)
    const by = count - depth.waiting
    if (by === 0) return
    depth.waiting = count
    const application = this.#applicationOf(app)
    application.waiting = Math.max(0, application.waiting + by)
    this.server.waiting = Math.max(0, this.server.waiting + by)
  }

  #endpointOf(app: number, endpoint: number): Depth {
    let depth = this.#endpoints.get(endpoint)
    if (depth === undefined) {
      depth = new Depth()
      this.#endpoints.set(endpoint, depth)
      this.#owners.set(endpoint, app)
    }
    return depth
  }

  #applicationOf(app: number): Depth {
    let depth = this.#applications.get(app)
    if (depth === undefined) {
      depth = new Depth()
      this.#applications.set(app, depth)
    }
    return depth
  }
}

/** The store, with every delivery that ends in it noted. */
export function countingEnds(store: Store, depths: Depths, clock: Clock): Store {
  return {
    ...store,
    async settle(worker, settlements, effects) {
      const answer = await store.settle(worker, settlements, effects)
      if (answer === 'fenced') return answer
      const now = clock.steady()
      for (const { app, endpoint, verdict } of settlements) {
        if (verdict.state === 'delivered' || verdict.state === 'dead') depths.ended(app, endpoint, now)
      }
      return answer
    },
    async endResting(ends) {
      const ended = await store.endResting(ends)
      const now = clock.steady()
      for (const { app, endpoint } of ended) depths.ended(app, endpoint, now)
      return ended
    },
    close() {
      depths.stop()
      return store.close()
    },
  }
}
