import { isUsualBound, type WaitingBound } from '../domain/bounds.ts'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Application } from '../domain/endpoint.ts'
import { Matcher } from '../domain/match.ts'
import type { Store, Subscriptions } from '../store/store.ts'
import type { Bounds } from './admission.ts'
import { prepareTreatments, type Treatments } from './treat.ts'

/** Who gets an application's messages, as of one version of its endpoints. */
export interface Route {
  readonly app: number
  readonly version: number
  readonly matcher: Matcher
  /** What is done for endpoints whose messages are not treated like any other's; undefined when there are none. */
  readonly treatments: Treatments | undefined
  /** Endpoints with a limit of their own on what waits, by key; undefined when there are none. */
  readonly bounds: Bounds | undefined
  /** When it was read, on the steady clock. */
  readonly readAt: SteadyMs
  /** For how long the same content is one message; null for no time at all. */
  readonly dedupeMs: number | null
}

/**
 * What publishing must know of an application, remembered between messages. A remembered route may be out of date: the
 * store compares its version with every publish and answers `stale`, upon which the route is forgotten and read again.
 * So a change of an application that must reach publishers has to change its version.
 */
export class Routes {
  readonly #store: Pick<Store, 'findApplication' | 'subscriptions'>
  readonly #clock: Clock
  readonly #limit: number
  /** By id or uid, in the order they were read: the first is the one to forget. */
  readonly #known = new Map<string, Route>()
  readonly #loading = new Map<string, Promise<Route | undefined>>()

  constructor(store: Pick<Store, 'findApplication' | 'subscriptions'>, clock: Clock, limit = 4096) {
    this.#store = store
    this.#clock = clock
    this.#limit = limit
  }

  /** The remembered route, without asking the store. */
  known(ref: string): Route | undefined {
    return this.#known.get(ref)
  }

  /** The route as the store has it; undefined when there is no such application. Asked together, read once. */
  load(ref: string): Promise<Route | undefined> {
    const underWay = this.#loading.get(ref)
    if (underWay) return underWay
    const loading = this.#read(ref).finally(() => this.#loading.delete(ref))
    this.#loading.set(ref, loading)
    return loading
  }

  /** Forgets a route found stale, unless a newer one is already known. */
  forget(ref: string, route: Route): void {
    if (this.#known.get(ref) === route) this.#known.delete(ref)
  }

  async #read(ref: string): Promise<Route | undefined> {
    const readAt = this.#clock.steady()
    const application = await this.#store.findApplication(ref)
    const subscriptions = application && (await this.#store.subscriptions(application.key))
    if (application === undefined || subscriptions === undefined) return undefined
    const route = routeOf(application, subscriptions, readAt)
    this.#known.delete(ref)
    this.#known.set(ref, route)
    if (this.#known.size > this.#limit) this.#known.delete(this.#known.keys().next().value as string)
    return route
  }
}

/** What publishing must know of an application, from what the store has of it. */
export function routeOf(
  application: Pick<Application, 'key'>,
  { version, list, dedupeSeconds }: Subscriptions,
  readAt: SteadyMs,
): Route {
  const dedupeMs = dedupeSeconds === null ? null : dedupeSeconds * 1000
  return {
    app: application.key,
    version,
    matcher: new Matcher(list),
    treatments: prepareTreatments(list),
    bounds: boundsOf(list),
    readAt,
    dedupeMs,
  }
}

function boundsOf(list: Subscriptions['list']): Bounds | undefined {
  const bounds = new Map<number, WaitingBound>()
  for (const { endpoint, treatment } of list) {
    if (treatment && !isUsualBound(treatment.flow)) bounds.set(endpoint, treatment.flow)
  }
  return bounds.size === 0 ? undefined : bounds
}
