import assert from 'node:assert/strict'
import type { CircuitPolicy } from '../../src/domain/flow.ts'
import type { EndpointFacts, History, WorkerFact } from './history.ts'

/** A transition of an endpoint's circuit that was recorded. */
export interface CircuitFact {
  readonly endpoint: number
  readonly kind: 'opened' | 'half_open' | 'closed'
  readonly worker: WorkerFact
  /** It happened at some moment between these two. */
  readonly notBefore: number
  readonly notAfter: number
  readonly recordedAt: number
  /** How long it opened for; null until an operator closes it. */
  readonly openForMs: number | null
  readonly reason: string
}

/** One attempt, whether or not a receiver saw it. */
export interface BegunFact {
  readonly at: number
  readonly endpoint: number
  readonly worker: WorkerFact
  endedAt: number
}

/** An operator's word on a circuit. */
export interface OrderFact {
  readonly endpoint: number
  readonly action: 'open' | 'close' | 'reset'
  readonly at: number
}

/** How an endpoint's receiver is to be judged in this world. */
export interface HealthWish {
  readonly circuit: CircuitPolicy | 'off'
  readonly adaptive: boolean
}

/** The promises of circuits and paces, for one endpoint. */
export function healthIsKept(endpoint: EndpointFacts, history: History): void {
  const begun = history.begun.filter((one) => one.endpoint === endpoint.key)
  const circuits = history.circuits.filter((one) => one.endpoint === endpoint.key)
  for (const [i, fact] of circuits.entries()) {
    if (fact.kind !== 'opened') continue
    const over = endOf(endpoint, history, fact)
    openIsSilent(fact, begun, over, history)
    const closed = circuits.slice(i + 1).find(({ kind }) => kind === 'closed')
    oneAtATime(fact, begun, Math.min(over, closed?.notBefore ?? Number.POSITIVE_INFINITY))
  }
  for (const fact of circuits) if (fact.kind === 'closed') rampIsClimbed(endpoint, fact, begun, history)
  crowdingSlowsDown(endpoint, begun, history)
  if (history.attentive) openOrdersAreObeyed(endpoint, begun, history)
}

/** From when on an operator, an enabled endpoint or a clock that was set may have ended it. */
function endOf({ key }: EndpointFacts, { orders, healedAt, jumps }: History, fact: CircuitFact): number {
  const its = orders.filter(({ endpoint }) => endpoint === key)
  // A command may be carried out after it was taken back: the answer was on its way.
  const order = its.findLast(({ action, at }) => action === 'open' && at <= fact.notAfter)
  const since = fact.reason === 'operator' && order ? order.at : fact.notBefore
  const ended = its.filter(({ action, at }) => action !== 'open' && at >= since)
  const jumped = jumps.filter((at) => at >= fact.notBefore)
  return Math.min(healedAt, ...ended.map(({ at }) => at), ...jumped)
}

/** Whether its circuit was known to be open all this while. */
export function isOpenThroughout(endpoint: EndpointFacts, history: History, from: number, until: number): boolean {
  const circuits = history.circuits.filter((one) => one.endpoint === endpoint.key)
  const fact = circuits.findLast(({ recordedAt }) => recordedAt < from)
  if (fact?.kind !== 'opened') return false
  const next = circuits[circuits.indexOf(fact) + 1]
  const over = Math.min(endOf(endpoint, history, fact), next?.notBefore ?? Number.POSITIVE_INFINITY)
  return until < Math.min(over, fact.notBefore + (fact.openForMs ?? Number.POSITIVE_INFINITY) - 1)
}

/** While it is open nothing is begun, by its owner from that moment on, by anybody else once it is recorded. */
function openIsSilent(fact: CircuitFact, begun: readonly BegunFact[], over: number, history: History): void {
  const until = Math.min(over, fact.notBefore + (fact.openForMs ?? Number.POSITIVE_INFINITY) - 1)
  const later = history.circuits.slice(history.circuits.indexOf(fact) + 1)
  const next = later.find(({ endpoint, kind }) => endpoint === fact.endpoint && kind !== 'opened')
  // Transitions are recorded in the order in which they happen, also where a worker stood still and no moment is known.
  const ended = next ? Math.max(next.notBefore, fact.notAfter) : Number.POSITIVE_INFINITY
  for (const one of begun) {
    const since = one.worker === fact.worker ? fact.notAfter : fact.recordedAt
    assert.ok(
      one.at <= since || one.at >= until || one.at >= ended,
      `${fact.endpoint} got an attempt at ${one.at}, though its circuit was open from ${since} to ${until}`,
    )
  }
}

/** Until it is closed at most one attempt is under way that was begun since it opened. */
function oneAtATime(fact: CircuitFact, begun: readonly BegunFact[], until: number): void {
  const probes = begun.filter(({ at }) => at > fact.recordedAt && at < until)
  for (const [i, probe] of probes.entries()) {
    const next = probes[i + 1]
    if (next === undefined || next.at >= probe.endedAt) continue
    const isLost = probe.worker.losses.some(({ at }) => at <= next.at)
    assert.ok(isLost, `${fact.endpoint} was probed at ${next.at}, though the probe of ${probe.at} was under way`)
  }
}

/** After it closed, no more is begun than the climbing rate allows. */
function rampIsClimbed(
  endpoint: EndpointFacts,
  fact: CircuitFact,
  begun: readonly BegunFact[],
  history: History,
): void {
  const { circuit } = endpoint.health
  if (circuit === 'off' || circuit.rampMs === 0 || fact.reason === 'policy') return
  const full = endpoint.rate ? endpoint.rate.rate / endpoint.rate.periodMs : endpoint.concurrency * 0.02
  const { rampMs } = circuit
  const until = fact.notBefore + rampMs / 2
  const isReset = history.orders.some(
    ({ endpoint: key, action, at }) =>
      key === endpoint.key && action === 'reset' && at >= fact.notBefore - 60_000 && at <= until,
  )
  if (isReset || endOf(endpoint, history, fact) <= until) return
  const sent = begun.filter(({ at }) => at > fact.notAfter && at < until).length
  const seconds = until - fact.notBefore
  // From a twentieth of the rate, in a straight line.
  const allowed = full * (0.05 * seconds + (seconds * seconds) / (2 * rampMs))
  assert.ok(
    sent <= allowed + 2,
    `${endpoint.key} got ${sent} in the ${seconds} ms after its circuit closed, ${allowed.toFixed(1)} allowed`,
  )
}

/** A 429 without a hint halves the rate: for two seconds, which is next to nothing of the way back. */
function crowdingSlowsDown(endpoint: EndpointFacts, begun: readonly BegunFact[], history: History): void {
  if (!endpoint.health.adaptive || !endpoint.rate) return
  const windowMs = 2000
  const half = endpoint.rate.rate / endpoint.rate.periodMs / 2
  for (const refused of history.arrivals) {
    if (refused.endpoint !== endpoint.key || !refused.crowded || refused.heardAt === Number.POSITIVE_INFINITY) continue
    const until = refused.heardAt + windowMs
    const sent = begun.filter(({ at }) => at > refused.heardAt && at <= until)
    // A worker that missed the signal of a command hears of it within two seconds; the next owner of the lane carries it out, too.
    const hearingMs = history.attentive ? 0 : 2000
    const isObeyedLate = !history.attentive && sent.some(({ worker }) => worker !== refused.worker)
    const isForgotten = history.orders.some(
      ({ endpoint: key, at, action }) =>
        key === endpoint.key && action === 'reset' && at <= until && (at >= refused.at - hearingMs || isObeyedLate),
    )
    const isLost = refused.worker.losses.some(({ at }) => at <= until)
    if (isForgotten || isLost || history.jumps.some((at) => at >= refused.at && at <= until)) continue
    if (history.healedAt <= until && history.healedAt >= refused.at) continue
    const allowed = half * windowMs * 1.05
    assert.ok(
      sent.length <= allowed + 1,
      `${endpoint.key} got ${sent.length} in two seconds after it said that it was too much, ${allowed.toFixed(1)} allowed`,
    )
  }
}

/** Once an operator opened it, and everybody has had the time to hear of it, nothing is begun until one closes it. */
function openOrdersAreObeyed(endpoint: EndpointFacts, begun: readonly BegunFact[], history: History): void {
  const orders = history.orders.filter(({ endpoint: key }) => key === endpoint.key)
  for (const [i, order] of orders.entries()) {
    if (order.action !== 'open') continue
    const until = orders[i + 1]?.at ?? Number.POSITIVE_INFINITY
    const early = begun.find(({ at }) => at > order.at + 2000 && at < until)
    assert.equal(
      early,
      undefined,
      `${endpoint.key} got an attempt at ${early?.at}, though it was opened at ${order.at}`,
    )
  }
}

/**
 * In any window of w an application's endpoints together get at most burst + rate × w. Each worker may save up one, so
 * with more workers than the burst that is how many it is.
 */
export function applicationsAreNotFlooded(history: History, workers: number): void {
  for (const [app, rate] of history.appRates) {
    const keys = new Set(history.endpoints.filter((endpoint) => endpoint.app === app).map(({ key }) => key))
    const times = history.begun.filter(({ endpoint }) => keys.has(endpoint)).map(({ at }) => at)
    const burst = Math.max(1, Math.floor(rate / 10), workers)
    let least = Number.POSITIVE_INFINITY
    for (const [i, at] of times.entries()) {
      const term = i - (rate * at) / 1000
      least = Math.min(least, term)
      const excess = term - least + 1 - burst
      assert.ok(excess <= 1e-6, `application ${app} got ${excess.toFixed(2)} more than its rate by ${at}`)
    }
  }
}
