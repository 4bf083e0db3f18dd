import assert from 'node:assert/strict'
import { decodeKey } from '../../src/domain/ids.ts'
import { deliveryOf } from './check-coalescing.ts'
import { isOpenThroughout } from './check-health.ts'
import type { Arrival, EndpointFacts, History } from './history.ts'
import type { Prediction } from './observer.ts'

/** An attempt that had begun when the caller asked may still arrive: its body is read and its connection made. */
const underWayMs = 100
/** Instants are stored in whole milliseconds, and an explanation is as old as its answer. */
const earlyMs = 60
/** A worker looks for lanes every second, and a busy store is left alone for a while. */
const lateMs = 3000

/** Each answer to `why` was true, and its forecast came to be. */
export function predictionsComeTrue(endpoint: EndpointFacts, arrivals: readonly Arrival[], history: History): void {
  for (const prediction of history.predictions) {
    if (prediction.endpoint !== endpoint.key) continue
    isTrue(prediction, arrivals, history)
    if (endpoint.rate === undefined) {
      const label = `${endpoint.key}, which has no rate limit, was said to be limited by it at ${prediction.answeredAt}`
      assert.ok(!prediction.reasons.includes('rate_limited'), label)
    }
    if (endpoint.order === 'none' || endpoint.deadHead === 'skip') {
      const label = `${endpoint.key}, where no head blocks, was said to be blocked by one at ${prediction.answeredAt}`
      assert.ok(!prediction.reasons.includes('head_blocked'), label)
    }
    if (
      prediction.reasons.length > 0 &&
      isOpenThroughout(endpoint, history, prediction.askedAt, prediction.answeredAt)
    ) {
      const label = `${endpoint.key}, whose circuit was open, was said to be ${prediction.reasons} at ${prediction.answeredAt}`
      assert.ok(prediction.reasons.includes('circuit_open') || prediction.reasons.includes('opened_by_hand'), label)
    }
    const nextAt = prediction.nextAt ?? movingAt(prediction)
    if (nextAt === undefined || happened(history, endpoint, prediction.askedAt, nextAt)) continue
    // The next worker that decides something moves a resting delivery along with the clock.
    if (jumped(history, prediction.askedAt - lateMs, prediction.askedAt)) continue
    // A head that was read before the clock jumped waits for as long as it was to then; the store tells of it by the clock.
    const isOfHead = prediction.reason === 'behind_head' || prediction.reason === 'waiting_for_retry'
    if (endpoint.order !== 'none' && isOfHead && prediction.message !== 0 && jumped(history, 0, prediction.askedAt))
      continue
    // A worker that has missed the news of a message does not know that it may pass those of other keys.
    const isUnaware = endpoint.order === 'key' && prediction.message === 0 && prediction.reason === 'behind_head'
    if (isUnaware && !history.attentive) continue
    // A worker that takes the lane over has a share of its own of the application's rate.
    if (prediction.reason !== 'application_rate') notBefore(prediction, nextAt, arrivals)
    if (!happened(history, endpoint, nextAt, nextAt + lateMs))
      movesThen(prediction, nextAt, endpoint, arrivals, history)
  }
}

/** A delivery that nothing keeps, and that is not under way, moves at once. */
function movingAt({ reason, inFlight, answeredAt }: Prediction): number | undefined {
  return (reason === 'delivering' || reason === 'sending') && inFlight === 0 ? answeredAt : undefined
}

/** An answer names each cause for as long as it holds an endpoint. */
function isTrue(prediction: Prediction, arrivals: readonly Arrival[], history: History): void {
  const { askedAt, answeredAt, endpoint, reason, reasons, inFlight } = prediction
  const label = `at ${answeredAt} ${endpoint} was said to be ${[reason, ...reasons]}`
  const pauses = history.stops.filter((stop) => stop.endpoint === endpoint && stop.kind === 'paused')
  const duringAll = pauses.some(({ from, until }) => from < askedAt && until > answeredAt)
  const during = pauses.some(({ from, until }) => from <= answeredAt && until >= askedAt)
  if (reasons.length > 0 && duringAll)
    assert.ok(reasons.includes('paused') || reasons.includes('disabled'), `${label}, but not paused`)
  if (reasons.includes('paused')) assert.ok(during, `${label}, but nobody paused it`)

  // An attempt that a receiver had open all the while is in flight for its owner.
  const open = arrivals.filter((arrival) => arrival.at <= askedAt && arrival.endedAt > answeredAt)
  const isOneOwners = open.every(
    ({ worker }) => worker === open[0]?.worker && worker.losses.every(({ at }) => at > answeredAt),
  )
  if (inFlight !== undefined && isOneOwners) {
    assert.ok(inFlight >= open.length, `${label} with ${inFlight} in flight, but ${open.length} were`)
  }
  if (reason === 'delivered' && prediction.message !== 0) {
    const taken = arrivals.some(
      (arrival) => arrival.taken && keyOf(arrival) === prediction.message && arrival.at <= answeredAt,
    )
    assert.ok(taken, `${label}, but no receiver took it`)
  }
  namesHold(prediction, arrivals, history, label)
}

/** An explanation names a Retry-After from the moment its owner knows it, while anything waits. */
function namesHold(prediction: Prediction, arrivals: readonly Arrival[], history: History, label: string): void {
  if (prediction.reasons.length === 0 || jumped(history, 0, prediction.answeredAt)) return
  for (const arrival of arrivals) {
    if (arrival.retryAfterMs === undefined || arrival.heardAt >= prediction.askedAt) continue
    const until = arrival.heardAt + arrival.retryAfterMs
    const isKept = arrival.worker.losses.every(({ at }) => at > prediction.answeredAt)
    // A retry that its owner reported may have cleared nothing: holds only ever grow.
    if (!isKept || until <= prediction.answeredAt + earlyMs || prediction.inFlight === undefined) continue
    assert.ok(prediction.reasons.includes('held'), `${label}, but it was held until ${until}`)
  }
  if (!prediction.reasons.includes('held')) return
  const asked = arrivals.some(
    ({ retryAfterMs, heardAt }) => retryAfterMs !== undefined && heardAt <= prediction.answeredAt,
  )
  assert.ok(asked, `${label}, but no receiver asked for silence`)
}

/** Nothing of it arrives before the instant it was said to move at. */
function notBefore(prediction: Prediction, nextAt: number, arrivals: readonly Arrival[]): void {
  const { answeredAt, message, reason } = prediction
  const early = arrivals.find(
    (arrival) =>
      arrival.at > answeredAt + underWayMs &&
      arrival.at < nextAt - earlyMs &&
      isAbout(prediction, arrival) &&
      arrival.at > answeredAt,
  )
  const what = message === 0 ? `endpoint ${prediction.endpoint}` : `message ${message} at ${prediction.endpoint}`
  assert.equal(
    early,
    undefined,
    `${what} was said to wait (${reason}) until ${nextAt} at ${answeredAt}, and came at ${early?.at}`,
  )
}

/** Unless something else came in between, it does move then: it is tried, or in flight already. */
function movesThen(
  prediction: Prediction,
  nextAt: number,
  endpoint: EndpointFacts,
  arrivals: readonly Arrival[],
  history: History,
): void {
  const { answeredAt, message, reasons, reason } = prediction
  if (reasons.some((each) => openEnded.has(each))) return
  // Which of them is the probe, or the next of few, cannot be known.
  if (message !== 0 && (reasons.includes('circuit_open') || reasons.includes('slowed'))) return
  // A newer message took its place meanwhile.
  if (reasons.includes('coalescing') && history.gaveWay.has(deliveryOf(prediction.endpoint, message))) return
  // Its application's rate may go to its other endpoints, which only the owner of the lane knows.
  if (history.appRates.has(endpoint.app) || history.appSlots.has(endpoint.app)) return
  const from = nextAt - earlyMs
  const until = nextAt + lateMs
  if (mayEndUntried(prediction, endpoint, history, until)) return
  // A delayed delivery takes its place in the queue only then, and the deliveries in front of it are unknown until then.
  if (endpoint.order !== 'none' && reasons.includes('scheduled')) return
  if (until >= history.endedAt || nextAt < answeredAt - earlyMs) return
  // Others may take every slot.
  const busy = arrivals.filter(({ at, endedAt }) => at < until && endedAt > from).length
  if (busy >= endpoint.concurrency || isCrowded(history, from, until)) return
  // Behind a head it is the head that is tried then.
  const isAnyone = message === 0 || reasons.includes('behind_head')
  const tried = history.tries.some(
    (each) =>
      each.endpoint === prediction.endpoint &&
      each.at >= from &&
      each.at <= until &&
      (isAnyone || keyOf(each) === message),
  )
  const what = message === 0 ? `endpoint ${prediction.endpoint}` : `message ${message} at ${prediction.endpoint}`
  assert.ok(tried, `at ${answeredAt} ${what} was said to move at ${nextAt} (${reason}), and did not`)
}

/** Whether waiting deliveries may be given up instead: one at the explained instant, others at any instant. */
function mayEndUntried(
  prediction: Prediction,
  { key, bounds }: EndpointFacts,
  history: History,
  until: number,
): boolean {
  if (bounds.overflow === 'drop_oldest') return true
  if (prediction.message !== 0) return prediction.endsAt !== undefined && prediction.endsAt < until + earlyMs
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
function isAbout(prediction: Prediction, arrival: Arrival): boolean {
  const key = keyOf(arrival)
  if (prediction.message !== 0) return key === prediction.message
  const mayBePassed = ['waiting_for_retry', 'scheduled', 'coalescing', 'behind_head'].includes(prediction.reason)
  return !mayBePassed || key <= prediction.newestKey
}

function keyOf({ message }: Pick<Arrival, 'message'>): number {
  return decodeKey('msg', message) ?? 0
}

/** Whether anything happened that no earlier explanation could have known. */
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
    history.arrivals.some(({ endpoint, crowded, heardAt }) => endpoint === key && crowded && within(heardAt)) ||
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
