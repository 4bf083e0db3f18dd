import type { EpochMs } from '../../domain/clock.ts'
import type { Flow } from '../../domain/flow.ts'
import { Health } from '../../domain/health.ts'
import { count, moment, perSecond, span } from '../../domain/phrases.ts'
import { slotLimits } from '../../domain/slot-use.ts'
import type { LaneSnapshot, Standstill } from '../../domain/snapshot.ts'
import { type Endpoint, type LimitSource, type MayNeedTokens, needsTokens } from '../endpoints/rules.ts'

/** A reason why a delivery, or a whole endpoint, does not move on. */
export interface Blocker {
  readonly reason: BlockerReason
  /** One sentence, shown to operators. */
  readonly detail: string
  /** When the blocker ends by itself: nothing moves before. Null when that is unknown, or takes an operator. */
  readonly until: EpochMs | null
}

/** Why a delivery, or those of an endpoint, are not delivered yet. */
export interface Explanation<Reason> {
  /** Reason of the first blocker; without a blocker, the reason of the delivery itself. */
  readonly reason: Reason
  /** One sentence, shown to operators. */
  readonly detail: string
  /** When a delivery will next move by itself, and not before; null when that is now, never or unknown. */
  readonly nextAt: EpochMs | null
  /** All blockers, the most decisive first. */
  readonly blockers: readonly Blocker[]
}

export type BlockerReason =
  | 'disabled'
  | 'paused'
  | 'no_worker' //          no worker is alive
  | 'no_worker_in_region' // workers are alive, and none serves the lane's region
  | 'held' //               the receiver answered with Retry-After, or its token endpoint gave no token
  | 'circuit_open' //       repeated failures opened the circuit; nothing is sent until the next probe
  | 'opened_by_hand' //     an operator opened the circuit
  | 'probing' //            one attempt at a time decides whether the circuit closes
  | 'application_rate' //   its application reached its rate limit, over all its endpoints
  | 'failing' //            the endpoint reached the server's limit of failed attempts a minute
  | 'slowed' //             the rate climbs back after a failure or a 429
  | 'scheduled' //          published for later
  | 'coalescing' //         a newer delivery of its kind may take its place until then
  | 'waiting_for_retry'
  | 'behind_others'
  | 'head_blocked' //       in order, the first used up its attempts and waits for an operator
  | 'behind_head' //        in order, the first waits for its retry
  | 'rate_limited'
  | 'in_flight' //          the endpoint's concurrency limit is reached
  | 'crowded' //            the worker has no free slot for this endpoint
  | 'store_trouble' //      the worker waits for the store
  | 'lease_unsure' //       the worker does not know whether its lease still holds
  | 'owner_silent' //       the lane's worker was asked and did not answer
  | 'waiting_for_worker' // due, and a worker is about to take the lane

/** The status of a lane, as of one reading of the store's clock. */
export interface LaneStatus {
  readonly now: EpochMs
  readonly owner: { readonly description: string; readonly leaseUntil: EpochMs } | null
  readonly dueAt: EpochMs | null
  readonly holdUntil: EpochMs
  readonly notBefore: EpochMs
  readonly workersAlive: number
  /** The lane's region, and the workers alive that serve it. */
  readonly region: string
  readonly workersServing: number
  /** The receiver's health as it was last saved, and how long ago that was. */
  readonly health?: string | null
  readonly healthAgeMs?: number
  /** Where the rate of the endpoint was set; null without a rate. */
  readonly rateFrom?: LimitSource | null
  /** In an ordered lane, the delivery in front of the one in question, or of all. */
  readonly first: FrontDelivery | null
  /** A snapshot that the lane's owner has just taken. */
  readonly live: LiveSnapshot | null
  /** Whether the owner was asked for a snapshot and did not answer. */
  readonly silent: boolean
}

export interface LiveSnapshot {
  readonly at: EpochMs
  readonly snapshot: LaneSnapshot
}

/** The delivery at the front of an ordered lane, or of a key. */
interface FrontDelivery {
  /** The id of its message; null when that no longer exists. */
  readonly id: string | null
  readonly attempts: number
  /** How long it waits for its retry; `Infinity` when it waits for an operator. */
  readonly retryInMs: number
}

export type Stoppable = Pick<Endpoint, 'disabled' | 'disabledReason' | 'paused'> &
  MayNeedTokens & {
    readonly flow?: Partial<Pick<Flow, 'circuitOrder'>>
  }

/** Blockers that only an operator ends. Until then, the blockers behind them do not matter. */
const needOperator: ReadonlySet<BlockerReason> = new Set([
  'disabled',
  'paused',
  'opened_by_hand',
  'head_blocked',
  'no_worker',
  'no_worker_in_region',
])

/** Blockers without a known end come behind those with one, the more telling first. */
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

/** Blockers that pass one delivery at a time, which may be an earlier one. */
const paced: ReadonlySet<BlockerReason> = new Set(['rate_limited', 'failing', 'slowed', 'application_rate'])

/** Equal instants that were rounded at different moments differ by less than this. */
const roundingMs = 50

/** Whether the blocker lets one delivery go at a time, so that its end says nothing about a delivery behind others. */
export function isPaced({ reason }: { readonly reason: string }): boolean {
  return (paced as ReadonlySet<string>).has(reason)
}

/** Whether only an operator ends the blocker. */
export function needsOperator({ reason }: Blocker): boolean {
  return needOperator.has(reason)
}

/**
 * Sorts blockers, the most decisive first: those that need an operator, then those with a known end, the last to end first,
 * then the rest. For a delivery behind others the next token says nothing, because another delivery gets it.
 */
export function byDecisiveness(blockers: readonly Blocker[]): Blocker[] {
  const isBehind = blockers.some(({ reason }) => reason === 'behind_others')
  const rank = ({ reason, until }: Blocker) => {
    if (needOperator.has(reason)) return 0
    return until !== null && !(isBehind && paced.has(reason)) ? 1 : 2
  }
  // A worker that has yet to take the lane matters only when nothing else blocks it.
  const telling = blockers.filter(({ reason }) => reason !== 'waiting_for_worker')
  return (telling.length > 0 ? telling : blockers).toSorted((a, b) => {
    if (rank(a) !== rank(b)) return rank(a) - rank(b)
    if (rank(a) === 1) return (b.until ?? 0) - (a.until ?? 0)
    return rank(a) === 2 ? openEnded.indexOf(a.reason) - openEnded.indexOf(b.reason) : 0
  })
}

/** The blockers of a whole lane, unsorted. */
export function laneBlockers(endpoint: Stoppable, lane: LaneStatus): Blocker[] {
  const { live } = lane
  const found = live === null ? storedBlockers(lane) : ownerBlockers(live, lane)
  return [
    ...stopped(endpoint),
    ...unserved(lane),
    ...found.map((each) => orTokenless(each, endpoint)),
    ...(found.includes(openedByHand) ? [] : commandedOpen(endpoint, lane)),
  ]
}

/** An operator's command to open the circuit blocks the lane also before a worker has carried it out. */
function commandedOpen({ flow }: Stoppable, { health = null, healthAgeMs = 0, now }: LaneStatus): Blocker[] {
  const command = flow?.circuitOrder
  if (command == null || command.action !== 'open') return []
  return command.n > new Health(health, healthAgeMs, now).command ? [openedByHand] : []
}

/** No worker may own the lane. */
function unserved({ workersAlive, workersServing, region, owner }: LaneStatus): Blocker[] {
  if (workersAlive === 0) return [noWorker]
  // A lane that was moved is delivered by its owner until that has learned of it.
  return workersServing > 0 || owner !== null ? [] : [noWorkerIn(region)]
}

/** A lane is held by the receiver, or by a token endpoint that gives no token; its last attempt says which. */
function orTokenless(found: Blocker, endpoint: Stoppable): Blocker {
  if (found.reason !== 'held' || !needsTokens(endpoint)) return found
  return { ...found, detail: found.detail.replace(ending.held, heldOrTokenless) }
}

/** The blockers that the store shows. */
function storedBlockers(lane: LaneStatus): Blocker[] {
  const { now, holdUntil, notBefore, owner, rateFrom = null } = lane
  const { circuit, manual, openUntil, pace } = new Health(lane.health ?? null, lane.healthAgeMs ?? 0, now)
  const found = endsAt('held', holdUntil, now)
  if (circuit === 'open') found.push(...circuitOpen(manual ? null : openUntil, now))
  // The store keeps one instant for all. If neither the hold nor the circuit explains it, give or take rounding, the pace
  // does, or the ordering, which the front delivery explains.
  if (owner === null && notBefore > Math.max(now, holdUntil + roundingMs, openUntil + roundingMs)) {
    const isSlowed = pace !== undefined && pace.endsAt > now
    if (isSlowed) found.push(...endsAt('slowed', notBefore, now))
    else if (rateFrom !== null) found.push(...rateLimited(notBefore, null, rateFrom, now))
  }
  if (lane.silent && owner !== null) found.push(silent(owner, now))
  return found
}

/** The blockers that the owner's snapshot shows. Limits that expired after the snapshot are left out. */
function ownerBlockers({ at, snapshot }: LiveSnapshot, lane: LaneStatus): Blocker[] {
  const { now, rateFrom = null, holdUntil } = lane
  const { openUntil } = new Health(lane.health ?? null, lane.healthAgeMs ?? 0, now)
  const { holdMs, tokenMs, rate, inFlight, concurrency, standstill } = snapshot
  const { circuit = 'closed', silentMs = 0, paceMs = 0, appMs = 0, failuresMs = 0 } = snapshot
  const open = circuitOpen(silentMs === null ? null : asStored(at + silentMs, openUntil), now)
  return [
    ...endsAt('held', asStored(at + holdMs, holdUntil), now),
    ...(open.length === 0 && circuit !== 'closed' && inFlight > 0 ? [probing] : open),
    ...endsAt('failing', at + failuresMs, now),
    ...endsAt('slowed', at + paceMs, now),
    ...endsAt('application_rate', at + appMs, now),
    ...(tokenMs === null ? [] : rateLimited(at + tokenMs, rate, rateFrom, now)),
    ...(inFlight >= concurrency ? [blocker('in_flight', inFlightText(snapshot))] : []),
    ...(standstill === null ? [] : [standstills[standstill]]),
    ...crowded(snapshot),
  ]
}

/** The stored instant where it is the owner's, give or take rounding: every caller is then given the same one. */
function asStored(until: EpochMs, stored: EpochMs): EpochMs {
  return Math.abs(until - stored) <= roundingMs ? stored : until
}

/** A blocker; without `until` its end is unknown. */
export function blocker(reason: BlockerReason, detail: string, until: EpochMs | null = null): Blocker {
  return { reason, detail, until }
}

/** Blockers that end by themselves, and their sentences up to the instant. */
const ending = {
  held: 'The receiver sent Retry-After; paused until',
  circuit_open: 'Circuit open after repeated failures. Next probe at',
  application_rate: 'The application reached its rate limit over all its endpoints. Next attempt at',
  failing: 'The endpoint reached the limit of failed attempts a minute. Next attempt at',
  slowed: "The endpoint's rate is reduced and climbs back. Next attempt at",
} as const

const heldOrTokenless = 'The receiver sent Retry-After, or its token endpoint gave no token; paused until'

/** The blocker until an instant; none when that has passed. */
function endsAt(reason: keyof typeof ending, until: EpochMs, now: EpochMs): Blocker[] {
  return until > now ? [blocker(reason, `${ending[reason]} ${moment(until, now)}.`, until)] : []
}

/** `until` is null when only an operator closes the circuit. */
function circuitOpen(until: EpochMs | null, now: EpochMs): Blocker[] {
  return until === null ? [openedByHand] : endsAt('circuit_open', Math.ceil(until), now)
}

function rateLimited(until: EpochMs, rate: number | null, from: LimitSource | null, now: EpochMs): Blocker[] {
  if (until <= now) return []
  const pace = rate === null ? '' : ` of ${perSecond(rate)}`
  const source = from === null || from === 'endpoint' ? '' : `, the default of the ${from}`
  const detail = `The endpoint reached its rate limit${pace}${source}. Next attempt at ${moment(until, now)}.`
  return [blocker('rate_limited', detail, until)]
}

function stopped({ disabled, disabledReason, paused }: Stoppable): Blocker[] {
  if (disabled) {
    const cause = {
      operator: 'by an operator',
      gone: 'because the receiver answered 410',
      failing: 'because it failed for too long',
    }[disabledReason ?? 'operator']
    const detail = `The endpoint was disabled ${cause}; waiting deliveries are sent once it is enabled.`
    return [blocker('disabled', detail)]
  }
  const detail = 'The endpoint is paused; waiting deliveries are sent once it is resumed.'
  return paused ? [blocker('paused', detail)] : []
}

/** Blocks every endpoint. */
export const noWorker = blocker('no_worker', 'No worker is alive: start `sluice serve` or `sluice worker`.')
/** Blocks every endpoint of the region. */
function noWorkerIn(region: string): Blocker {
  return blocker(
    'no_worker_in_region',
    `No worker serves the region ${region}: start \`sluice worker --region ${region}\`; on SQLite, restart \`sluice serve\` without --region.`,
  )
}
const openedByHand = blocker(
  'opened_by_hand',
  'An operator opened the circuit. It stays open until `sluice circuit close`.',
)
const probing = blocker(
  'probing',
  'Circuit half open. A probe is under way; if it succeeds, the other deliveries follow.',
)
const standstills: Readonly<Record<Standstill, Blocker>> = {
  lease: blocker(
    'lease_unsure',
    'Its worker could not confirm its lease and starts no attempts until the store extends it.',
  ),
  store: blocker('store_trouble', 'Its worker cannot reach the store, and starts no attempts until then.'),
  recording: blocker(
    'store_trouble',
    'Its worker waits for the store to record its results, and starts no attempts until then.',
  ),
}

/** Why the front delivery blocks those behind it, if it does for longer than its turn. */
export function frontBlocker(
  { id, attempts, retryInMs }: FrontDelivery,
  now: EpochMs,
  who: 'It waits' | 'All deliveries wait',
): Blocker | undefined {
  const name = id ?? 'a delivery whose message was deleted'
  const tried = count(attempts, 'failed attempt')
  if (retryInMs === Number.POSITIVE_INFINITY) {
    const detail = `${who} in order behind ${name}, which has no attempts left after ${tried}. An operator must retry or skip it.`
    return blocker('head_blocked', detail)
  }
  if (retryInMs <= 0) return undefined
  const until = now + retryInMs
  const detail = `${who} in order behind ${name}, whose next attempt, after ${tried}, is at ${moment(until, now)}.`
  return blocker('behind_head', detail, Math.round(until))
}

function inFlightText({ inFlight, concurrency, sending }: LaneSnapshot): string {
  const longest = sending[0]?.forMs
  const since = longest === undefined ? '' : `, the longest for ${span(longest)}`
  return `${inFlight} of ${concurrency} attempts are under way${since}. The next starts when one ends.`
}

function crowded({ crowded: which, app, process }: LaneSnapshot): Blocker[] {
  if (which === null) return []
  const detail = {
    process: `All ${process.limit} slots of the worker are in use. The next attempt starts when one is free.`,
    application: `The application uses all its slots: ${app.inFlight} of ${app.limit} attempts are under way. The next starts when one ends.`,
    slow: `The endpoint is slow. All slow endpoints together may use ${slotLimits(process.limit).slow} of the worker's ${process.limit} slots, and all of these are in use.`,
    untried: `No attempt at the endpoint ended quickly in the last ten minutes. All such endpoints together may use ${slotLimits(process.limit).untried} of the worker's ${process.limit} slots, and all of these are in use.`,
    share: `The application has ${app.inFlight} attempts under way. The rest of the worker's ${process.limit} slots is reserved for other applications.`,
  }[which]
  return [blocker('crowded', detail)]
}

function silent({ description, leaseUntil }: NonNullable<LaneStatus['owner']>, now: EpochMs): Blocker {
  const detail =
    leaseUntil > now
      ? `Its worker (${description}) does not answer. If it does not come back, another worker takes over at ${moment(leaseUntil, now)}.`
      : `Its worker (${description}) does not answer and its lease has expired. Another worker is about to take over.`
  return blocker('owner_silent', detail)
}
