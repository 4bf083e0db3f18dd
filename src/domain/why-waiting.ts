import {
  atLeast,
  type Blocker,
  type BlockerReason,
  byDecisiveness,
  type Explanation,
  frontBlocker,
  type LaneStatus,
  laneBlockers,
  needsOperator,
  noWorker,
  type Stoppable,
  speedOf,
} from './blocker.ts'
import type { EpochMs } from './clock.ts'
import { moment, perSecond } from './phrases.ts'

/** Why the deliveries of an endpoint wait. */
export interface EndpointWhy extends Explanation<BlockerReason | 'idle' | 'delivering'> {
  /** Estimate of when all deliveries that wait now will have been sent, at the recent pace; null when it is unknown. */
  readonly emptyAt: EpochMs | null
}

/** The facts that the answer is made from. */
export interface WaitingFacts {
  readonly endpoint: Stoppable
  readonly lane: LaneStatus & {
    readonly waiting: readonly [fresh: number, timed: number, replay: number]
    readonly nextTimedAt: EpochMs | null
    readonly oldestSince: EpochMs | null
  }
  /** Whether all waiting deliveries were counted. */
  readonly isExact: boolean
}

/** Decides why the deliveries of an endpoint wait. */
export function whyWaiting(facts: WaitingFacts): EndpointWhy {
  const { endpoint, lane } = facts
  const total = totalOf(facts)
  const front = lane.first === null ? undefined : frontBlocker(lane.first, lane.now, 'All deliveries wait')
  const own = front === undefined ? dueBlockers(facts) : [front]
  const blockers = byDecisiveness([...laneBlockers(endpoint, lane), ...own])
  if (total === 0) {
    const isQuiet = blockers.every((blocker) => !needsOperator(blocker))
    if (isQuiet) return plain('idle', 'No deliveries wait for it.')
  }
  const [first] = blockers
  const emptyAt = first !== undefined && needsOperator(first) ? null : emptiedAt(facts, blockers)
  if (first === undefined) return { ...plain('delivering', deliveringText(facts)), emptyAt }
  return { ...first, nextAt: first.until, emptyAt, blockers }
}

/** The number of waiting deliveries, each class up to the limit of counting. */
export function totalOf({ lane: { waiting } }: WaitingFacts): number {
  return waiting[0] + waiting[1] + waiting[2]
}

/** The blockers of the queue itself: all deliveries are for later, or no worker owns the lane yet. */
function dueBlockers(facts: WaitingFacts): Blocker[] {
  const { now, waiting, nextTimedAt, owner, dueAt } = facts.lane
  if (totalOf(facts) === 0) return []
  if (waiting[0] + waiting[2] === 0 && nextTimedAt !== null && nextTimedAt > now) {
    const what = atLeast(waiting[1], facts.isExact, 'delivery is due later', 'deliveries are due later')
    const detail = `${capital(what)}, the first at ${moment(nextTimedAt, now)}.`
    return [{ reason: 'waiting_for_retry', detail, until: nextTimedAt }]
  }
  if (owner !== null) return []
  const until = dueAt !== null && dueAt > now ? dueAt : null
  return [{ reason: 'waiting_for_worker', detail: 'Deliveries are due. A worker is about to take them.', until }]
}

function deliveringText(facts: WaitingFacts): string {
  const what = capital(atLeast(totalOf(facts), facts.isExact, 'delivery waits', 'deliveries wait'))
  const { live } = facts.lane
  if (live === null) return `${what}; its worker is delivering.`
  const { inFlight, concurrency, pace } = live.snapshot
  const moving = pace === null || pace === 0 ? '' : `, ${perSecond(pace)} recently`
  return `${what}; its worker is delivering: ${inFlight} of ${concurrency} under way${moving}.`
}

/** Estimate; null when counting hit its limit, because it would be too early. */
function emptiedAt(facts: WaitingFacts, blockers: readonly Blocker[]): EpochMs | null {
  const { lane, isExact } = facts
  const speed = speedOf(lane)
  if (!isExact || speed === undefined) return null
  const from = Math.max(lane.now, ...blockers.map(({ until }) => until ?? 0))
  return Math.round(from + (totalOf(facts) / speed) * 1000)
}

function plain(reason: EndpointWhy['reason'], detail: string): EndpointWhy {
  return { reason, detail, nextAt: null, emptyAt: null, blockers: [] }
}

function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`
}

/** An endpoint with waiting deliveries, as one line of many. */
export interface WaitingEndpoint {
  readonly why: EndpointWhy
  readonly total: number
  readonly oldestSince: EpochMs | null
}

/** Sorts endpoints: first those that need an operator, then those that have waited the longest. */
export function worstFirst<T extends WaitingEndpoint>(endpoints: readonly T[]): T[] {
  const rank = ({ why: { blockers } }: T) => (blockers.some(needsOperator) ? 0 : 1)
  return endpoints.toSorted(
    (a, b) => rank(a) - rank(b) || (a.oldestSince ?? Infinity) - (b.oldestSince ?? Infinity) || b.total - a.total,
  )
}

/** The blockers of all of an application's endpoints. */
export function wideBlockers(lanes: readonly LaneStatus[]): Blocker[] {
  return lanes.some(({ workersAlive }) => workersAlive === 0) ? [noWorker] : []
}

/** Why an application's deliveries wait, in a sentence. */
export function describeAll(endpoints: readonly WaitingEndpoint[], isExact: boolean): string {
  if (endpoints.length === 0) return 'No deliveries wait for any of its endpoints.'
  const total = endpoints.reduce((sum, endpoint) => sum + endpoint.total, 0)
  const reasons = new Map<string, number>()
  for (const { why } of endpoints) reasons.set(why.reason, (reasons.get(why.reason) ?? 0) + 1)
  const list = [...reasons].map(([reason, n]) => `${n.toLocaleString('en')} ${reason.replaceAll('_', ' ')}`).join(', ')
  const what = capital(atLeast(total, isExact, 'delivery waits', 'deliveries wait'))
  const where = `${endpoints.length.toLocaleString('en')} endpoint${endpoints.length === 1 ? '' : 's'}`
  return `${what} for ${where}: ${list}.`
}
