import { AppError } from '../domain/app-error.ts'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Once } from '../store/idempotency.ts'
import { type Publication, type Published, type PublishedTogether, type Store, StoreTrouble } from '../store/store.ts'
import type { Admission } from './admission.ts'
import { AnswerRate } from './answer-rate.ts'
import { dedupeOnce } from './once.ts'
import { type Route, Routes } from './routes.ts'
import { treat } from './treat.ts'

/** What a producer says of an event, beside its body. */
export interface Envelope {
  readonly eventType: string
  readonly eventId: string | null
  readonly channels: readonly string[] | null
  readonly contentType: string
  readonly delayMs: number
  readonly tags?: readonly string[] | null
  /** Sent along with every attempt. */
  readonly headers?: Readonly<Record<string, string>> | null
  /** Messages with the same one go one after the other to endpoints that keep that order. */
  readonly orderingKey?: string | null
  /** What the application's dedupe window goes by, instead of the content. */
  readonly dedupeKey?: string | null
  /** From when on nobody wants it any more. */
  readonly expiresInMs?: number | null
  /** For how long the body is kept, when that is less than the message is. */
  readonly payloadForMs?: number | null
}

/** A message that is stored and will be delivered. */
export interface Accepted {
  readonly key: number
  readonly id: string
}

/** One event with its body. */
export interface Item {
  readonly envelope: Envelope
  readonly body: Uint8Array
}

export interface PublisherParts {
  readonly store: Pick<Store, 'findApplication' | 'subscriptions' | 'publish' | 'publishTogether'>
  readonly clock: Clock
  /** Decides whether there is room; without it there always is. */
  readonly admission?: Admission
}

interface Waiting {
  readonly ref: string
  readonly item: Item
  /** The request it came with, if that has a key of its own. */
  readonly request: Once | null
  readonly since: SteadyMs
  route: Route
  publication: Publication
  tries: number
  readonly accept: (accepted: Accepted) => void
  readonly refuse: (reason: unknown) => void
}

/** One transaction takes at most this much, so that none holds the database for long. */
const groupLimit = 512
const groupBytesLimit = 8 * 1024 * 1024
/** Transactions under way at once. Four keep Postgres's log writer busy; SQLite finishes each before the next starts. */
const groupsAtOnce = 4
/** A refusal by what was read longer ago than this is not final: endpoints' limits may have changed since. */
const boundsFreshMs = 1000
/** How often a message is matched anew because endpoints changed meanwhile, before the caller is told to come back. */
const staleLimit = 8

/**
 * The one way in for messages, whoever brings them. All that arrive in one turn of the event loop share a transaction
 * (64,000 messages/s against 6,500 one by one); while transactions are under way, later arrivals gather for the next.
 */
export class Publisher {
  readonly #store: PublisherParts['store']
  readonly #clock: Clock
  /** Whoever stores a message by another way asks here whether there is room. */
  readonly admission: Admission | undefined
  readonly #routes: Routes
  /** Keys of requests being carried out: a second one of them is told so instead of being stored beside the first. */
  readonly #inFlight = new Set<string>()
  #waiting: Waiting[] = []
  /** Transactions under way. */
  readonly #groups = new Set<readonly Waiting[]>()
  readonly #rate = new AnswerRate()
  #planned = false

  constructor({ store, clock, admission }: PublisherParts) {
    this.#store = store
    this.#clock = clock
    this.admission = admission
    this.#routes = new Routes(store, clock)
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
      const publication = publicationOf({ route, ...item })
      const answer = await this.#admitting(route, [publication], ([admitted = publication]) => store(admitted))
      if (answer.state !== 'stale') return answer as T
      this.#routes.forget(ref, route)
    }
    throw new AppError('unavailable', keepChanging)
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
    const { matcher, treatments } = await this.#routeOf(ref)
    const matched = matcher.match(eventType, channels)
    if (treatments === undefined || payload === undefined) return matched.length > 0
    const message = { payload, eventType, eventId: null, channels, tags: null }
    return matched.some((endpoint) => treatments.get(endpoint)?.filter?.passes(message) ?? true)
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
      const route = this.#routes.known(ref)
      if (route) this.#enqueue(arrival, route)
      else this.#enqueueWhenRouted(arrival)
    })
  }

  async #publishTogether(ref: string, items: readonly Item[], request: Once | null): Promise<readonly Accepted[]> {
    for (let tries = 0; tries <= staleLimit; tries++) {
      const route = this.#routes.known(ref) ?? (await this.#routeOf(ref))
      const publications = items.map(({ envelope, body }) => publicationOf({ route, envelope, body }))
      const answer = await this.#admitting(route, publications, (admitted) =>
        this.#store.publishTogether(admitted, request),
      )
      if (answer.state !== 'stale') return messagesOf(answer, items)
      this.#routes.forget(ref, route)
    }
    throw new AppError('unavailable', keepChanging)
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
      publications = this.admission?.admit(wanted, this.#delayMs(), route.bounds) ?? wanted
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

  #enqueue(arrival: Omit<Waiting, 'route' | 'publication'>, route: Route): void {
    let publication = publicationOf({ route, ...arrival.item, request: arrival.request })
    try {
      if (this.admission)
        [publication = publication] = this.admission.admit([publication], this.#delayMs(), route.bounds)
    } catch (error) {
      if (!this.#isOutdated(route)) return arrival.refuse(error)
      this.#routes.forget(arrival.ref, route)
      return this.#enqueueWhenRouted(arrival)
    }
    this.#waiting.push({ ...arrival, route, publication })
    if (this.#planned || this.#groups.size === groupsAtOnce) return
    this.#planned = true
    this.#clock.soon(() => {
      this.#planned = false
      this.#start()
    })
  }

  #enqueueWhenRouted(arrival: Omit<Waiting, 'route' | 'publication'>): void {
    this.#routeOf(arrival.ref).then((route) => this.#enqueue(arrival, route), arrival.refuse)
  }

  /** How long a message that arrives now is likely to wait: as the oldest has, or as what is ahead of it will take. */
  #delayMs(): number {
    const now = this.#clock.steady()
    let oldest = this.#waiting[0]?.since ?? now
    let unanswered = this.#waiting.length
    for (const group of this.#groups) {
      oldest = Math.min(oldest, group[0]?.since ?? now)
      unanswered += group.length
    }
    return Math.max(now - oldest, this.#rate.delayMs(unanswered, now))
  }

  #start(): void {
    while (this.#waiting.length > 0 && this.#groups.size < groupsAtOnce) {
      const group = this.#takeGroup()
      this.#groups.add(group)
      this.#store.publish(group.map(({ publication }) => publication)).then(
        (answers) => this.#finish(group, answers),
        (error: unknown) => this.#fail(group, error),
      )
    }
  }

  #takeGroup(): Waiting[] {
    let bytes = 0
    let count = 0
    for (const waiting of this.#waiting) {
      bytes += bytesOf(waiting.publication)
      if (count === groupLimit || (count > 0 && bytes > groupBytesLimit)) break
      count++
    }
    if (count < this.#waiting.length) return this.#waiting.splice(0, count)
    const group = this.#waiting
    this.#waiting = []
    return group
  }

  #finish(group: readonly Waiting[], answers: readonly Published[]): void {
    this.#ended(group)
    for (const [i, waiting] of group.entries()) {
      const answer = answers[i] as Published
      if (answer.state !== 'accepted') this.admission?.withdraw([waiting.publication])
      else if (answer.merged !== undefined) this.admission?.merged(waiting.publication.app, answer.merged)
      if (answer.state === 'accepted' || answer.state === 'repeated') waiting.accept(answer)
      else if (answer.state === 'conflict') waiting.refuse(usedEventId(waiting.item.envelope.eventId, answer.id))
      else if (answer.state === 'mismatch') waiting.refuse(usedKey())
      else this.#matchAnew(waiting)
    }
    this.#start()
  }

  #ended(group: readonly Waiting[]): void {
    this.#groups.delete(group)
    if (this.admission) this.#rate.add(group.length, this.#clock.steady())
  }

  #fail(group: readonly Waiting[], error: unknown): void {
    this.#ended(group)
    const refusal = refusalFor(error)
    for (const waiting of group) {
      this.admission?.withdraw([waiting.publication])
      waiting.refuse(refusal)
    }
    this.#start()
  }

  #matchAnew(waiting: Waiting): void {
    this.#routes.forget(waiting.ref, waiting.route)
    if (waiting.tries === staleLimit) {
      waiting.refuse(new AppError('unavailable', keepChanging))
      return
    }
    const arrival = { ...waiting, tries: waiting.tries + 1 }
    const known = this.#routes.known(waiting.ref)
    if (known) this.#enqueue(arrival, known)
    else this.#enqueueWhenRouted(arrival)
  }
}

type Stale = { readonly state: 'stale' }
const stale: Stale = { state: 'stale' }
const none: readonly Once[] = []
const keepChanging = "The application's endpoints keep changing."

/** A message about to be stored: what its producer said, and what is known of its application. */
export interface Routed extends Item {
  readonly route: Route
  readonly request?: Once | null
}

/** What the store is asked to keep of a message: what its producer said, and who gets it. */
export function publicationOf({ route, envelope, body, request }: Routed): Publication {
  const { eventType, eventId, channels, contentType, delayMs, tags = null, headers = null } = envelope
  const { app, version, matcher, treatments, dedupeMs } = route
  const dedupe = dedupeMs == null ? null : dedupeOnce(app, envelope, body, dedupeMs)
  const publication: Publication = {
    app,
    version,
    eventType,
    eventId,
    channels,
    contentType,
    delayMs,
    tags,
    headers,
    body,
    payloadForMs: envelope.payloadForMs ?? null,
    expiresInMs: envelope.expiresInMs ?? null,
    orderingKey: envelope.orderingKey ?? null,
    endpoints: matcher.match(eventType, channels),
    once: request == null && dedupe === null ? none : [request, dedupe].filter((once) => once != null),
  }
  if (treatments === undefined) return publication
  return { ...publication, ...treat(treatments, envelope, body, publication.endpoints) }
}

function bytesOf({ body, variants }: Publication): number {
  let bytes = body.length
  for (const variant of variants ?? []) bytes += variant.body?.length ?? 0
  return bytes
}

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

function usedEventId(eventId: string | null, id: string): AppError {
  return new AppError('conflict', `The eventId ${eventId} is already used by the message ${id}.`)
}

/** The request's key was used before, for something else. */
export function usedKey(): AppError {
  const field = { at: ['header', 'idempotency-key'], message: 'was used for another request', type: 'idempotency' }
  return new AppError('validation', 'The Idempotency-Key was used for another request.', [field])
}

/** What a caller is told when the store failed: that it cannot now, where that is all there is to it. */
export function refusalFor(error: unknown): unknown {
  if (!(error instanceof StoreTrouble)) return error
  return new AppError('unavailable', 'The store cannot take messages at the moment.', [], { cause: error })
}
