import assert from 'node:assert/strict'
import { decodeKey } from '../../src/domain/ids.ts'
import { deliveryOf } from './check-coalescing.ts'
import { isOpenThroughout } from './check-health.ts'
import type { Arrival, EndpointFacts, History } from './history.ts'
import type { Prediction } from './observer.ts'

/** An attempt that had begun when the caller asked may still arrive: its body is read and its connection made. */
const underWayMs = 100
/** Instants are stored in whole milliseconds, and what is told is as old as its answer. */
const earlyMs = 60
/** A worker looks for lanes every second, and a busy store is left alone for a while. */
const lateMs = 3000

/** Each answer to `why` was true, and its forecast came to be. */
export function predictionsComeTrue(endpoint: EndpointFacts, arrivals: readonly Arrival[], history: History): void {
  for (const told of history.predictions) {
    if (told.endpoint !== endpoint.key) continue
    tellsWhatIs(told, arrivals, history)
    if (endpoint.rate === undefined) {
      const label = `${endpoint.key}, which has no rate limit, was said to be limited by it at ${told.toldAt}`
      assert.ok(!told.reasons.includes('rate_limited'), label)
    }
    if (endpoint.order === 'none' || endpoint.deadHead === 'skip') {
      const label = `${endpoint.key}, where no head blocks, was said to be blocked by one at ${told.toldAt}`
      assert.ok(!told.reasons.includes('head_blocked'), label)
    }
    if (told.reasons.length > 0 && isOpenThroughout(endpoint, history, told.askedAt, told.toldAt)) {
      const label = `${endpoint.key}, whose circuit was open, was said to be ${told.reasons} at ${told.toldAt}`
      assert.ok(told.reasons.includes('circuit_open') || told.reasons.includes('opened_by_hand'), label)
    }
    const nextAt = told.nextAt ?? movingAt(told)
    if (nextAt === undefined || happened(history, endpoint, told.askedAt, nextAt)) continue
    // The next worker that decides something moves a resting delivery along with the clock.
    if (jumped(history, told.askedAt - lateMs, told.askedAt)) continue
    // A head that was read before the clock jumped waits for as long as it was to then; the store tells of it by the clock.
    const isOfHead = told.reason === 'behind_head' || told.reason === 'waiting_for_retry'
    if (endpoint.order !== 'none' && isOfHead && told.message !== 0 && jumped(history, 0, told.askedAt)) continue
    // A worker that has missed the news of a message does not know that it may pass those of other keys.
    const isUnaware = endpoint.order === 'key' && told.message === 0 && told.reason === 'behind_head'
    if (isUnaware && !history.attentive) continue
    // A worker that takes the lane over has a share of its own of the application's rate.
    if (told.reason !== 'application_rate') notBefore(told, nextAt, arrivals)
    if (!happened(history, endpoint, nextAt, nextAt + lateMs)) movesThen(told, nextAt, endpoint, arrivals, history)
  }
}

/** A delivery that nothing keeps, and that is not under way, moves at once. */
function movingAt({ reason, inFlight, toldAt }: Prediction): number | undefined {
  return (reason === 'delivering' || reason === 'sending') && inFlight === 0 ? toldAt : undefined
}

/** An answer names each cause for as long as it holds an endpoint. */
function tellsWhatIs(told: Prediction, arrivals: readonly Arrival[], history: History): void {
  const { askedAt, toldAt, endpoint, reason, reasons, inFlight } = told
  const label = `at ${toldAt} ${endpoint} was said to be ${[reason, ...reasons]}`
  const pauses = history.stops.filter((stop) => stop.endpoint === endpoint && stop.kind === 'paused')
  const duringAll = pauses.some(({ from, until }) => from < askedAt && until > toldAt)
  const during = pauses.some(({ from, until }) => from <= toldAt && until >= askedAt)
  if (reasons.length > 0 && duringAll)
    assert.ok(reasons.includes('paused') || reasons.includes('disabled'), `${label}, but not paused`)
  if (reasons.includes('paused')) assert.ok(during, `${label}, but nobody paused it`)

  // An attempt that a receiver had open all the while is in flight for its owner.
  const open = arrivals.filter((arrival) => arrival.at <= askedAt && arrival.endedAt > toldAt)
  const isOneOwners = open.every(
    ({ worker }) => worker === open[0]?.worker && worker.losses.every(({ at }) => at > toldAt),
  )
  if (inFlight !== undefined && isOneOwners) {
    assert.ok(inFlight >= open.length, `${label} with ${inFlight} in flight, but ${open.length} were`)
  }
  if (reason === 'delivered' && told.message !== 0) {
    const taken = arrivals.some((arrival) => arrival.taken && keyOf(arrival) === told.message && arrival.at <= toldAt)
    assert.ok(taken, `${label}, but no receiver took it`)
  }
  holdIsTold(told, arrivals, history, label)
}

/** A Retry-After is told from the moment its owner knows, and while anything waits. */
function holdIsTold(told: Prediction, arrivals: readonly Arrival[], history: History, label: string): void {
  if (told.reasons.length === 0 || jumped(history, 0, told.toldAt)) return
  for (const arrival of arrivals) {
    if (arrival.retryAfterMs === undefined || arrival.heardAt >= told.askedAt) continue
    const until = arrival.heardAt + arrival.retryAfterMs
    const isKept = arrival.worker.losses.every(({ at }) => at > told.toldAt)
    // A retry that was told by its owner may have cleared nothing: holds only ever grow.
    if (!isKept || until <= told.toldAt + earlyMs || told.inFlight === undefined) continue
    assert.ok(told.reasons.includes('held'), `${label}, but it was held until ${until}`)
  }
  if (!told.reasons.includes('held')) return
  const asked = arrivals.some(({ retryAfterMs, heardAt }) => retryAfterMs !== undefined && heardAt <= told.toldAt)
  assert.ok(asked, `${label}, but no receiver asked for silence`)
}

/** Nothing of it arrives before the instant it was said to move at. */
function notBefore(told: Prediction, nextAt: number, arrivals: readonly Arrival[]): void {
  const { toldAt, message, reason } = told
  const early = arrivals.find(
    (arrival) =>
      arrival.at > toldAt + underWayMs &&
      arrival.at < nextAt - earlyMs &&
      isAbout(told, arrival) &&
      arrival.at > toldAt,
  )
  const what = message === 0 ? `endpoint ${told.endpoint}` : `message ${message} at ${told.endpoint}`
  assert.equal(
    early,
    undefined,
    `${what} was said to wait (${reason}) until ${nextAt} at ${toldAt}, and came at ${early?.at}`,
  )
}

/** Unless something else came in between, it does move then: it is tried, or in flight already. */
function movesThen(
  told: Prediction,
  nextAt: number,
  endpoint: EndpointFacts,
  arrivals: readonly Arrival[],
  history: History,
): void {
  const { toldAt, message, reasons, reason } = told
  if (reasons.some((each) => openEnded.has(each))) return
  // Which of them is the probe, or the next of few, is nobody's to say.
  if (message !== 0 && (reasons.includes('circuit_open') || reasons.includes('slowed'))) return
  // Something newer took its place meanwhile, as it was told.
  if (reasons.includes('coalescing') && history.gaveWay.has(deliveryOf(told.endpoint, message))) return
  // Its application's rate may go to its other endpoints, and nobody knows of it who does not own the lane.
  if (history.appRates.has(endpoint.app)) return
  const from = nextAt - earlyMs
  const until = nextAt + lateMs
  if (mayEndUntried(told, endpoint, history, until)) return
  // A delayed delivery takes its place in the queue only then, and the deliveries in front of it are unknown until then.
  if (endpoint.order !== 'none' && reasons.includes('scheduled')) return
  if (until >= history.endedAt || nextAt < toldAt - earlyMs) return
  // Others may take every slot.
  const busy = arrivals.filter(({ at, endedAt }) => at < until && endedAt > from).length
  if (busy >= endpoint.concurrency || isCrowded(history, from, until)) return
  // Behind a head it is the head that is tried then.
  const isAnyone = message === 0 || reasons.includes('behind_head')
  const tried = history.tries.some(
    (each) =>
      each.endpoint === told.endpoint && each.at >= from && each.at <= until && (isAnyone || keyOf(each) === message),
  )
  const what = message === 0 ? `endpoint ${told.endpoint}` : `message ${message} at ${told.endpoint}`
  assert.ok(tried, `at ${toldAt} ${what} was said to move at ${nextAt} (${reason}), and did not`)
}

/** Whether what waits may be given up instead: one delivery at the instant that was told, others who knows when. */
function mayEndUntried(told: Prediction, { key, bounds }: EndpointFacts, history: History, until: number): boolean {
  if (bounds.overflow === 'drop_oldest') return true
  if (told.message !== 0) return told.endsAt !== undefined && told.endsAt < until + earlyMs
  const isForHere = history.published.filter(({ endpoints }) => endpoints.includes(key))
  return (
    bounds.maxAgeMs !== null ||
    isForHere.some(
      ({ expiresInMs, publishedFrom }) => expiresInMs !== null && publishedFrom + expiresInMs < until + earlyMs,
    )
  )
}

/** Reasons that say nothing of when. */
const openEnded = new Set([
  'behind_others',
  'probing',
  'application_rate',
  'in_flight',
  'crowded',
  'store_trouble',
  'lease_unsure',
  'owner_silent',
])

/** An endpoint said to wait for its retries may get what is published meanwhile. */
function isAbout(told: Prediction, arrival: Arrival): boolean {
  const key = keyOf(arrival)
  if (told.message !== 0) return key === told.message
  const mayBePassed = ['waiting_for_retry', 'scheduled', 'coalescing', 'behind_head'].includes(told.reason)
  return !mayBePassed || key <= told.newestKey
}

function keyOf({ message }: Pick<Arrival, 'message'>): number {
  return decodeKey('msg', message) ?? 0
}

/** Whether anything happened that nobody who was asked before could have known of. */
function happened(history: History, endpoint: EndpointFacts, from: number, until: number): boolean {
  const { key } = endpoint
  const within = (at: number) => at >= from && at <= until
  return (
    jumped(history, from, until) ||
    history.disturbances.some((each) => each.from <= until && each.until >= from) ||
    history.stops.some((stop) => stop.endpoint === key && (within(stop.from) || within(stop.until))) ||
    history.arrivals.some(
      (arrival) => arrival.endpoint === key && arrival.retryAfterMs !== undefined && within(arrival.heardAt),
    ) ||
    history.circuits.some(({ endpoint: changed, notAfter }) => changed === key && within(notAfter)) ||
    history.orders.some(({ endpoint: ordered, at }) => ordered === key && within(at)) ||
    history.untried.some(({ endpoint: ended, at }) => ended === key && within(at)) ||
    history.arrivals.some(({ endpoint: told, crowded, heardAt }) => told === key && crowded && within(heardAt)) ||
    history.tries.some(({ endpoint: tried, at, isGone }) => tried === key && isGone && at <= until) ||
    history.arrivals.some(({ worker }) => worker.losses.some((loss) => loss.at <= until && loss.knownAt >= from))
  )
}

function jumped(history: History, from: number, until: number): boolean {
  return history.jumps.some((at) => at >= from && at <= until)
}

/** Whether a worker with few slots may have had all of them taken. */
function isCrowded(history: History, from: number, until: number): boolean {
  return (
    history.arrivals.filter(({ at, endedAt }) => at < until && endedAt > from + 1000 && endedAt - at > 1000).length >= 2
  )
}
