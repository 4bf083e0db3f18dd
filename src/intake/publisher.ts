import { AppError, noSuch } from '../domain/app-error.ts'
import type { Clock } from '../domain/clock.ts'
import type { Identity } from '../domain/ids.ts'
import { present } from '../domain/invariant.ts'
import type { TraceContext } from '../domain/trace-context.ts'
import type { Endpoint } from '../features/endpoints/rules.ts'
import type { Schedule, ScheduleRun } from '../features/schedules/noun.ts'
import { type Enlisted, type Match, type Once, staleTries } from '../store/publishing.ts'
import type { Publication, Published, PublishedTogether, Store } from '../store/store.ts'
import type { Admission } from './admission.ts'
import { GroupCommit } from './group-commit.ts'
import { type Commit, Pending } from './pending.ts'
import { type Answer, type Prepared, Preparer } from './preparer.ts'
import { type Envelope, type Item, keepChanging, refusalFor, usedEventId, usedKey } from './publication.ts'
import { appSubscriptions, onlyEndpoint, SubscriptionCache, type SubscriptionSource } from './subscriptions.ts'

/** A message that is stored and will be delivered. */
export interface Accepted {
  readonly key: number
  readonly id: string
  /** `repeated` when an earlier message stands for this one, which was not stored. */
  readonly state: 'accepted' | 'repeated'
  /** Deliveries that this publish left as dead letters because no work was left for their filters. */
  readonly unfiltered: number
}

/** A message that exists once the caller's transaction commits. */
export interface AcceptedWithin extends Accepted {
  /** Reports the commit, so that the deliveries start at once. */
  committed(): void
}

interface PublisherDeps {
  readonly store: Pick<
    Store,
    'traits' | 'findApplication' | 'subscriptions' | 'publish' | 'publishTogether' | 'publishWithin'
  >
  readonly clock: Clock
  /** Without admission there is always room. */
  readonly admission?: Admission
  /** Without it, publishes are not traced. */
  readonly tracer?: PublishTracer | undefined
}

/**
 * The one way in for messages. Every publish is prepared in the same way (see `Preparer`), and committed in one of three:
 * in a group with other messages, together with the messages of its request, or within a transaction of its caller.
 */
export class Publisher {
  readonly #store: PublisherDeps['store']
  readonly #clock: Clock
  readonly #tracer: PublishTracer | undefined
  readonly #subscriptions: SubscriptionCache
  readonly #preparer: Preparer
  readonly #groups: GroupCommit
  readonly #grouped: Commit<Published> = (pending) => this.#groups.add(pending)
  /** The Idempotency-Keys of requests under way: a second request with one of them is refused. */
  readonly #inFlight = new Set<string>()

  constructor({ store, clock, admission, tracer }: PublisherDeps) {
    this.#store = store
    this.#tracer = tracer
    this.#clock = clock
    this.#subscriptions = new SubscriptionCache(store, clock)
    this.#groups = new GroupCommit({ store, clock })
    this.#preparer = new Preparer({ clock, admission, delayMs: () => this.#groups.delayMs() })
  }

  /**
   * Stores a message and all its deliveries; resolves once they are durable. The body is kept by reference until then.
   * A repeated message, by the request's key or within the dedupe window, is answered and not stored. Rejects with
   * AppError `not_found` (no such application), `conflict` (its eventId was used), `validation` (the request's key was
   * used for another request), `request_in_flight`, `overloaded` or `unavailable` (the store has trouble). A refused
   * message was not stored; only after `unavailable` it may have been, when the connection broke during the commit.
   */
  publish(ref: string, envelope: Envelope, body: Uint8Array, request: Once | null = null): Promise<Accepted> {
    return traced(this.#tracer, [{ envelope, body }], ([item]) => {
      const publish = () => this.#publish(this.#subscriptions, ref, only(item), request)
      return request === null ? publish() : this.#once(request, publish)
    })
  }

  /** Stores a message for one endpoint alone, whatever the endpoint subscribes to. Rejects like `publish`. */
  publishToOne(endpoint: Pick<Endpoint, 'app' | 'key' | 'id'>, { envelope, body }: Item): Promise<Accepted> {
    const source = onlyEndpoint(this.#store, this.#clock, endpoint)
    const items = [{ envelope: { ...envelope, endpoint: endpoint.id }, body }]
    return traced(this.#tracer, items, ([item]) => this.#publish(source, '', only(item), null))
  }

  /** Stores all of these messages or none. Rejects like `publish`; a conflict names the index of its message. */
  publishTogether(ref: string, items: readonly Item[], request: Once | null = null): Promise<readonly Accepted[]> {
    const publish = (items: readonly Item[]) =>
      this.#commit(
        ref,
        items,
        (publications) => this.#store.publishTogether(publications, request),
        (answer, publications) => messagesOf(answer, publications, items),
      )
    return traced(this.#tracer, items, (items) =>
      request === null ? publish(items) : this.#once(request, () => publish(items)),
    )
  }

  /**
   * Stores a message by `store`, a transaction of the caller's. `store` is called again when it answers `stale`: the
   * application's endpoints changed. Rejects like `publish`.
   */
  publishBy<A extends Answer>(ref: string, item: Item, store: (publication: Publication) => Promise<A>): Promise<A> {
    return traced(this.#tracer, [item], (items) =>
      this.#commit(
        ref,
        items,
        ([publication]) => store(only(publication)),
        (answer) => answer,
      ),
    )
  }

  /**
   * Stores a message within the transaction that is open on a connection of the caller's (see `CallerTransaction`). Answers at once
   * on SQLite, by a promise on Postgres; throws or rejects like `publish`.
   */
  publishWithin(connection: object, ref: string, item: Item): AcceptedWithin | Promise<AcceptedWithin> {
    const last: { prepared?: Prepared } = {}
    const match: Match = ({ key }, stored) => {
      last.prepared?.release()
      const subscriptions = appSubscriptions(key, stored, this.#clock.steady())
      last.prepared = this.#preparer.prepareAtOnce(subscriptions, item)
      return only(last.prepared.publications[0])
    }
    const finish = (enlisted: Enlisted | undefined): AcceptedWithin => {
      if (enlisted === undefined) {
        last.prepared?.release()
        throw noSuch('application', ref)
      }
      const { published, committed } = enlisted
      last.prepared?.release()
      return { ...messageOf(published, last.prepared?.publications[0], item), committed }
    }
    const fail = (error: unknown): never => {
      last.prepared?.release()
      throw refusalFor(error)
    }
    try {
      const answer = this.#store.publishWithin(connection, ref, match)
      return answer instanceof Promise ? answer.then(finish, fail) : finish(answer)
    } catch (error) {
      return fail(error)
    }
  }

  /** Whether any endpoint would get a message of this type on these channels. See `Preparer.reaches`. */
  async reaches(
    ref: string,
    eventType: string,
    channels: readonly string[] | null,
    payload?: unknown,
  ): Promise<boolean> {
    // Read from the store: remembered subscriptions may be out of date, and nothing is stored here that would show it.
    return this.#preparer.reaches(await this.#subscriptions.load(ref), eventType, channels, payload)
  }

  /** The key of the application with this id or uid. Rejects with AppError `not_found` or `unavailable`. */
  async keyOf(ref: string): Promise<number> {
    return (this.#subscriptions.known(ref) ?? (await this.#subscriptions.load(ref))).app
  }

  /** Carries out a request unless a request with the same key is under way. */
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

  /** Commits a message in a group with others. */
  #publish(source: SubscriptionSource, ref: string, item: Item, request: Once | null): Promise<Accepted> {
    return new Promise((resolve, refuse) => {
      new Pending<Published>({
        source,
        preparer: this.#preparer,
        clock: this.#clock,
        ref,
        items: [item],
        request,
        commit: this.#grouped,
        accept: (answer, [publication]) => resolve(messageOf(answer, publication, item)),
        refuse,
      }).start()
    })
  }

  /** Commits the messages of one request in a transaction of their own. `read` turns the store's answer into the request's. */
  #commit<A extends Answer, T>(
    ref: string,
    items: readonly Item[],
    store: (publications: readonly Publication[]) => Promise<A>,
    read: (answer: A, publications: readonly Publication[]) => T,
  ): Promise<T> {
    const commit = async (pending: Pending<A>) => {
      let answer: A
      try {
        answer = await store(pending.publications)
      } catch (error) {
        return pending.failed(error)
      }
      pending.stored(answer)
    }
    return new Promise((resolve, refuse) => {
      const to = { source: this.#subscriptions, preparer: this.#preparer, clock: this.#clock, ref, items }
      const accept = (answer: A, publications: readonly Publication[]) => resolve(read(answer, publications))
      new Pending<A>({ ...to, request: null, commit, accept, refuse }).start()
    })
  }
}

/** The one item, or publication, of a publish of one message. */
function only<T>(one: T | undefined): T {
  return present(one, 'a publish of one message has one item')
}

/** The message that was stored, or that stands for a repeated one. Throws AppError when there is none. */
function messageOf(answer: Published, publication: Publication | undefined, { envelope }: Item): Accepted {
  if (answer.state === 'accepted') return { ...answer, unfiltered: unfilteredOf(publication) }
  if (answer.state === 'repeated') return { ...answer, unfiltered: 0 }
  if (answer.state === 'conflict') throw usedEventId(envelope.eventId, answer.id)
  throw answer.state === 'mismatch' ? usedKey() : keepChanging()
}

function messagesOf(
  answer: PublishedTogether,
  publications: readonly Publication[],
  items: readonly Item[],
): readonly Accepted[] {
  const { state } = answer
  if (state === 'accepted' || state === 'repeated') {
    return answer.messages.map((message, i) => {
      const isRepeated = state === 'repeated' || message.repeated === true
      return { ...message, state, unfiltered: isRepeated ? 0 : unfilteredOf(publications[i]) }
    })
  }
  if (answer.state === 'conflict') {
    const { message } = usedEventId(items[answer.index]?.envelope.eventId ?? null, answer.id)
    throw new AppError('conflict', `Message ${answer.index}: ${message}`)
  }
  throw answer.state === 'mismatch' ? usedKey() : keepChanging()
}

function unfilteredOf(publication: Publication | undefined): number {
  let count = 0
  for (const { drop } of publication?.special ?? []) if (drop === 'unfiltered') count++
  return count
}

/** Makes a span of each publish. It never throws and never waits. */
export interface PublishTracer {
  begin(items: readonly Item[]): PublishSpan
}

/** The span of a publish under way. */
export interface PublishSpan {
  /** The context that is stored with the messages; null when they belong to no trace. */
  readonly trace: TraceContext | null
  /** The publish ended with an answer, or with the error that refused it. */
  end(answer: unknown, error?: unknown): void
}

/** Carries out a publish within a span, if publishes are traced. The messages get the context of the span. */
function traced<T>(
  tracer: PublishTracer | undefined,
  items: readonly Item[],
  publish: (items: readonly Item[]) => Promise<T>,
): Promise<T> {
  if (tracer === undefined) return publish(items)
  const span = tracer.begin(items)
  return publish(withTrace(items, span.trace)).then(
    (answer) => {
      span.end(answer)
      return answer
    },
    (error) => {
      span.end(undefined, error)
      throw error
    },
  )
}

/** The items within the trace of a span. */
function withTrace(items: readonly Item[], trace: TraceContext | null): readonly Item[] {
  return trace === null ? items : items.map(({ envelope, body }) => ({ envelope: { ...envelope, trace }, body }))
}

/** A run to be stored. */
export type NewRun = Omit<ScheduleRun, 'ranAt' | 'message'>

/**
 * The envelope of a schedule's message. The dedupe key is unique per run, so that a dedupe window drops none. Throws AppError
 * `damaged_record` when the stored headers do not open.
 */
export function envelopeOf(schedule: Schedule, eventId: string | null): Envelope {
  const { eventType, channels, contentType, headers, tags, endpoint, id, revision } = schedule
  if (schedule.damaged) {
    throw new AppError('damaged_record', `The stored headers of ${id} cannot be opened; replace them with PATCH.`)
  }
  const dedupeKey = eventId ?? `${id}-run-${revision}`
  return { eventType, eventId, channels, contentType, headers, tags, endpoint, delayMs: 0, dedupeKey }
}

/** Publishes a schedule's message now, also when it is paused. Rejects like `publish`, or with `not_found`. */
export async function runNow(
  store: Pick<Store, 'findSchedule' | 'advanceSchedule'>,
  publisher: Publisher,
  appId: string,
  { app, id }: Pick<Schedule, 'app' | 'id'>,
): Promise<Identity> {
  for (let tries = 0; tries < staleTries; tries++) {
    const schedule = await store.findSchedule(app, id)
    if (schedule === undefined) throw noSuch('schedule', id)
    const item = { envelope: envelopeOf(schedule, null), body: schedule.body }
    const answer = await publisher.publishBy(appId, item, (publication) => {
      const run: NewRun = { at: 0, state: 'published', trigger: 'manual', error: null, count: 1 }
      return store.advanceSchedule(schedule, { publication, runs: [run], reachedAt: null, retryInMs: null })
    })
    if (answer.state === 'accepted') return answer
  }
  throw new AppError('unavailable', 'The schedule keeps changing.')
}
