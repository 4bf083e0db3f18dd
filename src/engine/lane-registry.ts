import type { Clock, SteadyMs } from '../domain/clock.ts'
import { Health } from '../domain/health.ts'
import { invariant } from '../domain/invariant.ts'
import { emptyBucketDebt } from '../domain/rate.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import {
  type CompleteEndpoint,
  type Endpoint,
  type HealthDefaults,
  retryPolicyOf,
  rulesOf,
  type ServerDefaults,
  withDefaults,
} from '../features/endpoints/rules.ts'
import {
  defaultRegion,
  type RegionShare,
  type Regions,
  type Share,
  serves,
  shareOf,
} from '../features/regions/rules.ts'
import { keepsConnections, targetOf } from '../sender/destination.ts'
import type { Sender } from '../sender/send.ts'
import { bodyShaper } from '../shaping/shape.ts'
import type { ClaimedLane, LaneRest, Store } from '../store/store.ts'
import type { AppShares } from './app-shares.ts'
import type { Delivery } from './delivery.ts'
import type { Loop } from './loop.ts'
import type { Membership } from './membership.ts'
import { type LaneSettings, limitsOf, OwnedLane, orderingOf } from './owned-lane.ts'
import type { Reader } from './reader.ts'
import type { Settling } from './settling.ts'

/** Beyond this many lanes, about 15 MB, those that may have no more work go back sooner. */
const manyLanes = 4096

/** The lanes that this worker owns, kept in line with their endpoints' settings, and how many lanes it should own. */
export class LaneRegistry {
  readonly #deps: LaneRegistryDeps
  readonly #lanes = new Map<number, OwnedLane>()
  #stopped = false
  /** Owned lanes whose settings changed and could not be read. */
  readonly #outdated = new Set<number>()
  /** The changes that were signalled while the store answers a claim; undefined while it answers none. */
  #meanwhile: Meanwhile | undefined

  constructor(deps: LaneRegistryDeps) {
    this.#deps = deps
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

  /** Lets no lane start anything, also none that is taken later. */
  stop(): void {
    this.#stopped = true
    for (const owned of this.#lanes.values()) owned.stop()
  }

  /** Nothing is owned any more. */
  dropAll(): void {
    for (const owned of this.#lanes.values()) this.#drop(owned)
  }

  /**
   * The store answers a claim. The answer, settings and first rows, may be older than a change that is signalled before it
   * comes.
   */
  claimBegins(): void {
    this.#meanwhile = { changed: new Signalled(), added: new Signalled(), begunAt: this.#deps.clock.steady() }
  }

  /** Rows were added to the queues of these endpoints, or of any. */
  rowsAdded(endpoints?: readonly number[]): void {
    this.#meanwhile?.added.note(endpoints)
  }

  /** Takes the lanes that the claim brought. */
  claimEnds(lanes: readonly ClaimedLane[]): void {
    const meanwhile = this.#meanwhile
    this.#meanwhile = undefined
    if (meanwhile === undefined) return
    for (const lane of lanes) this.#take(lane, meanwhile)
    const keys = lanes.map(({ endpoint }) => endpoint.key)
    void this.refresh(keys.filter((key) => meanwhile.changed.has(key)))
    if (lanes.length > 0) this.#deps.loop.turn()
  }

  /** A lane is owned from now on. */
  #take(claimed: ClaimedLane, { changed, added, begunAt }: Meanwhile): void {
    const { clock, scheduler, reader, appShares, serverDefaults } = this.#deps
    const endpoint = withDefaults(claimed.endpoint, serverDefaults)
    // Owned already: a claim also names lanes that an earlier answer, which was lost, may have brought.
    if (this.#lanes.has(endpoint.key)) return
    const now = clock.steady()
    const bucketDebtMs = claimed.clean ? claimed.bucketDebtMs : emptyBucketDebt
    const start = { bucketDebtMs, bucketLimit: claimed.bucketLimit, holdMs: claimed.holdMs }
    const lane = scheduler.add(endpoint.key, endpoint.app, limitsOf(endpoint), start, now, orderingOf(endpoint))
    const health = new Health(claimed.health, claimed.healthAgeMs, now)
    const owned = new OwnedLane(lane, this.#settingsOf(endpoint), health, now)
    if (this.#stopped) owned.stop()
    // A claim whose answer was lost brought the lane, and it was moved to a region of other workers since.
    if (!serves(this.#deps.regions, endpoint.region)) owned.leave()
    this.#lanes.set(endpoint.key, owned)
    appShares.follow(endpoint)
    this.#followRules(owned, now)
    // Its rows or its settings may be out of date. Both are read again.
    const isStale = added.has(endpoint.key) || changed.has(endpoint.key)
    if (claimed.front === undefined || isStale) reader.requestAll(owned)
    else reader.takeFront(owned, claimed.front, begunAt)
  }

  #settingsOf(endpoint: CompleteEndpoint): LaneSettings {
    const { sender, healthDefaults } = this.#deps
    const target = sender.open(targetOf(endpoint, bodyShaper(endpoint)))
    return { endpoint, target, policy: retryPolicyOf(endpoint), rules: rulesOf(endpoint, healthDefaults) }
  }

  /** Reads the settings of owned lanes again, after they were changed. */
  async refresh(endpoints?: readonly number[]): Promise<void> {
    this.#meanwhile?.changed.note(endpoints)
    const keys: number[] = []
    this.each((owned) => keys.push(owned.endpoint.key), endpoints)
    if (keys.length === 0) return
    for (const key of keys) this.#outdated.delete(key)
    try {
      const found = await this.#deps.store.loadEndpoints(keys)
      for (const endpoint of found) this.#apply(withDefaults(endpoint, this.#deps.serverDefaults))
      if (found.length < keys.length) this.#leaveDeleted(keys, found)
    } catch (error) {
      for (const key of keys) this.#outdated.add(key)
      this.#deps.onTrouble(error)
    }
    this.#deps.loop.wake()
  }

  /** Reads settings that could not be read when they changed: an endpoint that was stopped must not go on for that. */
  async refreshOutdated(): Promise<void> {
    if (this.#outdated.size > 0) await this.refresh([...this.#outdated])
  }

  #apply(endpoint: CompleteEndpoint): void {
    const { clock, reader, scheduler } = this.#deps
    const owned = this.#lanes.get(endpoint.key)
    if (!owned || owned.endpoint.updatedAt > endpoint.updatedAt) return
    const now = clock.steady()
    const before = owned.endpoint
    const replaced = owned.target
    owned.apply(this.#settingsOf(endpoint), now)
    if (!keepsConnections(before, endpoint)) replaced.retire?.()
    // The lane was moved to a region of other workers. Its attempts end here, and no other begins.
    if (!serves(this.#deps.regions, endpoint.region)) owned.leave()
    const isLimitedOtherwise =
      before.appThrottleRate !== endpoint.appThrottleRate ||
      before.appSettings?.maxInFlight !== endpoint.appSettings?.maxInFlight
    if (isLimitedOtherwise) this.#deps.appShares.changed(endpoint)
    this.#followRules(owned, now)
    // An operator's command to an ordered lane arrives as a change of its settings.
    if (owned.lane.order) reader.requestAll(owned)
    scheduler.reconsider(owned.lane, now)
  }

  #followRules(owned: OwnedLane, now: SteadyMs): void {
    for (const change of owned.followRules(now)) this.#deps.settling.healthChanged(owned, change, now)
  }

  #leaveDeleted(keys: readonly number[], found: readonly Endpoint[]): void {
    const existing = new Set(found.map((endpoint) => endpoint.key))
    const deleted = keys.filter((key) => !existing.has(key))
    this.each((owned) => owned.leave(), deleted)
  }

  /** Whether no owned lane has anything to send before the instant, as far as this worker knows. */
  isIdleUntil(at: SteadyMs, now: SteadyMs): boolean {
    for (const owned of this.#lanes.values()) if (!owned.isIdleUntil(at, now)) return false
    return true
  }

  /** Lanes were just counted, which workers share: surplus lanes leave. */
  shareAmongWorkers(): void {
    const { membership } = this.#deps
    if (membership.share.workers <= 1) return
    // Lanes beyond this worker's share leave, so that a worker that joins later gets some.
    const kept = [...this.#lanes.values()].filter((owned) => !owned.isLeaving)
    const { regionShares } = membership
    if (regionShares === undefined) {
      for (const owned of kept.slice(shareOf(membership.share).most)) owned.leave()
    } else {
      for (const { lanes, share } of sharedByRegion(kept, regionShares)) {
        for (const owned of lanes.slice(share.most)) owned.leave()
      }
    }
  }

  /** Whether this worker owns its share of lanes that it shares with others, and lets them claim first. */
  get isContent(): boolean {
    const { membership } = this.#deps
    const { share, regionShares } = membership
    if (share.workers <= 1) return false
    if (regionShares === undefined) return this.#lanes.size >= shareOf(share).content
    const shared = sharedByRegion([...this.#lanes.values()], regionShares)
    return shared.some(({ lanes, share }) => lanes.length >= share.content)
  }

  /**
   * Drops up to `most` of the lanes that may be released, or of all that are not busy; answers the state of each for its next
   * owner.
   */
  release(which: 'resting' | 'all', now: SteadyMs, isCrowded: boolean, most: number): LaneRest[] {
    const released: LaneRest[] = []
    const areMany = isCrowded || this.#lanes.size > manyLanes
    for (const owned of this.#lanes.values()) {
      if (which === 'all' ? owned.isBusy : !owned.canRelease(now, areMany)) continue
      invariant(!owned.isBusy, 'a lane with an attempt, a read or an unrecorded result stays with its worker')
      released.push(owned.toRest(now))
      this.#drop(owned)
      if (released.length === most) break
    }
    return released
  }

  #drop(owned: OwnedLane): void {
    owned.drop()
    this.#lanes.delete(owned.endpoint.key)
    this.#outdated.delete(owned.endpoint.key)
    this.#deps.scheduler.remove(owned.lane)
  }
}

/** The lanes of each region that this worker shares with others, with its share of them. */
function sharedByRegion(lanes: readonly OwnedLane[], shares: ReadonlyMap<string, RegionShare>): readonly SharedLanes[] {
  const byRegion = Map.groupBy(lanes, ({ endpoint }) => endpoint.region ?? defaultRegion)
  return [...shares].flatMap(([region, share]) =>
    share.workers <= 1 ? [] : [{ lanes: byRegion.get(region) ?? [], share: shareOf(share) }],
  )
}

/** Endpoints that were signalled: these, or any. */
class Signalled {
  readonly #endpoints = new Set<number>()
  #all = false

  note(endpoints: readonly number[] | undefined): void {
    if (endpoints === undefined) this.#all = true
    else for (const endpoint of endpoints) this.#endpoints.add(endpoint)
  }

  has(endpoint: number): boolean {
    return this.#all || this.#endpoints.has(endpoint)
  }
}

interface Meanwhile {
  readonly changed: Signalled
  readonly added: Signalled
  /** When the claim began, which is before any of its rows were read. */
  readonly begunAt: SteadyMs
}

interface SharedLanes {
  readonly lanes: readonly OwnedLane[]
  readonly share: Share
}

interface LaneRegistryDeps {
  readonly store: Pick<Store, 'loadEndpoints'>
  readonly clock: Clock
  readonly scheduler: Scheduler<Delivery>
  readonly sender: Sender
  readonly membership: Membership
  readonly appShares: AppShares
  /** The regions whose lanes this worker may own. */
  readonly regions: Regions
  readonly reader: Reader
  readonly settling: Settling
  readonly loop: Loop
  readonly serverDefaults: ServerDefaults
  readonly healthDefaults: HealthDefaults
  onTrouble(error: unknown): void
}
