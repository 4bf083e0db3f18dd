import type { SteadyMs } from './clock.ts'
import { type Class, classes } from './delivery.ts'
import { invariant, present } from './invariant.ts'
import {
  type AppLanes,
  type AppNeed,
  type Ended,
  Lane,
  type LaneLimits,
  type LaneStart,
  mayStartAt,
  newAppLanes,
  type OrderedLane,
  type SchedulerLimits,
  type Start,
  takeNeed,
} from './lane.ts'
import { EndpointRecords } from './lane-records.ts'
import { type Entry, Heap, type Ordering, Queue, type QueuePosition } from './queue.ts'
import { Bucket, emptyBucketDebt, type RateLimit } from './rate.ts'
import { SlotReserve } from './slot-use.ts'
import type { Crowded, Slots } from './snapshot.ts'

/**
 * Decides which deliveries are sent next. Pure: it holds no clock, does no I/O, and can be run for a million virtual seconds.
 *
 * It schedules endpoints, not rows. A lane that may send is in its application's ring; a lane that may not sleeps in a
 * heap until the one instant at which it may. Applications take turns, then the lanes of an application, one delivery a
 * visit, so a flood in one place costs the others one turn.
 */
export class Scheduler<T> {
  readonly #limits: SchedulerLimits
  readonly #apps = new Map<number, AppLanes<T>>()
  readonly #ring = new Queue<AppLanes<T>>()
  readonly #sleeping = new Heap<Lane<T>>()
  /** Applications whose rate allows nothing now, though lanes of theirs may send. */
  readonly #sleepingApps = new Heap<AppLanes<T>>()
  /** Lanes and applications without room; they are looked at again once a slot has come free. */
  #crowdedLanes: Lane<T>[] = []
  #crowdedApps: AppLanes<T>[] = []
  readonly #reserve: SlotReserve<Lane<T>>
  readonly #records: EndpointRecords
  #slotFreed = false
  #inFlight = 0
  #started = 0

  constructor(limits: SchedulerLimits) {
    this.#limits = limits
    this.#reserve = new SlotReserve(limits.inFlight)
    this.#records = new EndpointRecords(limits.failuresPerMinute ?? 0)
  }

  get inFlight(): number {
    return this.#inFlight
  }

  /** Applications that wait for their turn. */
  get waiting(): number {
    return this.#ring.size
  }

  /** Deliveries that started so far. */
  get started(): number {
    return this.#started
  }

  /** How many lanes of an application have started nothing since they were added. */
  unstarted(appKey: number): number {
    return this.#apps.get(appKey)?.unstarted ?? 0
  }

  /** Adds a lane with nothing queued. */
  add(
    endpoint: number,
    appKey: number,
    limits: LaneLimits,
    start: LaneStart,
    now: SteadyMs,
    ordering?: Ordering,
  ): Lane<T> {
    let app = this.#apps.get(appKey)
    if (!app) {
      app = newAppLanes(appKey)
      this.#apps.set(appKey, app)
    }
    app.lanes++
    app.unstarted++
    return new Lane(endpoint, app, limits, start, now, ordering, this.#records.recall(endpoint), this.#limits.run)
  }

  /** Forgets a lane; answers its queued deliveries. Attempts still under way finish as usual. */
  remove(lane: Lane<T>): T[] {
    lane.closed = true
    lane.place = 'out'
    lane.app.lanes--
    if (!lane.begun) lane.app.unstarted--
    this.#forgetUnused(lane.app)
    return lane.order ? lane.order.clear() : classes.flatMap((c) => lane.queues[c].clear())
  }

  /** Queues a delivery in its class. */
  offer(lane: Lane<T>, itsClass: Class, item: T, now: SteadyMs): void {
    lane.queues[itsClass].push(item)
    if (lane.place === 'out') this.#settle(lane, now)
  }

  offerOrdered(lane: OrderedLane<T>, place: QueuePosition, item: T, waitsUntil: SteadyMs, now: SteadyMs): Entry<T> {
    const entry = lane.order.add(item, place, waitsUntil, now)
    this.reconsider(lane, now)
    return entry
  }

  /**
   * Limits the rate of all lanes of an application together, and lets nothing start before an instant; undefined for no
   * limit. A new bucket starts empty, because earlier requests were not counted.
   */
  throttle(appKey: number, limit: RateLimit | undefined, notBefore: SteadyMs, now: SteadyMs): void {
    const app = this.#apps.get(appKey)
    if (!app) return
    app.notBefore = notBefore
    if (!limit) app.bucket = undefined
    else if (app.bucket) app.bucket.reshape(limit, now)
    else app.bucket = new Bucket(limit, now, emptyBucketDebt)
    if (app.place === 'asleep') app.place = 'out'
    this.#enqueue(app, now)
    this.#forgetUnused(app)
  }

  /** Limits the attempts that an application has under way. Attempts beyond a lowered limit end as usual. */
  limitInFlight(appKey: number, cap: number): void {
    const app = this.#apps.get(appKey)
    if (!app || app.cap === cap) return
    app.cap = cap
    // Whatever waits for room is looked at again.
    this.#slotFreed = true
  }

  /** The need of an application since this was last asked; undefined when it has nothing in this worker. */
  takeNeed(appKey: number): AppNeed | undefined {
    const app = this.#apps.get(appKey)
    return app && takeNeed(app)
  }

  /** When an application's rate allows the next request: `now` or later. */
  appReadyAt(lane: Lane<T>, now: SteadyMs): SteadyMs {
    return mayStartAt(lane.app, now)
  }

  /** Looks at a lane again after its limits, hold, openness or ordering changed. */
  reconsider(lane: Lane<T>, now: SteadyMs): void {
    // An ordered lane is looked at often while its front waits.
    if (lane.order && lane.place === 'asleep' && lane.wakeAt === lane.startableAt(now) && !lane.closed) return
    if (lane.place !== 'ready') this.#settle(lane, now)
  }

  /** Chooses up to `max` deliveries to start now. Each takes a slot, and a token where there is a limit. */
  plan(now: SteadyMs, max: number): Start<T>[] {
    for (let lane = this.#sleeping.popUntil(now); lane; lane = this.#sleeping.popUntil(now)) {
      // An entry that a later sleep replaced is stale.
      if (lane.place === 'asleep' && lane.wakeAt <= now) this.#settle(lane, now)
    }
    for (let app = this.#sleepingApps.popUntil(now); app; app = this.#sleepingApps.popUntil(now)) {
      if (app.place !== 'asleep' || app.wakeAt > now) continue
      app.place = 'out'
      this.#enqueue(app, now)
    }
    if (this.#slotFreed) this.#readmitCrowded(now)
    this.#admitWaiting(max, now)

    const starts: Start<T>[] = []
    while (starts.length < max && this.#inFlight < this.#limits.inFlight) {
      const app = this.#ring.shift()
      if (!app) {
        if (this.#admitWaiting(max, now)) continue
        break
      }
      app.place = 'out'
      // The application may have got other limits since.
      const start = app.cap > 0 && mayStartAt(app, now) <= now ? this.#visit(app, now) : undefined
      if (start) starts.push(start)
      this.#enqueue(app, now)
    }
    return starts
  }

  /** A slot came free. `ended` describes its attempt, if there was one. */
  finish(lane: Lane<T>, now: SteadyMs, ended?: Ended): void {
    invariant(lane.inFlight > 0 && lane.app.inFlight > 0, 'a slot that comes free was taken by its lane')
    lane.inFlight--
    lane.app.inFlight--
    this.#inFlight--
    this.#reserve.count(lane.slotUser, -1)
    this.#slotFreed = true
    if (ended) this.#learn(lane, ended, now)
    this.#forgetUnused(lane.app)
    this.#enqueue(lane.app, now)
    // A token that was restored may be free before the instant at which a sleeping lane was to wake. Less is rounding.
    const mayWake = lane.place === 'asleep' && lane.wakeAt - lane.startableAt(now) > 0.001
    // The lane may be another kind of user now, for which there is room.
    if (lane.place === 'out' || lane.place === 'crowded' || mayWake) this.#settle(lane, now)
  }

  /** Undoes a start that led to no attempt: slot, token and place in the queue as before. */
  giveBack(start: Start<T>, now: SteadyMs): void {
    start.bucket?.restore()
    if (start.entry) start.lane.order?.putBack(start.entry, start.entry.waitsUntil, now)
    else start.lane.queues[start.class].unshift(start.item)
    this.finish(start.lane, now)
  }

  /** Whether `plan` has anything to look at: without it, a plan starts nothing. */
  hasWork(now: SteadyMs): boolean {
    if (this.#ring.size > 0 || this.#reserve.hasNext || (this.wakeAt() ?? Number.POSITIVE_INFINITY) <= now) return true
    return this.#slotFreed && this.#crowdedLanes.length + this.#crowdedApps.length > 0
  }

  /** When the next sleeping lane or application wakes, if any. */
  wakeAt(): SteadyMs | undefined {
    const app = this.#sleepingApps.peek()
    const lane = this.#sleeping.peek()
    return app === undefined || (lane !== undefined && lane < app) ? lane : app
  }

  /** The slots that a lane shares with others, and those that it waits for. For snapshots: no decision uses it. */
  slotsOf(lane: Lane<T>, now: SteadyMs): { app: Slots; process: Slots; crowded: Crowded | null } {
    const { inFlight: limit, inFlightPerApp } = this.#limits
    const app = { inFlight: lane.app.inFlight, limit: Math.min(limit, inFlightPerApp, lane.app.cap) }
    const process = { inFlight: this.#inFlight, limit }
    if (!this.#maySendNow(lane, now)) return { app, process, crowded: null }
    if (process.inFlight >= limit) return { app, process, crowded: 'process' }
    if (lane.waitsForSlot && lane.place === 'crowded') {
      return { app, process, crowded: lane.slotUser === 'slow' ? 'slow' : 'untried' }
    }
    if (lane.place !== 'crowded' && lane.app.place !== 'crowded') return { app, process, crowded: null }
    const own = lane.app.cap - app.inFlight
    const isOwn = app.inFlight >= app.limit || this.#room(lane.app, limit - process.inFlight) >= own
    return { app, process, crowded: isOwn ? 'application' : 'share' }
  }

  #visit(app: AppLanes<T>, now: SteadyMs): Start<T> | undefined {
    const lane = app.ready.shift()
    if (!lane) return undefined
    if (lane.place !== 'ready') return undefined // Removed since it was queued.
    lane.place = 'out'
    if (!this.#maySendNow(lane, now)) {
      this.#settle(lane, now)
      return undefined
    }
    this.#rank(lane, now)
    const user = lane.slotUser
    const free = this.#reserve.roomFor(user)
    const isBehind = this.#reserve.isBehind(user) && !lane.admitted
    lane.admitted = false
    if (user !== 'quick' && (free <= 0 || isBehind)) {
      lane.place = 'crowded'
      this.#reserve.wait(user, lane)
      return undefined
    }
    if (this.#crowds(lane, free)) {
      lane.place = 'crowded'
      this.#crowdedLanes.push(lane)
      return undefined
    }
    const entry = lane.order?.take(now)
    const itsClass = entry ? entry.class : lane.nextClass()
    const item = entry
      ? entry.item
      : present(lane.queues[itsClass].shift(), 'a lane that may send has a delivery of its next class')
    const bucket = lane.bucket
    bucket?.reserve()
    lane.pace?.take(now)
    app.bucket?.reserve()
    app.bucket?.spend(now)
    lane.inFlight++
    app.inFlight++
    app.started++
    if (app.inFlight > app.peak) app.peak = app.inFlight
    this.#inFlight++
    this.#started++
    invariant(lane.inFlight <= lane.cap, 'a lane has no more attempts under way than its endpoint allows')
    invariant(this.#inFlight <= this.#limits.inFlight, 'a worker has no more attempts under way than it has slots')
    lane.begin()
    this.#reserve.count(lane.slotUser, 1)
    this.#settle(lane, now)
    return { lane, class: itsClass, item, bucket, entry }
  }

  /**
   * Slots are shared by thresholds that move with the number of free slots: an application may occupy twice as many as are
   * free, a lane half of those that its application may still take, and each at least one. A lane that hangs lowers all
   * thresholds, so there is always room for one more: with 512 slots for an application, 50 lanes that hang get 9 or 10
   * each and leave 18, of which the next lane may take 6, however high their own caps are. For a lane, only the slots that
   * its kind of user may take count as free.
   */
  #room(app: AppLanes<T>, free: number): number {
    return Math.min(this.#limits.inFlightPerApp, app.cap, 2 * free) - app.inFlight
  }

  #crowds(lane: Lane<T>, free: number): boolean {
    const { app } = lane
    const room = this.#room(app, free)
    if (app.inFlight > 0 && room <= 0) return true
    const own = app.cap - app.inFlight
    // The application's own cap is used up. Each of its lanes has an even part of it; the rest goes to the last that can use it.
    if (room < own) return lane.inFlight >= Math.max(1, room / 2)
    const crowds = lane.inFlight >= Math.max(1, Math.floor(app.cap / app.lanes)) && app.ready.size > 0
    app.lackedSlots ||= crowds
    return crowds
  }

  #learn(lane: Lane<T>, { slotMs, result }: Ended, now: SteadyMs): void {
    lane.use.ended(slotMs, now)
    this.#rank(lane, now)
    if (result === 'failed') lane.failures?.failed(now)
    else if (result === 'delivered') lane.failures?.succeeded()
  }

  /** Counts the slots that a lane holds for the kind of user that it is now. */
  #rank(lane: Lane<T>, now: SteadyMs): void {
    const user = lane.use.userAt(now)
    if (user === lane.slotUser) return
    this.#reserve.count(lane.slotUser, -lane.inFlight)
    this.#reserve.count(user, lane.inFlight)
    lane.slotUser = user
  }

  /** Lets lanes that waited for a slot of their kind have their turn again; whether there were any. */
  #admitWaiting(max: number, now: SteadyMs): boolean {
    let admitted = 0
    while (admitted < max) {
      const lane = this.#reserve.next(admitted)
      if (!lane) break
      admitted++
      if (lane.place !== 'crowded') continue
      lane.admitted = true
      this.#settle(lane, now)
    }
    return admitted > 0
  }

  #maySendNow(lane: Lane<T>, now: SteadyMs): boolean {
    return !lane.closed && lane.queued > 0 && lane.inFlight < lane.cap && lane.startableAt(now) <= now
  }

  /** Puts a lane where it belongs. A lane at its concurrency cap is left out: finish() brings it back. */
  #settle(lane: Lane<T>, now: SteadyMs): void {
    lane.place = 'out'
    if (lane.closed || lane.queued === 0 || lane.inFlight >= lane.cap) return
    const readyAt = lane.startableAt(now)
    if (readyAt === Number.POSITIVE_INFINITY) return
    if (readyAt > now) {
      lane.place = 'asleep'
      lane.wakeAt = readyAt
      this.#sleeping.push(readyAt, lane)
      return
    }
    lane.place = 'ready'
    lane.app.ready.push(lane)
    this.#enqueue(lane.app, now)
  }

  #enqueue(app: AppLanes<T>, now: SteadyMs): void {
    if (app.place === 'ring' || app.ready.size === 0) return
    if (app.cap === 0 || (app.inFlight > 0 && this.#room(app, this.#limits.inFlight - this.#inFlight) <= 0)) {
      if (app.place !== 'crowded') this.#crowdedApps.push(app)
      app.place = 'crowded'
      app.lackedSlots ||= app.inFlight >= app.cap
      return
    }
    if (app.bucket && mayStartAt(app, now) > now) return this.#putToSleep(app, mayStartAt(app, now))
    app.place = 'ring'
    this.#ring.push(app)
  }

  #putToSleep(app: AppLanes<T>, until: SteadyMs): void {
    app.lackedRate = true
    if (app.place === 'asleep' && app.wakeAt === until) return
    app.place = 'asleep'
    app.wakeAt = until
    this.#sleepingApps.push(until, app)
  }

  /** An application counts what it has under way until the last attempt ends, even when its lanes are gone. */
  #forgetUnused(app: AppLanes<T>): void {
    // An application with a rate keeps its bucket, because its lanes come and go.
    if (app.lanes === 0 && app.inFlight === 0 && !app.bucket) this.#apps.delete(app.key)
  }

  #readmitCrowded(now: SteadyMs): void {
    this.#slotFreed = false
    const [lanes, apps] = [this.#crowdedLanes, this.#crowdedApps]
    this.#crowdedLanes = []
    this.#crowdedApps = []
    for (const lane of lanes) if (lane.place === 'crowded') this.#settle(lane, now)
    for (const app of apps) {
      if (app.place === 'crowded') app.place = 'out'
      this.#enqueue(app, now)
    }
  }
}
