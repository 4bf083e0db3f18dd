import type { EpochMs } from './clock.ts'
import type { Endpoint } from './endpoint.ts'
import { Health } from './health.ts'
import { count, moment, perSecond, span } from './phrases.ts'
import { slotLimits } from './slot-use.ts'
import type { LaneSnapshot } from './snapshot.ts'

/** What keeps a delivery, or a whole endpoint, from moving on. */
export interface Blocker {
  readonly reason: BlockerReason
  /** One sentence for people. */
  readonly detail: string
  /** When it ends by itself: nothing moves before. Null when that is not known, or takes somebody. */
  readonly until: EpochMs | null
}

export type BlockerReason =
  | 'disabled'
  | 'paused'
  | 'no_worker' //          nobody is there to deliver it
  | 'held' //               the receiver asked for silence
  | 'circuit_open' //       the receiver is unwell, and left alone until a probe
  | 'opened_by_hand' //     an operator opened the circuit
  | 'probing' //            one attempt at a time decides whether the circuit closes
  | 'application_rate' //   its application gets as much as it may, over all its endpoints
  | 'failing' //            it failed as often as the server lets an endpoint fail in a minute
  | 'slowed' //             the rate climbs back to the usual
  | 'scheduled' //          published for later
  | 'coalescing' //         something newer of its kind may take its place until then
  | 'waiting_for_retry'
  | 'behind_others'
  | 'head_blocked' //       in order, the first used up its attempts and waits for somebody
  | 'behind_head' //        in order, the first waits for its retry
  | 'rate_limited'
  | 'in_flight' //          as many are under way as the endpoint takes at once
  | 'crowded' //            the worker's slots are taken, or left for others
  | 'store_trouble' //      the worker waits for the store
  | 'lease_unsure' //       the worker is not sure that it still owns anything
  | 'owner_silent' //       the lane's worker was asked and did not answer
  | 'waiting_for_worker' // due, and a worker is about to take the lane

/** What is known of a lane, as of one reading of the store's clock. */
export interface LaneStanding {
  readonly now: EpochMs
  readonly owner: { readonly description: string; readonly leaseUntil: EpochMs } | null
  readonly dueAt: EpochMs | null
  readonly holdUntil: EpochMs
  readonly notBefore: EpochMs
  readonly workersAlive: number
  /** How well the receiver does, as it was last saved, and how long ago that was. */
  readonly health?: string | null
  readonly healthAgeMs?: number
  /** In a lane that keeps an order, who stands in front of the one asked about, or of all. */
  readonly first: FirstInLine | null
  /** Its owner's own word, just now. */
  readonly live: LiveWord | null
  /** Whether its owner was asked and did not answer. */
  readonly silent: boolean
}

export interface LiveWord {
  readonly at: EpochMs
  readonly snapshot: LaneSnapshot
}

/** A delivery that others stand behind. */
export interface FirstInLine {
  /** The id of its message; null when that is gone. */
  readonly id: string | null
  readonly attempts: number
  /** How long it waits for its retry; `Infinity` when it waits for somebody. */
  readonly heldMs: number
}

export type Stoppable = Pick<Endpoint, 'disabled' | 'disabledReason' | 'paused' | 'throttleRate'>

/** Which ones need somebody: without that, what comes behind them does not matter. */
const needSomebody: ReadonlySet<BlockerReason> = new Set([
  'disabled',
  'paused',
  'opened_by_hand',
  'head_blocked',
  'no_worker',
])

/** Those that end at no known instant come behind those that do, the more telling first. */
const openEnded: readonly BlockerReason[] = [
  'behind_others',
  'probing',
  'rate_limited',
  'failing',
  'slowed',
  'application_rate',
  'store_trouble',
  'lease_unsure',
  'owner_silent',
  'in_flight',
  'crowded',
  'waiting_for_worker',
]

/** What lets one go at a time: behind others, that one is somebody else's. */
const paced: ReadonlySet<BlockerReason> = new Set(['rate_limited', 'failing', 'slowed', 'application_rate'])

/** Two instants that mean the same were rounded at different moments. */
const roundingMs = 50

/** Whether it takes somebody to end it. */
export function needsSomebody({ reason }: Blocker): boolean {
  return needSomebody.has(reason)
}

/**
 * The most decisive first: what needs somebody, then what ends at a known instant, the last to end first, then the rest.
 * Behind others, the next token is somebody else's, and says nothing of when one's own turn comes.
 */
export function byDecisiveness(blockers: readonly Blocker[]): Blocker[] {
  const isBehind = blockers.some(({ reason }) => reason === 'behind_others')
  const rank = ({ reason, until }: Blocker) => {
    if (needSomebody.has(reason)) return 0
    return until !== null && !(isBehind && paced.has(reason)) ? 1 : 2
  }
  // That a worker has yet to take the lane is worth a word only where nothing else keeps it.
  const telling = blockers.filter(({ reason }) => reason !== 'waiting_for_worker')
  return (telling.length > 0 ? telling : blockers).toSorted((a, b) => {
    if (rank(a) !== rank(b)) return rank(a) - rank(b)
    if (rank(a) === 1) return (b.until ?? 0) - (a.until ?? 0)
    return rank(a) === 2 ? openEnded.indexOf(a.reason) - openEnded.indexOf(b.reason) : 0
  })
}

/** What keeps a whole lane from sending, in no order. */
export function laneBlockers(endpoint: Stoppable, lane: LaneStanding): Blocker[] {
  const { now, live } = lane
  const found: (Blocker | undefined)[] = [stopped(endpoint), lane.workersAlive === 0 ? noWorker : undefined]
  if (live === null) {
    if (lane.holdUntil > now) found.push(held(lane.holdUntil, now))
    const { circuit, manual, openUntil, pace } = new Health(lane.health ?? null, lane.healthAgeMs ?? 0, now)
    if (circuit === 'open') found.push(circuitOpen(manual ? null : openUntil, now))
    // Stored as one instant: what of it is neither a hold nor the circuit's, give or take its rounding, is a matter of
    // pace, or of order, which is told by who is first in line.
    if (lane.owner === null && lane.notBefore > Math.max(now, lane.holdUntil + roundingMs, openUntil + roundingMs)) {
      const isSlowed = pace !== undefined && pace.endsAt > now
      if (isSlowed) found.push(slowed(lane.notBefore, now))
      else if (endpoint.throttleRate !== null) found.push(rateLimited(lane.notBefore, null, now))
    }
    if (lane.silent && lane.owner !== null) found.push(silent(lane.owner, now))
  } else found.push(...ownersWord(live, now))
  return found.filter((blocker) => blocker !== undefined)
}

/** What a lane's owner says keeps it from sending. */
function ownersWord({ at, snapshot }: LiveWord, now: EpochMs): Blocker[] {
  const { holdMs, tokenMs, rate, inFlight, concurrency, standstill } = snapshot
  const { circuit = 'closed', silentMs = 0, paceMs = 0, appMs = 0, failuresMs = 0 } = snapshot
  const found: Blocker[] = []
  // What ended since it was said is over.
  if (at + holdMs > now) found.push(held(at + holdMs, now))
  const open = silentMs === null ? circuitOpen(null, now) : circuitOpen(at + silentMs, now)
  if (open !== undefined) found.push(open)
  else if (circuit !== 'closed' && inFlight > 0) found.push(probing)
  if (at + failuresMs > now) found.push(failing(at + failuresMs, now))
  if (at + paceMs > now) found.push(slowed(at + paceMs, now))
  if (at + appMs > now) found.push(applicationRate(at + appMs, now))
  if (tokenMs !== null && at + tokenMs > now) found.push(rateLimited(at + tokenMs, rate, now))
  if (inFlight >= concurrency) {
    found.push({ reason: 'in_flight', detail: inFlightText(snapshot), until: null })
  }
  if (standstill === 'lease') {
    const detail = 'Its worker is not sure of its lease and starts nothing; it asks the store to extend it.'
    found.push({ reason: 'lease_unsure', detail, until: null })
  } else if (standstill !== null) {
    const what = standstill === 'store' ? 'had trouble with the store' : 'waits for the store to record what it sent'
    found.push({ reason: 'store_trouble', detail: `Its worker ${what} and starts nothing until then.`, until: null })
  }
  const crowd = crowded(snapshot)
  if (crowd !== undefined) found.push(crowd)
  return found
}

function stopped({ disabled, disabledReason, paused }: Stoppable): Blocker | undefined {
  if (disabled) {
    const cause = {
      operator: 'by an operator',
      gone: 'because the receiver answered 410',
      failing: 'because it failed for too long',
    }[disabledReason ?? 'operator']
    const detail = `The endpoint was disabled ${cause}; what waits is delivered once it is enabled.`
    return { reason: 'disabled', detail, until: null }
  }
  if (!paused) return undefined
  return {
    reason: 'paused',
    detail: 'The endpoint is paused; what waits is delivered once it is resumed.',
    until: null,
  }
}

/** What keeps every endpoint. */
export const noWorker: Blocker = {
  reason: 'no_worker',
  detail: 'No worker is alive: start `sluice serve` or `sluice worker`.',
  until: null,
}

function held(until: EpochMs, now: EpochMs): Blocker {
  return { reason: 'held', detail: `The receiver asked for silence (Retry-After) until ${moment(until, now)}.`, until }
}

/** `until` is null when it takes an operator to close it. */
function circuitOpen(until: EpochMs | null, now: EpochMs): Blocker | undefined {
  if (until === null) {
    return {
      reason: 'opened_by_hand',
      detail: 'An operator opened its circuit; it takes one to close it.',
      until: null,
    }
  }
  if (until <= now) return undefined
  const detail = `The receiver is unwell and left alone until ${moment(until, now)}; then one attempt decides.`
  return { reason: 'circuit_open', detail, until: Math.ceil(until) }
}

const probing: Blocker = {
  reason: 'probing',
  detail: 'The receiver was unwell; the one attempt that is under way decides whether others follow.',
  until: null,
}

function applicationRate(until: EpochMs, now: EpochMs): Blocker {
  const detail = `Its application's rate, over all its endpoints, lets the next one go at ${moment(until, now)}.`
  return { reason: 'application_rate', detail, until }
}

function failing(until: EpochMs, now: EpochMs): Blocker {
  const detail = `It failed as often as the server lets an endpoint fail in a minute; the next attempt goes at ${moment(until, now)}.`
  return { reason: 'failing', detail, until }
}

function slowed(until: EpochMs, now: EpochMs): Blocker {
  const detail = `Its rate climbs back to the usual; it lets the next one go at ${moment(until, now)}.`
  return { reason: 'slowed', detail, until }
}

/** What keeps those behind the first in line back, if anything beside its turn does. */
export function lineBlocker(
  { id, attempts, heldMs }: FirstInLine,
  now: EpochMs,
  who: 'it stands' | 'all stand',
): Blocker | undefined {
  const name = id ?? 'one whose message is gone'
  const tried = `after ${count(attempts, 'failed attempt')}`
  if (heldMs === Number.POSITIVE_INFINITY) {
    const detail = `In order ${who} behind ${name}, which ${tried} waits for somebody to retry or to skip it.`
    return { reason: 'head_blocked', detail, until: null }
  }
  if (heldMs <= 0) return undefined
  const detail = `In order ${who} behind ${name}, which ${tried} is tried again at ${moment(now + heldMs, now)}.`
  return { reason: 'behind_head', detail, until: Math.round(now + heldMs) }
}

function rateLimited(until: EpochMs, rate: number | null, now: EpochMs): Blocker {
  const pace = rate === null ? '' : ` of ${perSecond(rate)}`
  return {
    reason: 'rate_limited',
    detail: `The endpoint's rate limit${pace} lets the next one go at ${moment(until, now)}.`,
    until,
  }
}

function inFlightText({ inFlight, concurrency, sending }: LaneSnapshot): string {
  const longest = sending[0]?.forMs
  const since = longest === undefined ? '' : `, the longest for ${span(longest)}`
  return `${inFlight} of ${concurrency} attempts are under way${since}; the next begins when one ends.`
}

function crowded({ crowded: which, app, process }: LaneSnapshot): Blocker | undefined {
  if (which === null) return undefined
  const detail = {
    process: `All ${process.limit} slots of its worker are taken; it gets its turn as they come free.`,
    application: `Its application has ${app.inFlight} of the ${app.limit} attempts under way that one may have; it gets its turn as they end.`,
    slow: `Its attempts took long. Endpoints like it may hold ${slotLimits(process.limit).slow} of its worker's ${process.limit} slots together, and do; it gets its turn as they come free.`,
    untried: `No attempt at it ended quickly in the last ten minutes. Endpoints like it may hold ${slotLimits(process.limit).untried} of its worker's ${process.limit} slots together, and do; it gets its turn as they come free.`,
    share: `Its application has ${app.inFlight} attempts under way, and what is left of its worker's ${process.limit} slots is kept for others.`,
  }[which]
  return { reason: 'crowded', detail, until: null }
}

function silent({ description, leaseUntil }: NonNullable<LaneStanding['owner']>, now: EpochMs): Blocker {
  const detail =
    leaseUntil > now
      ? `Its worker (${description}) does not answer; if it is gone, another takes over from ${moment(leaseUntil, now)} on.`
      : `Its worker (${description}) does not answer and has let its lease lapse; another is about to take over.`
  return { reason: 'owner_silent', detail, until: null }
}

/** How fast a lane moves, deliveries a second, as far as it can be told: as it did of late, or as its limit lets it. */
export function speedOf({ live }: LaneStanding): number | undefined {
  if (live === null) return undefined
  const { pace, rate } = live.snapshot
  if (pace !== null && pace > 0) return rate === null ? pace : Math.min(pace, rate)
  return rate ?? undefined
}

/** `3 deliveries wait`, with a word for what was not counted to its end. */
export function atLeast(n: number, isExact: boolean, one: string, many: string): string {
  return `${isExact ? '' : 'at least '}${count(n, one, many)}`
}
