import { AppError } from '../domain/app-error.ts'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { WaitingBound } from '../domain/flow.ts'
import { RecentRate } from '../domain/rate.ts'
import type { Sliced } from '../domain/turns.ts'
import type { CommitObserver } from '../metrics/observed-store.ts'
import type { Counted, QueueSurvey } from '../metrics/queue-survey.ts'
import type { Publication, RestingEnd, Settlement } from '../store/store.ts'

/** Limits of endpoints that have their own, by key. */
export type Bounds = ReadonlyMap<number, WaitingBound>

/** Numbers of waiting deliveries above which publishes are refused. */
export interface AdmissionLimits {
  readonly perEndpoint: number
  readonly perApplication: number
  readonly server: number
  /** How long a message may wait for its answer. */
  readonly commitDelayMs: number
}

/** The Retry-After while nothing drains, because the wait cannot be estimated. */
const unknownWaitMs = 60_000
const longestWaitMs = 3_600_000

/**
 * Decides whether there is room for messages. A request is refused as a whole, before any part of it is stored. Admitted
 * deliveries count as waiting at once, so that a burst cannot pass together.
 */
export class Admission {
  readonly #limits: AdmissionLimits
  readonly #depths: Depths
  readonly #clock: Clock
  /** Up to this number in all, no limit can be reached. */
  readonly #surelyFree: number

  constructor(limits: AdmissionLimits, depths: Depths, clock: Clock) {
    this.#limits = limits
    this.#depths = depths
    this.#clock = clock
    this.#surelyFree = Math.min(limits.perEndpoint, limits.perApplication, limits.server)
  }

  /**
   * Counts the deliveries as waiting and returns the publications to store, or throws AppError `overloaded` and counts
   * none. `delayMs` is the present delay of answers. Deliveries to a full endpoint with `drop_new` are stored as dead.
   */
  admit<T extends Publication>(publications: readonly T[], delayMs: number, bounds?: Bounds): readonly T[] {
    if (delayMs > this.#limits.commitDelayMs) {
      throw refusal('Messages arrive faster than they can be stored.', delayMs)
    }
    const admitted = bounds === undefined ? publications : this.#withDrops(publications, bounds)
    let added = 0
    for (const publication of admitted) added += queuedOf(publication).length
    if (bounds !== undefined || this.#depths.server.waiting + added > this.#surelyFree) {
      this.#refuseAboveLimits(admitted, added, bounds)
    }
    for (const publication of admitted) this.#depths.add(publication.app, queuedOf(publication), 1)
    return admitted
  }

  /** Stops counting publications that were admitted and then not stored. */
  withdraw(publications: readonly Publication[]): void {
    for (const publication of publications) this.#depths.add(publication.app, queuedOf(publication), -1)
  }

  /** Stops counting deliveries that replaced waiting ones. */
  merged(app: number, endpoints: readonly number[]): void {
    this.#depths.add(app, endpoints, -1)
  }

  /** The publications, with a dead letter for each full endpoint that drops new deliveries. */
  #withDrops<T extends Publication>(publications: readonly T[], bounds: Bounds): readonly T[] {
    const added = new Map<number, number>()
    const isFull = (endpoint: number) => {
      const bound = bounds.get(endpoint)
      if (bound?.overflow !== 'drop_new') return false
      const waiting = (this.#depths.endpoint(endpoint)?.waiting ?? 0) + (added.get(endpoint) ?? 0)
      if (waiting >= this.#limitOf(bound)) return true
      added.set(endpoint, (added.get(endpoint) ?? 0) + 1)
      return false
    }
    return publications.map((publication) => {
      const full = queuedOf(publication).filter(isFull)
      if (full.length === 0) return publication
      const planned = new Map((publication.special ?? []).map((special) => [special.endpoint, special]))
      for (const endpoint of full) {
        // The variant is kept for a later replay.
        const variant = planned.get(endpoint)?.variant
        planned.set(endpoint, { endpoint, ...(variant !== undefined && { variant }), drop: 'overflow' })
      }
      return { ...publication, special: [...planned.values()] }
    })
  }

  #limitOf(bound: WaitingBound | undefined): number {
    return bound?.maxWaiting ?? this.#limits.perEndpoint
  }

  #refuseAboveLimits(publications: readonly Publication[], added: number, bounds: Bounds | undefined): void {
    const { perApplication, server } = this.#limits
    this.#refuseIf('The server', this.#depths.server, added, server)
    const byApplication = new Map<number, number>()
    const byEndpoint = new Map<number, number>()
    for (const publication of publications) {
      const { app } = publication
      const endpoints = queuedOf(publication)
      byApplication.set(app, (byApplication.get(app) ?? 0) + endpoints.length)
      for (const endpoint of endpoints) byEndpoint.set(endpoint, (byEndpoint.get(endpoint) ?? 0) + 1)
    }
    for (const [app, count] of byApplication) {
      this.#refuseIf('The application', this.#depths.application(app), count, perApplication)
    }
    for (const [endpoint, count] of byEndpoint) {
      const bound = bounds?.get(endpoint)
      if (bound !== undefined && bound.overflow !== 'refuse') continue
      this.#refuseIf('One of the endpoints', this.#depths.endpoint(endpoint), count, this.#limitOf(bound))
    }
  }

  #refuseIf(holder: string, depth: Depth | undefined, added: number, limit: number): void {
    const waiting = depth?.waiting ?? 0
    if (waiting + added <= limit) return
    const perSecond = depth?.endedPerSecond(this.#clock.steady()) ?? 0
    const waitMs = perSecond === 0 ? unknownWaitMs : ((waiting + added - limit) / perSecond) * 1000
    throw refusal(`${holder} has ${waiting} deliveries waiting, and may have ${limit}.`, waitMs)
  }
}

/** The endpoints for which the publication makes a waiting delivery and not a dead letter. */
function queuedOf({ endpoints, special }: Publication): readonly number[] {
  if (special === undefined || special.every(({ drop }) => drop === undefined)) return endpoints
  const dropped = new Set(special.flatMap(({ endpoint, drop }) => (drop === undefined ? [] : [endpoint])))
  return endpoints.filter((endpoint) => !dropped.has(endpoint))
}

function refusal(message: string, waitMs: number): AppError {
  return new AppError('overloaded', message, [], { retryAfterMs: Math.min(longestWaitMs, Math.max(1, waitMs)) })
}

const flowWindowMs = 10_000

/** The waiting deliveries of an endpoint, an application or the server, and how fast they drain. */
class Depth {
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
  *#correct(counted: Counted): Sliced<void> {
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
