import { overdue } from '../domain/bounds.ts'
import type { Clock, Random, SteadyMs } from '../domain/clock.ts'
import type { Class } from '../domain/delivery.ts'
import { managementApplication } from '../domain/endpoint.ts'
import { encodeId, firstKeyAt, type RandomText } from '../domain/ids.ts'
import { type DeadReason, judge, laneEffect, type Verdict } from '../domain/judge.ts'
import type { Lane } from '../domain/lane.ts'
import { attemptNotice, type Notice } from '../domain/notice.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { Scheduler, Start } from '../domain/scheduler.ts'
import { skipped } from '../store/held.ts'
import type { Outgoing } from '../store/store.ts'
import type { Bodies, Loaded } from './bodies.ts'
import type { HealthKeeper } from './health-keeper.ts'
import type { NoticeWishes } from './notice-wishes.ts'
import type { Delivery, OwnedLane } from './owned-lane.ts'
import type { Settler } from './settler.ts'
import { slotFreed, slotTaken, standAside, verdictIn } from './standing.ts'

/** One turn starts at most this many, so that answers and publishes get their turn too. */
const startsPerTurn = 128

/** An attempt given up by deadline frees its slot this much later: the receiver hears of the hang-up later than we do. */
const hangUpGraceMs = 100

/** The way of a delivery through this worker: plan → send → judge → settle. */
export class Pump {
  readonly #parts: PumpParts
  readonly #inFlight = new Set<Delivery>()

  constructor(parts: PumpParts) {
    this.#parts = parts
  }

  /** Starts what may start now, up to a limit; what is beyond has its turn soon. */
  run(limit = startsPerTurn): void {
    const { clock, scheduler, bodies } = this.#parts
    const now = clock.steady()
    const starts = scheduler.plan(now, limit)
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
    if (starts.length === limit) this.#parts.again()
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
      else if (mayNotSend(start.lane, clock.steady())) held.push(start)
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
    this.endUntried(delivery, reason)
  }

  /** Ends a delivery that is not being sent, without an attempt; `recorded` is called once that is no longer ours to do. */
  endUntried(delivery: Delivery, reason: DeadReason, recorded: () => void = nothingMore): void {
    const verdict: Verdict = { state: 'dead', reason }
    this.#settleUntried(delivery, verdict, recorded)
  }

  /** Ends a delivery that waits in an ordered lane, without an attempt. */
  endWaiting(delivery: Delivery, reason: DeadReason): void {
    standAside(delivery, this.#parts.clock.steady())
    this.endUntried(delivery, reason)
  }

  /** Queues a row that keeps its place in a lane that has no order any more as one that waits for its time. */
  requeue(delivery: Delivery): void {
    const { heldMs } = delivery.row
    if (heldMs === skipped) this.endUntried(delivery, 'skipped')
    else if (heldMs === Number.POSITIVE_INFINITY) this.endUntried(delivery, 'exhausted')
    else this.#settleUntried(delivery, { state: 'waiting', waitMs: heldMs }, nothingMore)
  }

  #settleUntried(delivery: Delivery, verdict: Verdict, recorded: () => void): void {
    const { owned, row } = delivery
    const { key: endpoint, app } = owned.endpoint
    owned.unsettled++
    this.#parts.settler.add({
      settlement: { endpoint, app, row, attempt: null, verdict, inOrder: delivery.standing !== undefined },
      holdMs: undefined,
      disable: undefined,
      awaited: delivery.standing !== undefined,
      recorded: () => {
        this.#parts.onRecorded(delivery, verdict)
        recorded()
      },
    })
    this.#parts.again()
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
    const { clock, scheduler, settler } = this.#parts
    const { owned, row } = delivery
    const now = clock.steady()
    this.#inFlight.delete(delivery)
    if (!delivery.left) delivery.bucket?.restore()
    owned.lastActiveAt = now

    if (outcome.code === 'timeout') clock.after(hangUpGraceMs, () => this.#freeSlot(delivery, clock.steady()))
    else this.#freeSlot(delivery, now)

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
    const id = encodeId('atmpt', firstKeyAt(clock.now()), this.#parts.randomText)
    owned.unsettled++
    settler.add({
      settlement: {
        endpoint: owned.endpoint.key,
        app: owned.endpoint.app,
        row,
        attempt: {
          id,
          startedAgoMs: Math.round(now - delivery.startedAt),
          durationMs: Math.round(outcome.durationMs),
          status: outcome.status,
          code: outcome.code,
          error: outcome.error ?? null,
          response: outcome.response ?? null,
        },
        verdict,
        inOrder: delivery.standing !== undefined,
      },
      holdMs: effect.holdMs,
      disable: effect.disable ? 'gone' : undefined,
      notice: this.#noticeOf(delivery, outcome, verdict, id, now),
      awaited: delivery.standing !== undefined,
      recorded: () => this.#parts.onRecorded(delivery, verdict),
    })
    this.#parts.again()
  }

  /** What operators are to be told of an attempt; hardly ever anything, and then only if they want it. */
  #noticeOf(
    { owned, row, startedAt }: Delivery,
    outcome: Outcome,
    { state }: Verdict,
    id: string,
    now: SteadyMs,
  ): Notice | undefined {
    const type = attemptNotice(state, row.attempts)
    if (type === undefined || !this.#parts.wishes.wants(type) || owned.endpoint.app === managementApplication) {
      return undefined
    }
    const timestamp = new Date(this.#parts.clock.now() - Math.round(now - startedAt)).toISOString()
    const lastAttempt = { id, responseStatusCode: outcome.status, timestamp }
    return { type, endpoint: owned.endpoint.key, message: row.message, data: { lastAttempt } }
  }

  #judge({ owned, row, bornAt, expiresAt }: Delivery, outcome: Outcome, now: SteadyMs): Verdict {
    return judge(row.attempts + 1, now - bornAt, outcome, owned.policy, this.#parts.random, expiresAt - now)
  }

  #freeSlot(delivery: Delivery, now: SteadyMs): void {
    slotFreed(delivery, now)
    this.#parts.scheduler.finish(delivery.owned.lane, now)
    this.#parts.again()
  }
}

/** Whether a lane that was allowed to send a moment ago is not any more. */
function mayNotSend(lane: Lane<Delivery>, now: SteadyMs): boolean {
  if (lane.closed || lane.holdUntil > now || lane.silentUntil > now) return true
  return lane.probing && lane.inFlight > 1
}

/** Why a delivery is to end instead of being sent, if it is. */
function endsAs({ owned, row, bornAt, expiresAt }: Delivery, now: SteadyMs): DeadReason | undefined {
  if (owned.doomed?.has(row.message)) return 'overflow'
  return overdue(now - bornAt, expiresAt - now, owned.policy.maxAgeMs)
}

const nothingMore = () => {}

const nothing = { status: 0, retryAfterMs: undefined, response: undefined, durationMs: 0 } as const
const aborted: Outcome = { ...nothing, code: 'aborted', error: 'the worker was no longer sure of its lease' }
const vanished: Outcome = { ...nothing, code: 'internal', error: 'the message no longer exists' }

export interface PumpParts {
  readonly clock: Clock
  readonly random: Random
  readonly randomText: RandomText
  readonly scheduler: Scheduler<Delivery>
  readonly bodies: Bodies
  readonly settler: Settler
  readonly health: HealthKeeper
  readonly wishes: Pick<NoticeWishes, 'wants'>
  /** Whether this worker is still sure of its lease. */
  maySend(): boolean
  /** Something may be startable again. */
  again(): void
  /** A row was taken from the lane's queue. */
  onTaken(owned: OwnedLane, itsClass: Class): void
  /** The attempt is durable, or no longer ours. */
  onRecorded(delivery: Delivery, verdict: Verdict): void
  /** The delivery was given up unrecorded. */
  onHandedBack(delivery: Delivery): void
  onTrouble(error: unknown): void
}
