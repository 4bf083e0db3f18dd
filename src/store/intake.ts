import type { EpochMs } from '../domain/clock.ts'
import type { Class } from '../domain/delivery.ts'
import type { DeadReason } from '../domain/judge.ts'
import type { Subscription } from '../domain/match.ts'
import type { Once } from './idempotency.ts'

/** Messages on their way in. */
export interface Intake {
  /** What decides who gets an application's messages, with the version it was read at. */
  subscriptions(app: number): Promise<Subscriptions | undefined>
  /**
   * Stores a group of messages, each with all its deliveries, in one durable transaction. The answers are in the order
   * of the publications; each one is stored whole or not at all, independently of the others:
   *   accepted — durable when the promise resolves;
   *   stale    — the application's subscriptions changed since that version; match again and retry;
   *   conflict — the application already has a message with this eventId;
   *   repeated — one of its `once` is taken by this message, which stands for both;
   *   mismatch — one of its `once` is taken by something else.
   */
  publish(publications: readonly Publication[]): Promise<Published[]>
  /**
   * Stores messages of one application all or none, in one durable transaction; `once` is for all of them together. In
   * `accepted`, a message that was itself repeated is the one that stands for it.
   */
  publishTogether(publications: readonly Publication[], once: Once | null): Promise<PublishedTogether>
  /**
   * Queues up to `limit` more deliveries of the oldest message that was accepted for more endpoints than one transaction
   * takes; answers whether more are left. Safe at any time, by anyone: each delivery is queued exactly once.
   */
  expand(limit: number): Promise<boolean>
  /** Counts up to `limit` waiting deliveries by endpoint, in the order of their queues, behind `after`. */
  surveyWaiting(after: QueueCursor | null, limit: number): Promise<WaitingCounts>
}

/** A place among all waiting deliveries. */
export interface QueueCursor {
  readonly endpoint: number
  readonly class: Class
  readonly dueAt: EpochMs
  readonly message: number
}

export interface WaitingCounts {
  /** An endpoint whose queue does not end here has the rest of it behind `next`. */
  readonly counts: readonly { readonly endpoint: number; readonly app: number; readonly count: number }[]
  /** Null when everything was counted. */
  readonly next: QueueCursor | null
}

export interface Subscriptions {
  readonly version: number
  /** Disabled endpoints are included: what is published meanwhile waits for them. */
  readonly list: readonly Subscription[]
  /** The application's dedupe window. */
  readonly dedupeSeconds: number | null
}

export interface Publication {
  readonly app: number
  readonly version: number
  readonly eventType: string
  readonly eventId: string | null
  readonly channels: readonly string[] | null
  readonly body: Uint8Array
  readonly contentType: string
  readonly endpoints: readonly number[]
  /** Above 0 the deliveries are timed instead of fresh. */
  readonly delayMs: number
  readonly tags?: readonly string[] | null
  /** Sent along with every attempt. */
  readonly headers?: Readonly<Record<string, string>> | null
  /** What the message may be stored for only once, the most telling first. */
  readonly once?: readonly Once[]
  /** From when on nobody wants it any more. */
  readonly expiresInMs?: number | null
  /** For how long its body is kept, when that is less than the message is. */
  readonly payloadForMs?: number | null
  /** Messages with the same one go one after the other to endpoints that keep that order. */
  readonly orderingKey?: string | null
  /** How deliveries differ from plain ones; endpoints that are missing get a plain one. */
  readonly special?: readonly Special[]
  /** The bodies and signatures that `special` names, by position. */
  readonly variants?: readonly Variant[]
}

/** A delivery that is more than a row in a queue. Endpoints appear once, and are among the publication's. */
export interface Special {
  readonly endpoint: number
  /** Dead from the start, for this reason. */
  readonly drop?: DeadReason
  /** See `PendingRow.orderKey`. */
  readonly orderKey?: number
  /** Position in the publication's variants. */
  readonly variant?: number
  /** It waits for the end of the window, and replaces what already waits under the same key. */
  readonly coalesce?: { readonly key: string; readonly windowMs: number }
}

/** What some endpoints get instead of the message's own body, or together with it. Fixed when the message is accepted. */
export interface Variant {
  /** Null for the message's own. */
  readonly body: Uint8Array | null
  /** For profiles that sign once. */
  readonly signature: string | null
}

export type Published =
  | {
      readonly state: 'accepted'
      readonly key: number
      readonly id: string
      /** Endpoints whose queues have not grown by it: it took the place of what waited there, or gave way at once. */
      readonly merged?: readonly number[]
    }
  | { readonly state: 'stale' }
  | { readonly state: 'conflict'; readonly id: string }
  | { readonly state: 'repeated'; readonly key: number; readonly id: string }
  | { readonly state: 'mismatch' }

export type PublishedTogether =
  | {
      readonly state: 'accepted' | 'repeated'
      readonly messages: readonly { readonly key: number; readonly id: string }[]
    }
  | { readonly state: 'stale' }
  | { readonly state: 'conflict'; readonly index: number; readonly id: string }
  | { readonly state: 'mismatch' }
