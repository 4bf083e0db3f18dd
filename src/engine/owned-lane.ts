import type { Random, SteadyMs } from '../domain/clock.ts'
import { type Class, timed } from '../domain/delivery.ts'
import type { Health, HealthChange, HealthRules } from '../domain/health.ts'
import { invariant } from '../domain/invariant.ts'
import type { Verdict } from '../domain/judge.ts'
import type { Lane, LaneLimits } from '../domain/lane.ts'
import type { Ordering } from '../domain/queue.ts'
import { Throughput } from '../domain/rate.ts'
import type { RetryPolicy } from '../domain/retry.ts'
import { concurrencyOf, type Endpoint, isStopped, rateLimit } from '../features/endpoints/rules.ts'
import type { OpenTarget } from '../sender/send.ts'
import type { LaneRest, PendingRow } from '../store/store.ts'
import type { Delivery } from './delivery.ts'
import type { EndedAttempt } from './ended-attempt.ts'
import { LaneRows } from './lane-rows.ts'

/** A lane without work for this long goes back to the store, so that memory holds only busy lanes. */
const lingerMs = 2000
/**
 * As long as more lanes are due than this worker takes at once, or it has many, a lane goes back after this long that got no further rows
 * since its first start: otherwise memory would hold all lanes of the last two seconds.
 */
const crowdedLingerMs = 100

/** The share of the latest attempt in the mean time of all. */
const attemptShare = 0.05

/** A lane without work for this long keeps nothing that can be made again. */
const restMs = 500

/** An endpoint's settings, in the form in which its lane uses them. */
export interface LaneSettings {
  readonly endpoint: Endpoint
  readonly target: OpenTarget
  readonly policy: RetryPolicy
  readonly rules: HealthRules
}

/**
 * A lane that this worker owns: its settings, its rows in memory, its receiver's health and its unrecorded results. Every
 * change goes through a method. A lane is closed, and starts nothing, while any reason for that holds: its endpoint is
 * stopped or about to be disabled, the lane is leaving, or the worker is stopping.
 */
export class OwnedLane {
  /** The lane as the scheduler sees it. */
  readonly lane: Lane<Delivery>
  readonly rows: LaneRows
  readonly health: Health
  readonly throughput: Throughput
  /** Since when it could send and waits for a slot of the worker, by the looks of `SlotWatch`; undefined while it does not. */
  crowdedSince: SteadyMs | undefined
  /** The mean time of recent attempts; undefined before the first has ended. */
  attemptMs: number | undefined
  #settings: LaneSettings
  /** Results and health updates that are not recorded yet. */
  #unsettled = 0
  /** Deliveries that ended for good since this worker took the lane. */
  #ended = 0
  /** Messages in memory beyond the endpoint's queue limit. Each ends when its turn comes. */
  #surplus: ReadonlySet<number> | undefined
  #nextTimedAt: SteadyMs = Number.POSITIVE_INFINITY
  #lastActiveAt: SteadyMs
  /** Rows were added after a delivery had started: more may follow soon. */
  #wasFed = false
  #disabling = false
  #leaving = false
  #workerStops = false
  #owned = true

  constructor(lane: Lane<Delivery>, settings: LaneSettings, health: Health, now: SteadyMs) {
    this.lane = lane
    this.rows = new LaneRows(lane, now)
    this.health = health
    this.throughput = new Throughput(now)
    this.#settings = settings
    this.#lastActiveAt = now
    this.#updateClosed()
    this.#followHealth()
  }

  get endpoint(): Endpoint {
    return this.#settings.endpoint
  }

  get target(): OpenTarget {
    return this.#settings.target
  }

  get policy(): RetryPolicy {
    return this.#settings.policy
  }

  /** False once the lane was released or lost: late reads of it take nothing in. */
  get isOwned(): boolean {
    return this.#owned
  }

  /** The lane goes to another worker as soon as it is not busy. */
  get isLeaving(): boolean {
    return this.#leaving
  }

  /** Whether an attempt is on the wire, a read is under way or a result is unrecorded. */
  get isBusy(): boolean {
    return this.lane.inFlight > 0 || this.#unsettled > 0 || this.rows.isReading
  }

  get lastActiveAt(): SteadyMs {
    return this.#lastActiveAt
  }

  /** When the next timed row is due, as far as this worker knows. */
  get nextTimedAt(): SteadyMs {
    return this.#nextTimedAt
  }

  /** Takes over changed settings. A lane whose ordering changed leaves, and its next owner reads it in the new order. */
  apply(settings: LaneSettings, now: SteadyMs): void {
    const wasDisabled = this.endpoint.disabled
    const { endpoint } = settings
    this.#settings = settings
    this.#surplus = undefined
    this.lane.reshape(limitsOf(endpoint), now)
    if (this.lane.order?.ordering !== orderingOf(endpoint)) this.#leaving = true
    else this.rows.recheck()
    this.#updateClosed()
    // An operator who enables an endpoint expects an attempt.
    if (wasDisabled && !endpoint.disabled) this.health.forget()
    this.#followHealth()
  }

  /** Starts nothing more; released once it is not busy. */
  leave(): void {
    this.#leaving = true
    this.#updateClosed()
  }

  /** Starts nothing more: the store disables the endpoint when it records the result that asks for it. */
  disable(): void {
    this.#disabling = true
    this.#updateClosed()
  }

  /** Starts nothing more: the worker is stopping. */
  stop(): void {
    this.#workerStops = true
    this.#updateClosed()
  }

  /** The lane is no longer this worker's. */
  drop(): void {
    this.#owned = false
    this.#updateClosed()
  }

  #updateClosed(): void {
    const { endpoint } = this.#settings
    this.lane.closed = isStopped(endpoint) || this.#disabling || this.#leaving || this.#workerStops || !this.#owned
  }

  /** Rows of these classes were added. */
  rowsAdded(added: readonly Class[], now: SteadyMs): void {
    this.#lastActiveAt = now
    this.#wasFed ||= this.lane.begun
    for (const c of added) this.rows.reopen(c)
  }

  /** The fast path: takes in a row that this process has just stored. False means that it must be read. */
  acceptStored(message: number, begunAt: SteadyMs, now: SteadyMs): boolean {
    if (!this.rows.acceptStored(message, begunAt, now)) return false
    this.#lastActiveAt = now
    this.#wasFed ||= this.lane.begun
    return true
  }

  /** A row was added that another process names. See `LaneRows.awaitNamed`. */
  awaitNamed(message: number, now: SteadyMs): ReturnType<LaneRows['awaitNamed']> {
    this.#lastActiveAt = now
    return this.rows.awaitNamed(message, now)
  }

  /** A timed row will be due then. Answers whether that is sooner than any that was known. */
  expectTimed(at: SteadyMs): boolean {
    if (at >= this.#nextTimedAt) return false
    this.#nextTimedAt = at
    return true
  }

  /** Answers whether a timed row is due, and if so has the class read again. */
  takeTimed(now: SteadyMs): boolean {
    if (this.#nextTimedAt > now) return false
    this.#nextTimedAt = Number.POSITIVE_INFINITY
    this.rows.reopen(timed)
    return true
  }

  /** An attempt begins. Where the circuit is open it is the probe. */
  beginAttempt(): HealthChange | undefined {
    if (this.health.circuit !== 'open') return undefined
    const change = this.health.began()
    this.#followHealth()
    return change
  }

  /** An attempt ended: the lane is silent or closed as the answer asks, and the receiver's health is judged. */
  endAttempt({ delivery, outcome, effect, at }: EndedAttempt, random: Random): HealthChange | undefined {
    this.#lastActiveAt = at
    this.throughput.note(at)
    const tookMs = at - delivery.startedAt
    this.attemptMs = this.attemptMs === undefined ? tookMs : this.attemptMs + attemptShare * (tookMs - this.attemptMs)
    if (effect.holdMs !== undefined) this.lane.hold(at + effect.holdMs)
    if (effect.disable) this.disable()
    const change = this.health.ended(outcome, delivery, this.#settings.rules, at, random)
    if (change?.disableAfterFailingMs !== undefined) this.disable()
    if (change !== undefined || this.lane.pace !== this.health.pace) this.#followHealth()
    return change
  }

  /** An attempt was given up without a result: the store has its row as before. */
  handBack({ row, ordered }: Delivery, now: SteadyMs): void {
    this.#lastActiveAt = now
    if (ordered) ordered.putBack(now)
    else {
      this.rows.forget(row.message)
      this.rows.reopen(row.class)
    }
  }

  /** Applies the settings' health rules, and the operator's last command, to the receiver's health. */
  followRules(now: SteadyMs): HealthChange[] {
    const { rules, endpoint } = this.#settings
    const changes = [this.health.follow(rules, now), this.health.carryOut(endpoint.flow.circuitOrder, rules, now)]
    this.#followHealth()
    return changes.filter((change) => change !== undefined)
  }

  #followHealth(): void {
    this.lane.silentUntil = this.health.silentUntil
    this.lane.probing = this.health.probing
    this.lane.pace = this.health.pace
  }

  /** A result or a health update waits to be recorded. */
  beginSettle(): void {
    this.#unsettled++
  }

  /** A verdict is durable, or no longer this worker's to record. */
  settled(message: number, { state }: Verdict): void {
    this.#endSettle()
    // The row keeps its place in an ordered lane.
    if (state === 'delayed' || state === 'blocked') return
    if (state !== 'waiting') this.#ended++
    this.rows.settled(message)
  }

  /** A health update is durable, or no longer this worker's to record. */
  healthSettled(): void {
    this.#endSettle()
  }

  #endSettle(): void {
    invariant(this.#unsettled > 0, 'a result is settled once, after it began to wait')
    this.#unsettled--
  }

  /** Deliveries that ended, or whose end is being recorded, since this worker took the lane. */
  get endedOrEnding(): number {
    return this.#ended + this.#unsettled
  }

  /** Deliveries that ended for good since this worker took the lane. */
  get ended(): number {
    return this.#ended
  }

  /** These messages in memory are beyond the endpoint's queue limit; none when there are none. */
  markSurplus(rows: readonly PendingRow[]): void {
    this.#surplus = rows.length === 0 ? undefined : new Set(rows.map(({ message }) => message))
  }

  get hasSurplus(): boolean {
    return this.#surplus !== undefined
  }

  isSurplus(message: number): boolean {
    return this.#surplus?.has(message) === true
  }

  /** The waiting deliveries of an ordered lane beyond its queue limit. They end at once, as their turn may be far off. */
  surplusInOrder(): Delivery[] {
    const { order } = this.lane
    if (order === undefined || !this.hasSurplus) return []
    const waiting = [...order.entries()].filter(({ state, message }) => state === 'waiting' && this.isSurplus(message))
    return waiting.map(({ item }) => item).filter(({ ordered }) => ordered?.isEnding === false)
  }

  /**
   * Whether the lane may go back to the store: it is not busy, and has nothing to do or may not do it for a while. `areMany`
   * says that many lanes are owned, or wait for a worker.
   */
  canRelease(now: SteadyMs, areMany = false): boolean {
    if (this.isBusy) return false
    const { lane } = this
    if (lane.closed || lane.restsUntil(now) - now > lingerMs) return true
    if (lane.queued > 0 || !this.rows.isComplete) return false
    const idleMs = areMany && !this.#wasFed ? crowdedLingerMs : lingerMs
    return now - this.#lastActiveAt >= idleMs && this.#nextTimedAt - now > lingerMs
  }

  /** While nothing is to be sent, the lane takes little memory. */
  rest(now: SteadyMs): void {
    if (this.lane.queued > 0 || this.isBusy || now - this.#lastActiveAt < restMs) return
    this.rows.rest()
    this.target.rest?.()
  }

  /**
   * Whether the lane has nothing to send before the instant, as far as this worker knows. A lane that leaves may have work for
   * its next owner, and there is none before it has been released.
   */
  isIdleUntil(at: SteadyMs, now: SteadyMs): boolean {
    if (this.isBusy || this.isLeaving) return false
    if (this.lane.closed || this.lane.startableAt(now) > at) return true
    return this.lane.queued === 0 && this.#nextTimedAt > at && this.rows.isComplete
  }

  /** Whether the lane has something to send before the instant, and the run of the process ends too soon after. */
  lacksTime(until: SteadyMs, now: SteadyMs): boolean {
    return this.lane.lacksTime(until, now)
  }

  /** The state from which the next owner goes on. */
  toRest(now: SteadyMs): LaneRest {
    return {
      endpoint: this.endpoint.key,
      bucketDebtMs: this.lane.bucket?.debtMs(now) ?? 0,
      bucketLimit: this.lane.bucket?.limit ?? null,
      notBeforeMs: Math.max(0, this.lane.restsUntil(now) - now),
      health: this.health.unsaved(now),
    }
  }
}

/** The limits that an endpoint's settings give its lane. */
export function limitsOf(endpoint: Endpoint): LaneLimits {
  return { rate: rateLimit(endpoint), concurrency: concurrencyOf(endpoint), timeoutMs: endpoint.timeoutMs ?? 0 }
}

/** The ordering of an endpoint's lane; undefined for an unordered one. */
export function orderingOf({ flow }: Endpoint): Ordering | undefined {
  return flow.order === 'none' ? undefined : flow.order
}
