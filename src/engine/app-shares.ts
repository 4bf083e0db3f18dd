import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { AppNeed } from '../domain/lane.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import { applicationRate, type Endpoint } from '../features/endpoints/rules.ts'
import { anyNumber, type OfBoth, type ShareAnswer, type ShareAsk } from '../store/app-shares.ts'
import type { Store } from '../store/store.ts'
import type { Delivery } from './delivery.ts'
import type { Loop } from './loop.ts'
import type { Membership } from './membership.ts'

/** How often it is looked whose shares are to be asked for. */
const lookMs = 50
/** A worker that lacks something which others have asks again after this long. */
const eagerMs = 100
/** Otherwise it asks this often whether others lack what it has: for up to so many applications, and for more the more rarely. */
const calmMs = 250
const fewApps = 256
/** An application without a lane here gives its shares up after this long: until then, its bucket remembers what was sent. */
const keptMs = 600_000
/** One call asks for at most this many applications. */
const appsPerCall = 64
/** The least that a worker with a lane wants of a rate, in attempts in 1,000 seconds. */
const leastRate = 100
/** Nothing starts before a share is there. */
const never = Number.POSITIVE_INFINITY
const always = Number.NEGATIVE_INFINITY

/** An application with limits, and what this worker may use of them. */
interface Shared {
  readonly app: number
  /** Whether there is such a limit. */
  limits: OfBoth<boolean>
  has: OfBoth<number>
  /** Whether other workers hold some of it. */
  isShared: boolean
  askAt: SteadyMs
  askedAt: SteadyMs
  /** Since when it has no lane here. */
  idleSince: SteadyMs | undefined
  leaves: boolean
}

const nothing: OfBoth<number> = { rate: 0, slots: 0 }

/**
 * This worker's shares of what applications may use: their `throttleRate` and `maxInFlight`. The store divides both by need,
 * and never gives away what another worker holds. A share grows when the store has answered so, and shrinks before the store
 * hears of it: all workers together never use more than the limit, whatever is lost on the way.
 */
export class AppShares {
  readonly #deps: AppSharesDeps
  readonly #apps = new Map<number, Shared>()
  #underWay: Promise<void> | undefined
  #workers = 1

  constructor(deps: AppSharesDeps) {
    this.#deps = deps
  }

  /** Follows the limits of an endpoint's application, of which a lane was taken or the settings changed. */
  follow({ app, appThrottleRate = null, appSettings }: Endpoint): void {
    const limits = { rate: appThrottleRate !== null, slots: appSettings?.maxInFlight !== undefined }
    const now = this.#deps.clock.steady()
    let shared = this.#apps.get(app)
    if (shared === undefined) {
      if (!limits.rate && !limits.slots) return
      shared = {
        ...{ app, limits, has: nothing, isShared: false },
        ...{ askAt: now, askedAt: now, idleSince: undefined, leaves: false },
      }
      this.#apps.set(app, shared)
    }
    shared.limits = limits
    shared.leaves = !limits.rate && !limits.slots
    shared.idleSince = undefined
    this.#apply(shared, shared.has, now)
    if (shared.has === nothing || shared.leaves) this.ask()
  }

  /** The limits of an endpoint's application changed. */
  changed(endpoint: Endpoint): void {
    this.follow(endpoint)
    const shared = this.#apps.get(endpoint.app)
    if (shared) shared.askAt = this.#deps.clock.steady()
    this.ask()
  }

  /** Workers may have come: they want their shares. */
  workersChanged(workers: number): void {
    if (workers === this.#workers) return
    this.#workers = workers
    const now = this.#deps.clock.steady()
    for (const shared of this.#apps.values()) shared.askAt = now
  }

  /** The worker was declared dead, and holds nothing. */
  lose(): void {
    const now = this.#deps.clock.steady()
    for (const shared of this.#apps.values()) {
      this.#apply(shared, nothing, now)
      shared.askAt = now
    }
  }

  /** Nothing starts any more: others get all but what is under way. */
  async giveUp(): Promise<void> {
    const now = this.#deps.clock.steady()
    await this.#underWay
    for (const shared of this.#apps.values()) {
      this.#apply(shared, nothing, now)
      shared.askAt = now
    }
    const all = [...this.#apps.values()].filter(({ isShared }) => isShared || this.#workers > 1)
    for (let at = 0; at < all.length; at += appsPerCall) {
      await this.#askFor(
        all.slice(at, at + appsPerCall).map((shared) => ({ ...this.#askOf(shared, now), wants: nothing })),
      )
    }
  }

  /** Looks regularly whose shares are to be asked for. */
  start(): void {
    this.#deps.loop.every(lookMs, () => this.ask())
  }

  /** Asks for shares now, unless an answer is awaited. */
  ask(): void {
    const { clock, membership } = this.#deps
    if (this.#underWay !== undefined || membership.worker === 0 || this.#apps.size === 0) return
    const now = clock.steady()
    const due: Shared[] = []
    for (const shared of this.#apps.values()) if (this.#isDue(shared, now) && due.push(shared) === appsPerCall) break
    if (due.length === 0) return
    this.#underWay = this.#askFor(due.map((shared) => this.#askOf(shared, now))).finally(() => {
      this.#underWay = undefined
    })
  }

  #isDue(shared: Shared, now: SteadyMs): boolean {
    if (shared.idleSince !== undefined && now - shared.idleSince >= keptMs) shared.leaves = true
    return shared.leaves || shared.askAt <= now
  }

  #askOf(shared: Shared, now: SteadyMs): ShareAsk {
    const { app, has } = shared
    const need = this.#deps.scheduler.takeNeed(app)
    const wants = wantsOf(need, now - shared.askedAt)
    if (need === undefined || (need.lanes === 0 && need.inFlight === 0)) shared.idleSince ??= now
    shared.askedAt = now
    const uses = { rate: has.rate, slots: Math.max(has.slots, need?.inFlight ?? 0) }
    return { app, wants, uses, ...(shared.leaves && { leaves: true }) }
  }

  async #askFor(asks: readonly ShareAsk[]): Promise<void> {
    const { store, clock, membership, onTrouble } = this.#deps
    const worker = membership.worker
    let answers: ShareAnswer[] | undefined
    try {
      answers = await store.shareLimits(worker, asks)
    } catch (error) {
      onTrouble(error)
    }
    const now = clock.steady()
    if (worker !== membership.worker) return
    for (const [i, ask] of asks.entries()) {
      const shared = this.#apps.get(ask.app)
      if (shared === undefined) continue
      const answer = answers?.[i]
      if (answer === undefined) shared.askAt = now + calmMs
      else if (ask.leaves) this.#left(shared)
      else this.#take(shared, ask, answer, now)
    }
    this.#deps.loop.wake()
  }

  /** Takes an answer of the store. A share shrinks now, and the store hears of it with the next question. */
  #take(shared: Shared, { wants }: ShareAsk, { shares, isShared }: ShareAnswer, now: SteadyMs): void {
    const take = (of: keyof OfBoth<number>) => {
      const share = shares[of]
      return share === null ? 0 : Math.min(share.held, share.target)
    }
    this.#apply(shared, { rate: take('rate'), slots: take('slots') }, now)
    shared.isShared = isShared
    const shrinks = shares.rate?.target !== shares.rate?.held || shares.slots?.target !== shares.slots?.held
    const isHungry = wants.rate === anyNumber || wants.slots === anyNumber
    const calmly = calmMs * Math.ceil(this.#apps.size / fewApps)
    if (shrinks || (isShared && isHungry)) shared.askAt = now + eagerMs
    else if (isShared || this.#workers > 1) shared.askAt = now + calmly
    else shared.askAt = now + keptMs
  }

  /** The store has forgotten the shares, unless the application got a limit or a lane here meanwhile. */
  #left(shared: Shared): void {
    shared.has = nothing
    if (!shared.leaves) return
    this.#apps.delete(shared.app)
    this.#deps.scheduler.throttle(shared.app, undefined, always, this.#deps.clock.steady())
  }

  #apply(shared: Shared, has: OfBoth<number>, now: SteadyMs): void {
    const { app, limits } = shared
    const { scheduler } = this.#deps
    scheduler.limitInFlight(app, limits.slots ? has.slots : Number.POSITIVE_INFINITY)
    // A bucket of a share that was given up starts empty: its tokens went with it.
    if (!limits.rate || shared.has.rate === 0) scheduler.throttle(app, undefined, always, now)
    if (limits.rate && has.rate > 0) scheduler.throttle(app, applicationRate(has.rate / 1000), always, now)
    else if (limits.rate) scheduler.throttle(app, applicationRate(1), never, now)
    shared.has = has
  }
}

/** How much a worker could use of each limit, coarsely: an answer that changes with every delivery would be written as often. */
function wantsOf(need: AppNeed | undefined, ms: number): OfBoth<number> {
  if (need === undefined || (need.lanes === 0 && need.inFlight === 0)) return nothing
  const { started, peak, lacksRate, lacksSlots } = need
  const perSecond = ms > 0 ? (started * 1000) / ms : 0
  return {
    rate: lacksRate ? anyNumber : Math.max(leastRate, powerOfTwo(2 * 1000 * perSecond)),
    slots: lacksSlots ? anyNumber : powerOfTwo(Math.max(1, 2 * peak)),
  }
}

function powerOfTwo(number: number): number {
  return number <= 1 ? 1 : 2 ** Math.ceil(Math.log2(number))
}

interface AppSharesDeps {
  readonly store: Pick<Store, 'shareLimits'>
  readonly clock: Clock
  readonly scheduler: Pick<Scheduler<Delivery>, 'takeNeed' | 'limitInFlight' | 'throttle'>
  readonly membership: Pick<Membership, 'worker'>
  readonly loop: Pick<Loop, 'every' | 'wake'>
  onTrouble(error: unknown): void
}
