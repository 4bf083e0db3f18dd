import type { Application } from '../domain/endpoint.ts'
import { Matcher } from '../domain/match.ts'
import type { Store, Subscriptions } from '../store/store.ts'
import { prepareTreatments, type Treatments } from './treat.ts'

/** Who gets an application's messages, as of one version of its endpoints. */
export interface Route {
  readonly app: number
  readonly version: number
  readonly matcher: Matcher
  /** What is done for endpoints whose messages are not treated like any other's; undefined when there are none. */
  readonly treatments: Treatments | undefined
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
  readonly #limit: number
  /** By id or uid, in the order they were read: the first is the one to forget. */
  readonly #known = new Map<string, Route>()
  readonly #loading = new Map<string, Promise<Route | undefined>>()

  constructor(store: Pick<Store, 'findApplication' | 'subscriptions'>, limit = 4096) {
    this.#store = store
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
    const application = await this.#store.findApplication(ref)
    const subscriptions = application && (await this.#store.subscriptions(application.key))
    if (application === undefined || subscriptions === undefined) return undefined
    const route = routeOf(application, subscriptions)
    this.#known.delete(ref)
    this.#known.set(ref, route)
    if (this.#known.size > this.#limit) this.#known.delete(this.#known.keys().next().value as string)
    return route
  }
}

/** What publishing must know of an application, from what the store has of it. */
export function routeOf(application: Application, { version, list, dedupeSeconds }: Subscriptions): Route {
  const dedupeMs = dedupeSeconds === null ? null : dedupeSeconds * 1000
  return { app: application.key, version, matcher: new Matcher(list), treatments: prepareTreatments(list), dedupeMs }
}
