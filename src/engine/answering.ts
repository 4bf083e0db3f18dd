import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Lane } from '../domain/lane.ts'
import type { Entry } from '../domain/order.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import { type LaneSnapshot, namedLimit, type Standstill, writeSnapshot } from '../domain/snapshot.ts'
import { type Store, StoreTrouble } from '../store/store.ts'
import type { Delivery, OwnedLane } from './owned-lane.ts'
import type { Settler } from './settler.ts'

/** Answers whoever asks how a lane stands that this worker owns. What is asked within one turn is answered together. */
export class Answering {
  readonly #parts: AnsweringParts
  readonly #asked = new Set<number>()
  #answers = 0

  constructor(parts: AnsweringParts) {
    this.#parts = parts
  }

  ask(endpoints: readonly number[]): void {
    if (this.#asked.size === 0) this.#parts.clock.soon(() => void this.#answer())
    for (const endpoint of endpoints) this.#asked.add(endpoint)
  }

  /** Never rejects: whoever asked goes by what is stored. */
  async #answer(): Promise<void> {
    const endpoints = [...this.#asked]
    this.#asked.clear()
    const answers = this.#snapshots(endpoints).map(([endpoint, snapshot]) => ({
      endpoint,
      snapshot: writeSnapshot(snapshot),
    }))
    if (answers.length === 0) return
    try {
      await this.#parts.store.answerLanes(this.#parts.worker(), answers)
    } catch (error) {
      if (!(error instanceof StoreTrouble)) this.#parts.onBug(error)
    }
  }

  #snapshots(endpoints: readonly number[]): [endpoint: number, LaneSnapshot][] {
    const { clock, settler, standstill } = this.#parts
    const now = clock.steady()
    const lanes = new Map<number, OwnedLane>()
    this.#parts.eachLane((owned) => lanes.set(owned.endpoint.key, owned), endpoints)
    if (lanes.size === 0) return []
    this.#answers++
    const sending = Map.groupBy(this.#parts.sending(), ({ owned }) => owned.endpoint.key)
    const recording = Map.groupBy(settler.records(), ({ settlement }) => settlement.endpoint)
    return [...lanes].map(([endpoint, owned]) => {
      const ended = (recording.get(endpoint) ?? []).map(({ settlement }) => settlement.row.message)
      return [endpoint, this.#snapshot(owned, sending.get(endpoint) ?? [], ended, standstill(now), now)]
    })
  }

  #snapshot(
    { endpoint, lane, health, throughput, leaving, lastActiveAt, nextTimedAt }: OwnedLane,
    sending: readonly Delivery[],
    ended: readonly number[],
    standstill: Standstill | null,
    now: SteadyMs,
  ): LaneSnapshot {
    const { throttleRate, throttlePeriodSeconds } = endpoint
    return {
      worker: this.#parts.worker(),
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
      silentMs: health.manual ? null : Math.max(0, health.silentUntil - now),
      appMs: Math.max(0, this.#parts.scheduler.appReadyAt(lane, now) - now),
      failuresMs: Math.max(0, (lane.failures?.readyAt(now, lane.inFlight) ?? now) - now),
      paceMs: lane.pace === undefined ? 0 : Math.max(0, lane.pace.readyAt(now) - now),
      ...this.#parts.scheduler.slotsOf(lane, now),
      standstill,
      leaving,
      activeAgoMs: now - lastActiveAt,
      pace: throughput.perSecond(now) ?? null,
    }
  }
}

/** When order lets something start: what is for later may then have another key. Time that runs out starts nothing. */
function orderOf({ order }: Lane<Delivery>, nextTimedAt: SteadyMs, now: SteadyMs): LaneSnapshot['order'] {
  if (order === undefined) return null
  const wakesAt = order.nextAt(now)
  const isBlocked = (entry: Entry<Delivery>) =>
    entry.heldUntil === wakesAt && entry.item.row.heldMs === Number.POSITIVE_INFINITY
  const nextAt = Math.min(nextTimedAt, [...order.entries()].some(isBlocked) ? Number.POSITIVE_INFINITY : wakesAt)
  return { waitMs: nextAt === Number.POSITIVE_INFINITY ? null : nextAt - now }
}

export interface AnsweringParts {
  readonly store: Pick<Store, 'answerLanes'>
  readonly clock: Clock
  readonly scheduler: Scheduler<Delivery>
  readonly settler: Settler
  worker(): number
  /** Visits those of these lanes that are owned. */
  eachLane(visit: (owned: OwnedLane) => void, endpoints: readonly number[]): void
  /** What is being sent. */
  sending(): Iterable<Delivery>
  /** Why nothing is started at all. */
  standstill(now: SteadyMs): Standstill | null
  onBug(error: unknown): void
}
