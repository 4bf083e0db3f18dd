import type { Clock, SteadyMs } from '../domain/clock.ts'
import { Bucket } from '../domain/rate.ts'
import type { OAuth2 } from '../features/credentials/rules.ts'
import { digestOf, type TokenAnswer, type TokenProblem, tokenEndpointOf } from './token-request.ts'

/** There is no token, and there will be none for a while. */
export interface TokenFailure {
  readonly message: string
  readonly retryInMs: number
}

/** Asks a token endpoint once. It never rejects. */
type AskForToken = () => Promise<TokenAnswer | TokenProblem>

/** A token is used for at least this long, whatever its server says: each attempt would fetch one otherwise. */
const shortestLifeMs = 10_000
const longestLifeMs = 24 * 3_600_000
/** The lifetime of a token whose server names none. A receiver that refuses it earlier has it replaced. */
const usualLifeMs = 5 * 60_000
/** A token is replaced this long before it expires, or after four fifths of a shorter life. */
const earlyMs = 60_000
const leastGapMs = 1000
/** The lane is held as long, also after an operator has corrected the credentials. */
const mostGapMs = 60_000
const longestRetryAfterMs = 5 * 60_000
/** The longest time that a token request waits for its turn at its host. */
const longestTurnMs = 5000
const mostKept = 10_000

/**
 * The access tokens of one set of credentials: at most one request for a token is under way, and the next one waits for
 * a gap that doubles with each failure, and with each token that a receiver refused, from one second to a minute.
 */
export class TokenSource {
  /** The `authorization` header with the newest token; empty before the first. */
  header = ''
  readonly #clock: Clock
  readonly #ask: AskForToken
  #usableUntil: SteadyMs = Number.NEGATIVE_INFINITY
  #refreshAt: SteadyMs = Number.NEGATIVE_INFINITY
  #earliestAt: SteadyMs = Number.NEGATIVE_INFINITY
  /** Requests that failed since the last token. */
  #failures = 0
  /** Tokens that a receiver refused since the last one that lived out its time. */
  #refusals = 0
  #wasRefused = false
  #failure = ''
  #underWay: Promise<TokenFailure | undefined> | undefined

  constructor(clock: Clock, ask: AskForToken) {
    this.#clock = clock
    this.#ask = ask
  }

  /**
   * Makes `header` usable: undefined when it is. An old token is replaced while it is still good, so that no attempt waits
   * for the new one.
   */
  take(): TokenFailure | Promise<TokenFailure | undefined> | undefined {
    const now = this.#clock.steady()
    if (now < this.#usableUntil) {
      if (now >= this.#refreshAt && now >= this.#earliestAt) void this.#request()
      return undefined
    }
    if (this.#underWay === undefined && now < this.#earliestAt) return this.#failed(now)
    return this.#request()
  }

  /**
   * A receiver answered 401 to this header. The token is replaced before the next attempt, unless the last request for one
   * was too recent: a receiver that refuses every token must not flood the token endpoint.
   */
  refuse(header: string): void {
    const now = this.#clock.steady()
    if (header !== this.header || now >= this.#usableUntil || now < this.#earliestAt) return
    this.#refusals++
    this.#wasRefused = true
    this.#usableUntil = now
  }

  #failed(now: SteadyMs): TokenFailure {
    return { message: this.#failure, retryInMs: Math.max(leastGapMs, Math.ceil(this.#earliestAt - now)) }
  }

  #request(): Promise<TokenFailure | undefined> {
    this.#underWay ??= this.#askOnce()
    return this.#underWay
  }

  async #askOnce(): Promise<TokenFailure | undefined> {
    const answer = await this.#ask()
    const now = this.#clock.steady()
    this.#underWay = undefined
    if ('message' in answer) {
      this.#failures++
      this.#failure = answer.message
      this.#earliestAt = now + Math.max(this.#gapMs(), Math.min(answer.retryAfterMs ?? 0, longestRetryAfterMs))
      return now < this.#usableUntil ? undefined : this.#failed(now)
    }
    this.#failures = 0
    if (!this.#wasRefused) this.#refusals = 0
    this.#wasRefused = false
    const lifeMs = Math.min(longestLifeMs, Math.max(shortestLifeMs, answer.lifetimeMs ?? usualLifeMs))
    this.header = `Bearer ${answer.token}`
    this.#usableUntil = now + lifeMs
    this.#refreshAt = now + Math.max(lifeMs - earlyMs, lifeMs * 0.8)
    this.#earliestAt = now + this.#gapMs()
    return undefined
  }

  #gapMs(): number {
    const doublings = Math.max(0, this.#failures - 1, this.#refusals)
    return Math.min(mostGapMs, leastGapMs * 2 ** Math.min(doublings, 20))
  }
}

/**
 * All token sources of a worker. Endpoints with the same credentials share one, and all sources of a host share its pace:
 * many credentials cannot flood one token endpoint either.
 */
export class Tokens {
  readonly #clock: Clock
  readonly #rate: number
  readonly #sources = new Map<string, TokenSource>()
  readonly #paces = new Map<string, Bucket>()
  /** Ends the wait of each request for its turn. */
  readonly #waiting = new Set<() => void>()
  #closed = false

  /** `rate` limits the requests a second to one host. */
  constructor(clock: Clock, rate: number) {
    this.#clock = clock
    this.#rate = rate
  }

  /** The source for these credentials; `ask` is used when there is none yet. */
  sourceOf(auth: OAuth2, ask: AskForToken): TokenSource {
    const key = digestOf(auth)
    const known = this.#sources.get(key)
    const source = known ?? new TokenSource(this.#clock, () => this.#inTurn(auth, ask))
    // The one that was not asked for the longest time goes first; in a Map that is the first.
    this.#sources.delete(key)
    keep(this.#sources, key, source)
    return source
  }

  /** Ends all waits: nothing is asked any more. */
  close(): void {
    this.#closed = true
    for (const end of [...this.#waiting]) end()
  }

  async #inTurn(auth: OAuth2, ask: AskForToken): Promise<TokenAnswer | TokenProblem> {
    const pace = this.#paceOf(new URL(auth.tokenUrl).host)
    const now = this.#clock.steady()
    const waitMs = pace.readyAt(now) - now
    const where = tokenEndpointOf(auth)
    if (waitMs > longestTurnMs) {
      const message = `No token from ${where}: too many requests for tokens go to its host (tokenRate).`
      return { message, retryAfterMs: waitMs }
    }
    pace.reserve()
    if (waitMs > 0) await this.#wait(waitMs)
    pace.spend(this.#clock.steady())
    return this.#closed ? { message: `No token from ${where}: Sluice is shutting down.` } : ask()
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        cancel()
        this.#waiting.delete(end)
        resolve()
      }
      const cancel = this.#clock.after(ms, end)
      this.#waiting.add(end)
    })
  }

  #paceOf(host: string): Bucket {
    const known = this.#paces.get(host)
    if (known !== undefined) return known
    const limit = { rate: this.#rate, periodMs: 1000, burst: Math.max(2, this.#rate) }
    const pace = new Bucket(limit, this.#clock.steady(), 0)
    keep(this.#paces, host, pace)
    return pace
  }
}

function keep<T>(map: Map<string, T>, key: string, value: T): void {
  if (map.size >= mostKept) map.delete(map.keys().next().value as string)
  map.set(key, value)
}
