import type { EpochMs } from '../../domain/clock.ts'
import { type Attempt, type DeadLetter, type Message, timed } from '../../domain/delivery.ts'
import type { Flow } from '../../domain/flow.ts'
import { count, moment, perSecond, span, withCommas } from '../../domain/phrases.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import {
  atLeast,
  type Blocker,
  type BlockerReason,
  blocker,
  byDecisiveness,
  type Explanation,
  frontBlocker,
  type LaneStatus,
  type LiveSnapshot,
  laneBlockers,
  needsOperator,
  noWorker,
  type Stoppable,
  speedOf,
} from './blocker.ts'

/** The status of a delivery, by name: its decisive blocker, or its end. */
export type WhyReason =
  | BlockerReason
  | 'delivered'
  | 'dead'
  | 'coalesced' //          a newer delivery of its kind replaced it
  | 'cancelled' //          its message was expunged, or the delivery was removed from the queue
  | 'not_subscribed' //     the message did not match the endpoint's event types, channels or filter
  | 'queueing' //           accepted for very many endpoints, and not queued for this one yet
  | 'sending' //            being sent, or about to be
  | 'recording' //          sent, and its result is being recorded

/** The answer to "why is this not delivered yet?". */
export interface Why extends Explanation<WhyReason> {
  /** Estimate of when its turn comes, at the recent pace; null when it is unknown. */
  readonly expectedAt: EpochMs | null
}

/** The facts that the answer is made from, as of one reading of the store's clock. */
export interface WhyFacts {
  readonly message: Pick<Message, 'key' | 'expunged' | 'endpoints' | 'deliverAt'>
  readonly endpoint: Stoppable & Pick<Endpoint, 'key'>
  readonly latest: Pick<Attempt, 'code' | 'status'> | undefined
  readonly dead: Pick<DeadLetter, 'reason' | 'diedAt'> | undefined
  readonly queued: QueuedFacts | undefined
  /** The id of the message that replaced it; null when that no longer exists. */
  readonly coalesced?: { readonly into: string | null } | undefined
  readonly lane: LaneStatus
}

interface QueuedFacts {
  readonly class: number
  readonly dueAt: EpochMs
  readonly attempts: number
  /** The number of deliveries that are served before it. */
  readonly ahead: number
  /** In an ordered lane, how long it waits in its place for a retry; `Infinity` when it waits for an operator. */
  readonly retryInMs?: number
  /** When the delivery is given up; null for never. */
  readonly endsAt?: EpochMs | null
}

/** Decides why a delivery is not delivered yet. */
export function whyNotDelivered(facts: WhyFacts): Why {
  const { queued, lane, message } = facts
  if (queued === undefined) return ended(facts)
  const underWay = lane.live === null ? undefined : beingSent(lane.live, message.key)
  if (underWay !== undefined) return underWay
  const blockers = byDecisiveness([...laneBlockers(facts.endpoint, lane), ...ownBlockers(facts, queued)])
  const [first] = blockers
  if (first === undefined) return why('sending', 'It is first in the queue and is being sent, or is about to be.')
  const expected = expectedAt(lane, queued, blockers)
  const detail = `${first.detail}${ending(queued, needsOperator(first), expected, lane.now)}`
  return { ...first, detail, nextAt: first.until, expectedAt: expected, blockers }
}

function ended({ message, endpoint, latest, dead, coalesced, lane }: WhyFacts): Why {
  if (dead) {
    const diedAt = moment(dead.diedAt, lane.now)
    return why('dead', `It became a dead letter (${dead.reason}) at ${diedAt}. It can be replayed.`)
  }
  if (latest?.code === 'delivered') return why('delivered', `The receiver answered ${latest.status}.`)
  // A delivery that a worker was sending when it was replaced has arrived all the same, and counts as delivered.
  if (coalesced) {
    const successor = coalesced.into === null ? '' : ` (${coalesced.into})`
    return why('coalesced', `A newer message${successor} of the same kind replaced it before it was sent.`)
  }
  if (message.expunged) return why('cancelled', "The message's content was expunged before it was delivered.")
  if (latest !== undefined) return why('cancelled', 'It was removed from the queue before it was delivered.')
  if (!message.endpoints.includes(endpoint.key)) {
    return why('not_subscribed', "The message did not match the endpoint's event types, channels or filter.")
  }
  return why('queueing', 'The message goes to very many endpoints and is being queued for them.')
}

/** A delivery under way goes on, even if others are blocked. */
function beingSent({ snapshot: { sending, recording } }: LiveSnapshot, message: number): Why | undefined {
  const attempt = sending.find((each) => each.message === message)
  if (attempt !== undefined) return why('sending', `An attempt is under way, for ${span(attempt.forMs)} so far.`)
  return recording.includes(message) ? why('recording', 'It was sent. The result is being recorded.') : undefined
}

/** The blockers of this one delivery. */
function ownBlockers({ message, lane }: WhyFacts, queued: QueuedFacts): Blocker[] {
  const { now } = lane
  const found: Blocker[] = []
  if (queued.class === timed && queued.dueAt > now) found.push(notYet(queued, message.deliverAt !== null, now))
  const inFront = inOrder(queued, lane) ?? behindOthers(queued, lane)
  if (inFront !== undefined) found.push(inFront)
  if (found.length > 0 || lane.owner !== null) return found
  const retry = queued.attempts === 0 ? '' : `, after ${count(queued.attempts, 'failed attempt')}`
  return [waitingForWorker(lane, `It is due${retry}. A worker is about to take it.`)]
}

function behindOthers({ ahead }: QueuedFacts, lane: LaneStatus): Blocker | undefined {
  if (ahead === 0) return undefined
  const speed = speedOf(lane)
  const pace = speed === undefined ? '' : ` at ${perSecond(speed)}`
  const detail = `${count(ahead, 'delivery', 'deliveries')} to the same endpoint ${ahead === 1 ? 'is' : 'are'} ahead of it${pace}.`
  return blocker('behind_others', detail)
}

/** The blocker by ordering: its own retry, for which it keeps its place, or the delivery in front. */
function inOrder({ retryInMs = 0, attempts }: QueuedFacts, { now, first }: LaneStatus): Blocker | undefined {
  if (first !== null) return frontBlocker(first, now, 'It waits')
  if (retryInMs === Number.POSITIVE_INFINITY) {
    const tried = `After ${count(attempts, 'failed attempt')} it has no attempts left.`
    return blocker('head_blocked', `${tried} It keeps its place until an operator retries or skips it.`)
  }
  return retryInMs <= 0 ? undefined : nextTry(attempts, Math.round(now + retryInMs), now)
}

/** A sentence about when the delivery is given up, if that may be before it is delivered. */
function ending({ endsAt }: QueuedFacts, isStopped: boolean, expected: EpochMs | null, now: EpochMs): string {
  if (endsAt == null || !(isStopped || endsAt <= (expected ?? now + soonMs))) return ''
  return endsAt > now ? ` It is given up at ${moment(endsAt, now)}.` : ' It has expired and is about to be given up.'
}

/** A failed delivery waits for its next attempt. */
function nextTry(attempts: number, at: EpochMs, now: EpochMs): Blocker {
  const detail = `After ${count(attempts, 'failed attempt')}, the next attempt is at ${moment(at, now)}.`
  return blocker('waiting_for_retry', detail, at)
}

function notYet({ attempts, dueAt }: QueuedFacts, isForLater: boolean, now: EpochMs): Blocker {
  if (attempts === 0 && !isForLater) {
    const detail = `It waits until ${moment(dueAt, now)} for newer messages of the same kind. Only the newest is sent.`
    return blocker('coalescing', detail, dueAt)
  }
  if (attempts === 0) return blocker('scheduled', `It is scheduled for ${moment(dueAt, now)}.`, dueAt)
  return nextTry(attempts, dueAt, now)
}

/** When the turn of a delivery is unknown, a limit within this time may well come first. */
const soonMs = 3_600_000

/** Estimate: once no known blocker is left, the deliveries in front of it go at the recent pace. */
function expectedAt(lane: LaneStatus, { ahead }: QueuedFacts, blockers: readonly Blocker[]): EpochMs | null {
  if (blockers.some(needsOperator)) return null
  const from = freeFrom(lane, blockers)
  if (ahead === 0) return from > lane.now ? from : null
  const speed = speedOf(lane)
  return speed === undefined ? null : Math.round(from + (ahead / speed) * 1000)
}

/** When no blocker with a known end is left. */
function freeFrom({ now }: LaneStatus, blockers: readonly Blocker[]): EpochMs {
  return Math.max(now, ...blockers.map(({ until }) => until ?? 0))
}

/** No worker owns the lane, which is due now or later. */
function waitingForWorker({ dueAt, now }: LaneStatus, detail: string): Blocker {
  return blocker('waiting_for_worker', detail, dueAt !== null && dueAt > now ? dueAt : null)
}

function why(reason: WhyReason, detail: string): Why {
  return { reason, detail, nextAt: null, expectedAt: null, blockers: [] }
}

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
  const { now, waiting, nextTimedAt, owner } = facts.lane
  if (facts.total === 0) return []
  if (waiting[0] + waiting[2] === 0 && nextTimedAt !== null && nextTimedAt > now) {
    const what = atLeast(facts.total, facts.isExact, 'delivery is due later', 'deliveries are due later')
    const detail = `${capital(what)}, the first at ${moment(nextTimedAt, now)}.`
    return [blocker(reasonForLater(facts), detail, nextTimedAt)]
  }
  if (owner !== null) return []
  return [waitingForWorker(facts.lane, 'Deliveries are due. A worker is about to take them.')]
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
  return Math.round(freeFrom(lane, blockers) + (total / speed) * 1000)
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
