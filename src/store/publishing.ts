import type { EpochMs } from '../domain/clock.ts'
import type { Class } from '../domain/delivery.ts'
import type { Identity } from '../domain/ids.ts'
import type { DeadReason } from '../domain/judge.ts'
import type { Subscription } from '../domain/match.ts'
import type { TraceContext } from '../domain/trace-context.ts'
import type { Application } from '../features/applications/noun.ts'
import type { SubjectRules } from '../features/erasure/store.ts'
import type { RowPlace } from './lanes.ts'
import { SealError, type Vault } from './vault.ts'

/** Publishing: alone, in groups, in a caller's transaction, and once per key. */
export interface Publishing extends Intake, CallerTransaction, Idempotency {}

/** Messages on their way in. */
export interface Intake {
  /** The endpoints that an application's messages match against, with the version at which they were read. */
  subscriptions(app: number): Promise<Subscriptions | undefined>
  /**
   * Stores a group of messages, each with all its deliveries, in one durable transaction. The answers are in the order
   * of the publications; each one is stored whole or not at all, independently of the others:
   *   accepted — durable when the promise resolves;
   *   stale    — the application's subscriptions changed since that version; match again and retry;
   *   conflict — the application already has a message with this eventId;
   *   repeated — this earlier message has taken one of its `once`, and is the answer to both;
   *   mismatch — another message or request has taken one of its `once`.
   */
  publish(publications: readonly Publication[]): Promise<Published[]>
  /**
   * Stores messages of one application all or none, in one durable transaction; `once` is one hash for all of them. In
   * `accepted`, a publication that repeats a message is answered with that message.
   */
  publishTogether(publications: readonly Publication[], once: Once | null): Promise<PublishedTogether>
  /**
   * Queues up to `limit` more deliveries of the oldest messages that were accepted for more endpoints than one transaction
   * takes. Safe at any time, by anyone: each delivery is queued exactly once.
   */
  expand(limit: number): Promise<Expansion>
  /**
   * Counts up to `limit` waiting deliveries by endpoint and class, in the order of their queues, behind `after`. Those that
   * were due more than `lateMs` ago count as late. With `oneQueue`, the count ends with the queue that `after` is in.
   */
  surveyWaiting(after: QueueCursor | null, limit: number, lateMs?: number, oneQueue?: boolean): Promise<WaitingCounts>
}

/** Parts of wide messages that were queued. */
export interface Expansion {
  /** Whether more deliveries are left to queue. */
  readonly more: boolean
  /** See `Published`; by message. */
  readonly merged: readonly { readonly app: number; readonly endpoints: readonly number[] }[]
}

/** Nothing was left to queue. */
export const nothingExpanded: Expansion = { more: false, merged: [] }

/** A place among all waiting deliveries. */
export interface QueueCursor extends RowPlace {
  readonly endpoint: number
}

export interface WaitingCounts {
  /** A queue that does not end here has the rest of it behind `next`. */
  readonly counts: readonly WaitingCount[]
  /** Null when everything was counted. */
  readonly next: QueueCursor | null
}

/** The waiting deliveries of one class of an endpoint. */
export interface WaitingCount {
  readonly endpoint: number
  readonly app: number
  readonly class: Class
  readonly count: number
  /** How many were due more than `lateMs` ago. A retry that keeps its place in an ordered lane is due when its wait ends. */
  readonly late: number
  /** How long ago the first of them was due; negative while none is. */
  readonly dueAgoMs: number
  /** Since when the one has been waiting that has waited the longest. */
  readonly oldestSince: EpochMs
  /** Whether the endpoint is paused or disabled. */
  readonly stopped: boolean
}

export interface Subscriptions {
  readonly version: number
  /** Disabled endpoints are included: messages wait for them. */
  readonly list: readonly Subscription[]
  /** The application's dedupe window. */
  readonly dedupeSeconds: number | null
  /** The application erases bodies once all deliveries of a message have succeeded. */
  readonly eraseDelivered?: boolean
  /** How long the application keeps bodies; absent when it keeps them as long as the messages. */
  readonly payloadForMs?: number
  /** How messages are indexed by their data subjects; absent when the application names no pointers. */
  readonly subjects?: SubjectRules
}

/** The first look whether all deliveries have succeeded comes this long after they were due. */
export const firstLookMs = 1000

/** When the body of a message is looked at, that is due at `since`; undefined when it is kept with the message. */
export function payloadEndOf({ payloadForMs, eraseDelivered, endpoints }: Publication, since: EpochMs) {
  const onceDelivered = eraseDelivered === true && endpoints.length > 0
  if (payloadForMs == null && !onceDelivered) return undefined
  const overAt = payloadForMs == null ? null : since + Math.ceil(payloadForMs)
  const lookAt = since + firstLookMs
  return { onceDelivered, overAt, at: onceDelivered ? Math.min(lookAt, overAt ?? lookAt) : (overAt as EpochMs) }
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
  /** The context of the trace that it belongs to. */
  readonly trace?: TraceContext | null
  /** The headers with which it arrived at a source; null for a message that was published. */
  readonly arrivedHeaders?: Readonly<Record<string, string>> | null
  /** Hashes for which the message may be stored only once, the most specific first. */
  readonly once?: readonly Once[]
  /** When the message expires. */
  readonly expiresInMs?: number | null
  /** For how long its body is kept, when that is less than the message is. */
  readonly payloadForMs?: number | null
  /** The body is erased once all deliveries have succeeded. */
  readonly eraseDelivered?: boolean
  /** Ordered endpoints get messages with the same key one at a time. */
  readonly orderingKey?: string | null
  /** How deliveries differ from plain ones; endpoints that are missing get a plain one. */
  readonly special?: readonly Special[]
  /** The bodies and signatures that `special` names, by position. */
  readonly variants?: readonly Variant[]
  /** The row of the inbox that it is made from, which goes with it. `mismatch` when another process has taken that. */
  readonly inbox?: number | null
  /** The hashes of its data subjects, each once; `unindexedSubject` alone when its body must be read to find them. */
  readonly subjects?: readonly string[]
}

/** A delivery that is not plain. Endpoints appear once, and are among the publication's. */
export interface Special {
  readonly endpoint: number
  /** Dead from the start, for this reason. */
  readonly drop?: DeadReason
  /** See `PendingRow.orderKey`. */
  readonly orderKey?: number
  /** Position in the publication's variants. */
  readonly variant?: number
  /** It waits for the end of the window, and replaces the delivery that already waits under the same key. */
  readonly coalesce?: { readonly key: string; readonly windowMs: number }
  /** The message names this endpoint: no other endpoint missed it. */
  readonly direct?: true
}

/** A body, a signature or both that some endpoints get. Fixed when the message is accepted. */
export interface Variant {
  /** Null for the message's own. */
  readonly body: Uint8Array | null
  /** For profiles that sign once. */
  readonly signature: string | null
}

/** How often a publication is prepared, when the store keeps answering `stale`, before it is refused. */
export const staleTries = 8

export type Published =
  | {
      readonly state: 'accepted'
      readonly key: number
      readonly id: string
      /** Endpoints whose queues did not grow: the delivery replaced a waiting one, or a newer one replaced it at once. */
      readonly merged?: readonly number[]
    }
  | { readonly state: 'stale' }
  | { readonly state: 'conflict'; readonly id: string }
  | { readonly state: 'repeated'; readonly key: number; readonly id: string }
  | { readonly state: 'mismatch' }

/** One of the messages that were stored together. */
export interface StoredTogether extends Identity {
  /** See `Published`. */
  readonly merged?: readonly number[]
  /** It was not stored: this earlier message stands for it. */
  readonly repeated?: true
}

export type PublishedTogether =
  | {
      readonly state: 'accepted' | 'repeated'
      readonly messages: readonly StoredTogether[]
    }
  | { readonly state: 'stale' }
  | { readonly state: 'conflict'; readonly index: number; readonly id: string }
  | { readonly state: 'mismatch' }

/** Publishing as part of a caller's own transaction. */
export interface CallerTransaction {
  /**
   * Publishes within the transaction that is open on a connection of the caller's own: a `DatabaseSync` on the store's
   * file, or a `pg` client on its database. The message exists if and only if that transaction commits, and is
   * invisible until then. Nothing is changed when this fails, and the transaction can go on.
   *
   * SQLite answers at once instead of by a promise: a caller that waits in the middle of a transaction holds the file's one
   * write lock against this very process.
   *
   * `match` is given the application and its subscriptions as the transaction sees them. The answer is undefined when
   * there is no such application. Throws `NotEnlistableError` when the connection cannot take part.
   */
  publishWithin(connection: object, ref: string, match: Match): Enlisted | undefined | Promise<Enlisted | undefined>
}

/** Makes the publication, given an application and its subscriptions. */
export type Match = (application: Application, subscriptions: Subscriptions) => Publication

export interface Enlisted {
  /**
   * As `Intake.publish` answers; `accepted` holds once the transaction commits. `stale` when the application's endpoints
   * changed all the time.
   */
  readonly published: Published
  /**
   * Says that the transaction has committed, so that the deliveries start at once. Without it they are found: on SQLite
   * within milliseconds, on Postgres by the next reconcile.
   */
  committed(): void
}

/** A connection cannot take part in publishing: it is none, not on the store's database, or has no transaction open. */
export class NotEnlistableError extends Error {
  override readonly name = 'NotEnlistableError'
}

/**
 * Actions that may happen only once for a while: a request under its Idempotency-Key, a publish within its application's
 * dedupe window. Hashes are the caller's; the store only compares them.
 */
export interface Idempotency {
  /**
   * Takes a hash for a request that is about to be carried out, for `reserveMs` at most: a process that dies with it leaves it
   * to expire. Only the answer `reserved` means that the hash was taken.
   */
  reserve(once: Once, reserveMs: number): Promise<Reservation>
  /** Keeps the answer under a hash reserved before, for as long as `once` says. */
  complete(once: Once, answer: KeptAnswer): Promise<void>
  /** Frees a hash reserved before, because the request was refused. An answer under it stays. */
  abandon(once: Once): Promise<void>
  /** Removes up to `limit` expired hashes; answers how many. */
  sweepIdempotency(limit: number): Promise<number>
}

/** A hash that can be taken once within `ttlMs`. Asked for again with another fingerprint, it is a mismatch. */
export interface Once {
  readonly hash: string
  readonly fingerprint: string
  readonly ttlMs: number
}

export interface KeptAnswer {
  readonly status: number
  readonly body: Uint8Array
}

export type Reservation =
  | { readonly state: 'reserved' }
  | { readonly state: 'in_flight' }
  | { readonly state: 'mismatch' }
  | { readonly state: 'answered'; readonly answer: KeptAnswer }

/** An answer as it is stored: sealed, for it may hold a key that is shown once. */
export function sealAnswer(vault: Vault, hash: string, body: Uint8Array): Buffer {
  return Buffer.from(vault.seal(Buffer.from(body).toString('latin1'), placeOf(hash)))
}

/** Opens a stored answer. A request whose answer cannot be opened is neither answered nor carried out again. */
export function openAnswer(vault: Vault, hash: string, status: number, sealed: Uint8Array | null): Reservation {
  try {
    const text = vault.open(Buffer.from(sealed ?? []).toString(), placeOf(hash))
    return { state: 'answered', answer: { status, body: Buffer.from(text, 'latin1') } }
  } catch (error) {
    if (error instanceof SealError) return { state: 'in_flight' }
    throw error
  }
}

function placeOf(hash: string) {
  return { app: 0, endpoint: 0, field: `answer ${hash}` }
}

// Messages that are stored all or none.

/** Ends the transaction because one of them was refused. */
export class Refused extends Error {
  readonly answer: PublishedTogether

  constructor(answer: PublishedTogether) {
    super('refused')
    this.answer = answer
  }
}

/** The messages that the publications became or repeat; throws `Refused` when a publication has none. */
export function allAccepted(answers: readonly Published[]): StoredTogether[] {
  return answers.map((answer, index) => {
    if (answer.state === 'conflict') throw new Refused({ ...answer, index })
    if (answer.state === 'stale' || answer.state === 'mismatch') throw new Refused(answer)
    const { key, id } = answer
    if (answer.state === 'repeated') return { key, id, repeated: true }
    return answer.merged === undefined ? { key, id } : { key, id, merged: answer.merged }
  })
}

/** Messages as they are kept under the hash that was taken for all of them. */
export function writeIdentities(messages: readonly Identity[]): Uint8Array {
  return Buffer.from(JSON.stringify(messages.map(({ key, id }) => [key, id])))
}

/** The answer when the hash was taken before. */
export function repeatedTogether(
  taken: { readonly fingerprint: string; readonly answer: Uint8Array | null },
  once: Once,
): PublishedTogether {
  if (taken.fingerprint !== once.fingerprint || taken.answer === null) return { state: 'mismatch' }
  const pairs: [number, string][] = JSON.parse(new TextDecoder().decode(taken.answer))
  return { state: 'repeated', messages: pairs.map(([key, id]) => ({ key, id })) }
}
