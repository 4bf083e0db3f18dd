import {
  type Blocker,
  type BlockerReason,
  byDecisiveness,
  type Explanation,
  frontBlocker,
  type LaneStatus,
  type LiveSnapshot,
  laneBlockers,
  needsOperator,
  type Stoppable,
  speedOf,
} from './blocker.ts'
import type { EpochMs } from './clock.ts'
import { type Attempt, type DeadLetter, type Message, timed } from './delivery.ts'
import type { Endpoint } from './endpoint.ts'
import { count, moment, perSecond, span } from './phrases.ts'

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
  const until = lane.dueAt !== null && lane.dueAt > now ? lane.dueAt : null
  return [{ reason: 'waiting_for_worker', detail: `It is due${retry}. A worker is about to take it.`, until }]
}

function behindOthers({ ahead }: QueuedFacts, lane: LaneStatus): Blocker | undefined {
  if (ahead === 0) return undefined
  const speed = speedOf(lane)
  const pace = speed === undefined ? '' : ` at ${perSecond(speed)}`
  const detail = `${count(ahead, 'delivery', 'deliveries')} to the same endpoint ${ahead === 1 ? 'is' : 'are'} ahead of it${pace}.`
  return { reason: 'behind_others', detail, until: null }
}

/** The blocker by ordering: its own retry, for which it keeps its place, or the delivery in front. */
function inOrder({ retryInMs = 0, attempts }: QueuedFacts, { now, first }: LaneStatus): Blocker | undefined {
  if (first !== null) return frontBlocker(first, now, 'It waits')
  const tried = `After ${count(attempts, 'failed attempt')}`
  if (retryInMs === Number.POSITIVE_INFINITY) {
    const detail = `${tried} it has no attempts left. It keeps its place until an operator retries or skips it.`
    return { reason: 'head_blocked', detail, until: null }
  }
  if (retryInMs <= 0) return undefined
  const until = Math.round(now + retryInMs)
  return { reason: 'waiting_for_retry', detail: `${tried}, the next attempt is at ${moment(until, now)}.`, until }
}

/** A sentence about when the delivery is given up, if that may be before it is delivered. */
function ending({ endsAt }: QueuedFacts, isStopped: boolean, expected: EpochMs | null, now: EpochMs): string {
  if (endsAt == null || !(isStopped || endsAt <= (expected ?? now + soonMs))) return ''
  return endsAt > now ? ` It is given up at ${moment(endsAt, now)}.` : ' It has expired and is about to be given up.'
}

function notYet({ attempts, dueAt }: QueuedFacts, isForLater: boolean, now: EpochMs): Blocker {
  if (attempts === 0 && !isForLater) {
    const detail = `It waits until ${moment(dueAt, now)} for newer messages of the same kind. Only the newest is sent.`
    return { reason: 'coalescing', detail, until: dueAt }
  }
  if (attempts === 0) {
    return { reason: 'scheduled', detail: `It is scheduled for ${moment(dueAt, now)}.`, until: dueAt }
  }
  const detail = `After ${count(attempts, 'failed attempt')}, the next attempt is at ${moment(dueAt, now)}.`
  return { reason: 'waiting_for_retry', detail, until: dueAt }
}

/** When the turn of a delivery is unknown, a limit within this time may well come first. */
const soonMs = 3_600_000

/** Estimate: once no known blocker is left, the deliveries in front of it go at the recent pace. */
function expectedAt(lane: LaneStatus, { ahead }: QueuedFacts, blockers: readonly Blocker[]): EpochMs | null {
  if (blockers.some(needsOperator)) return null
  const from = Math.max(lane.now, ...blockers.map(({ until }) => until ?? 0))
  if (ahead === 0) return from > lane.now ? from : null
  const speed = speedOf(lane)
  return speed === undefined ? null : Math.round(from + (ahead / speed) * 1000)
}

function why(reason: WhyReason, detail: string): Why {
  return { reason, detail, nextAt: null, expectedAt: null, blockers: [] }
}
