import type { Class } from '../domain/delivery.ts'
import type { Verdict } from '../domain/judge.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { TraceContext } from '../domain/trace-context.ts'
import type { Endpoint } from '../features/endpoints/rules.ts'

/** Watches attempts, for logs and traces. It never throws and never waits. */
export interface AttemptWatch {
  /** An attempt is about to be sent. Its end is of no interest when the answer is undefined. */
  begin(started: StartedAttempt): WatchedAttempt | undefined
}

/** An attempt that is watched. */
export interface WatchedAttempt {
  /** The context that the receiver may continue; undefined when the attempt has no span of its own. */
  readonly trace?: TraceContext | undefined
  end(ended: WatchedEnd): void
}

/** An attempt at its start. */
export interface StartedAttempt {
  /** The endpoint, for a watcher that knows its kind. */
  readonly endpoint: Endpoint
  readonly message: {
    readonly id: string
    readonly eventType: string
    readonly bytes: number
    readonly trace: TraceContext | null
  }
  /** 1 for the first try of this message at this endpoint. */
  readonly number: number
  readonly class: Class
  /** How long the delivery was due, see `lateMsOf`; null when that is unknown. */
  readonly waitMs: number | null
}

/** An attempt at its end. */
export interface WatchedEnd {
  /** Null for an attempt that is not recorded, because the worker gave it up without a lease. */
  readonly id: string | null
  readonly outcome: Outcome
  /** Null likewise: the delivery starts over. */
  readonly verdict: Verdict | null
}
