import type { EpochMs } from '../../domain/clock.ts'
import type { CircuitPolicy, Flow } from '../../domain/flow.ts'
import { type CircuitState, Health, type HealthRules } from '../../domain/health.ts'
import type { RateLimit } from '../../domain/rate.ts'
import { defaultRetryPolicy, type RetryPolicy } from '../../domain/retry.ts'
import type { ApplicationSettings } from '../applications/noun.ts'
import { defaultRegion } from '../regions/rules.ts'
import { type BlockerReason, type LaneStatus, laneBlockers } from '../why/blocker.ts'
import type { ColumnValues } from './noun.ts'

/** The fields of an endpoint that the store keeps sealed. */
export const sealedFields = ['secrets', 'headers', 'auth', 'clientCertificate'] as const

export type SealedField = (typeof sealedFields)[number]

/** One subscriber's URL with its limits, secrets and filters. `endpointFields` describes the fields that callers set. */
export interface Endpoint extends ColumnValues {
  readonly key: number
  readonly id: string
  readonly app: number
  /** Why it is disabled: by an operator, because the receiver answered 410, or because it failed for too long. */
  readonly disabledReason: DisabledReason | null
  /** An operator paused it: messages published meanwhile wait. Resuming it does not enable it. */
  readonly paused: boolean
  /** Newest first. All that have not expired sign, so that a receiver can change to a new secret at any time. */
  readonly secrets: readonly Secret[]
  readonly flow: Flow
  /** Set only for delivering: the application's public id. */
  readonly appId?: string
  /** Set only for delivering: the application's rate over all its endpoints. */
  readonly appThrottleRate?: number | null
  /** Set only for delivering. */
  readonly appSettings?: ApplicationSettings
  /** Set only for delivering: the region of its lane. */
  readonly region?: string
  /** Set only for delivering: the secret of its own region; null when there is none, or it cannot be read. */
  readonly regionSecret?: string | null
  /** The sealed fields whose stored record does not open. Each reads as empty until it is replaced. Absent: all open. */
  readonly damaged?: readonly SealedField[]
  /** Set only where deleted endpoints are asked for, too. */
  readonly deleted?: boolean
  readonly createdAt: EpochMs
  readonly updatedAt: EpochMs
}

export type DisabledReason = 'operator' | 'gone' | 'failing'

export type Method = Endpoint['method']

/** The key of the application that owns the endpoints of operational webhooks; no caller can name it. */
export const managementApplication = 0

/** `whsec_` + base64, `raw:` + text and `hex:` + hex sign with HMAC (`v1`), `whsk_` + base64 with ed25519 (`v1a`). */
export interface Secret {
  readonly secret: string
  readonly expiresAt: EpochMs | null
}

/** The limits of an endpoint that sets none, beside the server's settings. */
export const endpointDefaults = { concurrency: 16 } as const

/** Whether nothing may be sent to the endpoint for now. */
export function isStopped(endpoint: Pick<Endpoint, 'disabled' | 'paused'>): boolean {
  return endpoint.disabled || endpoint.paused
}

/** How many attempts at the endpoint may be under way at once. */
export function concurrencyOf({ concurrency, flow }: Pick<Endpoint, 'concurrency' | 'flow'>): number {
  return flow.order === 'fifo' ? 1 : (concurrency ?? endpointDefaults.concurrency)
}

/** The endpoint's rate limit, or undefined when it has none. Without `burst`, a tenth of a period may be saved up. */
export function rateLimit(endpoint: RateLimited): RateLimit | undefined {
  if (endpoint.throttleRate === null) return undefined
  return {
    rate: endpoint.throttleRate,
    periodMs: endpoint.throttlePeriodSeconds * 1000,
    burst: endpoint.burst ?? Math.max(1, Math.ceil(endpoint.throttleRate / 10)),
  }
}

/** The server's settings for endpoints that set nothing of their own. */
export interface ServerDefaults {
  readonly timeoutMs: number
  readonly connectTimeoutMs: number
  /** Null for unlimited. */
  readonly rate: number | null
  readonly periodMs: number
  /** Null for a tenth of a period. */
  readonly burst: number | null
}

/** An endpoint with the limits that it inherits. */
export interface CompleteEndpoint extends Endpoint {
  readonly timeoutMs: number
  readonly connectTimeoutMs: number
}

/** Where a limit was set. */
export const limitSources = ['endpoint', 'application', 'server'] as const

export type LimitSource = (typeof limitSources)[number]

/** The rate and burst of an endpoint, and where each was set; null where neither was. */
export interface EffectiveRate extends RateLimited {
  readonly rateFrom: LimitSource | null
  readonly burstFrom: LimitSource | null
}

/**
 * Finds the rate of an endpoint: its own, or else the application's default, or else the server's. The burst belongs to the
 * rate: it is searched from the endpoint up to the level of the rate and no further, so that a generous default burst
 * does not widen a strict rate of the endpoint.
 */
export function effectiveRate(endpoint: RateLimited, app: ApplicationSettings, server: ServerDefaults): EffectiveRate {
  const { throttleRate, throttlePeriodSeconds, burst } = endpoint
  const levels = [
    { from: 'endpoint', rate: throttleRate, seconds: throttlePeriodSeconds, burst },
    {
      from: 'application',
      rate: app.defaultRate ?? null,
      seconds: app.defaultPeriodSeconds ?? 1,
      burst: app.defaultBurst ?? null,
    },
    { from: 'server', rate: server.rate, seconds: server.periodMs / 1000, burst: server.burst },
  ] as const
  const at = levels.findIndex(({ rate }) => rate !== null)
  const found = levels[at]
  const saved = levels.slice(0, at + 1).find((level) => level.burst !== null)
  return {
    throttleRate: found?.rate ?? null,
    throttlePeriodSeconds: found?.seconds ?? throttlePeriodSeconds,
    burst: saved?.burst ?? null,
    rateFrom: found?.from ?? null,
    burstFrom: saved?.from ?? null,
  }
}

/** The endpoint with the limits that it inherits from its application and the server. */
export function withDefaults(endpoint: Endpoint, server: ServerDefaults): CompleteEndpoint {
  const { throttleRate, throttlePeriodSeconds, burst } = effectiveRate(endpoint, endpoint.appSettings ?? {}, server)
  const timeoutMs = endpoint.timeoutMs ?? server.timeoutMs
  const connectTimeoutMs = endpoint.flow.connectTimeoutMs ?? server.connectTimeoutMs
  return { ...endpoint, throttleRate, throttlePeriodSeconds, burst, timeoutMs, connectTimeoutMs }
}

type RateLimited = Pick<Endpoint, 'throttleRate' | 'throttlePeriodSeconds' | 'burst'>

/** A rate of an application per second, or a worker's share of it. A tenth of a second may be saved up. */
export function applicationRate(rate: number): RateLimit {
  return { rate, periodMs: 1000, burst: Math.max(1, Math.floor(rate / 10)) }
}

/** The endpoint's retry policy, with the endpoint's own limit for the age of a delivery. */
export function retryPolicyOf({ retry, flow }: Pick<Endpoint, 'retry' | 'flow'>): RetryPolicy {
  const policy = retry ?? defaultRetryPolicy
  return flow.maxAgeMs === null ? policy : { ...policy, maxAgeMs: flow.maxAgeMs }
}

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

/** An endpoint as far as a caller knows it; its credentials may be absent. */
export interface MayNeedTokens {
  readonly auth?: { readonly kind: string } | null
}

/** Whether requests need an access token of another server. */
export function needsTokens({ auth }: MayNeedTokens): boolean {
  return auth?.kind === 'oauth2'
}
