import type { EpochMs } from '../../domain/clock.ts'
import { type Condition, conditionOf, type Load, type Obstacle } from '../../domain/condition.ts'
import { type Class, fresh, replay, timed } from '../../domain/delivery.ts'
import type { LaneOutlook, Turn } from '../../domain/forecast.ts'
import { defaultCircuitPolicy } from '../../domain/health.ts'
import type { Position, QueueFigures } from '../../domain/queue-figures.ts'
import type { FlowRates } from '../../domain/queue-flow.ts'
import { type Endpoint, endpointDefaults } from '../endpoints/rules.ts'
import { type Blocker, type LaneStatus, needsOperator } from './blocker.ts'

/** A bucket keeps back this share of its rate. */
const keptBack = 0.005
/** A pace that was measured for this long, and over this many attempts, is better than one that is worked out. */
const measuredMs = 10_000
const measuredAttempts = 50
/** A measured pace above this share of the limit is the limit, measured by chance. */
const limitShare = 0.9
/** A receiver that asked for silence within this time will do so again. */
const heldAgainMs = 300_000

/** The limits of a lane without an owner, and the pace that its last owner left. */
export interface LanePace {
  /** Attempts per period; null without a limit. */
  readonly throttleRate: number | null
  readonly throttlePeriodSeconds: number
  /** Null for a tenth of a period. */
  readonly burst?: number | null
  readonly concurrency?: number | null
  readonly lastPace?: number | null
  readonly now?: EpochMs
  readonly queue?: Pick<QueueFigures, 'oldestSince'>
}

/**
 * Attempts a second that a lane starts while it may send: its rate limit where that holds it up, its slots where all are in use
 * and the mean time of an attempt is known, and otherwise what was measured; null when nothing is known.
 */
export function paceOf({ live }: Pick<LaneStatus, 'live'>, lane: LanePace, { departures }: FlowRates): number | null {
  const { throttleRate, throttlePeriodSeconds, lastPace = null } = lane
  const set = live === null ? throttleRate && throttleRate / throttlePeriodSeconds : live.snapshot.rate
  const limit = set === null ? Number.POSITIVE_INFINITY : set * (1 - keptBack)
  if (live === null) {
    const known = lastPace ?? (departures.lasting > 0 ? departures.lasting : null)
    return known === null ? finite(limit) : Math.min(known, limit)
  }
  const { pace, seenMs = measuredMs, attemptMs = null, tokenMs, inFlight, concurrency } = live.snapshot
  const slots = attemptMs === null ? Number.POSITIVE_INFINITY : (concurrency * 1000) / Math.max(1, attemptMs)
  const isMeasured = pace !== null && seenMs >= measuredMs && (pace * seenMs) / 1000 >= measuredAttempts
  const isFull = inFlight >= concurrency
  if (isFull || (tokenMs !== null && tokenMs > 0)) {
    // A small bucket saves nothing up, so that a busy machine gets less out of it than its rate. A little less is chance.
    const isBelow = isMeasured && hasWaitedFor(seenMs, lane) && pace < limitShare * limit
    return isBelow ? pace : finite(Math.min(limit, slots))
  }
  if (pace === null || pace === 0) return finite(Math.min(limit, slots)) ?? lastPace
  return Math.min(limit, pace)
}

/** Whether deliveries have waited for the whole time over which the pace was measured. */
function hasWaitedFor(ms: number, { now = 0, queue }: LanePace): boolean {
  const { oldestSince = null } = queue ?? {}
  return oldestSince !== null && oldestSince <= now - ms
}

/** The pace of a lane without the holds and retries of the last seconds. */
function bestPace({ live }: Pick<LaneStatus, 'live'>, pace: number | null): number | null {
  const { attemptMs = null, concurrency = 1, rate = null } = live?.snapshot ?? {}
  if (attemptMs === null) return pace
  return Math.max(pace ?? 0, Math.min(rate ?? Number.POSITIVE_INFINITY, (concurrency * 1000) / Math.max(1, attemptMs)))
}

function finite(rate: number): number | null {
  return Number.isFinite(rate) ? rate : null
}

/** Makes the outlook of a lane from its limits, its snapshot and its blockers. */
export function outlookOf(
  endpoint: Partial<Pick<Endpoint, 'flow'>>,
  lane: LaneStatus & LanePace,
  queue: FlowRates,
  blockers: readonly Blocker[],
): LaneOutlook {
  const { now, live } = lane
  const reasons = new Set(blockers.map(({ reason }) => reason))
  const isProbing = reasons.has('circuit_open') || reasons.has('probing')
  const { order, circuit } = endpoint.flow ?? {}
  const isHeldOften = reasons.has('held') || (lane.holdUntil > 0 && lane.holdUntil > now - heldAgainMs)
  const isUncertain = order === 'fifo' || isHeldOften || live?.snapshot.failing === true
  const pace = paceOf(lane, lane, queue)
  const policy = circuit === 'off' || circuit == null ? defaultCircuitPolicy : circuit
  return {
    now,
    freeFrom: Math.max(now, ...blockers.map(({ until }) => until ?? 0)),
    needsOperator: blockers.some(needsOperator),
    isProbing,
    pace: isUncertain ? bestPace(lane, pace) : pace,
    ...startsOf(endpoint, lane, blockers),
    rampMs: isProbing ? policy.rampMs : 0,
    isUncertain,
    arrivals: queue.arrivals,
    departures: queue.departures,
  }
}

/** More slots than these are all alike. */
const mostSlots = 64

/** The slots of a lane, and the tokens that it has once nothing else holds it. */
function startsOf(
  endpoint: Partial<Pick<Endpoint, 'flow'>>,
  lane: LaneStatus & LanePace,
  blockers: readonly Blocker[],
) {
  const { live, throttleRate, burst = null } = lane
  const isPaced = blockers.some(({ reason }) => reason === 'rate_limited' || reason === 'slowed')
  const bucket = throttleRate === null ? Number.POSITIVE_INFINITY : (burst ?? Math.max(1, Math.ceil(throttleRate / 10)))
  const isResting = blockers.some(({ reason, until }) => reason === 'held' && until !== null)
  const tokens = bucket === Number.POSITIVE_INFINITY ? bucket : isResting && !isPaced ? bucket : 1
  const isSingle = blockers.some(({ reason }) => reason === 'circuit_open' || reason === 'probing')
  const concurrency =
    endpoint.flow?.order === 'fifo' || isSingle ? 1 : (lane.concurrency ?? endpointDefaults.concurrency)
  const slots = Math.min(mostSlots, live?.snapshot.concurrency ?? concurrency)
  const { sending = [], inFlight = 0, attemptMs = null } = live?.snapshot ?? {}
  const isFull = inFlight >= slots && attemptMs !== null && slots < mostSlots
  if (!isFull) return { tokens, slotsMs: Array.from({ length: Math.max(0, slots - inFlight) }, () => 0) }
  const slotsMs = sending.slice(0, slots).map(({ forMs }) => Math.max(1, attemptMs - forMs))
  return { tokens, slotsMs: slotsMs.toSorted((a, b) => a - b) }
}

/** Of eight turns of a lane one goes to retries first, and of sixteen one to replays. */
const sharesOf: Readonly<Record<Class, number>> = { [fresh]: 1, [timed]: 1 / 8, [replay]: 1 / 16 }

/** A waiting delivery in its queue. */
export interface QueuedTurn {
  readonly class: Class
  readonly position: Position
  /** It does not start before. */
  readonly notBefore: EpochMs
  /** Deliveries of its ordering key in front of it; null without a key. */
  readonly aheadInKey: number | null
}

/**
 * The queue in front of a delivery. Deliveries under way are in front of it in the store, and no longer for their turn. In
 * an ordered lane classes do not matter.
 */
export function turnOf(
  { flow }: Partial<Pick<Endpoint, 'flow'>>,
  { live, now, dueTimed = 0 }: Pick<LaneStatus, 'live' | 'now'> & { readonly dueTimed?: number },
  { byClass }: Pick<QueueFigures, 'byClass'>,
  queued: QueuedTurn,
): Turn {
  const { class: itsClass, position, notBefore, aheadInKey } = queued
  const { inFlight = 0, recording = [], attemptMs = null } = live?.snapshot ?? {}
  const underWay = inFlight + recording.length
  const isOrdered = flow !== undefined && flow.order !== 'none' && itsClass !== replay
  const before = isOrdered ? 0 : itsClass === fresh ? 0 : itsClass === timed ? byClass[0] : byClass[0] + byClass[1]
  const own = Math.max(0, position.ahead - before)
  // Those under way are of the highest class that has any, nearly always.
  const higherRows = itsClass === fresh || isOrdered ? 0 : byClass[0] + (itsClass === replay ? dueTimed : 0)
  const higher = Math.max(0, higherRows - underWay)
  const line = Math.max(0, own - Math.max(0, underWay - higherRows))
  return {
    ahead: Math.min(line, aheadInKey ?? line),
    line,
    isExact: position.isExact,
    notBefore: Math.max(now, notBefore),
    share: isOrdered ? 1 : sharesOf[itsClass],
    higher,
    keyMs: aheadInKey === null ? 0 : aheadInKey * (attemptMs ?? 0),
  }
}

/** The word for the state of an endpoint's queue. */
export function conditionBy(blockers: readonly Blocker[], load: Load, waiting: number): Condition {
  return conditionOf(obstacleOf(blockers), load, waiting)
}

/** Blockers that hold a whole lane for longer than its turn, and end by themselves. */
const lasting: ReadonlySet<Blocker['reason']> = new Set([
  'held',
  'circuit_open',
  'probing',
  'failing',
  'behind_head',
  'store_trouble',
  'lease_unsure',
  'owner_silent',
  'no_worker',
  'no_worker_in_region',
])

function obstacleOf(blockers: readonly Blocker[]): Obstacle {
  const [first] = blockers
  if (first === undefined) return 'none'
  if (lasting.has(first.reason)) return 'time'
  return needsOperator(first) ? 'operator' : 'none'
}
