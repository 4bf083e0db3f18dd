import type { EpochMs } from '../../domain/clock.ts'
import type { CircuitPolicy } from '../../domain/flow.ts'
import { type CircuitState, Health, type HealthRules } from '../../domain/health.ts'
import { defaultRegion } from '../regions/rules.ts'
import { type BlockerReason, type LaneStatus, laneBlockers } from '../why/blocker.ts'
import { concurrencyOf, type Endpoint, rateLimit } from './rules.ts'

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

/** The defaults for endpoints that set nothing of their own. */
export interface HealthDefaults {
  /** Undefined when circuits never open by themselves. */
  readonly circuit: CircuitPolicy | undefined
  /** 0 for never. */
  readonly disableAfterMs: number
}

/** How an endpoint's receiver is judged. */
export function rulesOf(endpoint: Endpoint, defaults: HealthDefaults): HealthRules {
  const { circuit, adaptive, disableAfterMs } = endpoint.flow
  const limit = rateLimit(endpoint)
  return {
    circuit: circuit === 'off' ? undefined : (circuit ?? defaults.circuit),
    adaptive,
    disableAfterMs: disableAfterMs ?? defaults.disableAfterMs,
    rate: limit && limit.rate / limit.periodMs,
    concurrency: concurrencyOf(endpoint),
  }
}

/** The health of an endpoint's receiver, as it is shown. */
interface HealthFacts {
  readonly circuit: CircuitState
  /** When the next probe may leave; null when the circuit is closed, or stays open until an operator closes it. */
  readonly openUntil: EpochMs | null
  /** Whether an operator opened the circuit. */
  readonly manual: boolean
  readonly openings: number
  /** In a row. */
  readonly failures: number
  readonly failingSince: EpochMs | null
  /** Requests per second, while that is less than usual. */
  readonly rate: number | null
}

/** The stored health of a lane's receiver, as of the store's clock. */
interface StoredHealth {
  readonly now: EpochMs
  readonly health: string | null
  readonly healthAgeMs: number
}

/**
 * The health of an endpoint's receiver by its stored state. Transitions are stored as they happen, and the rest follows from
 * time; only the lane's owner knows of failures since then. A command that no worker has carried out yet counts as done.
 */
export function healthFacts(endpoint: Endpoint, { now, health: text, healthAgeMs }: StoredHealth): HealthFacts {
  const health = new Health(text, healthAgeMs, now)
  health.carryOut(endpoint.flow.circuitOrder, rulesOf(endpoint, { circuit: undefined, disableAfterMs: 0 }), now)
  const { circuit, manual, openings, failures, failingSince, openUntil, pace } = health
  const isOpen = circuit === 'open' && openUntil > now
  return {
    circuit: circuit === 'closed' || isOpen ? circuit : 'half_open',
    openUntil: isOpen && !manual ? Math.ceil(openUntil) : null,
    manual,
    openings,
    failures,
    failingSince: failingSince === undefined ? null : Math.round(failingSince),
    rate: pace === undefined || pace.endsAt <= now ? null : Math.round(pace.rateAt(now) * 100_000) / 100,
  }
}
