import { AppError } from '../domain/app-error.ts'
import type { Clock } from '../domain/clock.ts'
import { type Publication, type Published, type Store, StoreTrouble } from '../store/store.ts'
import { type Route, Routes } from './routes.ts'

/** What a producer says of an event, beside its body. */
export interface Envelope {
  readonly eventType: string
  readonly eventId: string | null
  readonly channels: readonly string[] | null
  readonly contentType: string
  readonly delayMs: number
}

/** A message that is stored and will be delivered. */
export interface Accepted {
  readonly key: number
  readonly id: string
}

export interface PublisherParts {
  readonly store: Pick<Store, 'findApplication' | 'subscriptions' | 'publish'>
  readonly clock: Clock
}

interface Waiting {
  readonly ref: string
  readonly envelope: Envelope
  readonly body: Uint8Array
  route: Route
  tries: number
  readonly accept: (accepted: Accepted) => void
  readonly refuse: (reason: unknown) => void
}

/** One transaction takes at most this much, so that none holds the database for long. */
const groupLimit = 512
const groupBytesLimit = 8 * 1024 * 1024
/** Transactions under way at once. Four keep Postgres's log writer busy; SQLite finishes each before the next starts. */
const groupsAtOnce = 4
/** How often a message is matched anew because endpoints changed meanwhile, before the caller is told to come back. */
const staleLimit = 8

/**
 * The one way in for messages, whoever brings them. All that arrive in one turn of the event loop share a transaction
 * (64,000 messages/s against 6,500 one by one); while transactions are under way, later arrivals gather for the next.
 */
export class Publisher {
  readonly #store: PublisherParts['store']
  readonly #clock: Clock
  readonly #routes: Routes
  #waiting: Waiting[] = []
  #underWay = 0
  #planned = false

  constructor({ store, clock }: PublisherParts) {
    this.#store = store
    this.#clock = clock
    this.#routes = new Routes(store)
  }

  /**
   * Stores a message and all its deliveries; resolves once they are durable. The body is kept by reference until then.
   * Rejects with AppError `not_found` (no such application), `conflict` (its eventId was used) or `unavailable` (the
   * store cannot now). A message refused was not stored; only after `unavailable` it may have been, when the
   * connection was lost in the middle of a commit.
   */
  publish(ref: string, envelope: Envelope, body: Uint8Array): Promise<Accepted> {
    return new Promise((accept, refuse) => {
      const route = this.#routes.known(ref)
      if (route) this.#enqueue({ ref, envelope, body, route, tries: 0, accept, refuse })
      else this.#enqueueWhenRouted({ ref, envelope, body, tries: 0, accept, refuse })
    })
  }

  #enqueue(waiting: Waiting): void {
    this.#waiting.push(waiting)
    if (this.#planned || this.#underWay === groupsAtOnce) return
    this.#planned = true
    this.#clock.soon(() => {
      this.#planned = false
      this.#start()
    })
  }

  #enqueueWhenRouted(waiting: Omit<Waiting, 'route'>): void {
    this.#routes.load(waiting.ref).then(
      (route) => {
        if (route) this.#enqueue({ ...waiting, route })
        else waiting.refuse(new AppError('not_found', 'There is no such application.'))
      },
      (error: unknown) => waiting.refuse(refusalFor(error)),
    )
  }

  #start(): void {
    while (this.#waiting.length > 0 && this.#underWay < groupsAtOnce) {
      const group = this.#takeGroup()
      this.#underWay++
      this.#store.publish(group.map(publicationOf)).then(
        (answers) => this.#finish(group, answers),
        (error: unknown) => this.#fail(group, error),
      )
    }
  }

  #takeGroup(): Waiting[] {
    let bytes = 0
    let count = 0
    for (const waiting of this.#waiting) {
      bytes += waiting.body.length
      if (count === groupLimit || (count > 0 && bytes > groupBytesLimit)) break
      count++
    }
    if (count < this.#waiting.length) return this.#waiting.splice(0, count)
    const group = this.#waiting
    this.#waiting = []
    return group
  }

  #finish(group: readonly Waiting[], answers: readonly Published[]): void {
    this.#underWay--
    for (const [i, waiting] of group.entries()) {
      const answer = answers[i] as Published
      if (answer.state === 'accepted') waiting.accept(answer)
      else if (answer.state === 'conflict') waiting.refuse(usedEventId(waiting.envelope.eventId, answer.id))
      else this.#matchAnew(waiting)
    }
    this.#start()
  }

  #fail(group: readonly Waiting[], error: unknown): void {
    this.#underWay--
    const refusal = refusalFor(error)
    for (const waiting of group) waiting.refuse(refusal)
    this.#start()
  }

  #matchAnew(waiting: Waiting): void {
    this.#routes.forget(waiting.ref, waiting.route)
    if (waiting.tries === staleLimit) {
      waiting.refuse(new AppError('unavailable', "The application's endpoints keep changing."))
      return
    }
    const known = this.#routes.known(waiting.ref)
    if (known) this.#enqueue({ ...waiting, route: known, tries: waiting.tries + 1 })
    else this.#enqueueWhenRouted({ ...waiting, tries: waiting.tries + 1 })
  }
}

/** What the store is asked to keep of a message: what its producer said, and who gets it. */
export function publicationOf({ route, envelope, body }: Pick<Waiting, 'route' | 'envelope' | 'body'>): Publication {
  const { eventType, eventId, channels, contentType, delayMs } = envelope
  const endpoints = route.matcher.match(eventType, channels)
  return { app: route.app, version: route.version, eventType, eventId, channels, contentType, delayMs, body, endpoints }
}

function usedEventId(eventId: string | null, id: string): AppError {
  return new AppError('conflict', `The eventId ${eventId} is already used by the message ${id}.`)
}

function refusalFor(error: unknown): unknown {
  if (!(error instanceof StoreTrouble)) return error
  return new AppError('unavailable', 'The store cannot take messages at the moment.', [], { cause: error })
}
