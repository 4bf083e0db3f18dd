import { count, perSecond, span } from '../../domain/phrases.ts'
import { headroom, isBehind, neededSlots, rounded, waitFor } from './endpoint-rules.ts'
import type { DoctorFacts, DoctorLimits, EndpointFacts, Known, Rule, RuleFinding } from './facts.ts'
import { isAlive, slotsOf, slotsText } from './system-rules.ts'

/** The rules about capacity, for endpoints that no other rule explains. */
export const capacityRules: readonly Rule[] = [
  {
    code: 'in_flight_saturated',
    meaning: 'Endpoints could be sent to, and wait for a free slot of their worker for more than 30 s.',
    remedy: "Raise `inFlight`, or start more workers (Postgres). The finding names the number that Little's law gives.",
    find: findSaturation,
  },
  {
    code: 'backlog_one_destination',
    meaning:
      'Deliveries have been due for more than a minute, most of them for one endpoint, and no other rule names the cause.',
    remedy: 'Look at the endpoint. Pausing it or opening its circuit frees its slots for others.',
    find: (facts, limits, known) => {
      const behind = backlog(facts, limits, known)
      const [worst] = behind
      if (worst === undefined || worst.waiting < shareOfOne * totalOf(behind)) return undefined
      return {
        sentence: `${waitFor(worst)} The first has been due for ${span(worst.oldestDueMs)}. ${worst.detail}`,
        evidence: { ...backlogFigures(worst, behind), inFlight: worst.inFlight, pace: worst.pace },
        command: `sluice why ${worst.app} --endpoint ${worst.endpoint}`,
        app: worst.app,
        endpoint: worst.endpoint,
      }
    },
  },
  {
    code: 'backlog_many_destinations',
    meaning:
      'Deliveries have been due for more than a minute for several endpoints, and no other rule names the cause.',
    remedy: 'Look at the capacity: workers, slots, timeouts and the machine.',
    find: (facts, limits, known) => {
      const behind = backlog(facts, limits, known)
      const [worst] = behind
      if (worst === undefined || worst.waiting >= shareOfOne * totalOf(behind)) return undefined
      return {
        sentence: `${count(behind.length, 'endpoint')} are behind with ${count(totalOf(behind), 'delivery', 'deliveries')}, the first due for ${span(Math.max(...behind.map(({ oldestDueMs }) => oldestDueMs)))}. Workers use ${slotsText(facts)}.`,
        evidence: { ...backlogFigures(worst, behind), endpoints: behind.length, ...slotsOf(facts) },
        command: 'sluice why --sort age',
      }
    },
  },
]

/** From this share of the backlog on, one destination is behind it. */
const shareOfOne = 0.6

/** Endpoints that are behind without a known cause, the worst first. */
function backlog(
  { endpoints }: DoctorFacts,
  limits: DoctorLimits,
  { allExplained, explained }: Known,
): EndpointFacts[] {
  if (allExplained) return []
  const behind = endpoints.filter((each) => !explained.has(each) && isBehind(each, limits))
  return behind.toSorted((a, b) => b.waiting - a.waiting)
}

function totalOf(endpoints: readonly EndpointFacts[]): number {
  return endpoints.reduce((sum, { waiting }) => sum + waiting, 0)
}

function backlogFigures(worst: EndpointFacts, behind: readonly EndpointFacts[]) {
  const total = totalOf(behind)
  return { waiting: total, share: rounded(worst.waiting / total), oldestDueMs: Math.round(worst.oldestDueMs) }
}

/**
 * Endpoints that wait for a free slot of their worker. By Little's law the slots that they need are their arrival rate
 * times the time of an attempt. Where timeouts use the slots, that is the finding, and more slots would only feed them.
 */
function findSaturation(facts: DoctorFacts, limits: DoctorLimits, { explained }: Known): RuleFinding | undefined {
  const { inFlight, limit } = slotsOf(facts)
  const crowded = facts.endpoints.filter((each) => {
    return !explained.has(each) && each.reason === 'crowded' && each.crowded !== 'application'
  })
  // Slots that are kept for others are in use as far as these endpoints are concerned.
  const late = crowded.filter(({ oldestDueMs }) => oldestDueMs >= limits.stuckMs)
  if (late.length === 0 || limit === 0) return undefined
  for (const each of crowded) explained.add(each)
  const arrival = crowded.reduce((sum, each) => sum + (each.arrivalRate ?? 0), 0)
  const waitingFor = crowded.reduce((sum, each) => sum + neededSlots(each), 0)
  const others = Math.max(0, inFlight - crowded.reduce((sum, each) => sum + (each.inFlight ?? 0), 0))
  const needed = Math.max(limit + 1, Math.ceil((waitingFor + others) * headroom))
  const alive = facts.workers.filter(isAlive).length
  const workers = Math.ceil((needed * alive) / limit)
  const mean = arrival === 0 ? 0 : waitingFor / arrival
  const more = facts.traits.isShared
    ? ` That is ${count(workers, 'worker')} with the present limit; ${count(alive, 'is', 'are')} alive.`
    : ''
  return {
    sentence: `The workers use ${slotsText(facts)}, and ${count(crowded.length, 'endpoint waits', 'endpoints wait')} for a free one. ${perSecond(arrival)} arrive there and an attempt takes ${span(mean * 1000)}: ${count(needed, 'slot')} are needed.${more}`,
    evidence: {
      inFlight,
      limit,
      endpoints: crowded.length,
      arrivalRate: rounded(arrival),
      meanAttemptMs: Math.round(mean * 1000),
      neededSlots: needed,
      neededWorkers: workers,
      workers: alive,
    },
    command: `SLUICE_IN_FLIGHT=${Math.ceil(needed / Math.max(1, alive))} sluice serve`,
  }
}
