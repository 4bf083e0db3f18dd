import { overdue } from '../domain/bounds.ts'
import type { Clock, Random, SteadyMs } from '../domain/clock.ts'
import type { Class } from '../domain/delivery.ts'
import { type DeadReason, judge, laneEffect, type Verdict } from '../domain/judge.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { Ended, Scheduler, Start } from '../domain/scheduler.ts'
import type { Outgoing } from '../store/delivering.ts'
import type { Bodies, Loaded } from './bodies.ts'
import type { HealthKeeper } from './health-keeper.ts'
import type { Delivery, OwnedLane } from './owned-lane.ts'
import type { Recorder } from './recorder.ts'
import { slotFreed, slotTaken, verdictIn } from './standing.ts'

/**
 * One turn starts at most this many, about half a millisecond, so that answers and publishes get their turn too. A request
 * leaves only after one more turn, when undici has looked whether its connection is still good: turns are what others wait
 * for while one tenant floods.
 */
const startsPerTurn = 32

/** An attempt given up by deadline frees its slot this much later: the receiver hears of the hang-up later than we do. */
const hangUpGraceMs = 100

/** The way of a delivery through this worker: planned → sent → judged → handed to the recorder. */
export class Pump {
  readonly #parts: PumpParts
  readonly #inFlight = new Set<Delivery>()

  constructor(parts: PumpParts) {
    this.#parts = parts
  }

  /** Starts what may start now, up to a limit; what is beyond has its turn soon. */
  run(): void {
    const { clock, scheduler, bodies } = this.#parts
    const now = clock.steady()
    const starts = scheduler.plan(now, startsPerTurn)
    const unread: Start<Delivery>[] = []
    for (const start of starts) {
      this.#inFlight.add(start.item)
      start.item.bucket = start.bucket
      if (start.entry) slotTaken(start.item)
      this.#parts.onTaken(start.item.owned, start.class)
      const reason = endsAs(start.item, now)
      if (reason !== undefined) {
        this.#endInstead(start.item, reason)
        continue
      }
      const message = bodies.get(start.item.row)
      if (message) this.#send(start.item, message)
      else unread.push(start)
    }
    if (unread.length > 0) void this.#readAndSend(unread)
    if (starts.length === startsPerTurn) this.#parts.again()
  }

  /** What is being sent, or about to be. */
  sending(): Iterable<Delivery> {
    return this.#inFlight
  }

  /** Gives up every attempt under way. What was sent may have been received; what is given up is sent again. */
  abortAll(): void {
    for (const delivery of this.#inFlight) delivery.abort?.()
  }

  async #readAndSend(starts: readonly Start<Delivery>[]): Promise<void> {
    const { bodies, clock } = this.#parts
    let found: Loaded
    try {
      found = await bodies.load(starts.map((start) => start.item.row))
    } catch (error) {
      this.#giveBack(starts)
      return this.#parts.onTrouble(error)
    }
    const held: Start<Delivery>[] = []
    for (const start of starts) {
      const message = found.get(start.item.row)
      const reason = endsAs(start.item, clock.steady())
      // Reading took time: the lease may have run out meanwhile, or the endpoint may have asked for silence.
      if (!this.#parts.maySend()) this.#end(start.item, aborted)
      else if (start.lane.isKeptBack(clock.steady())) held.push(start)
      else if (reason !== undefined) this.#endInstead(start.item, reason)
      else if (message) this.#send(start.item, message)
      else this.#end(start.item, vanished)
    }
    this.#giveBack(held)
  }

  /** Undoes starts, the last first, so that each lane's queue is as it was. */
  #giveBack(starts: readonly Start<Delivery>[]): void {
    for (const start of starts.toReversed()) {
      this.#inFlight.delete(start.item)
      this.#parts.scheduler.giveBack(start, this.#parts.clock.steady())
    }
    if (starts.length > 0) this.#parts.again()
  }

  /** Ends a delivery in place of sending it: its slot and its token are free again. */
  #endInstead(delivery: Delivery, reason: DeadReason): void {
    this.#inFlight.delete(delivery)
    delivery.bucket?.restore()
    this.#freeSlot(delivery, this.#parts.clock.steady())
    this.#parts.recorder.endUntried(delivery, reason)
  }

  #send(delivery: Delivery, message: Outgoing): void {
    const { clock } = this.#parts
    delivery.startedAt = clock.steady()
    this.#parts.health.began(delivery, delivery.startedAt)
    delivery.abort = delivery.owned.line.send(
      message,
      () => {
        delivery.left = true
        delivery.bucket?.spend(clock.steady())
      },
      (outcome) => this.#end(delivery, outcome),
      this.#parts.maySend,
    )
  }

  #end(delivery: Delivery, outcome: Outcome): void {
    const { clock, scheduler, recorder } = this.#parts
    const { owned } = delivery
    const now = clock.steady()
    this.#inFlight.delete(delivery)
    if (!delivery.left) delivery.bucket?.restore()
    owned.lastActiveAt = now

    const free = () => this.#freeSlot(delivery, clock.steady(), endedAs(delivery, outcome, now))
    if (outcome.code === 'timeout') clock.after(hangUpGraceMs, free)
    else free()

    // Given up by ourselves: nothing is known of it, so nothing is recorded and the row stays as it is.
    if (outcome.code === 'aborted') return this.#parts.onHandedBack(delivery)
    owned.throughput.note(now)

    const effect = laneEffect(outcome)
    if (effect.holdMs !== undefined) scheduler.hold(owned.lane, now + effect.holdMs)
    if (effect.disable) owned.lane.closed = true
    this.#parts.health.ended(delivery, outcome, now)
    const verdict: Verdict =
      outcome === vanished
        ? { state: 'dead', reason: 'exhausted' }
        : verdictIn(delivery, this.#judge(delivery, outcome, now))
    recorder.attempted(delivery, outcome, verdict, effect, now)
    this.#parts.again()
  }

  #judge({ owned, row, bornAt, expiresAt }: Delivery, outcome: Outcome, now: SteadyMs): Verdict {
    const { random, leastRetryWaitMs } = this.#parts
    const policy = owned.policy
    return judge(row.attempts + 1, now - bornAt, outcome, policy, random, expiresAt - now, leastRetryWaitMs)
  }

  #freeSlot(delivery: Delivery, now: SteadyMs, ended?: Ended): void {
    slotFreed(delivery, now)
    this.#parts.scheduler.finish(delivery.owned.lane, now, ended)
    this.#parts.again()
  }
}

/** Why a delivery is to end instead of being sent, if it is. */
function endsAs({ owned, row, bornAt, expiresAt }: Delivery, now: SteadyMs): DeadReason | undefined {
  if (owned.doomed?.has(row.message)) return 'overflow'
  return overdue(now - bornAt, expiresAt - now, owned.policy.maxAgeMs)
}

/** The attempt as the scheduler learns from it; undefined when none was made, or when it was given up by ourselves. */
function endedAs({ startedAt }: Delivery, outcome: Outcome, now: SteadyMs): Ended | undefined {
  if (outcome === vanished || outcome.code === 'aborted' || outcome.code === 'internal') return undefined
  const result = outcome.code === 'delivered' ? 'delivered' : outcome.code === 'blocked' ? 'nothing' : 'failed'
  return { heldMs: now - startedAt, result }
}

const nothing = { status: 0, retryAfterMs: undefined, response: undefined, durationMs: 0 } as const
const aborted: Outcome = { ...nothing, code: 'aborted', error: 'the worker was no longer sure of its lease' }
const vanished: Outcome = { ...nothing, code: 'internal', error: 'the message no longer exists' }

export interface PumpParts {
  readonly clock: Clock
  readonly random: Random
  readonly scheduler: Scheduler<Delivery>
  readonly bodies: Bodies
  readonly health: HealthKeeper
  readonly recorder: Recorder
  /** No retry comes sooner, whatever an endpoint's policy says. */
  readonly leastRetryWaitMs?: number | undefined
  /** Whether this worker is still sure of its lease. */
  maySend(): boolean
  /** Something may be startable again. */
  again(): void
  /** A row was taken from the lane's queue. */
  onTaken(owned: OwnedLane, itsClass: Class): void
  /** The delivery was given up unrecorded. */
  onHandedBack(delivery: Delivery): void
  onTrouble(error: unknown): void
}
