import { AppError } from '../domain/app-error.ts'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import { allAtOnce, type Sliced, Turns } from '../domain/turns.ts'
import type { Filter, Filterable } from '../shaping/filter.ts'
import type { Once } from '../store/publishing.ts'
import type { Publication } from '../store/store.ts'
import type { Admission } from './admission.ts'
import { type Item, plainPublication, UnknownEndpoint } from './publication.ts'
import type { AppSubscriptions } from './subscriptions.ts'
import { Forms, stepsOf, type Treated, treat } from './treatments.ts'

/** A refusal by limits that are older than this is not final: the endpoints may have changed since. */
const boundsFreshMs = 1000

/** Deliveries of one batch: it is one transaction, which cannot be interrupted, and 200,000 deliveries took 110 ms. */
const batchDeliveriesLimit = 30_000

/** The store's answer to a commit. */
export interface Answer {
  readonly state: string
}

/**
 * Admitted publications: their deliveries count as waiting, until the store counts them itself. A caller releases them once the
 * store has answered.
 */
export class Prepared {
  readonly subscriptions: AppSubscriptions
  readonly publications: readonly Publication[]
  #admission: Admission | undefined

  constructor(subscriptions: AppSubscriptions, publications: readonly Publication[], admission: Admission | undefined) {
    this.subscriptions = subscriptions
    this.publications = publications
    this.#admission = admission
  }

  /** Stops counting the deliveries as admitted: they were stored, or they were not. A second call does nothing. */
  release(): void {
    this.#admission?.withdraw(this.publications)
    this.#admission = undefined
  }
}

interface PreparerDeps {
  readonly clock: Clock
  /** Without admission there is always room. */
  readonly admission?: Admission | undefined
  /** The time for which a message waits for its commit at the moment. */
  readonly delayMs?: () => number
}

/**
 * Prepares messages for the store: matches endpoints, applies their filters and shapes within the work budgets, and admits
 * the deliveries if there is room.
 */
export class Preparer {
  readonly #clock: Clock
  readonly #admission: Admission | undefined
  readonly #delayMs: () => number
  readonly #allowances: Allowances

  constructor({ clock, admission, delayMs = () => 0 }: PreparerDeps) {
    this.#clock = clock
    this.#admission = admission
    this.#delayMs = delayMs
    this.#allowances = new Allowances(clock)
  }

  /**
   * Prepares the messages of one request; `request` is its Idempotency-Key, if each message is stored under it. Answers at
   * once, or by a promise when the work takes more than one part. Throws or rejects with AppError `overloaded`.
   */
  prepare(
    subscriptions: AppSubscriptions,
    items: readonly Item[],
    request: Once | null = null,
  ): Prepared | Promise<Prepared> {
    const [only] = items
    const { treatments, subjects } = subscriptions
    if (treatments === undefined && subjects === undefined && only !== undefined && items.length === 1) {
      return this.#admit(subscriptions, [plainPublication(subscriptions, only, request)], this.#delayMs())
    }
    const work = this.#allowances.workOf(subscriptions.app)
    const publications = Turns.by(this.#clock).run(publicationsOf(subscriptions, items, request, work))
    if (!(publications instanceof Promise)) return this.#admit(subscriptions, publications, this.#delayMs())
    return publications.then((list) => this.#admit(subscriptions, list, this.#delayMs()))
  }

  /**
   * Prepares a message without a pause, for a caller that holds a transaction open; with as much work as fits into 50 ms.
   * The message does not wait for the commits of others.
   */
  prepareAtOnce(subscriptions: AppSubscriptions, item: Item): Prepared {
    const work = this.#allowances.workOf(subscriptions.app, atOnceSteps)
    return this.#admit(subscriptions, allAtOnce(publicationsOf(subscriptions, [item], null, work)), 0)
  }

  /**
   * Whether a refusal may rest on endpoints that have changed since: on their limits, or on a name that was unknown. Only
   * storing a message would show it.
   */
  isOutdated({ bounds, readAt }: AppSubscriptions, error: unknown, startedAt: SteadyMs): boolean {
    if (error instanceof UnknownEndpoint) return readAt < startedAt
    if (!(error instanceof AppError) || error.code !== 'overloaded') return false
    return bounds !== undefined && this.#clock.steady() - readAt > boundsFreshMs
  }

  /** Whether any endpoint would get the message. Without a payload, an endpoint with a filter counts as one that would. */
  async reaches(
    { app, matcher, treatments }: AppSubscriptions,
    eventType: string,
    channels: readonly string[] | null,
    payload?: unknown,
  ): Promise<boolean> {
    const matched = matcher.match(eventType, channels)
    if (treatments === undefined || payload === undefined) return matched.length > 0
    const message: Filterable = { payload, eventType, eventId: null, channels, tags: null }
    const work = this.#allowances.workOf(app)
    const filters = matched.map((endpoint) => treatments.get(endpoint)?.filter ?? null)
    if (filters.includes(null)) return true
    return Turns.by(this.#clock).run(passesAny(new Set(filters as Filter[]), message, work))
  }

  #admit(subscriptions: AppSubscriptions, publications: readonly Publication[], delayMs: number): Prepared {
    const admitted = this.#admission?.admit(publications, delayMs, subscriptions.bounds) ?? publications
    return new Prepared(subscriptions, admitted, this.#admission)
  }
}

/** Whether any of the filters lets a message pass. */
function* passesAny(filters: ReadonlySet<Filter>, message: Filterable, work: Work): Sliced<boolean> {
  for (const filter of filters) {
    yield
    // A filter that would take too long counts as passed: publishing the message would leave a dead letter.
    if (!work.take(stepsOf(filter, message, work)) || filter.passes(message)) return true
  }
  return false
}

/** The publications of one request, made in parts within the work that one request may cause. */
function* publicationsOf(
  subscriptions: AppSubscriptions,
  items: readonly Item[],
  request: Once | null,
  work: Work,
): Sliced<Publication[]> {
  const publications: Publication[] = []
  let deliveries = 0
  for (const item of items) {
    const plain = plainPublication(subscriptions, item, request)
    deliveries += plain.endpoints.length
    if (items.length > 1 && deliveries > batchDeliveriesLimit) throw tooManyDeliveries()
    yield
    const { treatments, subjects: index } = subscriptions
    const { envelope, body } = item
    const forms = new Forms(body, work)
    const treated = treatments && (yield* treat(treatments, envelope, forms, plain.endpoints))
    const subjects = index && (yield* index.hashesIn(yield* forms.json()))
    const publication = treated === undefined ? plain : withTreatment(plain, treated)
    publications.push(subjects === undefined ? publication : { ...publication, subjects })
  }
  return publications
}

/** A publication as its endpoints treat it. A message that names its endpoint keeps the mark of that. */
function withTreatment(plain: Publication, treated: Treated): Publication {
  const [direct] = plain.special ?? []
  if (direct === undefined) return { ...plain, ...treated }
  return { ...plain, ...treated, special: [{ ...treated.special?.[0], ...direct }] }
}

function tooManyDeliveries(): AppError {
  const message = `The batch would make more than ${batchDeliveriesLimit} deliveries. Publish fewer messages at once.`
  return new AppError('payload_too_large', message)
}

/** Steps that the filters and shapes of one request may take, and those of one application per second. */
const requestSteps = 10_000_000
const applicationStepsPerSecond = 10_000_000
/** Steps of work that cannot pause, because its caller holds a transaction open: 50 ms. */
const atOnceSteps = 1_000_000
/** Applications whose use is remembered; above, the oldest one is forgotten and starts with a full allowance. */
const applicationsLimit = 4096

/** Steps that one request may still take for filters and shapes. */
export class Work {
  #left: number
  readonly #application: Allowance | undefined

  constructor(application?: Allowance, limitSteps: number = requestSteps) {
    this.#application = application
    this.#left = limitSteps
  }

  /** The steps that may still be taken. */
  get left(): number {
    return Math.min(this.#left, this.#application?.left ?? Infinity)
  }

  /** Takes the steps if that many are left; returns whether they were. */
  take(steps: number): boolean {
    if (steps > this.left) return false
    this.add(steps)
    return true
  }

  /** Counts steps that are taken even if fewer are left. */
  add(steps: number): void {
    this.#left -= steps
    this.#application?.add(steps)
  }
}

/** Steps that an application may take: as many per second as it may take at once. */
class Allowance {
  readonly #clock: Clock
  #left = applicationStepsPerSecond
  #at: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#at = clock.steady()
  }

  get left(): number {
    const now = this.#clock.steady()
    const earned = ((now - this.#at) / 1000) * applicationStepsPerSecond
    this.#left = Math.min(applicationStepsPerSecond, this.#left + earned)
    this.#at = now
    return this.#left
  }

  add(steps: number): void {
    this.#left -= steps
  }
}

/** The allowances of the applications whose endpoints filter or shape. */
class Allowances {
  readonly #clock: Clock
  readonly #known = new Map<number, Allowance>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The work that one request of an application may cause. */
  workOf(app: number, limitSteps: number = requestSteps): Work {
    let known = this.#known.get(app)
    if (known === undefined) {
      known = new Allowance(this.#clock)
      this.#known.set(app, known)
      if (this.#known.size > applicationsLimit) this.#known.delete(this.#known.keys().next().value as number)
    }
    return new Work(known, limitSteps)
  }
}
