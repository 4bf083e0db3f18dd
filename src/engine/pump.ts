import type { Clock, Random, SteadyMs } from '../domain/clock.ts'
import { type Class, replay } from '../domain/delivery.ts'
import { type DeadReason, judge, laneEffect, overdue, type Verdict } from '../domain/judge.ts'
import type { Ended, Start } from '../domain/lane.ts'
import { counts, type Outcome } from '../domain/outcome.ts'
import { drawsOf, oneAttempt } from '../domain/retry.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import type { TraceContext } from '../domain/trace-context.ts'
import type { Endpoint } from '../features/endpoints/rules.ts'
import type { Outgoing } from '../store/delivering.ts'
import type { Bodies, Loaded } from './bodies.ts'
import type { Delivery } from './delivery.ts'
import type { Loop } from './loop.ts'
import type { Membership } from './membership.ts'
import type { Reader } from './reader.ts'
import type { Settling } from './settling.ts'

/**
 * One turn starts at most this many, about half a millisecond, so that answers and publishes get their turn too. A request
 * leaves only after one more turn, when undici has looked whether its connection is still good: turns are what others wait
 * for while one tenant floods.
 */
const startsPerTurn = 32

/** An attempt given up by deadline frees its slot this much later: the receiver notices the hang-up later than we do. */
const hangUpGraceMs = 100

/**
 * The life of a delivery in this worker, from top to bottom:
 * taken from its lane (`run`) → sent (`#send`) → judged (`#end`) → settled (`settling.attempted`), which records the verdict and
 * brings the lane in line once that is durable.
 *
 * Three ways lead out of it early: its time is up (`#endUnsent`), it may not be sent any more and goes back to its queue
 * (`#giveBack`), or the worker gave the attempt up and its row is read again (`#handBack`).
 */
export class Pump {
  readonly #deps: PumpDeps
  readonly #inFlight = new Set<Delivery>()
  /** Whether this worker is still sure of its lease. The sender asks once more, right before the request leaves. */
  readonly #maySend: () => boolean
  /** The worker stops while it holds its lease: the attempts that it gives up are recorded. */
  #isStopping = false

  constructor(deps: PumpDeps) {
    this.#deps = deps
    this.#maySend = () => deps.membership.holdsLease(deps.clock.steady())
  }

  /** Starts the deliveries that may start now, up to a limit; the others have their turn soon. */
  run(): void {
    const { clock, scheduler, bodies, reader, loop } = this.#deps
    const now = clock.steady()
    const starts = scheduler.plan(now, startsPerTurn)
    const bodiless: Start<Delivery>[] = []
    for (const start of starts) {
      const delivery = start.item
      this.#inFlight.add(delivery)
      delivery.begin(start.bucket)
      reader.request(delivery.owned, start.class)
      const reason = endsAs(delivery, now)
      const message = reason === undefined ? bodies.get(delivery.row) : undefined
      if (reason !== undefined) this.#endUnsent(delivery, reason)
      else if (message) this.#send(delivery, message)
      else bodiless.push(start)
    }
    if (bodiless.length > 0) void this.#loadAndSend(bodiless)
    if (starts.length === startsPerTurn) loop.wake()
  }

  async #loadAndSend(starts: readonly Start<Delivery>[]): Promise<void> {
    const { bodies, clock, onTrouble } = this.#deps
    let loaded: Loaded
    try {
      loaded = await bodies.load(starts.map((start) => start.item.row))
    } catch (error) {
      this.#giveBack(starts)
      return onTrouble(error)
    }
    const keptBack: Start<Delivery>[] = []
    for (const start of starts) {
      const message = loaded.get(start.item.row)
      const reason = endsAs(start.item, clock.steady())
      // Loading took time: the lease may have run out meanwhile, or the endpoint may have asked for silence.
      if (!this.#maySend()) this.#end(start.item, aborted)
      else if (start.lane.isKeptBack(clock.steady())) keptBack.push(start)
      else if (reason !== undefined) this.#endUnsent(start.item, reason)
      else if (message) this.#send(start.item, message)
      else {
        start.item.start(clock.steady())
        this.#end(start.item, vanished)
      }
    }
    this.#giveBack(keptBack)
  }

  /** Sends a delivery. Where the circuit is open it is the probe. */
  #send(delivery: Delivery, message: Outgoing): void {
    const { clock, settling, watch } = this.#deps
    const { owned } = delivery
    const now = clock.steady()
    const change = owned.beginAttempt()
    if (change) settling.healthChanged(owned, change, now)
    delivery.start(now)
    const number = delivery.row.priorAttempts + delivery.row.attempts + 1
    delivery.watchBy(watch?.begin(this.#startOf(delivery, message, number)))
    const trace = owned.endpoint.flow.propagateTrace ? (delivery.watched?.trace ?? message.trace) : null
    const abort = owned.target.send(
      trace === null ? message : { ...message, propagated: trace },
      () => delivery.leave(clock.steady()),
      (outcome) => this.#end(delivery, outcome),
      this.#maySend,
      number,
    )
    delivery.abortBy(abort)
  }

  #startOf(delivery: Delivery, message: Outgoing, number: number): StartedAttempt {
    const { owned, row } = delivery
    const { id, eventType, body, trace } = message
    return {
      endpoint: owned.endpoint,
      message: { id, eventType, bytes: body.byteLength, trace },
      number,
      class: row.class,
      waitMs: delivery.lateMs ?? null,
    }
  }

  /** An attempt ended: frees its slot, judges the receiver and the delivery, and has the verdict recorded. */
  #end(delivery: Delivery, given: Outcome): void {
    const { clock, random, scheduler, settling, loop } = this.#deps
    const { owned } = delivery
    const known = given.code === 'aborted' && this.#isStopping ? { ...given, error: cutOff } : given
    const outcome = delivery.erased ? withoutAnswer(known, delivery.erased) : known
    const now = clock.steady()
    this.#inFlight.delete(delivery)
    delivery.restoreToken()
    const ended = endedAs(delivery, outcome, now)
    if (outcome.code === 'timeout') clock.after(hangUpGraceMs, () => this.#freeSlot(delivery, clock.steady(), ended))
    else this.#freeSlot(delivery, now, ended)

    const { watched } = delivery
    if (outcome.code === 'aborted' && !(this.#isStopping && delivery.startedAt > 0)) {
      watched?.end({ id: null, outcome, verdict: null })
      return this.#handBack(delivery, now)
    }
    const effect = laneEffect(outcome)
    if (effect.holdMs !== undefined) scheduler.hold(owned.lane, now + effect.holdMs)
    if (effect.disable) owned.disable()
    const change = owned.endAttempt(delivery, outcome, now, random)
    if (change) settling.healthChanged(owned, change, now)
    const verdict = this.#verdictOn(delivery, outcome, now)
    const id = settling.attempted(delivery, outcome, verdict, effect, now)
    watched?.end({ id, outcome, verdict })
    loop.wake()
  }

  #verdictOn(delivery: Delivery, outcome: Outcome, now: SteadyMs): Verdict {
    if (outcome === vanished) return { state: 'dead', reason: 'exhausted' }
    const { owned, row, bornAt, expiresAt } = delivery
    const { leastRetryWaitMs = 0 } = this.#deps
    if (!counts(outcome.code)) return inTurn(delivery, { state: 'waiting', waitMs: leastRetryWaitMs })
    const [ageMs, expiresInMs] = [now - bornAt, expiresAt - now]
    const draw = drawsOf(row.message, owned.endpoint.key)
    const policy = row.class === replay && !owned.endpoint.flow.retryReplays ? oneAttempt : owned.policy
    return inTurn(delivery, judge(row.attempts + 1, ageMs, outcome, policy, draw, expiresInMs, leastRetryWaitMs))
  }

  /** The worker may have lost the lane, or the request was never made: nothing is recorded, and the row stays as it is. */
  #handBack(delivery: Delivery, now: SteadyMs): void {
    delivery.owned.handBack(delivery, now)
    if (delivery.ordered) this.#deps.scheduler.reconsider(delivery.owned.lane, now)
    this.#deps.loop.wake()
  }

  /** Ends a delivery instead of sending it: its slot and its token are free again. */
  #endUnsent(delivery: Delivery, reason: DeadReason): void {
    this.#inFlight.delete(delivery)
    delivery.restoreToken()
    this.#freeSlot(delivery, this.#deps.clock.steady())
    this.#deps.settling.unattempted(delivery, { state: 'dead', reason })
  }

  /** Undoes starts, the last first, so that each lane's queue is as it was. */
  #giveBack(starts: readonly Start<Delivery>[]): void {
    const { clock, scheduler, loop } = this.#deps
    for (const start of starts.toReversed()) {
      this.#inFlight.delete(start.item)
      start.item.ordered?.slotFreed(clock.steady())
      scheduler.giveBack(start, clock.steady())
    }
    if (starts.length > 0) loop.wake()
  }

  #freeSlot(delivery: Delivery, now: SteadyMs, ended?: Ended): void {
    delivery.ordered?.slotFreed(now)
    this.#deps.scheduler.finish(delivery.owned.lane, now, ended)
    this.#deps.loop.wake()
  }

  /** Deliveries that are being sent, or about to be. */
  sending(): Iterable<Delivery> {
    return this.#inFlight
  }

  /** These messages were erased, or any may have been: answers to attempts under way may echo them, and are not recorded. */
  forgetAnswers(messages?: readonly number[]): void {
    const erased = messages && new Set(messages)
    for (const delivery of this.#inFlight) {
      if (erased === undefined) delivery.forgetAnswer('perhaps erased')
      else if (erased.has(delivery.row.message)) delivery.forgetAnswer('erased')
    }
  }

  /** Gives up every attempt under way. The receiver may have got it, and gets it again. */
  abortAll(): void {
    for (const delivery of this.#inFlight) delivery.abort()
  }

  /**
   * Gives up every attempt under way because the worker stops. Each is recorded, and does not count: its delivery waits
   * as for a retry, so that others of its lane go before it, and keeps all its attempts.
   */
  stop(): void {
    this.#isStopping = true
    this.abortAll()
  }
}

/** A verdict as it holds for a delivery, which may keep its place in an ordered lane. */
function inTurn({ ordered }: Delivery, verdict: Verdict): Verdict {
  return ordered?.verdictInPlace(verdict) ?? verdict
}

/** An outcome without anything that the receiver wrote. */
function withoutAnswer(outcome: Outcome, why: 'erased' | 'perhaps erased'): Outcome {
  const was = why === 'erased' ? 'was erased' : 'may have been erased'
  const error = outcome.error === undefined ? undefined : `the message ${was} while it was being sent`
  return { ...outcome, error, response: undefined, responseHeaders: undefined }
}

/** Why a delivery is to end instead of being sent, if it is. */
function endsAs({ owned, row, bornAt, expiresAt }: Delivery, now: SteadyMs): DeadReason | undefined {
  if (owned.isSurplus(row.message)) return 'overflow'
  return overdue(now - bornAt, expiresAt - now, owned.policy.maxAgeMs)
}

/** The attempt as the scheduler learns from it; undefined when none was made, or when the worker gave it up. */
function endedAs({ startedAt }: Delivery, outcome: Outcome, now: SteadyMs): Ended | undefined {
  if (outcome === vanished || outcome.code === 'aborted' || outcome.code === 'internal') return undefined
  const result = outcome.code === 'delivered' ? 'delivered' : outcome.code === 'blocked' ? 'nothing' : 'failed'
  return { slotMs: now - startedAt, result }
}

const nothing = { status: 0, retryAfterMs: undefined, response: undefined, durationMs: 0 } as const
const cutOff = 'Sluice stopped before an answer came. The attempt does not count, and the delivery is sent again.'
const aborted: Outcome = { ...nothing, code: 'aborted', error: 'the worker was no longer sure of its lease' }
const vanished: Outcome = { ...nothing, code: 'internal', error: 'the message no longer exists' }

export interface PumpDeps {
  readonly clock: Clock
  readonly random: Random
  readonly scheduler: Scheduler<Delivery>
  readonly bodies: Bodies
  readonly membership: Membership
  readonly reader: Reader
  readonly settling: Settling
  readonly loop: Loop
  /** Without it, attempts are neither logged nor traced. */
  readonly watch?: AttemptWatch | undefined
  /** No retry comes sooner, under any policy of an endpoint. */
  readonly leastRetryWaitMs?: number | undefined
  onTrouble(error: unknown): void
}

/** Watches attempts, for logs and traces. It never throws and never waits. */
export interface AttemptWatch {
  /** An attempt is about to be sent. Its end is of no interest when the answer is undefined. */
  begin(started: StartedAttempt): WatchedAttempt | undefined
}

/** An attempt that is watched. */
export interface WatchedAttempt {
  /** The context that the receiver may continue; undefined when the attempt has no span of its own. */
  readonly trace?: TraceContext | undefined
  end(ended: EndedAttempt): void
}

/** An attempt at its start. */
export interface StartedAttempt {
  readonly endpoint: Pick<Endpoint, 'id' | 'appId' | 'url' | 'method'>
  readonly message: {
    readonly id: string
    readonly eventType: string
    readonly bytes: number
    readonly trace: TraceContext | null
  }
  /** 1 for the first try of this message at this endpoint. */
  readonly number: number
  readonly class: Class
  /** How long the delivery was due, see `lateMsOf`; null when that is unknown. */
  readonly waitMs: number | null
}

/** An attempt at its end. */
export interface EndedAttempt {
  /** Null for an attempt that is not recorded, because the worker gave it up without a lease. */
  readonly id: string | null
  readonly outcome: Outcome
  /** Null likewise: the delivery starts over. */
  readonly verdict: Verdict | null
}
