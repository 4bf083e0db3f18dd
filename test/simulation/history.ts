import type { RetryAfterRule } from '../../src/domain/retry.ts'
import type { Regions } from '../../src/features/regions/rules.ts'
import type { BoundsWish, Wanted } from './check-bounds.ts'
import type { BegunFact, CircuitFact, HealthWish, OrderFact } from './check-health.ts'
import type { Stay, Touch } from './check-regions.ts'
import type { FormWish } from './check-shaping.ts'
import type { Prediction } from './observer.ts'

/** Everything that happened in one run, as seen from outside: what was asked for, what arrived, who died. */
export interface History {
  readonly endpoints: EndpointFacts[]
  readonly published: PublishFact[]
  readonly arrivals: Arrival[]
  /** Retry-After holds that were recorded in the store. */
  readonly holds: HoldFact[]
  /** Results recorded for a worker after it was declared dead. */
  readonly unfenced: string[]
  /** Instants at which the world's clock jumped. */
  readonly jumps: number[]
  /** Endpoints that an operator paused or deleted, from when until when; a deletion has no end. */
  readonly stops: StopFact[]
  /** Deliveries that an operator retried, by endpoint and body: their attempts count from 0 again. */
  readonly retried: Set<string>
  /** The answers to `why`. */
  readonly predictions: Prediction[]
  /** Attempts that were begun, also those that no receiver saw. */
  readonly tries: TryFact[]
  /** The same from the moment they were begun. */
  readonly begun: BegunFact[]
  /** How much applications may get a second, over all their endpoints. */
  readonly appRates: Map<number, number>
  /** How many attempts applications may have under way, over all their endpoints. */
  readonly appSlots: Map<number, number>
  /** Transitions of circuits that were recorded, in that order. */
  readonly circuits: CircuitFact[]
  /** The operators' commands about circuits. */
  readonly orders: OrderFact[]
  /** When deliveries ended without a try. */
  readonly untried: { readonly endpoint: number; readonly at: number }[]
  /** Whether a worker ever stood still. */
  stalled: boolean
  /** The world's clock at the start of the steady one. */
  readonly startedAt: number
  /** When all that was disabled was enabled. */
  healedAt: number
  /** Times in which workers died, stood still or were started. */
  readonly disturbances: { readonly from: number; readonly until: number }[]
  /** When the run was over. */
  endedAt: number
  /** Deliveries that gave way to a newer message of their kind, and to which; known when all is over. */
  readonly gaveWay: Map<string, number>
  /** Whether every worker hears at once what an operator does. */
  attentive: boolean
  /** The lanes and payloads that workers claimed and read, in a world with regions. */
  readonly touches: Touch[]
}

export interface StopFact {
  readonly endpoint: number
  readonly kind: 'paused' | 'deleted'
  readonly from: number
  readonly until: number
}

export interface TryFact {
  readonly at: number
  readonly endpoint: number
  /** The id of its message. */
  readonly message: string
  /** The receiver will say that it wants no more. */
  readonly isGone: boolean
}

export interface EndpointFacts {
  readonly key: number
  readonly app: number
  readonly rate: { readonly rate: number; readonly periodMs: number; readonly burst: number } | undefined
  readonly concurrency: number
  /** The least wait after each attempt; one attempt more than there are waits. */
  readonly leastWaitsMs: readonly number[]
  readonly retryAfter: RetryAfterRule
  /** Whether the newest of a kind takes the place of what waits. */
  readonly coalesces: boolean
  readonly order: 'none' | 'fifo' | 'key'
  readonly bounds: BoundsWish
  readonly health: HealthWish
  readonly deadHead: 'skip' | 'block'
  readonly form: FormWish
  /** The regions that its lane was in, one after the other. */
  readonly stays: Stay[]
}

export interface PublishFact extends Wanted {
  readonly body: string
  readonly endpoints: readonly number[]
  /** `unknown`: the publisher died or got no clear answer, so it may or may not be stored. */
  state: 'accepted' | 'refused' | 'unknown'
  key: number
  /** Messages with the same one become one where that is asked for, but for those that are for an instant of their own. */
  kind: string
  delayed: boolean
  orderingKey: string | null
  /** Numbers that grow: when it was asked for, and when it was answered; never, if it was not. */
  asked: number
  answered: number
}

/** One request that reached a receiver. */
export interface Arrival {
  readonly at: number
  readonly endpoint: number
  readonly message: string
  /** As it was published. */
  readonly body: string
  /** As it came. */
  readonly raw: string
  /** As it was made when the message was published. */
  readonly signature: string | null
  readonly worker: WorkerFact
  /** When the connection was over for the receiver. */
  endedAt: number
  /** The receiver took it in and meant to say so. */
  taken: boolean
  /** When the worker learned how it ended; never, if it died or gave up first. */
  heardAt: number
  heardAs: 'delivered' | 'failed' | undefined
  retryAfterMs: number | undefined
  /** The receiver said that it gets too much, and not for how long. */
  crowded: boolean
}

/** One worker process. What it had open may be sent again after it died or was declared dead. */
export interface WorkerFact {
  readonly name: string
  readonly regions: Regions
  readonly losses: Loss[]
}

/** From the instant a worker no longer owned anything until it knew. */
export interface Loss {
  readonly at: number
  knownAt: number
}

export interface HoldFact {
  readonly endpoint: number
  /** Whose word it is. */
  readonly worker: WorkerFact
  readonly recordedAt: number
}
