import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { RegionShare, Regions } from '../features/regions/rules.ts'
import type { Renewal, Store, WorkerReport } from '../store/store.ts'

/** Changes of the workers that are signalled while a renewal is under way are read together, this long after it. */
const renewAgainMs = 50
/** A fleet of more workers than this answers such signals one worker a millisecond: each would otherwise answer each join of all. */
const fewWorkers = 50

/**
 * Counting lanes takes the database the longer the more of them are active, and each worker counts them. All workers together
 * keep it busy with that for this share of the time at most, once a round of counts is longer than a lease.
 */
const countingShare = 0.05
/** The same for looking at the living workers, which takes time for each of them: in a large fleet, some do it for all. */
const lookingShare = 0.05
const quickRoundMs = 10_000
const longestRoundMs = 600_000

/**
 * A worker starts attempts for this long after its session has ended. Others end it no sooner than twice this time after
 * the server has seen that.
 */
const unseenMs = 200

/** Nothing is shared, so nothing is counted. */
const alone: RegionShare = { workers: 1, activeLanes: 0, fewestLanes: 0 }

/**
 * This worker's membership among the workers. It may send only while it is sure of its lease, which it measures with a
 * steady clock from before the renewal was sent: the database begins to count later, and so ends later.
 */
export class Membership {
  readonly #deps: MembershipDeps
  #worker = 0
  #leaseUntil: SteadyMs = Number.NEGATIVE_INFINITY
  #extendedAt: SteadyMs = Number.NEGATIVE_INFINITY
  #cancelTimer: (() => void) | undefined
  #cancelLapse: (() => void) | undefined
  #left = false
  /** Others may end this worker from then on, though its lease goes on. */
  #unseenFrom: SteadyMs = Number.POSITIVE_INFINITY
  #isSeen = true
  #renewing = false
  #renewAgain = false
  /** When the last renewal began, and when the next one will. */
  #renewedAt: SteadyMs = Number.NEGATIVE_INFINITY
  #renewAt: SteadyMs = Number.NEGATIVE_INFINITY
  /** Renewals count no lanes before then. */
  #countFrom: SteadyMs = Number.NEGATIVE_INFINITY
  /** Renewals look at no other workers before then. */
  #lookFrom: SteadyMs = Number.NEGATIVE_INFINITY
  /** Workers alive, as of the last renewal. */
  workers = 1
  /** The lanes to share, and the workers that share them, as of the last renewal that counted lanes. */
  share = alone
  /** The shares of the regions that this worker serves, as of then; undefined in a fleet without regions. */
  regionShares: ReadonlyMap<string, RegionShare> | undefined

  constructor(deps: MembershipDeps) {
    this.#deps = deps
  }

  get worker(): number {
    return this.#worker
  }

  /** When the lease was last extended, counted from before it was asked for. */
  get extendedAt(): SteadyMs {
    return this.#extendedAt
  }

  /** Whether this worker may start attempts now. */
  holdsLease(now: SteadyMs): boolean {
    return now < this.#leaseUntil && now < this.#unseenFrom
  }

  /** Joins as a new worker, which owns none of the lanes of an earlier membership. */
  async join(): Promise<void> {
    const { store, clock, leaseMs, description, regions } = this.#deps
    const before = clock.steady()
    const worker = await store.join({ leaseMs, description, regions })
    // Stopped meanwhile: the lease of the worker that just joined runs out.
    if (this.#left) return
    this.#worker = worker
    this.#lookFrom = Number.NEGATIVE_INFINITY
    // A worker that joins while nothing sees its session is judged by its lease alone.
    this.#unseenFrom = Number.POSITIVE_INFINITY
    this.#extend(before)
    await this.#renew()
  }

  /** Others share the lanes of this worker from now on. Its lease goes on, for the attempts that are under way. */
  async startLeaving(): Promise<void> {
    if (this.#worker === 0) return
    try {
      await this.#deps.store.startLeaving(this.#worker)
    } catch (error) {
      this.#deps.onTrouble(error)
    }
  }

  /** Stops renewing; the lanes must have been released. */
  async leave(): Promise<void> {
    this.stop()
    await this.#deps.store.leave(this.#worker)
  }

  /** Stops renewing without telling the store, as a crash would. */
  stop(): void {
    this.#left = true
    this.#leaseUntil = Number.NEGATIVE_INFINITY
    this.#cancelTimer?.()
    this.#cancelLapse?.()
  }

  /** The workers changed: the lease is renewed now, because the answer tells the new shares. In a large fleet, soon. */
  renewNow(): void {
    if (this.#left || this.#worker === 0) return
    const now = this.#deps.clock.steady()
    const turnMs = this.#roundMs === 0 ? 0 : this.#worker % this.workers
    const at = Math.max(now + turnMs, this.#renewedAt + this.#roundMs)
    // A renewal that does not look would learn nothing.
    if (at >= this.#lookFrom) this.#renewBy(at, now)
  }

  #renewBy(at: SteadyMs, now: SteadyMs): void {
    if (this.#renewing) {
      this.#renewAgain = true
      return
    }
    if (at >= this.#renewAt) return
    this.#cancelTimer?.()
    if (at <= now) void this.#renew()
    else this.#renewAfter(at - now)
  }

  /** How long the workers take to answer a signal one after the other. */
  get #roundMs(): number {
    return this.workers > fewWorkers ? this.workers : 0
  }

  #renewAfter(ms: number): void {
    const { clock } = this.#deps
    this.#renewAt = clock.steady() + ms
    this.#cancelTimer = clock.after(ms, () => void this.#renew())
  }

  /** The store has lost sight of this process. Attempts under way go on: the database may only be restarting. */
  sessionLost(): void {
    this.#isSeen = false
    this.#unseenFrom = Math.min(this.#unseenFrom, this.#deps.clock.steady() + unseenMs)
  }

  /** The store sees this process again. The next renewal says whether this worker still lives. */
  sessionHeld(): void {
    this.#isSeen = true
    if (this.#left || this.#worker === 0) return
    const now = this.#deps.clock.steady()
    this.#renewBy(now, now)
  }

  async #renew(): Promise<void> {
    const { store, clock, leaseMs } = this.#deps
    const before = clock.steady()
    const worker = this.#worker
    const isSeen = this.#isSeen
    const looks = before >= this.#lookFrom
    const counts = looks && before >= this.#countFrom
    let renewal: Renewal | undefined
    this.#renewing = true
    this.#renewedAt = before
    try {
      renewal = await store.renew(worker, leaseMs, this.#deps.report?.(), counts, looks)
    } catch (error) {
      this.#deps.onTrouble(error)
    }
    this.#renewing = false
    if (this.#left || worker !== this.#worker) return
    if (renewal?.alive === false) return this.lose()
    if (renewal) {
      if (isSeen && this.#isSeen) this.#unseenFrom = Number.POSITIVE_INFINITY
      this.#extend(before)
      this.workers = renewal.workers ?? this.workers
      if (renewal.workers !== undefined) this.#lookLater(before, counts ? leaseMs : longestRoundMs)
      if (renewal.lanes !== undefined) {
        this.share = { workers: renewal.sharers ?? 1, ...renewal.lanes }
        this.regionShares = renewal.regions
        this.#countLater(before)
      } else if (renewal.workers === 1) {
        this.share = alone
        this.regionShares = undefined
      }
      if (renewal.died !== undefined && renewal.died.length > 0) this.#deps.onDied?.(renewal.died)
      this.#deps.onRenewed(renewal.lanes !== undefined)
    }
    // After trouble it renews again soon: a lease that lapses stops all deliveries of this worker.
    const againMs = Math.min(leaseMs / 3, Math.max(renewAgainMs, this.#roundMs))
    const waitMs = renewal === undefined ? leaseMs / 20 : this.#renewAgain ? againMs : leaseMs / 3
    this.#renewAgain = false
    this.#renewAfter(waitMs)
  }

  /** A renewal that began `before` looked at the other workers. Counting lanes takes longer than a look. */
  #lookLater(before: SteadyMs, longestMs: number): void {
    const { clock, leaseMs } = this.#deps
    const roundMs = ((clock.steady() - before) * this.workers) / lookingShare
    const isQuick = this.workers <= fewWorkers || roundMs <= leaseMs / 3
    this.#lookFrom = isQuick ? Number.NEGATIVE_INFINITY : before + Math.min(roundMs, longestMs)
  }

  /** Lanes were counted by a renewal that began `before`, as each worker does in a round. */
  #countLater(before: SteadyMs): void {
    const { clock, leaseMs } = this.#deps
    const roundMs = ((clock.steady() - before) * this.workers) / countingShare
    const isQuick = roundMs <= Math.max(leaseMs, quickRoundMs)
    this.#countFrom = isQuick ? Number.NEGATIVE_INFINITY : before + Math.min(roundMs, longestRoundMs)
  }

  /** The worker was declared dead: it drops everything that it owned and joins again. */
  lose(): void {
    // A worker that is joining owns nothing, and a second loss would join twice.
    if (this.#left || this.#worker === 0) return
    this.#leaseUntil = Number.NEGATIVE_INFINITY
    this.#cancelTimer?.()
    this.#cancelLapse?.()
    this.#worker = 0
    this.#deps.onLost()
    this.#rejoin()
  }

  #rejoin(): void {
    this.join().catch((error) => {
      this.#deps.onTrouble(error)
      if (!this.#left) this.#cancelTimer = this.#deps.clock.after(this.#deps.leaseMs / 20, () => this.#rejoin())
    })
  }

  #extend(before: SteadyMs): void {
    const { clock, leaseMs, onLapsed } = this.#deps
    // A tenth is kept for the time between deciding to send and sending.
    this.#leaseUntil = before + leaseMs * 0.9
    this.#extendedAt = before
    this.#cancelLapse?.()
    this.#cancelLapse = clock.after(this.#leaseUntil - clock.steady(), onLapsed)
  }
}

interface MembershipDeps {
  readonly store: Pick<Store, 'join' | 'renew' | 'startLeaving' | 'leave'>
  readonly clock: Clock
  readonly leaseMs: number
  readonly description: string
  /** The regions whose lanes this worker may own. */
  readonly regions: Regions
  /** The report about this worker that operators see. */
  report?(): WorkerReport | undefined
  /** The number of workers is known again; with `counted`, their lanes as well. */
  onRenewed(counted: boolean): void
  /** This worker declared others dead. */
  onDied?(workers: NonNullable<Renewal['died']>): void
  /** The lease ran out, and may be renewed later: attempts in flight must end now. */
  onLapsed(): void
  /** The worker owns nothing any more. */
  onLost(): void
  onTrouble(error: unknown): void
}
