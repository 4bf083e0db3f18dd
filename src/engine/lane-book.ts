import { retryPolicyOf } from '../domain/bounds.ts'
import { emptyBucketDebt } from '../domain/bucket.ts'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import { applicationShare, type Endpoint, isStopped } from '../domain/endpoint.ts'
import { Health } from '../domain/health.ts'
import { type HealthDefaults, rulesOf } from '../domain/health-facts.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import { type Share, shareOf } from '../domain/share.ts'
import { Throughput } from '../domain/throughput.ts'
import type { Line, Sender } from '../sender/send.ts'
import { bodyShaper } from '../shaping/body-shaper.ts'
import type { ClaimedLane, LaneRest, Store } from '../store/store.ts'
import type { Membership } from './membership.ts'
import { type Delivery, doubt, isReading, limitsOf, newCursors, type OwnedLane, orderingOf } from './owned-lane.ts'

/** The lanes this worker owns, each as its endpoint's settings want it, and how many of them it should. */
export class LaneBook {
  readonly #parts: LaneBookParts
  readonly #lanes = new Map<number, OwnedLane>()
  /** Among how many workers rates are shared. */
  #sharers = 1
  #closed = false
  /** Owned lanes whose settings changed and could not be read. */
  readonly #outdated = new Set<number>()

  constructor(parts: LaneBookParts) {
    this.#parts = parts
  }

  owns(owned: OwnedLane): boolean {
    return this.#lanes.get(owned.endpoint.key) === owned
  }

  find(endpoint: number): OwnedLane | undefined {
    return this.#lanes.get(endpoint)
  }

  get size(): number {
    return this.#lanes.size
  }

  /** Visits the owned lanes, or those of them that are named. */
  each(visit: (owned: OwnedLane) => void, endpoints?: readonly number[]): void {
    if (!endpoints) for (const owned of this.#lanes.values()) visit(owned)
    else {
      for (const endpoint of endpoints) {
        const owned = this.#lanes.get(endpoint)
        if (owned) visit(owned)
      }
    }
  }

  /** Takes nothing new on and lets no lane start anything. */
  close(): void {
    this.#closed = true
    for (const owned of this.#lanes.values()) owned.lane.closed = true
  }

  forgetAll(): void {
    for (const owned of this.#lanes.values()) this.#forget(owned)
  }

  /** A lane is owned from now on. */
  take(claimed: ClaimedLane): void {
    const { clock, scheduler } = this.#parts
    const { endpoint } = claimed
    // Known already: the claim also asked for what an earlier answer may have brought.
    if (this.#lanes.has(endpoint.key)) return
    const now = clock.steady()
    const bucketDebtMs = claimed.clean ? claimed.bucketDebtMs : emptyBucketDebt
    const start = { bucketDebtMs, holdMs: claimed.holdMs }
    const owned: OwnedLane = {
      endpoint,
      line: this.#open(endpoint),
      policy: retryPolicyOf(endpoint),
      health: new Health(claimed.health, claimed.healthAgeMs, now),
      rules: rulesOf(endpoint, this.#parts.healthDefaults),
      lane: scheduler.add(endpoint.key, endpoint.app, limitsOf(endpoint), start, now, orderingOf(endpoint)),
      cursors: newCursors(),
      held: new Set(),
      settledMeanwhile: [],
      unsettled: 0,
      ended: 0,
      doomed: null,
      looking: false,
      lastReadAt: now,
      nextTimedAt: Number.POSITIVE_INFINITY,
      lastActiveAt: now,
      throughput: new Throughput(now),
      leaving: false,
      unsure: false,
    }
    owned.lane.closed = isStopped(endpoint) || this.#closed
    this.#lanes.set(endpoint.key, owned)
    this.#throttle(endpoint, now)
    this.#parts.onOwned(owned)
  }

  #open(endpoint: Endpoint): Line {
    const { url, method, secrets, headers } = endpoint
    const timeoutMs = endpoint.timeoutMs ?? this.#parts.defaultTimeoutMs
    return this.#parts.sender.open({
      ...{ url, method, secrets, headers, timeoutMs },
      damaged: endpoint.damaged !== undefined,
      signature: endpoint.flow.signature,
      signatureHeaders: endpoint.signatureHeaders ?? {},
      shape: bodyShaper(endpoint),
    })
  }

  /** Reads the settings of owned lanes again after somebody changed them. */
  async refresh(endpoints?: readonly number[]): Promise<void> {
    const keys: number[] = []
    this.each((owned) => keys.push(owned.endpoint.key), endpoints)
    if (keys.length === 0) return
    for (const key of keys) this.#outdated.delete(key)
    try {
      const found = await this.#parts.store.loadEndpoints(keys)
      for (const endpoint of found) this.#apply(endpoint)
      if (found.length < keys.length) this.#giveAwayMissing(keys, found)
    } catch (error) {
      for (const key of keys) this.#outdated.add(key)
      this.#parts.onTrouble(error)
    }
    this.#parts.onChanged()
  }

  /** Reads what could not be read when it changed: an endpoint that was stopped must not go on for that. */
  async refreshOutdated(): Promise<void> {
    if (this.#outdated.size > 0) await this.refresh([...this.#outdated])
  }

  #apply(endpoint: Endpoint): void {
    const owned = this.#lanes.get(endpoint.key)
    if (!owned || owned.endpoint.updatedAt > endpoint.updatedAt) return
    const now = this.#parts.clock.steady()
    const before = owned.endpoint
    owned.endpoint = endpoint
    owned.line = this.#open(endpoint)
    owned.policy = retryPolicyOf(endpoint)
    owned.doomed = null
    owned.lane.reshape(limitsOf(endpoint), now)
    // What is in memory is in the old order; whoever takes the lane next reads it anew.
    if (owned.lane.order?.ordering !== orderingOf(endpoint)) giveAway(owned)
    else doubt(owned)
    owned.lane.closed = isStopped(endpoint) || owned.leaving || this.#closed
    if (before.appThrottleRate !== endpoint.appThrottleRate) this.#throttle(endpoint, now)
    this.#parts.onApplied(owned, before, now)
    this.#parts.scheduler.reconsider(owned.lane, now)
  }

  #giveAwayMissing(keys: readonly number[], found: readonly Endpoint[]): void {
    const existing = new Set(found.map((endpoint) => endpoint.key))
    const missing = keys.filter((key) => !existing.has(key))
    this.each(giveAway, missing)
  }

  /** Whether no owned lane has anything to send before the instant, as far as is known. */
  isIdleUntil(at: SteadyMs, now: SteadyMs): boolean {
    for (const owned of this.#lanes.values()) {
      if (owned.lane.inFlight > 0 || owned.unsettled > 0 || isReading(owned)) return false
      if (owned.lane.closed || owned.lane.startableAt(now) > at) continue
      if (owned.lane.queued > 0 || owned.nextTimedAt <= at) return false
      if (owned.cursors.some((cursor) => !cursor.complete)) return false
    }
    return true
  }

  /** This worker's share of what the application may get over all its endpoints. */
  #throttle({ app, appThrottleRate = null }: Endpoint, now: SteadyMs): void {
    const { membership, scheduler } = this.#parts
    const limit = appThrottleRate === null ? undefined : applicationShare(appThrottleRate, membership.workers)
    scheduler.throttle(app, limit, membership.sharesFrom, now)
  }

  /** Shares what applications may get anew, when there are more or fewer workers. */
  shareRates(): void {
    const { workers } = this.#parts.membership
    if (workers === this.#sharers) return
    this.#sharers = workers
    const now = this.#parts.clock.steady()
    const apps = new Map<number, Endpoint>()
    for (const { endpoint } of this.#lanes.values())
      if (endpoint.appThrottleRate != null) apps.set(endpoint.app, endpoint)
    for (const endpoint of apps.values()) this.#throttle(endpoint, now)
  }

  /** Gives away lanes beyond this worker's share, so that a worker that joins later gets some. */
  balance(): void {
    if (this.#parts.membership.workers <= 1) return
    // Those that were given away before and still have something under way are counted out.
    const kept = [...this.#lanes.values()].filter((owned) => !owned.leaving)
    for (const owned of kept.slice(this.share().most)) giveAway(owned)
  }

  /** How many lanes are this worker's to have. */
  share(): Share {
    const { workers, activeLanes, fewestLanes } = this.#parts.membership
    return shareOf(workers, activeLanes, fewestLanes)
  }

  /** Forgets those that rest and have nothing under way; answers what their next owners must know. */
  letGo(rests: (owned: OwnedLane) => boolean, now: SteadyMs): LaneRest[] {
    const given: LaneRest[] = []
    for (const owned of this.#lanes.values()) {
      const busy = owned.lane.inFlight > 0 || owned.unsettled > 0 || isReading(owned)
      if (busy || !rests(owned)) continue
      given.push({
        endpoint: owned.endpoint.key,
        bucketDebtMs: owned.lane.bucket?.debtMs(now) ?? 0,
        notBeforeMs: Math.max(0, owned.lane.restsUntil(now) - now),
        health: owned.health.unsaved(now),
      })
      this.#forget(owned)
    }
    return given
  }

  #forget(owned: OwnedLane): void {
    this.#lanes.delete(owned.endpoint.key)
    this.#outdated.delete(owned.endpoint.key)
    this.#parts.scheduler.remove(owned.lane)
  }
}

/** Nothing new is started; once nothing is under way the lane is released. */
function giveAway(owned: OwnedLane): void {
  owned.leaving = true
  owned.lane.closed = true
}

export interface LaneBookParts {
  readonly store: Pick<Store, 'loadEndpoints'>
  readonly clock: Clock
  readonly scheduler: Scheduler<Delivery>
  readonly sender: Sender
  readonly membership: Membership
  readonly defaultTimeoutMs: number
  readonly healthDefaults: HealthDefaults
  /** A lane is owned from now on. */
  onOwned(owned: OwnedLane): void
  /** The settings of an owned lane were changed. */
  onApplied(owned: OwnedLane, before: Endpoint, now: SteadyMs): void
  /** Something may be startable that was not. */
  onChanged(): void
  onTrouble(error: unknown): void
}
