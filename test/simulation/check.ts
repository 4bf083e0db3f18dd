import assert from 'node:assert/strict'
import type { Attempt } from '../../src/domain/delivery.ts'
import { keyTime } from '../../src/domain/ids.ts'
import type { Store } from '../../src/store/store.ts'
import { endsAreDue, nothingComesTooLate } from './check-bounds.ts'
import { deliveryOf, noteWhatGaveWay, onlyTheNewestStay } from './check-coalescing.ts'
import { predictionsComeTrue } from './check-explain.ts'
import { applicationsAreNotFlooded, healthIsKept } from './check-health.ts'
import { orderIsKept } from './check-order.ts'
import { payloadsStayInRegions, regionsAreKept } from './check-regions.ts'
import { formsAreFixed } from './check-shaping.ts'
import type { Arrival, EndpointFacts, History } from './history.ts'

/** How many workers a world has at most. */
const mostWorkers = 3

/** Checks every promise that a finished run can show broken. Throws with the sentence of the first one. */
export async function check(history: History, store: Store): Promise<void> {
  noInvention(history)
  await noteWhatGaveWay(history, store)
  assert.deepEqual(history.unfenced, [], 'a worker recorded a result after it was declared dead')
  applicationsAreNotFlooded(history, mostWorkers)
  applicationsAreNotCrowded(history)
  for (const endpoint of history.endpoints) {
    const arrivals = history.arrivals.filter((arrival) => arrival.endpoint === endpoint.key)
    onlyOwnersSend(arrivals)
    neverFlooded(endpoint, arrivals)
    neverCrowded(endpoint, arrivals)
    duplicatesOnlyAfterDeaths(arrivals)
    waitsAreKept(endpoint, arrivals, history)
    holdsAreObeyed(endpoint, arrivals, history)
    if (history.attentive) stopsAreSilent(endpoint, arrivals, history)
    onlyTheNewestStay(endpoint, history)
    nothingComesTooLate(endpoint, history)
    healthIsKept(endpoint, history)
    orderIsKept(endpoint, arrivals, history)
    formsAreFixed(endpoint, arrivals)
    predictionsComeTrue(endpoint, arrivals, history)
    regionsAreKept(endpoint, arrivals, history)
  }
  payloadsStayInRegions(history)
  for (const fact of history.published) {
    if (fact.state !== 'refused' && fact.key !== 0) await exactlyOneEnd(fact, history, store)
  }
  const { pending } = await store.counts()
  assert.equal(pending, 0, `${pending} deliveries never ended`)
}

/** Every arrival was published, for that endpoint, with those bytes. */
function noInvention(history: History): void {
  const byBody = new Map(history.published.map((fact) => [fact.body, fact]))
  const bodyOf = new Map<string, string>()
  for (const arrival of history.arrivals) {
    const fact = byBody.get(arrival.body)
    assert.ok(fact, `an arrival nobody published: ${arrival.body}`)
    assert.notEqual(fact.state, 'refused', `a refused publish was delivered: ${arrival.body}`)
    assert.ok(fact.endpoints.includes(arrival.endpoint), `${arrival.body} reached an endpoint it was not for`)
    assert.equal(bodyOf.get(arrival.message) ?? arrival.body, arrival.body, 'one id, two bodies')
    bodyOf.set(arrival.message, arrival.body)
  }
}

/** A worker that was declared dead sends nothing, even before it knows. */
function onlyOwnersSend(arrivals: readonly Arrival[]): void {
  for (const { at, worker } of arrivals) {
    const lost = worker.losses.some((loss) => loss.at < at && at < loss.knownAt)
    assert.ok(!lost, `${worker.name} sent at ${at} although it had been declared dead`)
  }
}

/** In any window of w an endpoint gets at most burst + rate × w. */
function neverFlooded(endpoint: EndpointFacts, arrivals: readonly Arrival[]): void {
  if (!endpoint.rate) return
  const { rate, periodMs, burst } = endpoint.rate
  const times = arrivals.map((arrival) => arrival.at)
  for (let from = 0; from < times.length; from++) {
    for (let to = from; to < times.length; to++) {
      const windowMs = (times[to] as number) - (times[from] as number)
      const allowed = burst + (rate / periodMs) * windowMs
      const count = to - from + 1
      assert.ok(count <= allowed + 1e-9, `flooded: ${count} in ${windowMs} ms, ${allowed.toFixed(2)} allowed`)
    }
  }
}

/**
 * Never more than `concurrency` requests are open at once. A process that stands still past its lease cannot hang up;
 * what it left open is not counted once it was declared dead.
 */
function neverCrowded(endpoint: EndpointFacts, arrivals: readonly Arrival[]): void {
  for (const arrival of arrivals) {
    const open = openWith(arrival, arrivals)
    assert.ok(open <= endpoint.concurrency, `crowded: ${open} at once, ${endpoint.concurrency} allowed`)
  }
}

/** The same for all endpoints of an application together. */
function applicationsAreNotCrowded({ appSlots, endpoints, arrivals }: History): void {
  for (const [app, slots] of appSlots) {
    const keys = new Set(endpoints.filter((endpoint) => endpoint.app === app).map(({ key }) => key))
    const ofApp = arrivals.filter(({ endpoint }) => keys.has(endpoint))
    for (const arrival of ofApp) {
      const open = openWith(arrival, ofApp)
      assert.ok(open <= slots, `application ${app} is crowded: ${open} at once, ${slots} allowed`)
    }
  }
}

/** How many requests are open when one arrives, itself included. */
function openWith(arrival: Arrival, arrivals: readonly Arrival[]): number {
  return arrivals.filter(
    (other) => other.at <= arrival.at && other.endedAt > arrival.at && !lostBetween(other, arrival),
  ).length
}

/** A delivery that a worker heard succeed arrives again only if that worker died or lost its ownership since. */
function duplicatesOnlyAfterDeaths(arrivals: readonly Arrival[]): void {
  for (const trail of trails(arrivals)) {
    for (const [i, arrival] of trail.entries()) {
      const next = trail[i + 1]
      if (arrival.heardAs !== 'delivered' || !next) continue
      assert.ok(
        lostBetween(arrival, next),
        `${arrival.message} came again after ${arrival.worker.name} heard it succeed`,
      )
    }
  }
}

/** After a heard failure the next try comes no sooner than the policy's shortest wait, or than the receiver asked for. */
function waitsAreKept(endpoint: EndpointFacts, arrivals: readonly Arrival[], { jumps, retried }: History): void {
  for (const trail of trails(arrivals)) {
    for (const [i, arrival] of trail.entries()) {
      const next = trail[i + 1]
      if (arrival.heardAs !== 'failed' || !next || lostBetween(arrival, next)) continue
      if (retried.has(`${endpoint.key} ${arrival.body}`)) continue
      if (jumps.some((at) => at >= arrival.at && at <= next.at)) continue
      // Refused connections never arrive, so which wait this was is not to be seen here; exactlyOneEnd checks each.
      const { leastWaitsMs, retryAfter } = endpoint
      const asked = retryAfter === 'receiver' ? arrival.retryAfterMs : undefined
      const least = asked ?? Math.min(...leastWaitsMs)
      const gap = next.at - arrival.heardAt
      assert.ok(gap >= least - 1, `${arrival.message} was retried after ${gap} ms, ${least} were due`)
    }
  }
}

/**
 * After a Retry-After the endpoint hears nothing until it ends: from the worker that read it as of that moment, from
 * any other as of the moment it is recorded.
 */
function holdsAreObeyed(endpoint: EndpointFacts, arrivals: readonly Arrival[], history: History): void {
  const records = history.holds.filter((hold) => hold.endpoint === endpoint.key)
  for (const refused of arrivals) {
    if (refused.retryAfterMs === undefined || refused.heardAt === Number.POSITIVE_INFINITY) continue
    const until = refused.heardAt + refused.retryAfterMs
    for (const next of arrivals) {
      // An attempt that was connecting when the answer came cannot be called back.
      if (next.at <= refused.heardAt + 5 || next.at >= until - 1) continue
      const sameHands = next.worker === refused.worker && !lostBetween(refused, next)
      const recorded = records.some(
        ({ worker, recordedAt }) =>
          // Another worker's record is of another answer, and one made after a loss is, too.
          worker === refused.worker &&
          recordedAt >= refused.heardAt &&
          recordedAt < next.at - 5 &&
          !lostBetween(refused, { at: recordedAt }),
      )
      assert.ok(!sameHands && !recorded, `a Retry-After until ${until} was cut short at ${next.at}`)
    }
  }
}

/** Hearing of a stop, and trying again when the store was busy just then, takes no longer than this. */
const hearingMs = 1500

/** An endpoint that was paused or deleted hears nothing more, but for what was under way. */
function stopsAreSilent(endpoint: EndpointFacts, arrivals: readonly Arrival[], history: History): void {
  for (const { endpoint: key, kind, from, until } of history.stops) {
    if (key !== endpoint.key) continue
    const late = arrivals.find((arrival) => arrival.at > from + hearingMs && arrival.at < until)
    assert.equal(late, undefined, `an endpoint ${kind} at ${from} was sent something at ${late?.at}`)
  }
}

/** Every accepted delivery ends once: delivered or dead, with a gapless trail that keeps to its budget. */
async function exactlyOneEnd(fact: History['published'][number], history: History, store: Store): Promise<void> {
  const attempts = await store.attemptsOf(fact.key)
  for (const key of fact.endpoints) {
    const endpoint = history.endpoints.find((facts) => facts.key === key) as EndpointFacts
    const trail = attempts.filter((attempt) => attempt.endpoint === key)
    const dead = await store.findDead(key, fact.key)
    const tried = trail.filter((attempt) => attempt.code === 'delivered').length + (dead ? 1 : 0)
    const gaveWay = history.gaveWay.has(deliveryOf(key, fact.key))
    // A clock set back makes a window look open whose delivery is being sent; that it arrived is then what counts.
    const ends = tried + (gaveWay && (tried === 0 || history.jumps.length === 0) ? 1 : 0)
    const taken = history.arrivals.some(
      (arrival) => arrival.endpoint === key && arrival.body === fact.body && arrival.taken,
    )
    const label = `${fact.body} at ${key}, published ${keyTime(fact.key)}`
    const deleted = history.stops.some((stop) => stop.endpoint === key && stop.kind === 'deleted')
    // A delivery that waited for a deleted endpoint is cancelled, which leaves no trace.
    if (!deleted || ends > 1) assert.equal(ends, 1, `${label}: ${ends} ends`)
    if (tried > 0 && !dead) assert.ok(taken, `${label}: recorded as delivered, but no receiver took it`)
    assert.deepEqual(
      trail.map((attempt) => attempt.n),
      trail.map((_, i) => i + 1),
      `${label}: the trail has gaps`,
    )
    if (dead) endsAreDue(dead, fact, endpoint, history)
    if (history.retried.has(`${key} ${fact.body}`)) continue
    if (history.jumps.length === 0) scheduleIsKept(trail, endpoint, label)
    const budget = endpoint.leastWaitsMs.length + 1
    assert.ok(trail.length <= budget, `${label}: ${trail.length} attempts, ${budget} allowed`)
    if (dead?.reason === 'exhausted') assert.equal(trail.length, budget, `${label}: died before its budget was spent`)
  }
}

/** Each recorded attempt comes no sooner than the one before it said, and that was no sooner than the policy says, or the receiver. */
function scheduleIsKept(trail: readonly Attempt[], endpoint: EndpointFacts, label: string): void {
  for (const [i, attempt] of trail.entries()) {
    const next = trail[i + 1]
    if (!next) continue
    assert.ok(attempt.nextAt !== null && next.at >= attempt.nextAt - 1, `${label}: attempt ${next.n} came early`)
    const mayHaveAsked = attempt.status === 429 || attempt.status === 503
    if (mayHaveAsked && endpoint.retryAfter === 'receiver') continue
    const waited = attempt.nextAt - attempt.at - attempt.durationMs
    assert.ok(
      waited >= (endpoint.leastWaitsMs[i] as number) - 2,
      `${label}: attempt ${next.n} was due after ${waited} ms`,
    )
  }
}

function trails(arrivals: readonly Arrival[]): Iterable<Arrival[]> {
  return Map.groupBy(arrivals, (arrival) => arrival.message).values()
}

function lostBetween(arrival: Arrival, next: Pick<Arrival, 'at'>): boolean {
  return arrival.worker.losses.some((loss) => loss.at <= next.at && loss.knownAt >= arrival.at)
}
