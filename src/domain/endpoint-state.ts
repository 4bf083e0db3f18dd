import { type BlockerReason, type LaneStatus, laneBlockers } from './blocker.ts'
import type { Endpoint } from './endpoint.ts'
import { healthFacts } from './health-facts.ts'
import { defaultRegion } from './region.ts'

/** The states of an endpoint, the most decisive first: an endpoint that meets several has the first of them. */
export const endpointStates = [
  'disabled', //     nothing is sent until it is enabled
  'paused', //       nothing is sent until it is resumed
  'circuit_open', // repeated failures, or an operator, opened the circuit; at most one probe is under way
  'held', //         the receiver sent Retry-After, or its token endpoint gave no token
  'failing', //      the latest attempts failed
  'throttled', //    deliveries wait for a rate limit
  'active',
] as const
export type EndpointState = (typeof endpointStates)[number]

const stateOfBlocker: Partial<Record<BlockerReason, EndpointState>> = {
  disabled: 'disabled',
  paused: 'paused',
  circuit_open: 'circuit_open',
  opened_by_hand: 'circuit_open',
  probing: 'circuit_open',
  held: 'held',
  failing: 'failing',
  rate_limited: 'throttled',
  slowed: 'throttled',
  application_rate: 'throttled',
}

/** The facts of a lane that decide the state of its endpoint. */
export type StateFacts = Omit<LaneStatus, 'workersAlive' | 'workersServing' | 'region' | 'first' | 'silent'> &
  Required<Pick<LaneStatus, 'health' | 'healthAgeMs'>>

/**
 * The state of an endpoint, by the blockers that `why` names. `lane` is undefined when the endpoint has none: it is new, or
 * deleted.
 */
export function endpointState(endpoint: Endpoint, lane: StateFacts | undefined): EndpointState {
  if (endpoint.disabled) return 'disabled'
  if (endpoint.paused) return 'paused'
  if (lane === undefined) return 'active'
  const anyWorker = { workersAlive: 1, workersServing: 1, region: defaultRegion }
  const found = laneBlockers(endpoint, { ...lane, ...anyWorker, first: null, silent: false })
    .map(({ reason }) => stateOfBlocker[reason])
    .filter((state) => state !== 'throttled' || hasWork(lane))
  const known = new Set([...found, ...healthStates(endpoint, lane)])
  return endpointStates.find((state) => known.has(state)) ?? 'active'
}

/** A circuit that waits for its probe, and failures since the last success. */
function healthStates(endpoint: Endpoint, lane: StateFacts): EndpointState[] {
  const stored = healthFacts(endpoint, lane)
  const { circuit = stored.circuit, failing = stored.failingSince !== null } = lane.live?.snapshot ?? {}
  return [...(circuit === 'closed' ? [] : ['circuit_open' as const]), ...(failing ? ['failing' as const] : [])]
}

/** Whether deliveries wait, beside those under way. A limit that was reached by the last delivery throttles none. */
function hasWork({ live, dueAt }: StateFacts): boolean {
  return live === null ? dueAt !== null : live.snapshot.queued.some((count) => count > 0)
}
