import type { Clock, EpochMs, Random } from '../domain/clock.ts'
import type { Attempt, Class, DeadLetter, Message } from '../domain/delivery.ts'
import type { Application, ApplicationSettings, DisabledReason, Endpoint } from '../domain/endpoint.ts'
import type { Flow } from '../domain/flow.ts'
import type { RandomText } from '../domain/ids.ts'
import type { DeadReason } from '../domain/judge.ts'
import type { Subscription } from '../domain/match.ts'
import type { Notice } from '../domain/notice.ts'
import type { OutcomeCode } from '../domain/outcome.ts'
import type { Access } from './access.ts'
import type { Auditing, Trailing } from './auditing.ts'
import type { Bounding } from './bounding.ts'
import type { Browsing, DeliveryKey } from './browsing.ts'
import type { Coalescing } from './coalescing.ts'
import type { Enlisting } from './enlisting.ts'
import type { EventTypes } from './event-types.ts'
import type { Heads } from './heads.ts'
import type { Idempotency, Once } from './idempotency.ts'
import type { Leading } from './leading.ts'
import type { Notices } from './notices.ts'
import type { Regions } from './regions.ts'
import type { Removals } from './removals.ts'
import type { Replaying } from './replaying.ts'
import type { Retention } from './retention.ts'
import type { Schedules } from './schedules.ts'
import type { Standing } from './standing.ts'
import type { Statistics } from './statistics.ts'
import type { Tasks } from './tasks.ts'
import type { Transferring } from './transferring.ts'
import type { Vault } from './vault.ts'

/**
 * Everything Sluice remembers, in domain words. Two databases implement it, and one conformance suite
 * (test/store/conformance) says what each method promises.
 *
 * Time: the store alone decides by the world's clock, and Postgres by its server's, so that machines with different
 * clocks agree. Callers speak of durations (`waitMs`, `ageMs`, `dueInMs`), never of instants.
 *
 * Trouble: a method rejects with `StoreTrouble` when the database is busy, gone or full and the same call may succeed
 * later; with `AppError` when the caller asked for something impossible; anything else is a bug.
 */
export interface Store
  extends Configuration,
    Intake,
    Ownership,
    Delivering,
    History,
    Enlisting,
    Idempotency,
    Bounding,
    Heads,
    Browsing,
    Coalescing,
    Replaying,
    Transferring,
    Tasks,
    EventTypes,
    Regions,
    Removals,
    Schedules,
    Leading,
    Retention,
    Statistics,
    Standing,
    Access,
    Auditing,
    Notices,
    Trailing {
  readonly dialect: 'sqlite' | 'postgres'
  /** Tells what others did: see `Watcher`. One watcher per store. */
  watch(watcher: Watcher): void
  /** Answers when the database does; rejects with `StoreTrouble` when it does not. */
  ping(): Promise<void>
  close(): Promise<void>
}

/** What a store needs from the process to be opened. */
export interface StoreContext {
  readonly clock: Clock
  readonly random: Random
  readonly randomText: RandomText
  /** Seals endpoints' secrets and headers before they are stored. */
  readonly vault: Vault
  /** Called with one sentence when something noteworthy happens that no caller waits for, such as a lost connection. */
  readonly log?: (sentence: string) => void
}

/** The database is busy, gone or full. What was asked may or may not have happened; asking again is safe. */
export class StoreTrouble extends Error {
  override readonly name = 'StoreTrouble'
}

/**
 * Signals to the engine. They are hints: a missed one costs latency, never a delivery, because the engine also polls.
 */
export interface Watcher {
  /** Rows were added to these endpoints' queues in this class; what is missing is unknown. */
  rows(endpoints?: readonly number[], itsClass?: Class): void
  /** A lane may have become claimable. */
  lanes(): void
  /** These endpoints' settings changed, or some endpoint's when the list is missing. */
  settings(endpoints?: readonly number[]): void
  /** These messages must not be sent from memory any more; what is missing is unknown. */
  expunged?(messages?: readonly number[]): void
  /** A message was accepted whose deliveries have yet to be expanded. */
  fanOuts?(): void
  /** Somebody wants to know how these lanes stand; whoever owns one answers. */
  asked?(endpoints: readonly number[]): void
}

// — Configuration —

export interface Configuration {
  /** Rejects with AppError `conflict` when the uid is taken. */
  createApplication(input: NewApplication): Promise<Application>
  /** By id or uid. */
  findApplication(ref: string): Promise<Application | undefined>
  listApplications(page: PageRequest): Promise<Page<Application>>
  /** Changes the given fields, and makes publishers look the application up again. */
  updateApplication(app: number, change: Partial<NewApplication>): Promise<Application | undefined>
  /** Also makes the endpoint's lane. Rejects with AppError `conflict` when the uid is taken within the application. */
  createEndpoint(app: number, input: NewEndpoint): Promise<Endpoint>
  /** By id or uid, within the application. */
  findEndpoint(app: number, ref: string): Promise<Endpoint | undefined>
  listEndpoints(app: number, page: PageRequest): Promise<Page<Endpoint>>
  /**
   * Changes the given fields. Disabling or pausing stops the lane and keeps what waits; undoing it releases the lane. A
   * change that depends on what is stored is a function, run inside the transaction: nobody else's change comes between.
   */
  updateEndpoint(app: number, endpoint: number, change: EndpointChange): Promise<Endpoint | undefined>
  /** Several endpoints by key, whatever their application; those that no longer exist are left out. */
  loadEndpoints(endpoints: readonly number[]): Promise<Endpoint[]>
}

export type NewApplication = Pick<Application, 'name' | 'uid' | 'throttleRate' | 'metadata'> & {
  readonly dedupeSeconds?: number | null
  readonly settings?: ApplicationSettings
}
export type NewEndpoint = Omit<
  Endpoint,
  'key' | 'id' | 'app' | 'disabledReason' | 'flow' | 'createdAt' | 'updatedAt'
> & {
  /** What is missing is as before, or as by default. */
  readonly flow?: Partial<Flow>
}

/** What to change of an endpoint, or how to find that out from what is stored at that instant; it may throw AppError. */
export type EndpointChange = Partial<NewEndpoint> | ((before: Endpoint, now: EpochMs) => Partial<NewEndpoint>)

/** Items after `after` (a key, exclusive) in the asked order of keys. */
export interface PageRequest<Key = number> {
  readonly limit: number
  readonly order: 'ascending' | 'descending'
  readonly after: Key | null
}

export interface Page<T> {
  readonly items: T[]
  /** Whether nothing lies beyond the last item. */
  readonly done: boolean
}

// — Intake —

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

// — Ownership —

/**
 * Who delivers what. A worker joins and keeps renewing its lease; it claims lanes that have something to do and are
 * owned by nobody, and releases them when they rest. A worker whose lease has lapsed may be declared dead by any other;
 * its lanes then become claimable, and nothing it says is recorded any more.
 */
export interface Ownership {
  join(worker: NewWorker): Promise<number>
  /** Extends the lease, and declares dead whoever let theirs lapse. `alive: false` means this worker was declared dead. */
  renew(worker: number, leaseMs: number): Promise<Renewal>
  /** Hands back every lane and leaves. What the worker had not settled is delivered by others. */
  leave(worker: number): Promise<void>
  /**
   * Takes up to `limit` lanes that are due, the longest waiting first. With `ownedToo` it also answers every lane the
   * worker owns already: for when the answer to an earlier claim was lost.
   */
  claim(worker: number, limit: number, ownedToo?: boolean): Promise<Claim>
  /**
   * Gives lanes back with what their next owner must know. The store itself finds out when each is due next, in a way
   * that cannot miss a row published at the same moment. A lane whose endpoint's circuit was changed since it was claimed
   * does not rest, whatever is said here: whoever takes it next looks anew.
   */
  release(worker: number, lanes: readonly LaneRest[]): Promise<void>
  /**
   * Wakes every lane that nobody owns, that has something to do and that would sleep past it. It repairs what a
   * publisher that died between its commit and its wake-up left behind; the answer is how many it had to repair.
   */
  reconcile(): Promise<number>
}

export interface NewWorker {
  readonly leaseMs: number
  /** For people: host, process id, what it listens on. */
  readonly description: string
}

export interface Renewal {
  readonly alive: boolean
  /** Workers alive, this one included. */
  readonly workers: number
  /** Lanes to share among them: owned by any worker, or due and owned by nobody. */
  readonly activeLanes: number
  /** How many lanes the worker owns that owns the fewest. */
  readonly fewestLanes: number
}

export interface Claim {
  readonly lanes: ClaimedLane[]
  /** When the next lane that nobody owns is due, from now; undefined when none is. */
  readonly nextInMs: number | undefined
}

export interface ClaimedLane {
  readonly endpoint: Endpoint
  /** False when the last owner died: how full its bucket was is then unknown. */
  readonly clean: boolean
  /** How far from full the bucket is, by the last owner's word. */
  readonly bucketDebtMs: number
  /** How long a Retry-After still holds the lane. */
  readonly holdMs: number
  /** How well the receiver does, as it was last saved, and how long ago that was. */
  readonly health: string | null
  readonly healthAgeMs: number
}

export interface LaneRest {
  readonly endpoint: number
  readonly bucketDebtMs: number
  /** How long nothing may be sent, for want of a token or by Retry-After; the lane sleeps at least this long. */
  readonly notBeforeMs: number
  /** Missing when nothing of it has changed since it was saved. */
  readonly health?: string | null | undefined
}

// — Delivering —

export interface Delivering {
  /** Reads the head of queues, in order: by due instant, then by key. Rows stay in place until they are settled. */
  readDue(reads: readonly DueRead[]): Promise<DueRows[]>
  /** What is needed to send these messages; those that no longer exist are left out. */
  loadMessages(keys: readonly number[]): Promise<Outgoing[]>
  /** As `loadMessages`, for deliveries that get something else than the message's own body, or a signature with it. */
  loadVariants(keys: readonly VariantKey[]): Promise<Outgoing[]>
  /**
   * Records attempts and their verdicts, all or none. `fenced` means the worker was declared dead: nothing was recorded,
   * and it must drop what it holds. Settling the same thing twice is harmless: a row that is no longer queued is not
   * queued again.
   */
  settle(worker: number, settlements: readonly Settlement[], effects: LaneEffects): Promise<'settled' | 'fenced'>
}

/** Timed rows are read only when due; fresh and replayed ones always are. */
export interface DueRead {
  readonly endpoint: number
  readonly class: Class
  /** Continue behind this row; null starts at the head. */
  readonly after: { readonly dueAt: EpochMs; readonly message: number } | null
  readonly limit: number
}

export interface DueRows {
  readonly rows: PendingRow[]
  /** For the timed class, when fewer rows than asked were due: when the next one will be, from now. */
  readonly nextInMs: number | undefined
}

export interface PendingRow {
  readonly message: number
  readonly class: Class
  /** The stored due instant: part of the row's key. Not for deciding by. */
  readonly dueAt: EpochMs
  /** Attempts that count against the policy. */
  readonly attempts: number
  /** Attempts made before a replay, which do not. */
  readonly priorAttempts: number
  /** How long ago the delivery was first due, when read. */
  readonly ageMs: number
  /** In ordered lanes: what goes one after the other; null for whatever has no order. */
  readonly orderKey: number | null
  /**
   * In ordered lanes: how long it still waits for its retry, when read; `Infinity` until somebody acts, and `skipped` once
   * somebody did so by taking it out of the way.
   */
  readonly heldMs: number
  /** How long until nobody wants it any more, when read; 0 or less when that is past, null for never. */
  readonly expiresInMs: number | null
  /** Which body it is sent with; null for the message's own. */
  readonly variant: number | null
}

/** Which variant of which message. */
export interface VariantKey {
  readonly message: number
  readonly variant: number
}

export interface Outgoing extends Pick<Message, 'key' | 'id' | 'eventType' | 'body' | 'contentType' | 'headers'> {
  /** Null for the message's own body. */
  readonly variant: number | null
  /** Made when the message was accepted; null when each attempt is signed anew. */
  readonly signature: string | null
}

export interface Settlement {
  readonly endpoint: number
  readonly app: number
  readonly row: PendingRow
  /** Null when it ended without being tried. */
  readonly attempt: TriedAttempt | null
  /** Its lane keeps an order: others wait for this to be recorded, and an operator may be directing it. */
  readonly inOrder?: boolean
  readonly verdict:
    | { readonly state: 'delivered' }
    | { readonly state: 'waiting'; readonly waitMs: number }
    /** As waiting, but it keeps its place in the queue. */
    | { readonly state: 'held'; readonly waitMs: number }
    /** As held, until somebody acts. */
    | { readonly state: 'blocked' }
    | { readonly state: 'dead'; readonly reason: DeadReason }
}

/** How an attempt went, as it is recorded. */
export interface TriedAttempt {
  readonly id: string
  readonly startedAgoMs: number
  readonly durationMs: number
  readonly status: number
  readonly code: OutcomeCode
  readonly error: string | null
  readonly response: Uint8Array | null
}

export interface LaneEffects {
  /** Recorded at once, so that a Retry-After outlives its worker. A longer hold already recorded stays. */
  readonly holds: readonly { readonly endpoint: number; readonly holdMs: number }[]
  /** Endpoints that are disabled from now on, which is noticed; `failingMs` is how long they had been failing. */
  readonly disable: readonly {
    readonly endpoint: number
    readonly reason: DisabledReason
    readonly failingMs?: number
  }[]
  /** How well receivers do, where that changed in a way that must outlive the worker. */
  readonly health: readonly { readonly endpoint: number; readonly health: string | null }[]
  /** What else operators are to be told. */
  readonly notices?: readonly Notice[]
}

// — History —

export interface History {
  /** By id or eventId, within the application. */
  findMessage(app: number, ref: string): Promise<Message | undefined>
  /** All attempts of one message, by endpoint and ordinal. */
  attemptsOf(message: number): Promise<Attempt[]>
  findDead(endpoint: number, message: number): Promise<DeadLetter | undefined>
  /** Those of these deliveries that are dead letters. */
  deadAmong(deliveries: readonly DeliveryKey[]): Promise<DeliveryKey[]>
  /** Counts for people and tests: deliveries not finished, dead letters, messages, attempts. */
  counts(): Promise<{ pending: number; dead: number; messages: number; attempts: number }>
}
