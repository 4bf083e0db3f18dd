import { AppError } from '../domain/app-error.ts'
import type { WaitingBound } from '../domain/flow.ts'
import type { QueueFigures } from '../domain/queue-figures.ts'
import type { Ledger } from '../metrics/ledger.ts'
import type { CommitObserver } from '../metrics/observed-store.ts'
import type { Publication } from '../store/store.ts'

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
 * Decides whether there is room for messages, by the ledger's count of what waits. A request is refused as a whole, before any
 * part of it is stored. Admitted deliveries count as waiting at once, so that a burst cannot pass together.
 */
export class Admission implements CommitObserver {
  readonly #limits: AdmissionLimits
  readonly #ledger: Ledger
  readonly #reserved = new Reserved()
  /** Up to this number in all, no limit can be reached. */
  readonly #surelyFree: number

  constructor(limits: AdmissionLimits, ledger: Ledger) {
    this.#limits = limits
    this.#ledger = ledger
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
    if (bounds !== undefined || this.#ledger.waiting + this.#reserved.server + added > this.#surelyFree) {
      this.#refuseAboveLimits(admitted, added, bounds)
    }
    for (const publication of admitted) this.#reserved.add(publication)
    return admitted
  }

  /** The ledger counts them from now on. */
  storing(publications: readonly Publication[]): void {
    for (const publication of publications) this.#reserved.free(publication)
  }

  /** Stops counting publications that were admitted and then not stored. */
  withdraw(publications: readonly Publication[]): void {
    for (const publication of publications) this.#reserved.free(publication)
  }

  /** The publications, with a dead letter for each full endpoint that drops new deliveries. */
  #withDrops<T extends Publication>(publications: readonly T[], bounds: Bounds): readonly T[] {
    const added = new Map<number, number>()
    const isFull = (endpoint: number) => {
      const bound = bounds.get(endpoint)
      if (bound?.overflow !== 'drop_new') return false
      const waiting = this.#waitingAt(endpoint) + (added.get(endpoint) ?? 0)
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
    const { server: reserved } = this.#reserved
    this.#refuseIf('The server', this.#ledger.waiting + reserved, added, server, () => this.#ledger.server())
    const byApplication = new Map<number, number>()
    const byEndpoint = new Map<number, number>()
    for (const publication of publications) {
      const { app } = publication
      const endpoints = queuedOf(publication)
      byApplication.set(app, (byApplication.get(app) ?? 0) + endpoints.length)
      for (const endpoint of endpoints) byEndpoint.set(endpoint, (byEndpoint.get(endpoint) ?? 0) + 1)
    }
    for (const [app, count] of byApplication) {
      const waiting = this.#ledger.waitingOf(app) + this.#reserved.application(app)
      this.#refuseIf('The application', waiting, count, perApplication, () => this.#ledger.application(app))
    }
    for (const [endpoint, count] of byEndpoint) {
      const bound = bounds?.get(endpoint)
      if (bound !== undefined && bound.overflow !== 'refuse') continue
      const waiting = this.#waitingAt(endpoint)
      const figures = () => this.#ledger.endpoint(endpoint)
      this.#refuseIf('One of the endpoints', waiting, count, this.#limitOf(bound), figures)
    }
  }

  #waitingAt(endpoint: number): number {
    return this.#ledger.waitingAt(endpoint) + this.#reserved.endpoint(endpoint)
  }

  #refuseIf(holder: string, waiting: number, added: number, limit: number, figures: () => QueueFigures): void {
    if (waiting + added <= limit) return
    const perSecond = figures().departures.recent
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

/** Deliveries that were admitted and are not being stored yet. */
class Reserved {
  server = 0
  readonly #publications = new Set<Publication>()
  readonly #applications = new Map<number, number>()
  readonly #endpoints = new Map<number, number>()

  application(app: number): number {
    return this.#applications.get(app) ?? 0
  }

  endpoint(endpoint: number): number {
    return this.#endpoints.get(endpoint) ?? 0
  }

  add(publication: Publication): void {
    this.#publications.add(publication)
    this.#count(publication, 1)
  }

  /** Harmless for a publication that holds none. */
  free(publication: Publication): void {
    if (this.#publications.delete(publication)) this.#count(publication, -1)
  }

  #count(publication: Publication, by: 1 | -1): void {
    const endpoints = queuedOf(publication)
    this.server += by * endpoints.length
    addTo(this.#applications, publication.app, by * endpoints.length)
    for (const endpoint of endpoints) addTo(this.#endpoints, endpoint, by)
  }
}

function addTo(counts: Map<number, number>, key: number, by: number): void {
  const count = (counts.get(key) ?? 0) + by
  if (count === 0) counts.delete(key)
  else counts.set(key, count)
}
