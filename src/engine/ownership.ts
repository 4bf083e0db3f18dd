import type { Clock, SteadyMs } from '../domain/clock.ts'
import { invariant } from '../domain/invariant.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import type { Regions } from '../features/regions/rules.ts'
import type { DueLane, LaneRest, Taken } from '../store/lanes.ts'
import type { ClaimedLane, Store } from '../store/store.ts'
import type { Bodies } from './bodies.ts'
import { ClaimTurns } from './claim-turns.ts'
import type { Delivery } from './delivery.ts'
import type { LaneRegistry } from './lane-registry.ts'
import type { Membership } from './membership.ts'
import type { Reader } from './reader.ts'

/** A claim takes at most this many lanes: some milliseconds of SQLite's time, and of this process'. */
const claimLanes = 64
/** A release gives back at most this many lanes, for the same reason. */
const releaseLanes = 256
/**
 * While more applications than this wait for their turn, claims wait until as many deliveries have started as a claim takes
 * lanes: otherwise each lane that is claimed makes a delivery that is here already wait for one turn more.
 */
const fewApplications = 32
/** When none of the lanes that are due can be had, they are looked at again after this long. */
const retryMs = 50
/** A claim is made at least this often, in case a signal was missed. */
const pollMs = 1000
/** A worker that owns its share lets the others choose first. */
const politeMs = 75
const nothing: Taken = { lanes: [], messages: [] }
/** While idleness is asked for, a reconcile that has not ended is asked for again after this long. */
const reconcileAgainMs = 5000

/**
 * How lanes come to this worker and go back to the store: claimed when they are due, released when they rest. A claim takes
 * the lanes that have been due the longest; while there are more of them than it takes, applications take turns.
 */
export class Ownership {
  readonly #deps: OwnershipDeps
  readonly #turns: ClaimTurns
  #claiming = false
  #claimed: Promise<void> = Promise.resolve()
  #claimAgain = false
  /** When the last claim began. */
  #claimedAt: SteadyMs = Number.NEGATIVE_INFINITY
  /** Deliveries that had started then. */
  #startedThen = Number.NEGATIVE_INFINITY
  /** The reason why the next claim waits, before the poll: for room for its lanes, or for a start, by which an application gets more. */
  #awaiting: 'room' | 'start' | undefined
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

  constructor(deps: OwnershipDeps) {
    this.#deps = deps
    const { store, regions, scheduler } = deps
    this.#turns = new ClaimTurns({ store, regions, unstarted: (app) => scheduler.unstarted(app) })
  }

  /** Claims nothing more. */
  stop(): void {
    this.#stopped = true
    this.#cancelPoll?.()
  }

  /** The worker was declared dead: it owns nothing, and no release is left to confirm. */
  lose(): void {
    this.#unconfirmed = []
    this.#deps.registry.dropAll()
  }

  /** Claims lanes that are due, now or as soon as the claim under way is done and there is room. */
  claimSoon(): void {
    if (this.#claiming) this.#claimAgain = true
    else if (!this.#stopped) {
      this.#awaiting = this.#hasRoom ? undefined : 'room'
      if (this.#hasRoom) this.#claimed = this.#claim()
    }
  }

  /** Some lanes have become due. */
  lanesDue(woken: readonly DueLane[] = []): void {
    this.#turns.woken(woken)
    this.claimSoon()
  }

  /** Whether the next claim waits for a turn of the loop. */
  get awaitsTurn(): boolean {
    return this.#awaiting !== undefined
  }

  /** A turn of the loop is over. */
  turn(): void {
    const { scheduler } = this.#deps
    if (this.#awaiting === 'room' || (this.#awaiting === 'start' && scheduler.started > this.#startedThen)) {
      this.claimSoon()
    }
  }

  get #hasRoom(): boolean {
    const { scheduler, reader } = this.#deps
    if (reader.waiting > claimLanes) return false
    return scheduler.waiting <= fewApplications || scheduler.started - this.#startedThen >= claimLanes
  }

  async #claim(): Promise<void> {
    const { clock, membership, registry, bodies } = this.#deps
    this.#claiming = true
    this.#nextLaneAt = undefined
    this.#awaiting = undefined
    this.#cancelPoll?.()
    if (registry.isContent) await this.#wait(politeMs)
    let waitMs = pollMs
    const worker = membership.worker
    this.#claimAgain = false
    if (!this.#stopped && worker !== 0 && this.#unconfirmed.length === 0) {
      invariant(!this.#asking && !this.#releasing, 'lanes are claimed and released one after the other')
      this.#claimedAt = clock.steady()
      this.#startedThen = this.#deps.scheduler.started
      this.#asking = true
      registry.claimBegins()
      let taken: readonly ClaimedLane[] = []
      try {
        const claim = await bodies.bringAlong(() => this.#take(worker))
        this.#claimLost = false
        if (worker === membership.worker) taken = claim.lanes
        waitMs = Math.min(pollMs, claim.nextInMs)
      } catch (error) {
        this.#claimLost = true
        this.#deps.onTrouble(error)
      }
      registry.claimEnds(taken)
      const unclean = taken.filter(({ clean }) => !clean).length
      if (unclean > 0) this.#deps.onUnclean?.(unclean)
      this.#asking = false
      if (this.#releaseAfter) void this.releaseResting()
    }
    this.#claiming = false
    if (this.#stopped) return
    // In another turn of the event loop, which others have then.
    if (this.#claimAgain) clock.soon(() => this.claimSoon())
    else this.#cancelPoll = clock.after(Math.max(1, waitMs), () => this.claimSoon())
  }

  /** Takes lanes: those that have been due the longest, or in turns when a claim cannot take all that are due. */
  async #take(worker: number): Promise<Taken & { readonly nextInMs: number }> {
    const { store, clock, regions } = this.#deps
    if (this.#turns.isCrowded && !this.#claimLost) {
      const chosen = await this.#turns.next(claimLanes)
      const taken = chosen.length === 0 ? nothing : await store.claimNamed(worker, chosen, regions)
      const isAny = taken.lanes.length > 0
      if (isAny) this.#claimAgain = true
      else if (this.#turns.isCrowded) this.#awaiting = 'start'
      if (isAny || this.#turns.isCrowded) return { ...taken, nextInMs: retryMs }
    }
    const claim = await store.claim(worker, claimLanes, this.#claimLost, regions)
    const { lanes, messages, nextInMs = Number.POSITIVE_INFINITY } = claim
    if (lanes.length >= claimLanes) {
      this.#turns.crowd()
      this.#claimAgain = true
    }
    if (!this.#claimAgain) this.#nextLaneAt = clock.steady() + nextInMs
    return { lanes, messages, nextInMs }
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#deps.clock.after(ms, resolve))
  }

  /** Releases lanes that are not busy and have nothing to do, or may not do it for a while. */
  async releaseResting(): Promise<void> {
    while (await this.#release('resting')) await this.#soon()
  }

  /** Releases everything, also lanes of a claim or a release that is under way. */
  async releaseAll(): Promise<void> {
    await this.#claimed
    await this.#released
    while (await this.#release('all')) await this.#soon()
  }

  /** Releases as many lanes as one release takes; answers whether there may be more. */
  async #release(which: 'resting' | 'all'): Promise<boolean> {
    this.#releaseAfter = this.#asking
    if (this.#releasing || this.#asking) return false
    const { registry, clock } = this.#deps
    const resting = registry.release(which, clock.steady(), this.#turns.isCrowded, releaseLanes)
    for (const rest of resting) this.#unconfirmed.push(rest)
    if (this.#unconfirmed.length === 0) return false
    const released = this.#confirm()
    this.#released = released
    await released
    return resting.length === releaseLanes
  }

  /** In another turn of the event loop. */
  #soon(): Promise<void> {
    return new Promise((resolve) => void this.#deps.clock.soon(resolve))
  }

  /** Releasing the same lane twice is harmless as long as it was not claimed in between. */
  async #confirm(): Promise<void> {
    const lanes = this.#unconfirmed
    this.#releasing = true
    this.#nextLaneAt = undefined
    try {
      await this.#deps.store.release(this.#deps.membership.worker, lanes)
      if (this.#unconfirmed === lanes) this.#unconfirmed = []
    } catch (error) {
      this.#deps.onTrouble(error)
    }
    this.#releasing = false
    this.claimSoon()
  }

  /** Wakes lanes whose wake-up was lost with its publisher. */
  async reconcile(): Promise<void> {
    try {
      const repaired = await this.#deps.store.reconcile()
      this.#reconciledAt = this.#deps.clock.steady()
      if (repaired > 0) this.claimSoon()
    } catch (error) {
      this.#deps.onTrouble(error)
    }
  }

  /**
   * Whether no lane, owned or not, has anything to send within this time, as far as is known. For a process that ends then,
   * and asks until it is so: the first call looks for lost wake-ups, and a later one for lanes that got work by something
   * that ended at `gaveWorkAt`. A publish by another part of this process `since` then is looked for as well.
   */
  isIdle(withinMs: number, since: SteadyMs, gaveWorkAt: SteadyMs): boolean {
    const { clock, registry } = this.#deps
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

interface OwnershipDeps {
  readonly store: Pick<Store, 'claim' | 'findDue' | 'claimNamed' | 'release' | 'reconcile'>
  readonly scheduler: Pick<Scheduler<Delivery>, 'waiting' | 'started' | 'unstarted'>
  readonly clock: Clock
  readonly membership: Membership
  readonly registry: LaneRegistry
  readonly reader: Pick<Reader, 'waiting'>
  readonly bodies: Pick<Bodies, 'bringAlong'>
  /** The regions whose lanes this worker may own. */
  readonly regions: Regions
  /** This many lanes were claimed whose last owner did not release them, or whose limits changed since. */
  onUnclean?(lanes: number): void
  onTrouble(error: unknown): void
}
