import { noSuch } from '../domain/app-error.ts'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import { isUsualBound, type WaitingBound } from '../domain/flow.ts'
import { Matcher } from '../domain/match.ts'
import type { Endpoint } from '../features/endpoints/rules.ts'
import { SubjectIndex } from '../shaping/subjects.ts'
import type { Store, Subscriptions } from '../store/store.ts'
import type { Bounds } from './admission.ts'
import { refusalFor } from './publication.ts'
import { prepareTreatments, type Treatments } from './treatments.ts'

/** The subscriptions of an application at one version, indexed for publishing. */
export interface AppSubscriptions {
  readonly app: number
  readonly version: number
  readonly matcher: Matcher
  /** Filters, shapes and the like of endpoints that have any; undefined when no endpoint has. */
  readonly treatments: Treatments | undefined
  /** The endpoints with their own limit on waiting deliveries, by key; undefined when there are none. */
  readonly bounds: Bounds | undefined
  /** The time on the steady clock at which they were read. */
  readonly readAt: SteadyMs
  /** The application's dedupe window; null for none. */
  readonly dedupeMs: number | null
  /** Whether bodies are erased once all deliveries of a message have succeeded. */
  readonly eraseDelivered: boolean
  /** How long bodies are kept; null for as long as the messages. */
  readonly payloadForMs: number | null
  /** Finds the data subjects of messages; undefined when the application names no pointers. */
  readonly subjects: SubjectIndex | undefined
}

/** A place that subscriptions come from. */
export interface SubscriptionSource {
  /** The remembered subscriptions, without asking the store. */
  known(ref: string): AppSubscriptions | undefined
  /** Reads them from the store. Rejects with AppError `not_found` or `unavailable`. */
  load(ref: string): Promise<AppSubscriptions>
  /** Forgets subscriptions that the store found stale, unless newer ones are already known. */
  forget(ref: string, stale: AppSubscriptions): void
}

/**
 * Remembers subscriptions between messages. They may be out of date: the store compares their version with every publish
 * and answers `stale`; then they are forgotten and read again. So every change of an application that must reach
 * publishers has to change its version.
 */
export class SubscriptionCache implements SubscriptionSource {
  readonly #store: Pick<Store, 'findApplication' | 'subscriptions'>
  readonly #clock: Clock
  readonly #limit: number
  /** By id or uid, the oldest first. */
  readonly #known = new Map<string, AppSubscriptions>()
  readonly #loading = new Map<string, Promise<AppSubscriptions>>()

  constructor(store: Pick<Store, 'findApplication' | 'subscriptions'>, clock: Clock, limit = 4096) {
    this.#store = store
    this.#clock = clock
    this.#limit = limit
  }

  known(ref: string): AppSubscriptions | undefined {
    return this.#known.get(ref)
  }

  /** Calls at the same time share one read. */
  load(ref: string): Promise<AppSubscriptions> {
    const underWay = this.#loading.get(ref)
    if (underWay) return underWay
    const loading = this.#read(ref).finally(() => this.#loading.delete(ref))
    this.#loading.set(ref, loading)
    return loading
  }

  forget(ref: string, stale: AppSubscriptions): void {
    if (this.#known.get(ref) === stale) this.#known.delete(ref)
  }

  async #read(ref: string): Promise<AppSubscriptions> {
    const readAt = this.#clock.steady()
    const subscriptions = await this.#ask(ref, readAt)
    this.#known.delete(ref)
    this.#known.set(ref, subscriptions)
    if (this.#known.size > this.#limit) this.#known.delete(this.#known.keys().next().value as string)
    return subscriptions
  }

  async #ask(ref: string, readAt: SteadyMs): Promise<AppSubscriptions> {
    try {
      const application = await this.#store.findApplication(ref)
      const stored = application && (await this.#store.subscriptions(application.key))
      if (stored) return appSubscriptions(application.key, stored, readAt)
    } catch (error) {
      throw refusalFor(error)
    }
    throw noSuch('application', ref)
  }
}

/**
 * A source for one endpoint alone, without a dedupe window. Each publish reads it from the store.
 */
export function onlyEndpoint(
  store: Pick<Store, 'subscriptions'>,
  clock: Clock,
  { app, key, id }: Pick<Endpoint, 'app' | 'key' | 'id'>,
): SubscriptionSource {
  return {
    known: () => undefined,
    async load() {
      const readAt = clock.steady()
      const stored = await store.subscriptions(app).catch((error) => {
        throw refusalFor(error)
      })
      const subscription = stored?.list.find(({ endpoint }) => endpoint === key)
      if (stored === undefined || subscription === undefined) throw noSuch('endpoint', id)
      return appSubscriptions(app, { ...stored, list: [subscription], dedupeSeconds: null }, readAt)
    },
    forget() {},
  }
}

/** Indexes the stored subscriptions of an application. */
export function appSubscriptions(
  app: number,
  { version, list, dedupeSeconds, eraseDelivered = false, payloadForMs, subjects }: Subscriptions,
  readAt: SteadyMs,
): AppSubscriptions {
  return {
    app,
    version,
    matcher: new Matcher(list),
    treatments: prepareTreatments(list),
    bounds: boundsOf(list),
    readAt,
    dedupeMs: dedupeSeconds === null ? null : dedupeSeconds * 1000,
    eraseDelivered,
    payloadForMs: payloadForMs ?? null,
    subjects: subjects && new SubjectIndex(subjects),
  }
}

function boundsOf(list: Subscriptions['list']): Bounds | undefined {
  const bounds = new Map<number, WaitingBound>()
  for (const { endpoint, treatment } of list) {
    if (treatment && !isUsualBound(treatment.flow)) bounds.set(endpoint, treatment.flow)
  }
  return bounds.size === 0 ? undefined : bounds
}
