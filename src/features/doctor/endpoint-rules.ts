import { aboutMany, count, moment, percent, perSecond, span } from '../../domain/phrases.ts'
import type { DoctorFacts, DoctorLimits, EndpointFacts, Rule, RuleFinding } from './facts.ts'
import { isAlive } from './system-rules.ts'

/** The rules about endpoints. The first rule that an endpoint meets names the cause of its waiting deliveries. */
export const endpointRules: readonly Rule[] = [
  endpointRule({
    code: 'encryption_key_missing',
    severity: 'critical',
    meaning: 'The secret or the headers of an endpoint do not open with the encryption keys of this server.',
    remedy: 'Add the key to `encryptionKey`, or give the endpoint a new secret.',
    when: ({ isSealedShut }) => isSealedShut,
    say: (endpoint) => ({
      sentence: `The secret or the headers of ${nameOf(endpoint)} do not open: an encryption key is missing, or the record was changed. Nothing can be sent to it.`,
      command: `sluice endpoint get ${operands(endpoint)}`,
    }),
  }),
  endpointRule({
    code: 'endpoint_disabled',
    meaning: 'An endpoint is disabled, and deliveries wait for it.',
    remedy: 'Fix the receiver, then enable the endpoint; the deliveries are sent.',
    when: ({ reason, waiting }) => reason === 'disabled' && waiting > 0,
    say: (endpoint) => ({
      evidence: lastErrorOf(endpoint),
      command: `sluice endpoint update ${operands(endpoint)} --enable`,
    }),
  }),
  endpointRule({
    code: 'endpoint_paused',
    meaning: 'An operator paused an endpoint, and deliveries wait for it.',
    remedy: 'Resume the endpoint.',
    when: ({ reason, waiting }) => reason === 'paused' && waiting > 0,
    say: (endpoint) => ({ command: `sluice endpoint resume ${operands(endpoint)}` }),
  }),
  endpointRule({
    code: 'circuit_opened_by_hand',
    meaning: 'An operator opened the circuit of an endpoint, and deliveries wait for it.',
    remedy: 'Close the circuit.',
    when: ({ reason, waiting }) => reason === 'opened_by_hand' && waiting > 0,
    say: (endpoint) => ({ command: `sluice circuit close ${operands(endpoint)}` }),
  }),
  endpointRule({
    code: 'head_blocked',
    meaning: 'The first delivery of an ordered lane has no attempts left, and all others wait behind it.',
    remedy: 'Retry the delivery, or skip it with `sluice lane skip-head`.',
    when: ({ reason }) => reason === 'head_blocked',
    say: (endpoint) => ({ evidence: lastErrorOf(endpoint), command: `sluice lane retry-head ${operands(endpoint)}` }),
  }),
  endpointRule({
    code: 'token_endpoint_fails',
    meaning: 'The token endpoint of an endpoint gives no access token, so nothing is sent to its receiver.',
    remedy: 'Bring the token endpoint back, or correct `auth` of the endpoint: client id, client secret, scope.',
    when: ({ reason, waiting, recent }) => reason === 'held' && waiting > 0 && failedBy(recent, 'token_failed'),
    say: (endpoint) => ({
      sentence: `${waitFor(endpoint)} Last error: ${endpoint.recent.lastError}`,
      evidence: lastErrorOf(endpoint),
      command: `sluice endpoint get ${operands(endpoint)}`,
    }),
  }),
  endpointRule({
    code: 'client_certificate_refused',
    meaning: 'A receiver refuses the client certificate of its endpoint, or asks for one.',
    remedy: 'Set `clientCertificate` of the endpoint to a certificate that the receiver trusts.',
    when: ({ waiting, recent }) => waiting > 0 && failedBy(recent, 'client_certificate') && recent.delivered === 0,
    say: (endpoint) => ({
      sentence: `${waitFor(endpoint)} Last error: ${endpoint.recent.lastError}`,
      evidence: lastErrorOf(endpoint),
      command: `sluice endpoint update ${operands(endpoint)} --client-certificate FILE`,
    }),
  }),
  endpointRule({
    code: 'circuit_open',
    meaning: 'The circuit of an endpoint is open after repeated failures: only a probe is sent now and then.',
    remedy: 'Fix the receiver. The next probe closes the circuit by itself; `sluice circuit close` does at once.',
    when: ({ circuit, waiting }) => circuit !== 'closed' && waiting > 0,
    say: (endpoint, { now }) => {
      const { failingSince, nextProbeAt, recent } = endpoint
      const since = failingSince === null ? '' : ` Its attempts have failed since ${moment(failingSince, now)}.`
      const probe = nextProbeAt === null || nextProbeAt <= now ? '' : ` Next probe at ${moment(nextProbeAt, now)}.`
      const error = recent.lastError === null ? '' : ` Last error: ${recent.lastError}`
      return {
        sentence: `The circuit of ${nameOf(endpoint)} is open; ${count(endpoint.waiting, 'delivery waits', 'deliveries wait')}.${since}${probe}${error}`,
        evidence: {
          failingSince: failingSince === null ? null : new Date(failingSince).toISOString(),
          nextProbeAt: nextProbeAt === null ? null : new Date(nextProbeAt).toISOString(),
          lastError: recent.lastError,
        },
        command: `sluice circuit close ${operands(endpoint)}`,
      }
    },
  }),
  endpointRule({
    code: 'receiver_holds',
    meaning: 'A receiver asked with Retry-After to wait, and deliveries have been due for more than a minute.',
    remedy: 'Ask the receiver for a higher limit. Sluice obeys its Retry-After.',
    when: (endpoint, limits) => endpoint.reason === 'held' && isBehind(endpoint, limits),
    say: (endpoint) => ({
      evidence: lastErrorOf(endpoint),
      command: `sluice why ${endpoint.app} --endpoint ${endpoint.endpoint}`,
    }),
  }),
  endpointRule({
    code: 'order_waits',
    meaning:
      'The first delivery of an ordered lane waits for its retry, and the others have waited behind it for more than a minute.',
    remedy: 'Fix the receiver, then retry the first delivery at once.',
    when: (endpoint, limits) => endpoint.reason === 'behind_head' && isBehind(endpoint, limits),
    say: (endpoint) => ({ evidence: lastErrorOf(endpoint), command: `sluice lane retry-head ${operands(endpoint)}` }),
  }),
  endpointRule({
    code: 'timeouts_hold_slots',
    meaning: 'Attempts at an endpoint time out, and take most of the time of the slots that it may use.',
    remedy:
      'Shorten the timeout of the endpoint. If it does not answer at all, open its circuit until the receiver is fixed.',
    when: ({ recent, waiting, reason }) =>
      waiting > 0 &&
      (reason === 'in_flight' || reason === 'crowded') &&
      recent.timeouts >= 3 &&
      recent.timeoutShare >= 0.5,
    say: (endpoint) => {
      const { recent, timeoutMs, inFlight, concurrency } = endpoint
      const { timeouts, count: attempts, timeoutShare, delivered, slowestDeliveredMs } = recent
      // Without timeouts each slot would be free after the slowest answer.
      const seconds = Math.max(1, Math.ceil((slowestDeliveredMs * 3) / 1000))
      const isShorter = delivered > 0 && seconds * 1000 < timeoutMs
      return {
        sentence: `${timeouts} of the last ${attempts} attempts at ${nameOf(endpoint)} timed out after ${span(timeoutMs)} and took ${percent(timeoutShare)} of their time. Its ${concurrency} slots make at most ${perSecond((concurrency * 1000) / timeoutMs)} that way.`,
        evidence: {
          timeouts,
          attempts,
          timeoutShare: rounded(timeoutShare),
          timeoutMs,
          inFlight,
          concurrency,
          slowestDeliveredMs: Math.round(slowestDeliveredMs),
        },
        command: isShorter
          ? `sluice endpoint update ${operands(endpoint)} --timeout ${seconds}s`
          : `sluice circuit open ${operands(endpoint)}`,
      }
    },
  }),
  endpointRule({
    code: 'rate_limit_low',
    meaning:
      'Deliveries arrive faster than the rate limit of the endpoint lets them out, and have been due for more than a minute.',
    remedy: 'Raise the rate limit to what arrives, if the receiver can take it.',
    when: (endpoint, limits) => {
      const { reason, rate, arrivalRate } = endpoint
      if (reason !== 'rate_limited' || rate === null || !isBehind(endpoint, limits)) return false
      return arrivalRate !== null && arrivalRate > rate.perPeriod / rate.periodSeconds
    },
    say: (endpoint) => {
      const { perPeriod, periodSeconds, from } = endpoint.rate as NonNullable<EndpointFacts['rate']>
      const arrival = endpoint.arrivalRate ?? 0
      const set = perPeriod / periodSeconds
      const needed = Math.ceil(arrival * headroom * periodSeconds)
      const source = from === 'endpoint' ? '' : `, the default of the ${from},`
      const period = periodSeconds === 1 ? '' : ` --period ${periodSeconds}s`
      return {
        sentence: `The rate limit of ${nameOf(endpoint)} is the bottleneck: ${perSecond(arrival)} arrive, and ${perSecond(set)}${source} may leave. ${count(endpoint.waiting, 'delivery waits', 'deliveries wait')}, the first due for ${span(endpoint.oldestDueMs)}.`,
        evidence: {
          arrivalRate: rounded(arrival),
          setRate: rounded(set),
          neededRate: rounded(needed / periodSeconds),
          rateFrom: from,
        },
        command: `sluice endpoint update ${operands(endpoint)} --rate ${needed}${period}`,
      }
    },
  }),
  endpointRule({
    code: 'application_rate_low',
    meaning: 'The rate limit of an application over all its endpoints keeps deliveries waiting for more than a minute.',
    remedy: 'Raise the rate of the application.',
    when: (endpoint, limits) => endpoint.reason === 'application_rate' && isBehind(endpoint, limits),
    say: (endpoint, { endpoints }) => {
      const arrival = endpoints
        .filter(({ app }) => app === endpoint.app)
        .reduce((sum, each) => sum + (each.arrivalRate ?? 0), 0)
      return {
        sentence: `${waitFor(endpoint)} ${endpoint.detail} ${perSecond(arrival)} arrive for its endpoints that are behind.`,
        evidence: { arrivalRate: rounded(arrival) },
        command: `sluice app update ${endpoint.app} --rate ${Math.max(1, Math.ceil(arrival * headroom))}`,
      }
    },
  }),
  endpointRule({
    code: 'failures_limited',
    meaning: 'An endpoint fails so often that the limit of failed attempts a minute keeps its deliveries waiting.',
    remedy: 'Fix the receiver. Each success gives two failures back.',
    when: (endpoint, limits, { now }) => {
      const { reason, nextAt, failingSince } = endpoint
      // A worker releases the lane for the time until the next attempt.
      const rests = reason === 'waiting_for_worker' && nextAt !== null && nextAt > now && failingSince !== null
      return (reason === 'failing' || rests) && isBehind(endpoint, limits)
    },
    say: (endpoint) => ({
      sentence: `${waitFor(endpoint)} The endpoint reached the limit of failed attempts a minute. Last error: ${endpoint.recent.lastError ?? 'unknown'}`,
      evidence: lastErrorOf(endpoint),
      command: `sluice why ${endpoint.app} --endpoint ${endpoint.endpoint}`,
    }),
  }),
  endpointRule({
    code: 'rate_reduced',
    meaning:
      'The rate of an endpoint was reduced after failures or a 429 and climbs back, and deliveries have been due for more than a minute.',
    remedy: 'Wait, or reset the circuit to send at the full rate at once.',
    when: (endpoint, limits) => endpoint.reason === 'slowed' && isBehind(endpoint, limits),
    say: (endpoint) => ({
      evidence: { pace: endpoint.pace, lastError: endpoint.recent.lastError },
      command: `sluice circuit reset ${operands(endpoint)}`,
    }),
  }),
  endpointRule({
    code: 'concurrency_low',
    meaning:
      "By Little's law an endpoint needs more attempts under way than its concurrency allows, and deliveries have been due for more than a minute.",
    remedy: 'Raise the concurrency of the endpoint, or make its receiver answer faster.',
    when: (endpoint, limits) =>
      endpoint.reason === 'in_flight' && isBehind(endpoint, limits) && neededSlots(endpoint) > endpoint.concurrency,
    say: (endpoint) => {
      const { arrivalRate, recent, concurrency } = endpoint
      const needed = Math.ceil(neededSlots(endpoint) * headroom)
      return {
        sentence: `The concurrency of ${nameOf(endpoint)} is the bottleneck: ${perSecond(arrivalRate ?? 0)} arrive and an attempt takes ${span(recent.meanMs)}, so that ${rounded(neededSlots(endpoint))} must be under way at once, and ${concurrency} may.`,
        evidence: {
          arrivalRate: rounded(arrivalRate ?? 0),
          meanAttemptMs: Math.round(recent.meanMs),
          neededConcurrency: needed,
          concurrency,
        },
        command: `sluice endpoint update ${operands(endpoint)} --concurrency ${needed}`,
      }
    },
  }),
  endpointRule({
    code: 'application_slots_low',
    meaning: 'An application uses all slots that it may have, and deliveries have been due for more than a minute.',
    remedy: 'Raise `maxInFlight` of the application or `inFlightPerApp` of the server, or start more workers.',
    when: (endpoint, limits) =>
      endpoint.reason === 'crowded' && endpoint.crowded === 'application' && isBehind(endpoint, limits),
    say: (endpoint) => ({
      evidence: { neededConcurrency: Math.ceil(neededSlots(endpoint) * headroom) },
      command: `sluice app get ${endpoint.app}`,
    }),
  }),
  endpointRule({
    code: 'lane_unowned',
    severity: 'critical',
    meaning: 'Deliveries have been due for more than 30 s, workers are alive, and none of them owns the lane.',
    remedy: 'Restart the workers. A worker that is alive and claims nothing stands still.',
    when: ({ reason, oldestDueMs, nextAt }, { stuckMs }, { now }) =>
      reason === 'waiting_for_worker' && oldestDueMs >= stuckMs && (nextAt === null || nextAt <= now),
    say: (endpoint, { workers }) => ({
      sentence: `No worker owns the lane of ${nameOf(endpoint)}, though its deliveries have been due for ${span(endpoint.oldestDueMs)} and ${count(workers.filter(isAlive).length, 'worker is', 'workers are')} alive.`,
      evidence: { workers: workers.filter(isAlive).length },
      command: 'sluice workers',
    }),
  }),
  endpointRule({
    code: 'worker_stuck',
    severity: 'critical',
    meaning:
      'The worker that owns a lane does not answer, or sends nothing because it cannot reach the store, for more than 30 s.',
    remedy: "Read the worker's log; restart it. After its lease another worker takes its lanes over.",
    when: ({ reason, oldestDueMs }, { stuckMs }) =>
      (reason === 'owner_silent' || reason === 'lease_unsure' || reason === 'store_trouble') && oldestDueMs >= stuckMs,
    say: (endpoint) => ({ evidence: { reason: endpoint.reason }, command: 'sluice workers' }),
  }),
]

function lastErrorOf({ recent: { lastError } }: EndpointFacts) {
  return { lastError }
}

/** Whether the latest failure has this code. */
function failedBy({ lastError }: EndpointFacts['recent'], code: string): boolean {
  return lastError?.startsWith(`${code}:`) ?? false
}

/** An entry whose findings are about endpoints, and explain why their deliveries wait. */
function endpointRule(
  entry: Omit<Rule, 'find'> & {
    readonly when: (endpoint: EndpointFacts, limits: DoctorLimits, facts: DoctorFacts) => boolean
    /** The command, with figures beside those of every endpoint, and the sentence where it is not that of `why`. */
    readonly say: (
      endpoint: EndpointFacts,
      facts: DoctorFacts,
    ) => Pick<RuleFinding, 'command'> & Partial<Pick<RuleFinding, 'sentence' | 'evidence'>>
  },
): Rule {
  const { when, say, ...rest } = entry
  return {
    ...rest,
    find(facts, limits, { explained }) {
      const met = facts.endpoints.filter((each) => !explained.has(each) && when(each, limits, facts))
      return met.map((each) => {
        explained.add(each)
        const { waiting, oldestDueMs, detail, app, endpoint } = each
        const { sentence = `${waitFor(each)} ${detail}`, evidence, command } = say(each, facts)
        const figures = { waiting, oldestDueMs: Math.round(oldestDueMs), ...evidence }
        return { sentence, evidence: figures, command, app, endpoint }
      })
    },
  }
}

/** The operands of commands about an endpoint. */
function operands({ app, endpoint }: Pick<EndpointFacts, 'app' | 'endpoint'>): string {
  return `${app} ${endpoint}`
}

/** The endpoint's name in a sentence. */
export function nameOf({ app, endpoint }: Pick<EndpointFacts, 'app' | 'endpoint'>): string {
  return `${endpoint} of ${app}`
}

/** Room above the figure that Little's law gives, so that a queue also shrinks. */
export const headroom = 1.2

/** Attempts that must be under way at once, by Little's law: arrival rate × time of an attempt. */
export function neededSlots({ arrivalRate, recent }: EndpointFacts): number {
  return ((arrivalRate ?? 0) * recent.meanMs) / 1000
}

/** Whether its deliveries have been due for too long. */
export function isBehind({ oldestDueMs }: EndpointFacts, { behindMs }: DoctorLimits): boolean {
  return oldestDueMs >= behindMs
}

/** How many deliveries wait for the endpoint, as a sentence. */
export function waitFor(endpoint: EndpointFacts): string {
  const { waiting, isExact } = endpoint
  return `${aboutMany(waiting, isExact, 'delivery waits', 'deliveries wait')} for ${nameOf(endpoint)}.`
}

/** A figure to three digits. */
export function rounded(figure: number): number {
  return Number(figure.toPrecision(3))
}
