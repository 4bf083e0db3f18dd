import type { Clock } from '../domain/clock.ts'
import type { RandomText } from '../domain/ids.ts'
import type { Outcome } from '../domain/outcome.ts'
import { type Sliced, Turns } from '../domain/turns.ts'
import type { SignatureFamily } from '../features/applications/noun.ts'
import type { EndpointAuth, OAuth2 } from '../features/credentials/rules.ts'
import { Attempt, type Wire } from './attempt.ts'
import { unanswered } from './classify.ts'
import { createConnector } from './connect.ts'
import { Deadlines } from './deadline.ts'
import { Egress, type EgressRules } from './egress.ts'
import { AddressPolicy, type AddressRules } from './guard.ts'
import { Pool } from './pool.ts'
import { cached, openDns, type Resolve } from './resolve.ts'
import type { OpenTarget, OutgoingMessage, Sender, Target } from './send.ts'
import { type Authorization, type PreparedTarget, prepareTarget } from './target.ts'
import { prepareTokenRequest, readTokenAnswer, tokenAnswerBytes } from './token-request.ts'
import { type TokenFailure, type TokenSource, Tokens } from './tokens.ts'

export interface SenderDeps extends AddressRules {
  readonly clock: Clock
  /** Sluice's own version, shown to receivers in `user-agent`. */
  readonly version: string
  /** The bytes of an answer's body that are kept; after them the connection is closed. */
  readonly responseLimitBytes: number
  /** The bytes of an answer's headers that are kept; 0 keeps none. */
  readonly responseHeaderLimitBytes: number
  /** The longest wait that a Retry-After can ask for. */
  readonly retryAfterCapMs: number
  /** Names of the signature headers of targets that have none of their own; Standard Webhooks' by default. */
  readonly signatureHeaders?: SignatureFamily
  /** Certificates (PEM) of authorities to trust beside those that Node trusts. */
  readonly extraCa?: readonly string[]
  /** Random text for the ids of assertions to token endpoints. */
  readonly randomText: RandomText
  /** The time limit of a request for an access token. */
  readonly tokenTimeoutMs: number
  /** Requests for access tokens a second to one host. */
  readonly tokenRate: number
  /** Proxies through which attempts leave; none when missing. */
  readonly egress?: EgressRules
  /** Resolves names; by DNS when missing. */
  readonly resolve?: Resolve
}

/** Makes the sender that speaks HTTP/1.1. Throws when a network in `allowNetworks` or a certificate in `extraCa` is invalid. */
export function openSender(deps: SenderDeps): Sender {
  const { clock, retryAfterCapMs, responseLimitBytes, responseHeaderLimitBytes, extraCa = [] } = deps
  const policy = new AddressPolicy(deps)
  const dns = deps.resolve ? undefined : openDns()
  const resolve = cached(deps.resolve ?? (dns as NonNullable<typeof dns>).resolve, clock)
  const egress = new Egress(deps.egress)
  const connect = createConnector({ policy, resolve, egress, extraCa, clock })
  const pool = new Pool(connect, clock, attemptLimitBytes(responseLimitBytes))
  const limits = { responseLimitBytes, responseHeaderLimitBytes, retryAfterCapMs }
  const wire: Wire = { clock, pool, deadlines: new Deadlines(clock), ...limits }
  const turns = Turns.by(clock)
  const waiting = new WaitingAttempts(clock)
  const userAgent = `Sluice/${deps.version}`
  const tokens = new Tokens(clock, deps.tokenRate)
  const tokenWire: Wire = { ...wire, responseLimitBytes: tokenAnswerBytes, responseHeaderLimitBytes: 0 }
  let closed = false
  /** The tokens for these credentials; an error text when none can be asked for. */
  const sourceOf = (auth: OAuth2, route: Target): TokenSource | string => {
    const { randomText, tokenTimeoutMs: timeoutMs } = deps
    const prepared = prepareTokenRequest(auth, policy, { userAgent, timeoutMs, randomText, egress, route })
    if (typeof prepared === 'string') return `Token URL: ${prepared}`
    return tokens.sourceOf(auth, async () => {
      try {
        const outcome = await new Promise<Outcome>((resolve) => {
          new Attempt(tokenWire, prepared, tokenMessage, () => {}, resolve)
        })
        return readTokenAnswer(auth, outcome)
      } catch (error) {
        // Only a key that OpenSSL reads and cannot sign with.
        return { message: `No request for a token could be made: ${(error as Error).message}.` }
      }
    })
  }
  /** Ends an attempt that never began, once `send` has returned. */
  const endLater = (outcome: Outcome, onEnd: (outcome: Outcome) => void) => {
    clock.soon(() => onEnd(outcome))
    return () => {}
  }

  /** A target of this sender. Each lane has one, so it is an object of one shape and no set of closures. */
  class Opened implements OpenTarget {
    readonly #target: Target
    readonly #source: TokenSource | string | undefined
    readonly #authorization: Authorization | undefined
    #known: PreparedTarget | string | undefined

    constructor(target: Target) {
      this.#target = target
      this.#source = target.auth?.kind === 'oauth2' ? sourceOf(target.auth, target) : undefined
      const fixed = typeof this.#source === 'string' ? undefined : fixedAuthorization(target.auth)
      this.#authorization = typeof this.#source === 'object' ? this.#source : fixed
    }

    send(
      message: OutgoingMessage,
      onLeave: () => void,
      onEnd: (outcome: Outcome) => void,
      mayLeave?: () => boolean,
      attemptNumber?: number,
    ): () => void {
      const target = this.#target
      const source = this.#source
      this.#known ??= prepareTarget(target, policy, userAgent, egress, deps.signatureHeaders, this.#authorization)
      const prepared = this.#known
      if (closed) return endLater(unanswered('aborted', 'Sluice is shutting down.'), onEnd)
      if (typeof prepared === 'string') return endLater(unanswered('blocked', prepared), onEnd)
      if (typeof source === 'string') return endLater(unanswered('blocked', source), onEnd)
      if (clock.now() >= prepared.signsUntil) {
        return endLater(unanswered('blocked', 'Every secret of the endpoint has expired.'), onEnd)
      }
      const begin = (its: OutgoingMessage, end = onEnd) => {
        const attempt = new Attempt(wire, prepared, its, onLeave, end, mayLeave, attemptNumber)
        return () => attempt.abort()
      }
      const authorize =
        source === undefined ? begin : (its: OutgoingMessage) => waiting.forToken(source, its, begin, onEnd)
      if (target.shape === undefined || message.variant != null) return authorize(message)
      const shaped = turns.run(shapedBy(target.shape, message))
      if (shaped instanceof Promise) return waiting.forShape(shaped, authorize, onEnd)
      return shaped === undefined ? endLater(unanswered('blocked', unshapable), onEnd) : authorize(shaped)
    }

    rest(): void {
      // Whether a receiver refused a certificate is remembered.
      if (typeof this.#known === 'string' || this.#known?.identities === undefined) this.#known = undefined
    }

    retire(): void {
      if (this.#known === undefined || typeof this.#known === 'string') return
      for (const origin of this.#known.identities?.all ?? []) pool.retire(origin)
    }
  }

  return {
    open: (target) => new Opened(target),

    async close() {
      closed = true
      waiting.abort()
      tokens.close()
      for (const attempt of wire.deadlines.all()) (attempt as Attempt).abort()
      wire.deadlines.close()
      dns?.close()
      await pool.close()
    },
  }
}

/**
 * All bytes that one attempt reads: twice the body that is kept, for its chunks, and 128 KiB for heads. A head is at most
 * 16 KiB, and an honest receiver sends one or two. An attempt that has its status by then loses nothing.
 */
function attemptLimitBytes(responseLimitBytes: number): number {
  return 2 * responseLimitBytes + 128 * 1024
}

const unshapable =
  'The shape of the endpoint cannot be applied: the body is not JSON, the secret for its pseudonyms does not open, or the form would be larger than 4 MiB and than twice the payload. Change the shape, or send smaller payloads.'

/** Shapes the body of a message. A signature of the whole body is left out. */
function* shapedBy(shape: NonNullable<Target['shape']>, message: OutgoingMessage): Sliced<OutgoingMessage | undefined> {
  const body = yield* shape(message.body)
  return body && { ...message, body, signature: null }
}

/** A request for a token is made by its target alone. */
const tokenMessage: OutgoingMessage = { id: '', body: new Uint8Array(0), contentType: '' }

/** The header of credentials that never change. */
function fixedAuthorization(auth: EndpointAuth | null | undefined): Authorization | undefined {
  if (auth?.kind === 'bearer') return { header: `Bearer ${auth.token}` }
  if (auth?.kind !== 'basic') return undefined
  return { header: `Basic ${Buffer.from(`${auth.username}:${auth.password}`).toString('base64')}` }
}

type Begin = (message: OutgoingMessage, onEnd?: (outcome: Outcome) => void) => () => void

/** Attempts that wait before they begin: for an access token, or for a large body to be shaped. */
class WaitingAttempts {
  readonly #clock: Clock
  readonly #waiting = new Set<() => void>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Begins an attempt when its message is shaped. The answer aborts the attempt, also once it is under way. */
  forShape(
    shaping: Promise<OutgoingMessage | undefined>,
    begin: (message: OutgoingMessage) => () => void,
    onEnd: (outcome: Outcome) => void,
  ): () => void {
    const shaped = shaping.catch((error) => (error instanceof Error ? error : new Error(String(error))))
    return this.#add(shaped, onEnd, (result) => {
      if (result instanceof Error) return unanswered('blocked', `The payload could not be shaped: ${result.message}`)
      return result === undefined ? unanswered('blocked', unshapable) : begin(result)
    })
  }

  /** Begins an attempt when there is a token for it, which is nearly always at once. */
  forToken(source: TokenSource, message: OutgoingMessage, begin: Begin, onEnd: (outcome: Outcome) => void): () => void {
    const beginNow = () => {
      const { header } = source
      return begin(message, (outcome) => {
        if (outcome.status === 401) source.refuse(header)
        onEnd(outcome)
      })
    }
    const startedAt = this.#clock.steady()
    const failed = ({ message: error, retryInMs }: TokenFailure): Outcome => ({
      ...unanswered('token_failed', error),
      retryAfterMs: retryInMs,
      durationMs: Math.round(this.#clock.steady() - startedAt),
    })
    const taken = source.take()
    if (taken === undefined) return beginNow()
    return this.#add(Promise.resolve(taken), onEnd, (failure) => (failure ? failed(failure) : beginNow()))
  }

  /** `goOn` begins the attempt and answers how to abort it, or answers the outcome of an attempt that cannot begin. */
  #add<T>(
    ready: Promise<T>,
    onEnd: (outcome: Outcome) => void,
    goOn: (value: T) => (() => void) | Outcome,
  ): () => void {
    let abortBegun = () => {}
    const onAbort = () => {
      if (this.#waiting.delete(onAbort)) onEnd(unanswered('aborted', 'Sluice gave the attempt up before it was sent.'))
      else abortBegun()
    }
    this.#waiting.add(onAbort)
    const wait = async () => {
      const value = await ready
      if (!this.#waiting.delete(onAbort)) return
      const next = goOn(value)
      if (typeof next === 'function') abortBegun = next
      else onEnd(next)
    }
    void wait()
    return onAbort
  }

  /** Aborts all attempts that wait. */
  abort(): void {
    for (const abort of [...this.#waiting]) abort()
  }
}
