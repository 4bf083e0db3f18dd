import type { Dispatcher } from 'undici'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Outcome, Timings } from '../domain/outcome.ts'
import { Capture, printable, readRetryAfter } from './answer.ts'
import {
  certificateAnswer,
  deadlineFailure,
  type Failure,
  isHangUp,
  refusesCertificate,
  unanswered,
  wireFailure,
} from './classify.ts'
import type { Origin } from './connect.ts'
import { type Deadlines, Timed } from './deadline.ts'
import type { Connection, Pool } from './pool.ts'
import type { OutgoingMessage } from './send.ts'
import type { PreparedTarget } from './target.ts'
import { wishOf } from './wish.ts'

/** Shared by all attempts of a sender. */
export interface Wire {
  readonly clock: Clock
  readonly pool: Pool
  readonly deadlines: Deadlines
  readonly responseLimitBytes: number
  readonly responseHeaderLimitBytes: number
  readonly retryAfterCapMs: number
}

const maxInformational = 8

/** Statuses by which web servers refuse a client certificate; 495 and 496 are those of nginx. */
const certificateStatuses: ReadonlySet<number> = new Set([400, 403, 495, 496])

/**
 * One attempt under way: undici's handler and the entry on the wheel of deadlines, in one object.
 *
 * Once a complete status line and headers have arrived, the status decides, even if the body then drips, overflows, breaks
 * off or outlasts the deadline. To try again after a 200 would be a duplicate, and to wait for the rest of a body would let
 * a receiver hold a connection for ever.
 */
export class Attempt extends Timed implements Dispatcher.DispatchHandler {
  readonly #wire: Wire
  readonly #target: PreparedTarget
  readonly #message: OutgoingMessage
  readonly #onLeave: () => void
  readonly #onEnd: (outcome: Outcome) => void
  readonly #mayLeave: (() => boolean) | undefined
  readonly #number: number
  readonly #startedAt: SteadyMs
  #origin: Origin
  /** Whether the receiver refused one client certificate, and another one was shown to it. */
  #switched = false
  #connection: Connection
  #starting = true
  #ended = false
  #left = false
  /** Whether the request was written to the socket it has now. */
  #written = false
  /** Whether the socket it was written to had carried another request before. */
  #reused = false
  #answering = false
  #firstByteAt: SteadyMs = 0
  #forbidden = false
  #informational = 0
  #status = 0
  #retryAfterMs: number | undefined
  #location: string | undefined
  #headers: string | undefined
  #capture: Capture | undefined

  constructor(
    wire: Wire,
    target: PreparedTarget,
    message: OutgoingMessage,
    onLeave: () => void,
    onEnd: (outcome: Outcome) => void,
    mayLeave?: () => boolean,
    number = 1,
  ) {
    super()
    this.#wire = wire
    this.#target = target
    this.#message = message
    this.#onLeave = onLeave
    this.#onEnd = onEnd
    this.#mayLeave = mayLeave
    this.#number = number
    this.#startedAt = wire.clock.steady()
    this.#origin = target.identities === undefined ? target.origin : target.identities.origin(wire.clock.now())
    this.#connection = wire.pool.take(this.#origin)
    wire.deadlines.add(this, this.#startedAt, this.#connection.fresh ? target.connectTimeoutMs : target.timeoutMs)
    this.#dispatch()
    this.#starting = false
  }

  /** Ends the attempt as `aborted`, or by its status when one has arrived; harmless when it has ended. */
  abort(): void {
    this.#breakOff({ outcome: 'aborted', message: 'Sluice gave the attempt up before an answer came.' })
  }

  /** The time of connecting, which counts for a new connection alone, or all the time of the attempt has passed. */
  override expire(): void {
    // undici checks an idle socket before it writes to it, and the deadline can pass in between.
    const phase = this.#written ? 'open' : this.#connection.phase
    const { timeoutMs, connectTimeoutMs } = this.#target
    const now = this.#wire.clock.steady()
    const leftMs = this.#leftMs(now)
    if (leftMs <= 0) this.#breakOff(deadlineFailure(phase, timeoutMs))
    else if (phase === 'open') this.#wire.deadlines.add(this, now, leftMs)
    else this.#breakOff(deadlineFailure(phase, connectTimeoutMs))
  }

  #leftMs(now: SteadyMs): number {
    return this.#startedAt + this.#target.timeoutMs - now
  }

  onRequestStart(): void {
    // A dropped connection has no socket, so this should not happen; but a request must never leave after its attempt was
    // recorded as failed.
    if (this.#ended) throw new Error('the attempt has ended')
    if (this.#mayLeave?.() === false) {
      this.#forbidden = true
      throw new Error('the attempt may not leave any more')
    }
    this.#reused = !this.#connection.fresh
    this.#connection.leave()
  }

  onRequestSent(): void {
    this.#written = true
    if (this.#left || this.#ended) return
    // Once per attempt: a second try on a fresh connection is still the same attempt.
    this.#left = true
    this.#call(this.#onLeave)
  }

  onResponseStarted(): void {
    // undici calls this for each interim answer, too.
    if (this.#answering) return
    this.#answering = true
    this.#firstByteAt = this.#wire.clock.steady()
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (this.#ended) return
    if (status < 200) {
      // undici waits on after each interim answer, so their number is limited.
      if (status >= 100 && ++this.#informational <= maxInformational) return
      const what = status < 100 ? `the status ${status}` : `more than ${maxInformational} interim answers`
      this.#breakOff({ outcome: 'invalid_http', message: `The answer is not valid HTTP/1.1 (${what}).` })
      return
    }
    this.#status = status
    this.#headers = this.#target.keptHeaders.of(headers, this.#wire.responseHeaderLimitBytes)
    if (status < 300) return
    if (this.#origin.identity !== undefined && certificateStatuses.has(status)) {
      this.#target.identities?.refuse(this.#origin, this.#wire.clock.now())
    }
    this.#retryAfterMs = readRetryAfter(headers['retry-after'], this.#wire.clock.now(), this.#wire.retryAfterCapMs)
    if (status < 400) this.#location = printable(headers.location)
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#ended) return
    this.#capture ??= new Capture(this.#wire.responseLimitBytes)
    if (!this.#capture.add(chunk)) this.#end(this.#answer(), false)
  }

  onResponseEnd(): void {
    if (!this.#ended) this.#end(this.#answer(), true)
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, reported: Error): void {
    if (this.#ended) return
    const error = isHangUp(reported) ? (this.#connection.socketError ?? reported) : reported
    if (this.#forbidden) this.abort()
    else if (this.#status === 0 && this.#mayTryAgain(error)) this.#tryAgain()
    else if (this.#target.identities === undefined || !this.#showsOther(error)) {
      const hasCertificate = this.#origin.identity !== undefined
      this.#breakOff(wireFailure(error, this.#answering, hasCertificate, hasCertificate && !this.#reused))
    }
  }

  /**
   * Tries once more with the other client certificate, if there is one and the receiver refused this one before it read
   * the request. A receiver that only hangs up may have read it: then the other one is for the next attempt.
   */
  #showsOther(error: Error): boolean {
    if (this.#answering || this.#status !== 0) return false
    const isRefusal = refusesCertificate(error)
    if (!isRefusal && !(isHangUp(error) && !this.#reused)) return false
    const other = this.#target.identities?.refuse(this.#origin, this.#wire.clock.now())
    if (!isRefusal || this.#switched || other === undefined) return false
    this.#switched = true
    this.#origin = other
    this.#tryAgain()
    return true
  }

  /**
   * A receiver may close an idle connection at the very moment it is used again. That says nothing about the receiver's
   * health, so it costs no attempt, if no byte of an answer came and the socket had carried a request before. The second
   * try gets a new socket, so there is never a third.
   */
  #mayTryAgain(error: Error): boolean {
    if (this.#answering || !isHangUp(error)) return false
    return this.#written ? this.#reused : !this.#connection.fresh
  }

  #tryAgain(): void {
    this.#written = false
    const { deadlines, clock } = this.#wire
    const now = clock.steady()
    deadlines.remove(this)
    deadlines.add(this, now, Math.min(this.#target.connectTimeoutMs, this.#leftMs(now)))
    this.#wire.pool.drop(this.#connection)
    this.#connection = this.#wire.pool.takeNew(this.#origin)
    this.#dispatch()
  }

  #dispatch(): void {
    this.#connection.begin(() => this.#flooded())
    const request = this.#target.request(this.#message, this.#wire.clock.now(), this.#number)
    if (typeof request === 'string') return this.#breakOff({ outcome: 'blocked', message: request })
    this.#connection.client.dispatch(request, this)
  }

  #flooded(): void {
    const message =
      'The answer is not valid HTTP/1.1 (too many bytes before its status line and headers were complete).'
    this.#breakOff({ outcome: 'invalid_http', message })
  }

  /** Ends the attempt before the answer is complete. */
  #breakOff(failure: Failure): void {
    if (this.#ended) return
    this.#end(this.#status > 0 ? this.#answer() : this.#failed(failure), false)
  }

  #end(outcome: Outcome, reusable: boolean): void {
    this.#ended = true
    const { pool, deadlines, clock } = this.#wire
    deadlines.remove(this)
    this.#connection.onFlood = undefined
    if (reusable) pool.give(this.#connection, this.#startedAt + outcome.durationMs)
    else pool.drop(this.#connection)
    // No callback runs before `send` has returned.
    if (this.#starting) clock.soon(() => this.#onEnd(outcome))
    else this.#call(this.#onEnd, outcome)
  }

  /** A callback that throws must surface as a bug: undici would take it for a failing socket. */
  #call<A extends unknown[]>(fn: (...args: A) => void, ...args: A): void {
    try {
      fn(...args)
    } catch (error) {
      queueMicrotask(() => {
        throw error
      })
    }
  }

  #answer(): Outcome {
    const status = this.#status
    const response = this.#capture?.bytes()
    const refusal = certificateAnswer(status, response, this.#origin.identity !== undefined)
    const code = refusal?.outcome ?? (status < 300 ? 'delivered' : status < 400 ? 'redirected' : 'refused')
    const error = code === 'delivered' ? undefined : (refusal?.message ?? this.#refusal())
    const { durationMs, timings } = this.#times()
    const retryAfterMs = this.#retryAfterMs
    const wish = wishOf(status, retryAfterMs)
    return { code, status, wish, retryAfterMs, response, responseHeaders: this.#headers, error, durationMs, timings }
  }

  #refusal(): string {
    const to = this.#location === undefined ? '' : `, redirecting to ${this.#location}, which is not followed`
    return `The receiver answered ${this.#status}${to}.`
  }

  #failed(failure: Failure): Outcome {
    return { ...unanswered(failure.outcome, failure.message), ...this.#times() }
  }

  #times(): { readonly durationMs: number; readonly timings: Timings } {
    const now = this.#wire.clock.steady()
    const reused = this.#written ? this.#reused : !this.#connection.fresh
    const timings = reused ? this.#reusedTimings() : this.#openedTimings(now)
    return { durationMs: Math.round(now - this.#startedAt), timings }
  }

  #reusedTimings(): Timings {
    const firstByteMs = this.#answering ? this.#firstByteAt - this.#startedAt : null
    return { reused: true, dnsMs: null, connectMs: null, tlsMs: null, firstByteMs }
  }

  #openedTimings(now: SteadyMs): Timings {
    const { opening, openedAt } = this.#connection
    const firstByteMs = this.#answering ? this.#firstByteAt - openedAt : null
    if (opening === undefined) return { reused: false, dnsMs: null, connectMs: null, tlsMs: null, firstByteMs }
    const beforeMs = opening.beganAt - this.#startedAt
    return { reused: false, ...opening.split(now), firstByteMs, beforeMs }
  }
}

type Headers = Record<string, string | string[] | undefined>
