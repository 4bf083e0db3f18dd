import type { Clock, SteadyMs } from '../domain/clock.ts'
import { isStopped } from '../domain/endpoint.ts'
import type { LaneRest } from '../store/ownership.ts'
import type { Store } from '../store/store.ts'
import type { LaneBook } from './lane-book.ts'
import type { Membership } from './membership.ts'
import type { OwnedLane } from './owned-lane.ts'

const claimLanes = 256
/** Claims are asked for at least this often, in case a signal was missed. */
const pollMs = 1000
/** A lane that has nothing to do for this long goes back to the store, so that memory holds only what is busy. */
const lingerMs = 2000
/** A worker that owns its share lets the others choose first. */
const politeMs = 75

/** How lanes come to this worker and go back to the store: claimed when they are due, released when they rest. */
export class Ownership {
  readonly #parts: OwnershipParts
  #claiming = false
  #claimed: Promise<void> = Promise.resolve()
  #claimAgain = false
  /** Handed to the store without a clear answer. Until it is clear, nothing is claimed: a lane must not be ours twice. */
  #unconfirmed: LaneRest[] = []
  #releasing = false
  #released: Promise<void> = Promise.resolve()
  /** The store is being asked. What is given back before it answers may be among what it says is ours. */
  #asking = false
  /** Something rests, and is given back once the store has answered. */
  #releaseAfter = false
  /** When the last reconcile ended, and the last claim began. */
  reconciledAt: SteadyMs | undefined
  claimedAt: SteadyMs = Number.NEGATIVE_INFINITY
  /** When the next lane that nobody owns is due, by the last claim; unknown while one is under way or failed. */
  #nextLaneAt: SteadyMs | undefined
  /** An answer to a claim was lost, so lanes may be ours that we do not know of. */
  #claimLost = false
  #closed = false
  #cancelPoll: (() => void) | undefined

  constructor(parts: OwnershipParts) {
    this.#parts = parts
  }

  /** Takes nothing new on. */
  close(): void {
    this.#closed = true
    this.#cancelPoll?.()
  }

  /** Nothing is owned any more, and nothing left to be confirmed. */
  lose(): void {
    this.#unconfirmed = []
    this.#parts.book.forgetAll()
  }

  /**
   * Whether no lane that nobody owns has anything to send before the instant, as far as is known. After a lane went back
   * to the store, that is known only after the next claim.
   */
  isIdleUntil(at: SteadyMs): boolean {
    return this.#nextLaneAt !== undefined && this.#nextLaneAt > at && !this.#releasing
  }

  /** Claims lanes that are due, now or as soon as the claim under way is done. */
  claimSoon(): void {
    if (this.#claiming) this.#claimAgain = true
    else if (!this.#closed) this.#claimed = this.#claim()
  }

  async #claim(): Promise<void> {
    const { store, clock, membership, book } = this.#parts
    this.#claiming = true
    this.#nextLaneAt = undefined
    this.#cancelPoll?.()
    if (book.size >= book.share().content && membership.workers > 1) await this.#pause(politeMs)
    let waitMs = pollMs
    const worker = membership.worker
    this.#claimAgain = false
    if (!this.#closed && worker !== 0 && this.#unconfirmed.length === 0) {
      this.claimedAt = clock.steady()
      this.#asking = true
      try {
        const claim = await store.claim(worker, claimLanes, this.#claimLost)
        this.#claimLost = false
        if (worker === membership.worker) for (const lane of claim.lanes) book.take(lane)
        if (claim.lanes.length >= claimLanes) this.#claimAgain = true
        waitMs = Math.min(pollMs, claim.nextInMs ?? pollMs)
        if (!this.#claimAgain) this.#nextLaneAt = clock.steady() + (claim.nextInMs ?? Number.POSITIVE_INFINITY)
      } catch (error) {
        this.#claimLost = true
        this.#parts.onTrouble(error)
      }
      this.#asking = false
      if (this.#releaseAfter) void this.releaseResting()
    }
    this.#claiming = false
    if (this.#closed) return
    if (this.#claimAgain) this.claimSoon()
    else this.#cancelPoll = clock.after(Math.max(1, waitMs), () => this.claimSoon())
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#parts.clock.after(ms, resolve))
  }

  /** Hands back every lane with nothing under way that has nothing to do, or may not, for a while. */
  async releaseResting(): Promise<void> {
    const now = this.#parts.clock.steady()
    await this.#release((owned) => {
      if (owned.leaving || isStopped(owned.endpoint) || owned.lane.closed) return true
      if (owned.lane.restsUntil(now) - now > lingerMs) return true
      if (owned.lane.queued > 0 || owned.cursors.some((cursor) => !cursor.complete)) return false
      return now - owned.lastActiveAt >= lingerMs && owned.nextTimedAt - now > lingerMs
    })
  }

  /** Hands back everything, also what a claim or a release under way when it is called has yet to bring or take. */
  async releaseAll(): Promise<void> {
    await this.#claimed
    await this.#released
    await this.#release(() => true)
  }

  /** Stands up lanes whose wake-up was lost with its publisher. */
  async reconcile(): Promise<void> {
    try {
      const repaired = await this.#parts.store.reconcile()
      this.reconciledAt = this.#parts.clock.steady()
      if (repaired > 0) this.claimSoon()
    } catch (error) {
      this.#parts.onTrouble(error)
    }
  }

  async #release(rests: (owned: OwnedLane) => boolean): Promise<void> {
    this.#releaseAfter = this.#asking
    if (this.#releasing || this.#asking) return
    for (const rest of this.#parts.book.letGo(rests, this.#parts.clock.steady())) this.#unconfirmed.push(rest)
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
}

export interface OwnershipParts {
  readonly store: Pick<Store, 'claim' | 'release' | 'reconcile'>
  readonly clock: Clock
  readonly membership: Membership
  readonly book: LaneBook
  onTrouble(error: unknown): void
}
