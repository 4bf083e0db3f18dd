import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Regions } from '../domain/region.ts'
import type { LaneRest } from '../store/lanes.ts'
import type { Store } from '../store/store.ts'
import type { LaneRegistry } from './lane-registry.ts'
import type { Membership } from './membership.ts'

const claimLanes = 256
/** A claim is made at least this often, in case a signal was missed. */
const pollMs = 1000
/** A worker that owns its share lets the others choose first. */
const politeMs = 75
/** While idleness is asked for, a reconcile that has not ended is asked for again after this long. */
const reconcileAgainMs = 5000

/** How lanes come to this worker and go back to the store: claimed when they are due, released when they rest. */
export class Ownership {
  readonly #parts: OwnershipParts
  #claiming = false
  #claimed: Promise<void> = Promise.resolve()
  #claimAgain = false
  /** When the last claim began. */
  #claimedAt: SteadyMs = Number.NEGATIVE_INFINITY
  /** The answer to a claim was lost, so this worker may own lanes that it does not know of. */
  #claimLost = false
  /** The store is answering a claim. A lane released before it has may be among those that it says are this worker's. */
  #asking = false
  /** Lanes rest, and are released once the claim has been answered. */
  #releaseAfter = false
  /** Released without a clear answer. Until there is one nothing is claimed: a lane must not be this worker's twice. */
  #unconfirmed: LaneRest[] = []
  #releasing = false
  #released: Promise<void> = Promise.resolve()
  /** When the last reconcile ended, and when `isIdle` last asked for one. */
  #reconciledAt: SteadyMs | undefined
  #reconcileAskedAt: SteadyMs = Number.NEGATIVE_INFINITY
  /** When the next unowned lane is due, by the last claim; unknown while one is under way or failed. */
  #nextLaneAt: SteadyMs | undefined
  #stopped = false
  #cancelPoll: (() => void) | undefined

  constructor(parts: OwnershipParts) {
    this.#parts = parts
  }

  /** Claims nothing more. */
  stop(): void {
    this.#stopped = true
    this.#cancelPoll?.()
  }

  /** The worker was declared dead: it owns nothing, and no release is left to confirm. */
  lose(): void {
    this.#unconfirmed = []
    this.#parts.registry.dropAll()
  }

  /** Claims lanes that are due, now or as soon as the claim under way is done. */
  claimSoon(): void {
    if (this.#claiming) this.#claimAgain = true
    else if (!this.#stopped) this.#claimed = this.#claim()
  }

  async #claim(): Promise<void> {
    const { store, clock, membership, registry } = this.#parts
    this.#claiming = true
    this.#nextLaneAt = undefined
    this.#cancelPoll?.()
    if (registry.isContent) await this.#wait(politeMs)
    let waitMs = pollMs
    const worker = membership.worker
    this.#claimAgain = false
    if (!this.#stopped && worker !== 0 && this.#unconfirmed.length === 0) {
      this.#claimedAt = clock.steady()
      this.#asking = true
      registry.claimBegins()
      try {
        const claim = await store.claim(worker, claimLanes, this.#claimLost, this.#parts.regions)
        this.#claimLost = false
        registry.claimEnds(worker === membership.worker ? claim.lanes : [])
        const unclean = claim.lanes.filter(({ clean }) => !clean).length
        if (unclean > 0) this.#parts.onUnclean?.(unclean)
        if (claim.lanes.length >= claimLanes) this.#claimAgain = true
        waitMs = Math.min(pollMs, claim.nextInMs ?? pollMs)
        if (!this.#claimAgain) this.#nextLaneAt = clock.steady() + (claim.nextInMs ?? Number.POSITIVE_INFINITY)
      } catch (error) {
        this.#claimLost = true
        registry.claimEnds([])
        this.#parts.onTrouble(error)
      }
      this.#asking = false
      if (this.#releaseAfter) void this.releaseResting()
    }
    this.#claiming = false
    if (this.#stopped) return
    if (this.#claimAgain) this.claimSoon()
    else this.#cancelPoll = clock.after(Math.max(1, waitMs), () => this.claimSoon())
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#parts.clock.after(ms, resolve))
  }

  /** Releases every lane that is not busy and has nothing to do, or may not do it, for a while. */
  releaseResting(): Promise<void> {
    return this.#release('resting')
  }

  /** Releases everything, also lanes of a claim or a release that is under way. */
  async releaseAll(): Promise<void> {
    await this.#claimed
    await this.#released
    await this.#release('all')
  }

  async #release(which: 'resting' | 'all'): Promise<void> {
    this.#releaseAfter = this.#asking
    if (this.#releasing || this.#asking) return
    for (const rest of this.#parts.registry.release(which, this.#parts.clock.steady())) this.#unconfirmed.push(rest)
    if (this.#unconfirmed.length === 0) return
    this.#released = this.#confirm()
    await this.#released
  }

  /** Releasing the same lane twice is harmless as long as it was not claimed in between. */
  async #confirm(): Promise<void> {
    const lanes = this.#unconfirmed
    this.#releasing = true
    this.#nextLaneAt = undefined
    try {
      await this.#parts.store.release(this.#parts.membership.worker, lanes)
      if (this.#unconfirmed === lanes) this.#unconfirmed = []
    } catch (error) {
      this.#parts.onTrouble(error)
    }
    this.#releasing = false
    this.claimSoon()
  }

  /** Wakes lanes whose wake-up was lost with its publisher. */
  async reconcile(): Promise<void> {
    try {
      const repaired = await this.#parts.store.reconcile()
      this.#reconciledAt = this.#parts.clock.steady()
      if (repaired > 0) this.claimSoon()
    } catch (error) {
      this.#parts.onTrouble(error)
    }
  }

  /**
   * Whether no lane, owned or not, has anything to send within this time, as far as is known. For a process that ends then,
   * and asks until it is so: the first call looks for lost wake-ups, and a later one for lanes that got work by something
   * that ended at `gaveWorkAt`. A publish by another part of this process `since` then is looked for as well.
   */
  isIdle(withinMs: number, since: SteadyMs, gaveWorkAt: SteadyMs): boolean {
    const { clock, registry } = this.#parts
    const now = clock.steady()
    const askedAt = this.#reconcileAskedAt
    if (this.#reconciledAt === undefined || this.#reconciledAt < askedAt || askedAt <= since) {
      if (now - askedAt > reconcileAgainMs || (askedAt <= since && since < now)) {
        this.#reconcileAskedAt = now
        void this.reconcile()
      }
      return false
    }
    if (this.#claimedAt <= Math.max(this.#reconciledAt, gaveWorkAt)) {
      this.claimSoon()
      return false
    }
    const until = now + withinMs
    // After a release, unowned lanes are known again with the next claim.
    const isNoneDue = this.#nextLaneAt !== undefined && this.#nextLaneAt > until && !this.#releasing
    return isNoneDue && registry.isIdleUntil(until, now)
  }
}

interface OwnershipParts {
  readonly store: Pick<Store, 'claim' | 'release' | 'reconcile'>
  readonly clock: Clock
  readonly membership: Membership
  readonly registry: LaneRegistry
  /** The regions whose lanes this worker may own. */
  readonly regions: Regions
  /** This many lanes were claimed whose last owner did not release them, or whose limits changed since. */
  onUnclean?(lanes: number): void
  onTrouble(error: unknown): void
}
