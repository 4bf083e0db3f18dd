import type { EpochMs } from './clock.ts'
import { type Endpoint, endpointDefaults, rateLimit } from './endpoint.ts'
import type { CircuitPolicy } from './flow.ts'
import { type CircuitState, Health, type HealthRules } from './health.ts'

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
    concurrency: endpoint.flow.order === 'fifo' ? 1 : (endpoint.concurrency ?? endpointDefaults.concurrency),
  }
}

/** The health of an endpoint's receiver, as it is shown. */
export interface HealthFacts {
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
export interface StoredHealth {
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
