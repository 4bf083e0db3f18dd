import type { Clock, SteadyMs } from '../domain/clock.ts'
import { present } from '../domain/invariant.ts'
import { type Once, type Publication, staleTries } from '../store/publishing.ts'
import type { Answer, Prepared, Preparer } from './preparer.ts'
import { type Item, keepChanging, refusalFor } from './publication.ts'
import type { AppSubscriptions, SubscriptionSource } from './subscriptions.ts'

/** Stores what was prepared, and then calls `pending.stored` or `pending.failed` once. Must not throw. */
export type Commit<A extends Answer> = (pending: Pending<A>) => void

interface PendingDeps<A extends Answer> {
  readonly source: SubscriptionSource
  readonly preparer: Preparer
  readonly clock: Clock
  /** The application's id or uid. */
  readonly ref: string
  readonly items: readonly Item[]
  /** The request's Idempotency-Key, if each message is stored under it. */
  readonly request: Once | null
  readonly commit: Commit<A>
  /** Called with an answer that is not `stale`, and what was stored. An error that it throws refuses the request. */
  readonly accept: (answer: A, publications: readonly Publication[]) => void
  readonly refuse: (reason: unknown) => void
}

/**
 * One request to publish, on its way: subscriptions → prepared → committed → answered. While the application's endpoints
 * change in between, it starts again. With known subscriptions and little work it reaches its commit synchronously.
 */
export class Pending<A extends Answer> {
  readonly since: SteadyMs
  readonly #deps: PendingDeps<A>
  #prepared: Prepared | undefined
  #tries = 0

  constructor(deps: PendingDeps<A>) {
    this.#deps = deps
    this.since = deps.clock.steady()
  }

  get publications(): readonly Publication[] {
    return this.#prepared?.publications ?? []
  }

  get publication(): Publication {
    return present(this.publications[0], 'a publish of one message is prepared as one publication')
  }

  /** Never throws: the request's own promise carries every error. */
  start(): void {
    const { source, ref } = this.#deps
    this.#tries++
    const known = source.known(ref)
    if (known === undefined) void this.#load()
    else this.#prepare(known)
  }

  stored(answer: A): void {
    this.#prepared?.release()
    if (answer.state === 'stale') return this.#again(this.#prepared?.subscriptions)
    try {
      this.#deps.accept(answer, this.publications)
    } catch (error) {
      this.refuse(error)
    }
  }

  /** As far as is known, nothing was stored. */
  failed(error: unknown): void {
    this.#prepared?.release()
    this.refuse(refusalFor(error))
  }

  refuse(reason: unknown): void {
    this.#deps.refuse(reason)
  }

  async #load(): Promise<void> {
    try {
      this.#prepare(await this.#deps.source.load(this.#deps.ref))
    } catch (error) {
      this.refuse(error)
    }
  }

  #prepare(subscriptions: AppSubscriptions): void {
    const { preparer, items, request } = this.#deps
    try {
      const prepared = preparer.prepare(subscriptions, items, request)
      if (prepared instanceof Promise) void this.#commitWhenPrepared(subscriptions, prepared)
      else this.#commit(prepared)
    } catch (error) {
      this.#refused(subscriptions, error)
    }
  }

  async #commitWhenPrepared(subscriptions: AppSubscriptions, prepared: Promise<Prepared>): Promise<void> {
    try {
      this.#commit(await prepared)
    } catch (error) {
      this.#refused(subscriptions, error)
    }
  }

  #commit(prepared: Prepared): void {
    this.#prepared = prepared
    this.#deps.commit(this)
  }

  #refused(subscriptions: AppSubscriptions, error: unknown): void {
    if (this.#deps.preparer.isOutdated(subscriptions, error, this.since)) this.#again(subscriptions)
    else this.refuse(error)
  }

  #again(stale: AppSubscriptions | undefined): void {
    const { source, ref } = this.#deps
    if (stale) source.forget(ref, stale)
    if (this.#tries === staleTries) this.refuse(keepChanging())
    else this.start()
  }
}
