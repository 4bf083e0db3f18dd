import type { EpochMs } from '../../domain/clock.ts'
import { type Condition, type Load, noLoad } from '../../domain/condition.ts'
import { type Attempt, type DeadLetter, type Message, timed } from '../../domain/delivery.ts'
import type { Flow } from '../../domain/flow.ts'
import { type Forecast, forecastQueue, forecastTurn, type Turn } from '../../domain/forecast.ts'
import { aboutMany, count, moment, perSecond, span, withCommas } from '../../domain/phrases.ts'
import type { QueueFigures, QueueTotals } from '../../domain/queue-figures.ts'
import { type FlowRates, still } from '../../domain/queue-flow.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import {
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
} from './blocker.ts'
import { conditionBy, type LanePace, outlookOf, paceOf } from './outlook.ts'

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
  /** When its turn comes; null once it has ended, and while it is under way. */
  readonly forecast: Forecast | null
  /** The one instant of the forecast; null when it is now, or unknown. */
  readonly expectedAt: EpochMs | null
}

/** The facts that the answer is made from, as of one reading of the store's clock. */
export interface WhyFacts {
  readonly message: Pick<Message, 'key' | 'expunged' | 'endpoints' | 'deliverAt'>
  readonly endpoint: Explained & Pick<Endpoint, 'key'>
  readonly latest: Pick<Attempt, 'code' | 'status'> | undefined
  readonly dead: Pick<DeadLetter, 'reason' | 'diedAt'> | undefined
  readonly queued: QueuedFacts | undefined
  /** The id of the message that replaced it; null when that no longer exists. */
  readonly coalesced?: { readonly into: string | null } | undefined
  readonly lane: PacedLane
  /** How deliveries come and go; nothing does where that is not known. */
  readonly flow?: FlowRates
}

/** An endpoint, as far as an answer depends on it. */
type Explained = Stoppable & { readonly flow?: Partial<Flow> }

/** A lane with its limits. */
type PacedLane = LaneStatus & Partial<LanePace>

interface QueuedFacts {
  readonly class: number
  readonly dueAt: EpochMs
  readonly attempts: number
  /** The queue in front of it. */
  readonly turn: Turn
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
  const forecast = forecastTurn(outlook(facts, blockers), queued.turn)
  const expectedAt = forecast.at !== null && forecast.at > lane.now ? forecast.at : null
  if (first === undefined) {
    return { ...why('sending', 'It is first in the queue and is being sent, or is about to be.'), forecast, expectedAt }
  }
  const detail = `${first.detail}${ending(queued, needsOperator(first), forecast.at, lane.now)}`
  return { ...first, detail, nextAt: first.until, forecast, expectedAt, blockers }
}

/** Whatever only this delivery waits for is part of its turn, and says nothing about the pace of its lane. */
function outlook({ endpoint, lane, flow = still }: WhyFacts, blockers: readonly Blocker[]) {
  const ofLane = blockers.filter(({ reason }) => !ofOneDelivery.has(reason))
  return outlookOf(endpoint as Pick<Endpoint, 'flow'>, { ...unlimited, ...lane }, flow, ofLane)
}

const ofOneDelivery: ReadonlySet<BlockerReason> = new Set([
  'scheduled',
  'coalescing',
  'waiting_for_retry',
  'behind_others',
])
const unlimited: LanePace = { throttleRate: null, throttlePeriodSeconds: 1 }

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

function behindOthers({ turn }: QueuedFacts, lane: PacedLane): Blocker | undefined {
  const { isExact } = turn
  const ahead = turn.ahead + turn.higher
  if (ahead === 0) return undefined
  const speed = paceOf(lane, { ...unlimited, ...lane }, still)
  const pace = speed === null ? '' : ` at ${perSecond(speed)}`
  const many = aboutMany(ahead, isExact, 'delivery', 'deliveries')
  return blocker('behind_others', `${many} to the same endpoint ${ahead === 1 ? 'is' : 'are'} ahead of it${pace}.`)
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

/** No worker owns the lane, which is due now or later. */
function waitingForWorker({ dueAt, now }: LaneStatus, detail: string): Blocker {
  return blocker('waiting_for_worker', detail, dueAt !== null && dueAt > now ? dueAt : null)
}

function why(reason: WhyReason, detail: string): Why {
  return { reason, detail, nextAt: null, forecast: null, expectedAt: null, blockers: [] }
}

/** Why the deliveries of an endpoint wait, and what becomes of them. */
export interface EndpointWhy extends Explanation<BlockerReason | 'idle' | 'delivering'> {
  readonly forecast: Forecast
  readonly condition: Condition
}

/** The facts that the answer is made from. */
export interface WaitingFacts {
  readonly endpoint: Explained & { readonly flow: Pick<Flow, 'coalesce'> }
  readonly lane: PacedLane & {
    readonly nextTimedAt: EpochMs | null
    /** The attempts of the delivery that is due then. */
    readonly nextTimedAttempts: number
  }
  readonly queue: QueueFigures
  readonly load?: Load
}

/** Decides why the deliveries of an endpoint wait. */
export function whyWaiting(facts: WaitingFacts): EndpointWhy {
  const { endpoint, lane, queue, load = noLoad } = facts
  const front = lane.first === null ? undefined : frontBlocker(lane.first, lane.now, 'All deliveries wait')
  const own = front === undefined ? dueBlockers(facts) : [front]
  const blockers = byDecisiveness([...laneBlockers(endpoint, lane), ...own])
  const limits = { ...unlimited, ...lane }
  const forecast = forecastQueue(outlookOf(endpoint as Pick<Endpoint, 'flow'>, limits, queue, blockers), queue)
  const condition = conditionBy(blockers, load, queue.waiting)
  if (queue.waiting === 0) {
    const isQuiet = blockers.every((blocker) => !needsOperator(blocker))
    if (isQuiet) return { ...plain('idle', 'No deliveries wait for it.'), forecast, condition }
  }
  const [first] = blockers
  if (first === undefined) return { ...plain('delivering', deliveringText(facts)), forecast, condition }
  return { ...first, nextAt: first.until, blockers, forecast, condition }
}

/** The blockers of the queue itself: all deliveries are for later, or no worker owns the lane yet. */
function dueBlockers(facts: WaitingFacts): Blocker[] {
  const { now, nextTimedAt, owner } = facts.lane
  const { waiting, byClass, isExact } = facts.queue
  if (waiting === 0) return []
  if (byClass[0] + byClass[2] === 0 && nextTimedAt !== null && nextTimedAt > now) {
    const what = aboutMany(waiting, isExact, 'delivery is due later', 'deliveries are due later')
    const detail = `${what}, the first at ${moment(nextTimedAt, now)}.`
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
  const what = aboutMany(facts.queue.waiting, facts.queue.isExact, 'delivery waits', 'deliveries wait')
  const { live } = facts.lane
  if (live === null) return `${what}; its worker is delivering.`
  const { inFlight, concurrency, pace } = live.snapshot
  const moving = pace === null || pace === 0 ? '' : `, ${perSecond(pace)} recently`
  return `${what}; its worker is delivering: ${inFlight} of ${concurrency} under way${moving}.`
}

function plain(reason: EndpointWhy['reason'], detail: string): Explanation<EndpointWhy['reason']> {
  return { reason, detail, nextAt: null, blockers: [] }
}

/** How endpoints are ranked: by the number of waiting deliveries, or by the age of the oldest. */
export const queueSorts = ['waiting', 'age'] as const
export type QueueSort = (typeof queueSorts)[number]

/** The blockers of all of an application's endpoints. */
export function wideBlockers(lanes: readonly LaneStatus[]): Blocker[] {
  return lanes.some(({ workersAlive }) => workersAlive === 0) ? [noWorker] : []
}

/** How many deliveries wait, and why those of the shown endpoints do, in one or two sentences. */
export function describeAll(
  { endpoints, waiting, isExact }: Pick<QueueTotals, 'endpoints' | 'waiting' | 'isExact'>,
  shown: readonly Pick<EndpointWhy, 'reason'>[],
): string {
  if (endpoints === 0) return 'No deliveries wait.'
  const reasons = new Map<string, number>()
  for (const { reason } of shown) reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
  const list = [...reasons].map(([reason, n]) => `${withCommas(n)} ${reason.replaceAll('_', ' ')}`).join(', ')
  const what = aboutMany(waiting, isExact, 'delivery waits', 'deliveries wait')
  const where = `${what} for ${count(endpoints, 'endpoint')}`
  if (list === '') return `${where}.`
  if (shown.length >= endpoints) return `${where}: ${list}.`
  return `${where}. The worst ${shown.length === 1 ? 'one' : shown.length}: ${list}.`
}
