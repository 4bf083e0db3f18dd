import { pageItems } from '../domain/api.ts'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import { ApiProblem, type Call, type Client, type Item, type Query } from './client.ts'
import { CommandError, exitCode } from './exit.ts'

/** Attempts of one request. With the waits between them, a server may be away for about two minutes. */
const attempts = 8
const firstWaitMs = 1000
const longestWaitMs = 60_000

type Method = 'get' | 'post' | 'patch'

/** Calls a server for a long job: at a pace, and again when the server is overloaded or away for a moment. */
export class PatientClient {
  readonly #client: Client
  readonly #clock: Clock
  readonly #gapMs: number
  #nextAt: SteadyMs

  constructor(client: Client, clock: Clock, perSecond: number) {
    this.#client = client.withoutSuggestions()
    this.#clock = clock
    this.#gapMs = 1000 / perSecond
    this.#nextAt = clock.steady()
  }

  get url(): string {
    return this.#client.url
  }

  get(path: string, query?: Query): Promise<Item> {
    return this.#patiently(() => this.#client.get(path, query))
  }

  /** The same, or undefined when there is none. */
  async find(path: string, query?: Query): Promise<Item | undefined> {
    return this.get(path, query).catch((error: unknown) => {
      if (error instanceof ApiProblem && error.status === 404) return undefined
      throw error
    })
  }

  send(method: Exclude<Method, 'get'>, path: string, body: unknown): Promise<Item> {
    const call: Call = { body }
    return this.#patiently(() => this.#client[method](path, call))
  }

  /** All items of a list, page by page. */
  async *all(path: string, query: Query = {}): AsyncGenerator<Item> {
    let iterator: string | undefined
    for (;;) {
      const asked = { ...query, limit: pageItems.most, ...(iterator !== undefined && { iterator }) }
      const page = await this.#patiently(() => this.#client.page(path, asked))
      if (!isPage(page)) throw new CommandError(`${this.url} answers ${path} with no list.`, exitCode.failed)
      yield* page.data
      if (page.done || page.iterator == null) return
      if (page.iterator === iterator) {
        throw new CommandError(`${this.url} answers ${path} with the same page again and again.`, exitCode.failed)
      }
      iterator = page.iterator
    }
  }

  async #patiently<T>(call: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      await this.#pace()
      try {
        return await call()
      } catch (error) {
        if (!(error instanceof CommandError) || error.exitCode !== exitCode.unavailable || attempt >= attempts)
          throw error
        const askedMs = error instanceof ApiProblem ? (error.retryAfterMs ?? 0) : 0
        await this.#wait(Math.min(longestWaitMs, Math.max(askedMs, firstWaitMs * 2 ** (attempt - 1))))
      }
    }
  }

  async #pace(): Promise<void> {
    const now = this.#clock.steady()
    const waitMs = this.#nextAt - now
    this.#nextAt = Math.max(now, this.#nextAt) + this.#gapMs
    if (waitMs > 0) await this.#wait(waitMs)
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#clock.after(ms, resolve))
  }
}

/** Whether an answer of a server that may be any is a page of objects. */
function isPage(page: unknown): boolean {
  const data = (page as { readonly data?: unknown } | null)?.data
  return Array.isArray(data) && data.every((item) => typeof item === 'object' && item !== null)
}
