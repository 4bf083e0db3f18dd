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
import type { Flow } from './flow.ts'
import { count, moment, perSecond, withCommas } from './phrases.ts'

/** Why the deliveries of an endpoint wait. */
export interface EndpointWhy extends Explanation<BlockerReason | 'idle' | 'delivering'> {
  /** Estimate of when all deliveries that wait now will have been sent, at the recent pace; null when it is unknown. */
  readonly emptyAt: EpochMs | null
}

/** The facts that the answer is made from. */
export interface WaitingFacts {
  readonly endpoint: Stoppable & { readonly flow: Pick<Flow, 'coalesce'> }
  readonly lane: LaneStatus & {
    readonly waiting: readonly [fresh: number, timed: number, replay: number]
    readonly nextTimedAt: EpochMs | null
    /** The attempts of the delivery that is due then. */
    readonly nextTimedAttempts: number
    readonly oldestSince: EpochMs | null
  }
  /** The number of waiting deliveries, as far as they were counted. */
  readonly total: number
  /** Whether all waiting deliveries were counted. */
  readonly isExact: boolean
}

/** Decides why the deliveries of an endpoint wait. */
export function whyWaiting(facts: WaitingFacts): EndpointWhy {
  const { endpoint, lane, total } = facts
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

/** The blockers of the queue itself: all deliveries are for later, or no worker owns the lane yet. */
function dueBlockers(facts: WaitingFacts): Blocker[] {
  const { now, waiting, nextTimedAt, owner, dueAt } = facts.lane
  if (facts.total === 0) return []
  if (waiting[0] + waiting[2] === 0 && nextTimedAt !== null && nextTimedAt > now) {
    const what = atLeast(facts.total, facts.isExact, 'delivery is due later', 'deliveries are due later')
    const detail = `${capital(what)}, the first at ${moment(nextTimedAt, now)}.`
    return [{ reason: reasonForLater(facts), detail, until: nextTimedAt }]
  }
  if (owner !== null) return []
  const until = dueAt !== null && dueAt > now ? dueAt : null
  return [{ reason: 'waiting_for_worker', detail: 'Deliveries are due. A worker is about to take them.', until }]
}

/** Why the first delivery is due later: a delivery that was never tried waits for no retry. */
function reasonForLater({ endpoint, lane }: WaitingFacts): BlockerReason {
  if (lane.nextTimedAttempts > 0) return 'waiting_for_retry'
  return endpoint.flow.coalesce === null ? 'scheduled' : 'coalescing'
}

function deliveringText(facts: WaitingFacts): string {
  const what = capital(atLeast(facts.total, facts.isExact, 'delivery waits', 'deliveries wait'))
  const { live } = facts.lane
  if (live === null) return `${what}; its worker is delivering.`
  const { inFlight, concurrency, pace } = live.snapshot
  const moving = pace === null || pace === 0 ? '' : `, ${perSecond(pace)} recently`
  return `${what}; its worker is delivering: ${inFlight} of ${concurrency} under way${moving}.`
}

/** Estimate; null when counting hit its limit, because it would be too early. */
function emptiedAt(facts: WaitingFacts, blockers: readonly Blocker[]): EpochMs | null {
  const { lane, total, isExact } = facts
  const speed = speedOf(lane)
  if (!isExact || speed === undefined) return null
  const from = Math.max(lane.now, ...blockers.map(({ until }) => until ?? 0))
  return Math.round(from + (total / speed) * 1000)
}

function plain(reason: EndpointWhy['reason'], detail: string): EndpointWhy {
  return { reason, detail, nextAt: null, emptyAt: null, blockers: [] }
}

function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`
}

/** How endpoints are ranked: by the number of waiting deliveries, or by the age of the oldest. */
export const queueSorts = ['waiting', 'age'] as const
export type QueueSort = (typeof queueSorts)[number]

/** The facts that rank an endpoint among others. */
interface Ranked {
  readonly endpoint: number
  readonly count: number
  readonly oldest: EpochMs
}

/** Whether an endpoint comes before another. Equal ones are ranked by the other fact, then by their creation. */
export function isWorse(a: Ranked, b: Ranked, sort: QueueSort): boolean {
  const [waiting, age] = [b.count - a.count, a.oldest - b.oldest]
  return ((sort === 'waiting' ? waiting || age : age || waiting) || a.endpoint - b.endpoint) < 0
}

/** The blockers of all of an application's endpoints. */
export function wideBlockers(lanes: readonly LaneStatus[]): Blocker[] {
  return lanes.some(({ workersAlive }) => workersAlive === 0) ? [noWorker] : []
}

/** All waiting deliveries of an application, or of all. */
export interface WaitingTotals {
  readonly endpoints: number
  readonly total: number
  readonly isExact: boolean
}

/** How many deliveries wait, and why those of the shown endpoints do, in one or two sentences. */
export function describeAll({ endpoints, total, isExact }: WaitingTotals, shown: readonly EndpointWhy[]): string {
  if (endpoints === 0) return 'No deliveries wait.'
  const reasons = new Map<string, number>()
  for (const { reason } of shown) reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
  const list = [...reasons].map(([reason, n]) => `${withCommas(n)} ${reason.replaceAll('_', ' ')}`).join(', ')
  const what = capital(atLeast(total, isExact, 'delivery waits', 'deliveries wait'))
  const where = `${what} for ${count(endpoints, 'endpoint')}`
  if (list === '') return `${where}.`
  if (shown.length >= endpoints) return `${where}: ${list}.`
  return `${where}. The worst ${shown.length === 1 ? 'one' : shown.length}: ${list}.`
}
