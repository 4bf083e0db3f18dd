import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Parts } from '../domain/turns.ts'
import type { CommitObserver } from '../metrics/commits.ts'
import type { Counted, QueueSurvey } from '../metrics/queue-survey.ts'
import type { RestingEnd, Settlement } from '../store/store.ts'

const flowWindowMs = 10_000

/** The recent rate of events: over the current window and the whole one before it. */
export class RecentRate {
  readonly #windowMs: number
  #window = 0
  #count = 0
  #countBefore = 0

  constructor(windowMs: number) {
    this.#windowMs = windowMs
  }

  add(count: number, now: SteadyMs): void {
    this.#turn(now)
    this.#count += count
  }

  perMs(now: SteadyMs): number {
    this.#turn(now)
    return (this.#count + this.#countBefore) / (this.#windowMs + now - this.#window * this.#windowMs)
  }

  #turn(now: SteadyMs): void {
    const window = Math.floor(now / this.#windowMs)
    if (window === this.#window) return
    this.#countBefore = window === this.#window + 1 ? this.#count : 0
    this.#count = 0
    this.#window = window
  }
}

/** The waiting deliveries of an endpoint, an application or the server, and how fast they drain. */
export class Depth {
  waiting = 0
  readonly #ended = new RecentRate(flowWindowMs)

  add(count: number): void {
    this.waiting = Math.max(0, this.waiting + count)
  }

  end(now: SteadyMs): void {
    this.add(-1)
    this.#ended.add(1, now)
  }

  /** Deliveries that ended here per second recently. */
  endedPerSecond(now: SteadyMs): number {
    return this.#ended.perMs(now) * 1000
  }

  /** Whether the depth can be forgotten without losing a count. */
  isIdle(now: SteadyMs): boolean {
    return this.waiting === 0 && this.endedPerSecond(now) === 0
  }
}

/**
 * The number of waiting deliveries per endpoint, per application and in all. Publishes and settlements of this process
 * update it in memory, so reading costs nothing. The survey of the store's queues corrects it for the work of other
 * processes: it is exact for one process and approximate for several.
 */
export class Depths implements CommitObserver {
  readonly server = new Depth()
  readonly #applications = new Map<number, Depth>()
  readonly #endpoints = new Map<number, Depth>()
  /** The application of each endpoint. */
  readonly #owners = new Map<number, number>()
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  endpoint(endpoint: number): Depth | undefined {
    return this.#endpoints.get(endpoint)
  }

  application(app: number): Depth | undefined {
    return this.#applications.get(app)
  }

  /** Counts deliveries that begin to wait, or with -1 takes them back. */
  add(app: number, endpoints: readonly number[], by: 1 | -1): void {
    for (const endpoint of endpoints) this.#endpointOf(app, endpoint).add(by)
    this.#addAbove(app, by * endpoints.length)
  }

  settled(settlements: readonly Settlement[]): void {
    const now = this.#clock.steady()
    for (const { app, endpoint, verdict } of settlements) {
      if (verdict.state === 'delivered' || verdict.state === 'dead') this.#end(app, endpoint, now)
    }
  }

  ended(ends: readonly RestingEnd[]): void {
    const now = this.#clock.steady()
    for (const { app, endpoint } of ends) this.#end(app, endpoint, now)
  }

  #end(app: number, endpoint: number, now: SteadyMs): void {
    this.#endpointOf(app, endpoint).end(now)
    depthIn(this.#applications, app).end(now)
    this.server.end(now)
  }

  /** Corrects the depths by each count of the survey from now on. */
  follow(survey: QueueSurvey): void {
    survey.start((counted) => this.#correct(counted))
  }

  /** In slices: with 100,000 endpoints it takes a tenth of a second. */
  *#correct(counted: Counted): Parts<void> {
    const now = this.#clock.steady()
    for (const [endpoint, { app, count }] of counted) {
      yield
      this.#owners.set(endpoint, app)
      this.#set(endpoint, count)
    }
    for (const [endpoint, depth] of this.#endpoints) {
      yield
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
    this.#addAbove(app, by)
  }

  #addAbove(app: number, by: number): void {
    depthIn(this.#applications, app).add(by)
    this.server.add(by)
  }

  #endpointOf(app: number, endpoint: number): Depth {
    if (!this.#endpoints.has(endpoint)) this.#owners.set(endpoint, app)
    return depthIn(this.#endpoints, endpoint)
  }
}

function depthIn(depths: Map<number, Depth>, key: number): Depth {
  let depth = depths.get(key)
  if (depth === undefined) {
    depth = new Depth()
    depths.set(key, depth)
  }
  return depth
}
