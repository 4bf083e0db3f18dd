import { AppError } from '../domain/app-error.ts'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Filter } from '../shaping/filter.ts'
import type { Once } from '../store/publishing.ts'
import type { Publication, Published, PublishedTogether, Store } from '../store/store.ts'
import type { Admission } from './admission.ts'
import { GroupCommit } from './group-commit.ts'
import { type Envelope, type Item, publicationOf, publicationWithin } from './publication.ts'
import { keepChanging, refusalFor, usedEventId, usedKey } from './refusals.ts'
import { type Route, Routes } from './routes.ts'
import { stepsOf } from './treat.ts'
import { Allowances, pauseOf, type Work } from './work.ts'

/** A message that is stored and will be delivered. */
export interface Accepted {
  readonly key: number
  readonly id: string
}

export interface PublisherParts {
  readonly store: Pick<Store, 'dialect' | 'findApplication' | 'subscriptions' | 'publish' | 'publishTogether'>
  readonly clock: Clock
  /** Decides whether there is room; without it there always is. */
  readonly admission?: Admission
}

/** A message on its way into the store. */
interface Waiting extends Arrival {
  readonly route: Route
  readonly publication: Publication
}

/** A message that somebody wants to publish. */
interface Arrival {
  readonly ref: string
  readonly item: Item
  /** The request it came with, if that has a key of its own. */
  readonly request: Once | null
  readonly since: SteadyMs
  /** How often it was matched in vain. */
  readonly tries: number
  readonly accept: (accepted: Accepted) => void
  readonly refuse: (reason: unknown) => void
}

/** A refusal by what was read longer ago than this is not final: endpoints' limits may have changed since. */
const boundsFreshMs = 1000
/** How often a message is matched anew because endpoints changed meanwhile, before the caller is told to come back. */
const staleLimit = 8
/** Steps of about 50 ns to match one message, beside one per endpoint. */
const messageSteps = 50

/**
 * The one way in for messages, whoever brings them: each is matched by what is remembered of its application, admitted if
 * there is room, and stored together with others. Endpoints that changed meanwhile are matched anew.
 */
export class Publisher {
  readonly #store: PublisherParts['store']
  readonly #clock: Clock
  /** Whoever stores a message by another way asks here whether there is room. */
  readonly admission: Admission | undefined
  readonly #routes: Routes
  readonly #allowances: Allowances
  /** Keys of requests being carried out: a second one of them is told so instead of being stored beside the first. */
  readonly #inFlight = new Set<string>()
  readonly #groups: GroupCommit<Waiting>

  constructor({ store, clock, admission }: PublisherParts) {
    this.#store = store
    this.#clock = clock
    this.admission = admission
    this.#routes = new Routes(store, clock)
    this.#allowances = new Allowances(clock)
    this.#groups = new GroupCommit({
      store,
      clock,
      onStored: (waiting, answer) => this.#finish(waiting, answer),
      onFailed: (waiting, error) => this.#fail(waiting, error),
    })
  }

  /**
   * Stores a message and all its deliveries; resolves once they are durable. The body is kept by reference until then.
   * A message that was published before, by the request's key or within the dedupe window, is answered and not stored.
   * Rejects with AppError `not_found` (no such application), `conflict` (its eventId was used), `validation` (the
   * request's key was used for another), `request_in_flight`, `overloaded` or `unavailable` (the store cannot now). A
   * message refused was not stored; only after `unavailable` it may have been, when the connection was lost in the
   * middle of a commit.
   */
  publish(ref: string, envelope: Envelope, body: Uint8Array, request: Once | null = null): Promise<Accepted> {
    if (request === null) return this.#publish(ref, { envelope, body }, null)
    return this.#once(request, () => this.#publish(ref, { envelope, body }, request))
  }

  /** Stores all of these messages or none of them. Beyond what `publish` rejects with, the conflict names its index. */
  publishTogether(ref: string, items: readonly Item[], request: Once | null = null): Promise<readonly Accepted[]> {
    if (request === null) return this.#publishTogether(ref, items, null)
    return this.#once(request, () => this.#publishTogether(ref, items, request))
  }

  /**
   * Has `store` store a message in a transaction of its own: matched as it would be by `publish`, if there is room. It is
   * called again when it answers that the application's endpoints have changed. Rejects like `publish`.
   */
  async publishBy<T extends { readonly state: string }>(
    ref: string,
    item: Item,
    store: (publication: Publication) => Promise<T>,
  ): Promise<T> {
    for (let tries = 0; tries <= staleLimit; tries++) {
      const route = this.#routes.known(ref) ?? (await this.#routeOf(ref))
      const publication = await publicationWithin({ route, ...item }, this.#allowances.workOf(route.app), this.#clock)
      const answer = await this.#admitting(route, [publication], ([admitted = publication]) => store(admitted))
      if (answer.state !== 'stale') return answer as T
      this.#routes.forget(ref, route)
    }
    throw keepChanging()
  }

  /**
   * Whether a message of this type sent on these channels would be delivered to anyone. Without a payload, whoever filters
   * by it may want it.
   */
  async reaches(
    ref: string,
    eventType: string,
    channels: readonly string[] | null,
    payload?: unknown,
  ): Promise<boolean> {
    // Asked of the store, not remembered: nothing would tell that what is remembered is out of date.
    const { app, matcher, treatments } = await this.#routeOf(ref)
    const matched = matcher.match(eventType, channels)
    if (treatments === undefined || payload === undefined) return matched.length > 0
    const message = { payload, eventType, eventId: null, channels, tags: null }
    const work = this.#allowances.workOf(app)
    const refusing = new Set<Filter>()
    for (const endpoint of matched) {
      const filter = treatments.get(endpoint)?.filter ?? null
      if (filter === null) return true
      if (refusing.has(filter)) continue
      // A filter that would take too long may want it: publishing then leaves a dead letter, and not nothing.
      if (!work.take(stepsOf(filter, message, work)) || filter.passes(message)) return true
      refusing.add(filter)
      if (work.isPauseDue()) await pauseOf(this.#clock)
    }
    return false
  }

  /** The messages of one request, matched and treated with the work that one request may cause. */
  async #publicationsOf(route: Route, items: readonly Item[]): Promise<Publication[]> {
    const work: Work = this.#allowances.workOf(route.app)
    const publications: Publication[] = []
    for (const { envelope, body } of items) {
      const prepared = publicationWithin({ route, envelope, body }, work, this.#clock)
      const publication = prepared instanceof Promise ? await prepared : prepared
      publications.push(publication)
      work.add(messageSteps + publication.endpoints.length)
      if (work.isPauseDue()) await pauseOf(this.#clock)
    }
    return publications
  }

  /** The key of the application with this id or uid. Rejects with AppError `not_found` or `unavailable`. */
  async keyOf(ref: string): Promise<number> {
    return (this.#routes.known(ref) ?? (await this.#routeOf(ref))).app
  }

  /** Carries a request out unless one with the same key is being carried out. */
  async #once<T>({ hash }: Once, carryOut: () => Promise<T>): Promise<T> {
    if (this.#inFlight.has(hash)) {
      throw new AppError('request_in_flight', 'A request with the same Idempotency-Key is being carried out.')
    }
    this.#inFlight.add(hash)
    try {
      return await carryOut()
    } finally {
      this.#inFlight.delete(hash)
    }
  }

  #publish(ref: string, item: Item, request: Once | null): Promise<Accepted> {
    return new Promise((accept, refuse) => {
      const arrival = { ref, item, request, since: this.#clock.steady(), tries: 0, accept, refuse }
      this.#enqueueByRoute(arrival)
    })
  }

  async #publishTogether(ref: string, items: readonly Item[], request: Once | null): Promise<readonly Accepted[]> {
    for (let tries = 0; tries <= staleLimit; tries++) {
      const route = this.#routes.known(ref) ?? (await this.#routeOf(ref))
      const publications = await this.#publicationsOf(route, items)
      const answer = await this.#admitting(route, publications, (admitted) =>
        this.#store.publishTogether(admitted, request),
      )
      if (answer.state !== 'stale') return messagesOf(answer, items)
      this.#routes.forget(ref, route)
    }
    throw keepChanging()
  }

  /**
   * Whether a refusal may be by limits that endpoints no longer have. Only storing tells that what is remembered of an
   * application is out of date, and what is refused is not stored.
   */
  #isOutdated({ bounds, readAt }: Route): boolean {
    return bounds !== undefined && this.#clock.steady() - readAt > boundsFreshMs
  }

  async #admitting<T extends { readonly state: string }>(
    route: Route,
    wanted: readonly Publication[],
    store: (admitted: readonly Publication[]) => Promise<T>,
  ): Promise<T | Stale> {
    let publications = wanted
    try {
      publications = this.admission?.admit(wanted, this.#groups.delayMs(), route.bounds) ?? wanted
    } catch (error) {
      if (this.#isOutdated(route)) return stale
      throw error
    }
    let stored = false
    try {
      const answer = await this.#asking(() => store(publications))
      stored = answer.state === 'accepted'
      return answer
    } finally {
      if (!stored) this.admission?.withdraw(publications)
    }
  }

  async #routeOf(ref: string): Promise<Route> {
    const route = await this.#asking(() => this.#routes.load(ref))
    if (route === undefined) throw new AppError('not_found', 'There is no such application.')
    return route
  }

  async #asking<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask()
    } catch (error) {
      throw refusalFor(error)
    }
  }

  /** Matches and enqueues, at once when the route is known. */
  #enqueueByRoute(arrival: Arrival): void {
    const route = this.#routes.known(arrival.ref)
    if (route === undefined) void this.#enqueueWhenRouted(arrival)
    else this.#enqueue(arrival, route)
  }

  /** Never throws: an error is the arrival's own answer. */
  #enqueue(arrival: Arrival, route: Route): void {
    let prepared: Publication | Promise<Publication>
    try {
      const routed = { route, ...arrival.item, request: arrival.request }
      prepared =
        route.treatments === undefined
          ? publicationOf(routed)
          : publicationWithin(routed, this.#allowances.workOf(route.app), this.#clock)
    } catch (error) {
      return arrival.refuse(error)
    }
    if (prepared instanceof Promise) void this.#admitWhenPrepared(arrival, route, prepared)
    else this.#admit(arrival, route, prepared)
  }

  /** Never rejects: an error is the arrival's own answer. */
  async #admitWhenPrepared(arrival: Arrival, route: Route, prepared: Promise<Publication>): Promise<void> {
    try {
      this.#admit(arrival, route, await prepared)
    } catch (error) {
      arrival.refuse(error)
    }
  }

  #admit(arrival: Arrival, route: Route, prepared: Publication): void {
    let publication = prepared
    try {
      if (this.admission)
        [publication = publication] = this.admission.admit([publication], this.#groups.delayMs(), route.bounds)
    } catch (error) {
      if (!this.#isOutdated(route)) return arrival.refuse(error)
      this.#routes.forget(arrival.ref, route)
      void this.#enqueueWhenRouted(arrival)
      return
    }
    this.#groups.add({ ...arrival, route, publication })
  }

  /** Never rejects: an error is the arrival's own answer. */
  async #enqueueWhenRouted(arrival: Arrival): Promise<void> {
    try {
      this.#enqueue(arrival, await this.#routeOf(arrival.ref))
    } catch (error) {
      arrival.refuse(error)
    }
  }

  #finish(waiting: Waiting, answer: Published): void {
    if (answer.state !== 'accepted') this.admission?.withdraw([waiting.publication])
    else if (answer.merged !== undefined) this.admission?.merged(waiting.publication.app, answer.merged)
    if (answer.state === 'accepted' || answer.state === 'repeated') waiting.accept(answer)
    else if (answer.state === 'conflict') waiting.refuse(usedEventId(waiting.item.envelope.eventId, answer.id))
    else if (answer.state === 'mismatch') waiting.refuse(usedKey())
    else this.#matchAgain(waiting)
  }

  #fail(waiting: Waiting, error: unknown): void {
    this.admission?.withdraw([waiting.publication])
    waiting.refuse(refusalFor(error))
  }

  #matchAgain(waiting: Waiting): void {
    this.#routes.forget(waiting.ref, waiting.route)
    if (waiting.tries === staleLimit) waiting.refuse(keepChanging())
    else this.#enqueueByRoute({ ...waiting, tries: waiting.tries + 1 })
  }
}

type Stale = { readonly state: 'stale' }
const stale: Stale = { state: 'stale' }

function messagesOf(
  answer: Exclude<PublishedTogether, { state: 'stale' }>,
  items: readonly Item[],
): readonly Accepted[] {
  if (answer.state === 'mismatch') throw usedKey()
  if (answer.state === 'conflict') {
    const { message } = usedEventId(items[answer.index]?.envelope.eventId ?? null, answer.id)
    throw new AppError('conflict', `Message ${answer.index}: ${message}`)
  }
  return answer.messages
}
