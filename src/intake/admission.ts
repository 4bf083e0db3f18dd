import { AppError } from '../domain/app-error.ts'
import type { Clock } from '../domain/clock.ts'
import type { Publication } from '../store/store.ts'
import type { Depth, Depths } from './depths.ts'

/** How much may wait before publishes are refused. */
export interface AdmissionLimits {
  readonly perEndpoint: number
  readonly perApplication: number
  readonly server: number
  /** How long a message may wait for its answer. */
  readonly commitDelayMs: number
}

/** What a caller is told when nothing has drained of late, so that nobody can say how long it will take. */
const unknownWaitSeconds = 60
const longestWaitSeconds = 3600

/**
 * Decides whether there is room for messages. What is refused is refused whole and at once, before anything is stored;
 * what is admitted counts as waiting from then on, so that a burst cannot slip through together.
 */
export class Admission {
  readonly #limits: AdmissionLimits
  readonly #depths: Depths
  readonly #clock: Clock
  /** Below this no limit can be met, wherever the deliveries wait. */
  readonly #surelyFree: number

  constructor(limits: AdmissionLimits, depths: Depths, clock: Clock) {
    this.#limits = limits
    this.#depths = depths
    this.#clock = clock
    this.#surelyFree = Math.min(limits.perEndpoint, limits.perApplication, limits.server)
  }

  /** Counts all of these as waiting, or throws AppError `overloaded` and counts none. `delayMs` is how long answers take. */
  admit(publications: readonly Publication[], delayMs: number): void {
    if (delayMs > this.#limits.commitDelayMs) {
      throw refusal('Messages arrive faster than they can be stored.', Math.ceil(delayMs / 1000))
    }
    let added = 0
    for (const { endpoints } of publications) added += endpoints.length
    if (this.#depths.server.waiting + added > this.#surelyFree) this.#look(publications, added)
    for (const { app, endpoints } of publications) this.#depths.add(app, endpoints, 1)
  }

  /** Takes back what was admitted and then not stored. */
  withdraw(publications: readonly Publication[]): void {
    for (const { app, endpoints } of publications) this.#depths.add(app, endpoints, -1)
  }

  /** Takes back deliveries that were stored in the place of others. */
  merged(app: number, endpoints: readonly number[]): void {
    this.#depths.add(app, endpoints, -1)
  }

  #look(publications: readonly Publication[], added: number): void {
    const { perEndpoint, perApplication, server } = this.#limits
    this.#refuseIf('The server', this.#depths.server, added, server)
    const byApplication = new Map<number, number>()
    const byEndpoint = new Map<number, number>()
    for (const { app, endpoints } of publications) {
      byApplication.set(app, (byApplication.get(app) ?? 0) + endpoints.length)
      for (const endpoint of endpoints) byEndpoint.set(endpoint, (byEndpoint.get(endpoint) ?? 0) + 1)
    }
    for (const [app, count] of byApplication) {
      this.#refuseIf('The application', this.#depths.application(app), count, perApplication)
    }
    for (const [endpoint, count] of byEndpoint) {
      this.#refuseIf('One of the endpoints', this.#depths.endpoint(endpoint), count, perEndpoint)
    }
  }

  #refuseIf(who: string, depth: Depth | undefined, added: number, limit: number): void {
    const waiting = depth?.waiting ?? 0
    if (waiting + added <= limit) return
    const perSecond = depth?.endedPerSecond(this.#clock.steady()) ?? 0
    const seconds = perSecond === 0 ? unknownWaitSeconds : Math.ceil((waiting + added - limit) / perSecond)
    throw refusal(`${who} has ${waiting} deliveries waiting, and may have ${limit}.`, seconds)
  }
}

function refusal(message: string, seconds: number): AppError {
  const retryAfterSeconds = Math.min(longestWaitSeconds, Math.max(1, seconds))
  return new AppError('overloaded', message, [], { retryAfterSeconds })
}
