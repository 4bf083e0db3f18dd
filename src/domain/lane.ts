import type { SteadyMs } from './clock.ts'
import { type Class, classes } from './delivery.ts'
import { type Entry, OrderedQueue, type Ordering, Queue } from './queue.ts'
import { Bucket, emptyBucketDebt, type FailureBudget, type Pace, type RateLimit } from './rate.ts'
import type { SlotUse, SlotUser } from './slot-use.ts'

/** A lane rests at most this long because of its front: that delivery may expire or be skipped while no worker owns it. */
const longestLookAwayMs = 60_000

const retryFirst: readonly Class[] = [1, 0, 2]
const replayFirst: readonly Class[] = [2, 0, 1]

/** The part of an endpoint's state that outlives its lane in this worker. */
export interface EndpointRecord {
  readonly use: SlotUse
  readonly failures: FailureBudget | undefined
}

/** The scheduling state of one endpoint. Only the scheduler moves it. */
export class Lane<T> {
  readonly endpoint: number
  readonly app: AppLanes<T>
  readonly queues: readonly [Queue<T>, Queue<T>, Queue<T>] = [new Queue(), new Queue(), new Queue()]
  /** In an ordered lane, the deliveries are here and not in the queues. */
  readonly order: OrderedQueue<T> | undefined
  bucket: Bucket | undefined
  concurrency: number
  holdUntil: SteadyMs
  /** Until when an open circuit lets nothing start. */
  silentUntil: SteadyMs = Number.NEGATIVE_INFINITY
  /** The circuit is not closed: one attempt at a time. */
  probing = false
  /** A temporary rate below the bucket's. */
  pace: Pace | undefined
  /** A closed lane starts nothing. Its owner decides that. */
  closed = false
  inFlight = 0
  #timeoutMs: number
  readonly #run: Run | undefined
  place: 'out' | 'ready' | 'asleep' | 'crowded' = 'out'
  wakeAt: SteadyMs = 0
  /** How its endpoint used slots and failed, also before this lane was here. */
  readonly use: SlotUse
  readonly failures: FailureBudget | undefined
  /** Kind of slot that the lane uses. */
  slotUser: SlotUser
  waitsForSlot = false
  /** It has waited for a slot of its kind, and takes the next one. */
  admitted = false
  /** A delivery of it has started since it was added. */
  begun = false
  #turn = 0

  constructor(
    endpoint: number,
    app: AppLanes<T>,
    limits: LaneLimits,
    start: LaneStart,
    now: SteadyMs,
    ordering: Ordering | undefined,
    record: EndpointRecord,
    run?: Run,
  ) {
    this.endpoint = endpoint
    this.app = app
    this.order = ordering && new OrderedQueue(ordering)
    this.concurrency = limits.concurrency
    this.#timeoutMs = limits.timeoutMs ?? 0
    this.#run = run
    this.bucket = limits.rate && startingBucket(limits.rate, start, now)
    this.holdUntil = now + start.holdMs
    this.use = record.use
    this.failures = record.failures
    this.slotUser = record.use.userAt(now)
  }

  /** Takes on new limits. A new bucket starts empty, because earlier requests were not counted. */
  reshape(limits: LaneLimits, now: SteadyMs): void {
    this.concurrency = limits.concurrency
    this.#timeoutMs = limits.timeoutMs ?? 0
    if (!limits.rate) this.bucket = undefined
    else if (this.bucket) this.bucket.reshape(limits.rate, now)
    else this.bucket = new Bucket(limits.rate, now, emptyBucketDebt)
  }

  /** Keeps the lane silent until an instant; never shortens a hold. */
  hold(until: SteadyMs): void {
    this.holdUntil = Math.max(this.holdUntil, until)
  }

  /** A delivery of it starts. */
  begin(): void {
    if (!this.begun) this.app.unstarted--
    this.begun = true
  }

  get queued(): number {
    if (this.order) return this.order.size
    return this.queues[0].size + this.queues[1].size + this.queues[2].size
  }

  /** The number of attempts that may be under way at once. */
  get cap(): number {
    return this.probing ? 1 : this.concurrency
  }

  /** When hold, circuit, bucket, pace and failures allow the next request: `now` or later, `Infinity` until an operator acts. */
  readyAt(now: SteadyMs): SteadyMs {
    let at = this.bucket ? this.bucket.readyAt(now) : now
    if (this.holdUntil > at) at = this.holdUntil
    if (this.silentUntil > at) at = this.silentUntil
    if (this.failures) at = Math.max(at, this.failures.readyAt(now, this.inFlight))
    return this.pace ? Math.max(at, this.pace.readyAt(now)) : at
  }

  /**
   * When the next request may go: as `readyAt`, and `Infinity` when ordering blocks all waiting deliveries, or when the run
   * of the process ends too soon after.
   */
  startableAt(now: SteadyMs): SteadyMs {
    const at = this.#unlessEnding(now)
    return this.#isTooLate(at) ? Number.POSITIVE_INFINITY : at
  }

  /** Whether a delivery could start before the instant, but for the end of the run. */
  lacksTime(until: SteadyMs, now: SteadyMs): boolean {
    if (this.closed || this.queued === 0) return false
    const at = this.#unlessEnding(now)
    return at <= until && this.#isTooLate(at)
  }

  #unlessEnding(now: SteadyMs): SteadyMs {
    const readyAt = this.readyAt(now)
    return this.order ? Math.max(readyAt, this.order.nextAt(now)) : readyAt
  }

  /**
   * Whether the rest of the run is too short for an attempt that starts then: shorter than its timeout and than what an
   * endpoint gets whose time is unknown. An endpoint that has answered quickly in this run needs little time.
   */
  #isTooLate(at: SteadyMs): boolean {
    if (this.#run === undefined) return false
    const { endsAt, mostNeededMs } = this.#run
    const isQuick = this.use.userAt(at) === 'quick'
    return at + Math.min(this.#timeoutMs, mostNeededMs, isQuick ? quickNeededMs : mostNeededMs) > endsAt
  }

  /** Until when nothing can be sent, even if deliveries are added: as `readyAt`, or longer because of ordering. */
  restsUntil(now: SteadyMs): SteadyMs {
    const readyAt = this.readyAt(now)
    return this.order ? Math.max(readyAt, Math.min(this.order.restsUntil(), now + longestLookAwayMs)) : readyAt
  }

  /** Whether a start of a moment ago may no longer be sent. */
  isKeptBack(now: SteadyMs): boolean {
    if (this.closed || this.holdUntil > now || this.silentUntil > now) return true
    return this.probing && this.inFlight > 1
  }

  /** Fresh before retry before replay, but one turn in eight goes to retries first and one in sixteen to replays. */
  nextClass(): Class {
    const turn = this.#turn++ & 15
    const order = (turn & 7) === 7 ? retryFirst : turn === 11 ? replayFirst : classes
    for (const c of order) if (this.queues[c].size > 0) return c
    throw new Error(`lane ${this.endpoint} has nothing queued`)
  }
}

/** The time that an attempt gets at least, at an endpoint whose attempts end within a second. */
const quickNeededMs = 2000

/** The run of a process that ends by itself. */
export interface Run {
  /** When no attempt is under way any more. */
  readonly endsAt: SteadyMs
  /** An attempt starts only with this much time before the end, unless its timeout is shorter or its endpoint quick. */
  readonly mostNeededMs: number
}

/** An ordered lane. */
export type OrderedLane<T> = Lane<T> & { readonly order: OrderedQueue<T> }

export function isOrdered<T>(lane: Lane<T>): lane is OrderedLane<T> {
  return lane.order !== undefined
}

export interface SchedulerLimits {
  readonly inFlight: number
  readonly inFlightPerApp: number
  /** Attempts at one endpoint that may fail in a minute; 0 for any number. */
  readonly failuresPerMinute?: number
  /** In a process that ends by itself. */
  readonly run?: Run | undefined
}

export interface LaneLimits {
  readonly rate: RateLimit | undefined
  readonly concurrency: number
  /** The time limit of an attempt; 0 when it is missing. */
  readonly timeoutMs?: number
}

/** The state that a lane's last owner left. */
export interface LaneStart {
  readonly bucketDebtMs: number
  /** The limit that the debt was counted by; null when there was none, missing when it is the lane's own. */
  readonly bucketLimit?: RateLimit | null | undefined
  readonly holdMs: number
}

/** A bucket that goes on from a debt, which may have been counted by another limit. */
function startingBucket(limit: RateLimit, { bucketDebtMs, bucketLimit = limit }: LaneStart, now: SteadyMs): Bucket {
  // Without a limit, earlier requests were not counted.
  if (bucketLimit === null) return new Bucket(limit, now, emptyBucketDebt)
  const bucket = new Bucket(bucketLimit, now, bucketDebtMs)
  bucket.reshape(limit, now)
  return bucket
}

/** The state that the lanes of one application share: their turns, their slots, and the application's rate if it has one. */
export interface AppLanes<T> {
  readonly key: number
  readonly ready: Queue<Lane<T>>
  /** The number of its lanes in this worker. */
  lanes: number
  /** How many of them have started nothing yet. */
  unstarted: number
  inFlight: number
  /** How many attempts it may have under way in this worker, beside the limit of every application. */
  cap: number
  /** Deliveries started, the most attempts under way, and whether its own limits held any up, since that was last asked. */
  started: number
  peak: number
  lackedRate: boolean
  lackedSlots: boolean
  place: 'out' | 'ring' | 'crowded' | 'asleep'
  wakeAt: SteadyMs
  /** The application's rate, over all its lanes in this worker. */
  bucket: Bucket | undefined
  notBefore: SteadyMs
}

export function newAppLanes<T>(key: number): AppLanes<T> {
  const none = { bucket: undefined, notBefore: Number.NEGATIVE_INFINITY, wakeAt: 0 }
  return {
    key,
    ready: new Queue(),
    lanes: 0,
    unstarted: 0,
    inFlight: 0,
    cap: Number.POSITIVE_INFINITY,
    place: 'out',
    ...{ started: 0, peak: 0, lackedRate: false, lackedSlots: false },
    ...none,
  }
}

/** Lanes and attempts of an application in this worker, and its need of its limits. */
export interface AppNeed {
  readonly lanes: number
  readonly inFlight: number
  /** Deliveries that started. */
  readonly started: number
  /** The most attempts that were under way. */
  readonly peak: number
  /** Whether its rate, or the attempts that it may have under way, held anything up. */
  readonly lacksRate: boolean
  readonly lacksSlots: boolean
}

/** The need of an application since this was last asked. */
export function takeNeed<T>(app: AppLanes<T>): AppNeed {
  const { lanes, inFlight, started, peak, place } = app
  const need = {
    ...{ lanes, inFlight, started, peak: Math.max(peak, inFlight) },
    lacksRate: app.lackedRate || place === 'asleep',
    lacksSlots: app.lackedSlots || (place === 'crowded' && inFlight >= app.cap),
  }
  Object.assign(app, { started: 0, peak: inFlight, lackedRate: false, lackedSlots: false })
  return need
}

/** When the application's rate allows the next request: `now` or later. */
export function mayStartAt<T>({ bucket, notBefore }: AppLanes<T>, now: SteadyMs): SteadyMs {
  return bucket ? Math.max(bucket.readyAt(now), notBefore) : now
}

/** An attempt that ended: how long it occupied its slot, and whether it counts for or against the receiver. */
export interface Ended {
  readonly slotMs: number
  readonly result: 'delivered' | 'failed' | 'nothing'
}

export interface Start<T> {
  readonly lane: Lane<T>
  readonly class: Class
  readonly item: T
  /** Where its token is reserved: spend it when the request leaves, restore it when it never does. */
  readonly bucket: Bucket | undefined
  /** Its entry, in an ordered lane. */
  readonly entry: Entry<T> | undefined
}
