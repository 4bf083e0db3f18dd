import type { EpochMs } from '../../domain/clock.ts'
import type { Flow } from '../../domain/flow.ts'
import type { RateLimit } from '../../domain/rate.ts'
import { defaultRetryPolicy, type RetryPolicy } from '../../domain/retry.ts'
import type { ApplicationSettings } from '../applications/noun.ts'
import type { ColumnValues } from './noun.ts'

/** One tenant: owns endpoints and messages. */
export interface Application {
  readonly key: number
  readonly id: string
  readonly uid: string | null
  readonly name: string
  readonly throttleRate: number | null
  /** For how long a repeated publish stores nothing; null for no deduplication. */
  readonly dedupeSeconds: number | null
  readonly metadata: Readonly<Record<string, string>>
  readonly settings: ApplicationSettings
  readonly createdAt: EpochMs
  readonly updatedAt: EpochMs
}

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

/** One worker's share of an application's rate per second. A tenth of a second may be saved up. */
export function applicationShare(rate: number, workers: number): RateLimit {
  return { rate: rate / workers, periodMs: 1000, burst: Math.max(1, Math.floor(rate / 10 / workers)) }
}

/** One worker's share of the attempts that an application may have under way; at least one, so that none of its lanes starves. */
export function inFlightShare(maxInFlight: number | undefined, workers: number): number {
  if (maxInFlight === undefined) return Number.POSITIVE_INFINITY
  return Math.max(1, Math.floor(maxInFlight / Math.max(1, workers)))
}

/** The endpoint's retry policy, with the endpoint's own limit for the age of a delivery. */
export function retryPolicyOf({ retry, flow }: Pick<Endpoint, 'retry' | 'flow'>): RetryPolicy {
  const policy = retry ?? defaultRetryPolicy
  return flow.maxAgeMs === null ? policy : { ...policy, maxAgeMs: flow.maxAgeMs }
}
