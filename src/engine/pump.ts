import type { Clock, Random, SteadyMs } from '../domain/clock.ts'
import { encodeId, firstKeyAt, type RandomText } from '../domain/ids.ts'
import { invariant } from '../domain/invariant.ts'
import { type DeadReason, overdue } from '../domain/judge.ts'
import type { Ended, Start } from '../domain/lane.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import type { Outgoing } from '../store/delivering.ts'
import type { AttemptWatch, StartedAttempt } from './attempt-watch.ts'
import type { Bodies, Loaded } from './bodies.ts'
import type { Delivery } from './delivery.ts'
import {
  aborted,
  asLearnt,
  type EndedAttempt,
  endOf,
  type JudgedAttempt,
  vanished,
  verdictOn,
} from './ended-attempt.ts'
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
 * taken from its lane (`run`) → sent (`#send`) → ended (`#end`) → judged (`#judge`) → recorded (`settling.attempted`), which
 * brings the lane in line once that is durable. From its end on, the attempt is one value (`ended-attempt.ts`).
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
      invariant(!this.#inFlight.has(delivery), 'a delivery has one attempt under way')
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

  /** An attempt ended: its slot is free, its receiver and its delivery are judged, and the verdict is recorded. */
  #end(delivery: Delivery, outcome: Outcome): void {
    const ended = this.#endOf(delivery, outcome)
    this.#freeSlotOf(ended)
    if (this.#isGivenUp(ended)) this.#handBack(ended)
    else this.#record(this.#judge(ended))
    this.#deps.loop.wake()
  }

  #endOf(delivery: Delivery, outcome: Outcome): EndedAttempt {
    invariant(this.#inFlight.delete(delivery), 'an attempt ends once')
    delivery.restoreToken()
    return endOf(delivery, outcome, this.#isStopping, this.#deps.clock.steady())
  }

  #freeSlotOf(ended: EndedAttempt): void {
    const { clock } = this.#deps
    const { delivery, outcome, at } = ended
    const learnt = asLearnt(ended)
    if (outcome.code !== 'timeout') return this.#freeSlot(delivery, at, learnt)
    clock.after(hangUpGraceMs, () => {
      this.#freeSlot(delivery, clock.steady(), learnt)
      this.#deps.loop.wake()
    })
  }

  #isGivenUp({ delivery, outcome }: EndedAttempt): boolean {
    return outcome.code === 'aborted' && !(this.#isStopping && delivery.startedAt > 0)
  }

  /** The lane learns from the attempt, and the delivery gets its verdict. */
  #judge(ended: EndedAttempt): JudgedAttempt {
    const { clock, random, randomText, settling, leastRetryWaitMs = 0 } = this.#deps
    const { owned } = ended.delivery
    const change = owned.endAttempt(ended, random)
    if (change) settling.healthChanged(owned, change, ended.at)
    const id = encodeId('atmpt', firstKeyAt(clock.now()), randomText)
    const verdict = verdictOn(ended, leastRetryWaitMs)
    const { delivery, outcome, effect, at } = ended
    // No spread: copying the members of an object takes more memory than the rest of a judgement.
    return { delivery, outcome, effect, at, id, verdict }
  }

  #record(judged: JudgedAttempt): void {
    this.#deps.settling.attempted(judged)
    judged.delivery.watched?.end(judged)
  }

  /** The worker may have lost the lane, or the request was never made: nothing is recorded, and the row stays as it is. */
  #handBack({ delivery, outcome, at }: EndedAttempt): void {
    delivery.watched?.end({ id: null, outcome, verdict: null })
    delivery.owned.handBack(delivery, at)
    if (delivery.ordered) this.#deps.scheduler.reconsider(delivery.owned.lane, at)
  }

  /** Ends a delivery instead of sending it: its slot and its token are free again. */
  #endUnsent(delivery: Delivery, reason: DeadReason): void {
    this.#inFlight.delete(delivery)
    delivery.restoreToken()
    this.#freeSlot(delivery, this.#deps.clock.steady())
    this.#deps.settling.unattempted(delivery, { state: 'dead', reason })
    this.#deps.loop.wake()
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

  #freeSlot(delivery: Delivery, now: SteadyMs, learnt?: Ended): void {
    delivery.ordered?.slotFreed(now)
    this.#deps.scheduler.finish(delivery.owned.lane, now, learnt)
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

/** Why a delivery is to end instead of being sent, if it is. */
function endsAs({ owned, row, bornAt, expiresAt }: Delivery, now: SteadyMs): DeadReason | undefined {
  if (owned.isSurplus(row.message)) return 'overflow'
  return overdue(now - bornAt, expiresAt - now, owned.policy.maxAgeMs)
}

export interface PumpDeps {
  readonly clock: Clock
  readonly random: Random
  readonly randomText: RandomText
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
