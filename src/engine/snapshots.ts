import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Lane } from '../domain/lane.ts'
import type { Entry } from '../domain/queue.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import { type LaneSnapshot, namedLimit, writeSnapshot } from '../domain/snapshot.ts'
import { type Store, StoreTrouble } from '../store/store.ts'
import type { Delivery } from './delivery.ts'
import type { LaneRegistry } from './lane-registry.ts'
import type { Loop } from './loop.ts'
import type { Membership } from './membership.ts'
import type { OwnedLane } from './owned-lane.ts'
import type { Pump } from './pump.ts'
import type { SettleQueue } from './settling.ts'

/** A worker that has no share of an application's rate has usually got one after this long. */
const shareMs = 1000

/** Stores a snapshot of an owned lane when a process asks for one. The requests of one turn are answered together. */
export class Snapshots {
  readonly #deps: SnapshotsDeps
  readonly #requested = new Set<number>()
  #answers = 0

  constructor(deps: SnapshotsDeps) {
    this.#deps = deps
  }

  request(endpoints: readonly number[]): void {
    if (this.#requested.size === 0) this.#deps.clock.soon(() => void this.#answer())
    for (const endpoint of endpoints) this.#requested.add(endpoint)
  }

  /** Never rejects: without an answer, the process that asked uses the stored state. */
  async #answer(): Promise<void> {
    const { store, membership, onTrouble } = this.#deps
    const endpoints = [...this.#requested]
    this.#requested.clear()
    const answers = this.#take(endpoints)
    if (answers.length === 0) return
    try {
      await store.answerLanes(membership.worker, answers)
    } catch (error) {
      if (!(error instanceof StoreTrouble)) onTrouble(error)
    }
  }

  #take(endpoints: readonly number[]): { endpoint: number; snapshot: string }[] {
    const { clock, queue, pump, registry } = this.#deps
    const now = clock.steady()
    const lanes = new Map<number, OwnedLane>()
    registry.each((owned) => lanes.set(owned.endpoint.key, owned), endpoints)
    if (lanes.size === 0) return []
    this.#answers++
    const sending = Map.groupBy(pump.sending(), ({ owned }) => owned.endpoint.key)
    const recording = Map.groupBy(queue.entries(), ({ settlement }) => settlement.endpoint)
    return [...lanes].map(([endpoint, owned]) => {
      const ended = (recording.get(endpoint) ?? []).map(({ settlement }) => settlement.row.message)
      const snapshot = this.#snapshotOf(owned, sending.get(endpoint) ?? [], ended, now)
      return { endpoint, snapshot: writeSnapshot(snapshot) }
    })
  }

  #snapshotOf(
    { endpoint, lane, health, throughput, attemptMs, isLeaving, lastActiveAt, nextTimedAt }: OwnedLane,
    sending: readonly Delivery[],
    ended: readonly number[],
    now: SteadyMs,
  ): LaneSnapshot {
    const { membership, scheduler, loop } = this.#deps
    const { throttleRate, throttlePeriodSeconds } = endpoint
    return {
      worker: membership.worker,
      n: this.#answers,
      inFlight: lane.inFlight,
      concurrency: lane.concurrency,
      sending: sending
        .map(({ row, startedAt }) => ({ message: row.message, forMs: startedAt === 0 ? 0 : now - startedAt }))
        .sort((a, b) => b.forMs - a.forMs)
        .slice(0, namedLimit),
      recording: ended.slice(0, namedLimit),
      queued: [lane.queues[0].size, lane.queues[1].size, lane.queues[2].size],
      tokenMs: lane.bucket === undefined ? null : Math.max(0, lane.bucket.readyAt(now) - now),
      rate: throttleRate === null ? null : throttleRate / throttlePeriodSeconds,
      order: orderOf(lane, nextTimedAt, now),
      holdMs: Math.max(0, lane.holdUntil - now),
      circuit: health.circuit,
      failing: health.failingSince !== undefined,
      silentMs: health.manual ? null : Math.max(0, health.silentUntil - now),
      appMs: appReadyMs(scheduler.appReadyAt(lane, now) - now),
      failuresMs: Math.max(0, (lane.failures?.readyAt(now, lane.inFlight) ?? now) - now),
      paceMs: lane.pace === undefined ? 0 : Math.max(0, lane.pace.readyAt(now) - now),
      ...scheduler.slotsOf(lane, now),
      standstill: loop.standstill(now),
      leaving: isLeaving,
      activeAgoMs: now - lastActiveAt,
      pace: throughput.perSecond(now) ?? null,
      seenMs: throughput.seenMs(now),
      attemptMs: attemptMs ?? null,
    }
  }
}

/** How long an application's rate lets nothing start. */
function appReadyMs(ms: number): number {
  return ms === Number.POSITIVE_INFINITY ? shareMs : Math.max(0, ms)
}

/** When the ordering lets a delivery start. A timed row may have another key; a delivery that expires starts nothing. */
function orderOf({ order }: Lane<Delivery>, nextTimedAt: SteadyMs, now: SteadyMs): LaneSnapshot['order'] {
  if (order === undefined) return null
  const wakesAt = order.nextAt(now)
  const isBlocked = (entry: Entry<Delivery>) =>
    entry.waitsUntil === wakesAt && entry.item.row.retryInMs === Number.POSITIVE_INFINITY
  const nextAt = Math.min(nextTimedAt, [...order.entries()].some(isBlocked) ? Number.POSITIVE_INFINITY : wakesAt)
  return { waitMs: nextAt === Number.POSITIVE_INFINITY ? null : nextAt - now }
}

interface SnapshotsDeps {
  readonly store: Pick<Store, 'answerLanes'>
  readonly clock: Clock
  readonly scheduler: Scheduler<Delivery>
  readonly membership: Membership
  readonly registry: LaneRegistry
  readonly pump: Pump
  readonly queue: SettleQueue
  readonly loop: Loop
  onTrouble(error: unknown): void
}
