import type { Clock, EpochMs, Random, SteadyMs } from '../domain/clock.ts'
import type { Class } from '../domain/delivery.ts'
import type { Identity, RandomText } from '../domain/ids.ts'
import type { StoreKind, StoreTraits } from '../domain/store-traits.ts'
import type { Access } from '../features/access/store.ts'
import type { Audit } from '../features/audit/store.ts'
import type { DeadFiling, DeadLetters } from '../features/dead-letters/store.ts'
import type { StoreCondition } from '../features/doctor/facts.ts'
import type { Subjects } from '../features/erasure/store.ts'
import type { EventTypes } from '../features/event-types/rows.ts'
import type { History } from '../features/history/store.ts'
import type { Inbox } from '../features/inbox/store.ts'
import type { NounStores } from '../features/rows.ts'
import type { Tasks } from '../features/tasks/store.ts'
import type { AppShares } from './app-shares.ts'
import type { Applications, Endpoints, FoldedNames } from './configuration.ts'
import type { Deliveries, RowName } from './delivering.ts'
import type { DueLane, Lanes, Renewal } from './lanes.ts'
import type { Maintenance } from './maintenance.ts'
import type { Messages } from './messages.ts'
import type { Publication, Publishing } from './publishing.ts'
import type { Vault } from './vault.ts'

// Types that most callers name. The others are imported from the file of their noun.
export type * from './configuration.ts'
export type * from './delivering.ts'
export type * from './lanes.ts'
export type * from './messages.ts'
export type * from './publishing.ts'

/**
 * Everything Sluice remembers, in domain words. Two databases implement it, and one conformance suite
 * (test/store/conformance) tests every method on both.
 *
 * Time: the store alone decides by the world's clock, and Postgres by its server's, so that machines with different
 * clocks agree. Callers speak of durations (`waitMs`, `ageMs`, `dueInMs`), never of instants.
 *
 * Trouble: a method rejects with `StoreTrouble` when the database is busy, gone or full and the same call may succeed
 * later; with `AppError` when the caller asked for something impossible; anything else is a bug.
 */
export interface Store
  extends Applications,
    Endpoints,
    EventTypes,
    FoldedNames,
    Publishing,
    Lanes,
    AppShares,
    Deliveries,
    Messages,
    DeadLetters,
    DeadFiling,
    Inbox,
    Tasks,
    NounStores,
    Subjects,
    History,
    Access,
    Audit,
    Maintenance {
  readonly dialect: StoreKind
  readonly traits: StoreTraits
  /** Sets the receiver of signals: see `Watcher`. One watcher per store. */
  watch(watcher: Watcher): void
  /**
   * Answers when the database takes writes; rejects with `StoreTrouble` when it does not. The answer is a warning for
   * operators, if there is one. Asking often costs no more than asking once a second.
   */
  ping(): Promise<string | undefined>
  /**
   * Measures the condition of the database, with one durable write that changes nothing. Rejects with `StoreTrouble` when
   * the database takes none. It costs a few milliseconds: callers keep the answer for some seconds.
   */
  condition(): Promise<StoreCondition>
  close(): Promise<void>
}

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

/** The parts of the process that a store needs. */
export interface StoreContext {
  readonly clock: Clock
  readonly random: Random
  readonly randomText: RandomText
  /** Seals endpoints' secrets and headers before they are stored. */
  readonly vault: Vault
  /** Called with one sentence when something noteworthy happens that no caller waits for. */
  readonly log?: (sentence: string) => void
  /** Called with one sentence when work in the background met trouble with the database; the store tries again. */
  readonly onTrouble?: (sentence: string) => void
}

/** The database is busy, gone or full. The call may or may not have taken effect; repeating it is safe. */
export class StoreTrouble extends Error {
  override readonly name: string = 'StoreTrouble'
  /** A sentence for callers, where there is more to say than that the store cannot answer. */
  readonly detail: string | undefined

  constructor(message: string, options?: ErrorOptions & { readonly detail?: string }) {
    super(message, options)
    this.detail = options?.detail
  }
}

/** A message that this process has just stored, with a plain delivery to each endpoint that is due at once. */
export interface StoredMessage {
  readonly publication: Publication
  readonly identity: Identity
  /** The due instant of its rows. */
  readonly dueAt: EpochMs
}

/**
 * Signals to the engine. They are hints: a missed one costs latency, never a delivery, because the engine also polls.
 */
export interface Watcher {
  /** Rows were added to these endpoints' queues in this class; a missing argument means any. */
  rows(endpoints?: readonly number[], itsClass?: Class): void
  /**
   * Messages that this process has just stored; storing them began then. Answers the endpoints whose queues have yet to be
   * read for them, as `rows` would have it.
   */
  stored?(messages: readonly StoredMessage[], begunAt: SteadyMs): readonly number[]
  /** Fresh rows that another process has stored. Of other rows in their queues this says nothing. */
  named?(names: readonly RowName[]): void
  /** A lane may have become claimable. Where the store knows some that did, it names them. */
  lanes(woken?: readonly DueLane[]): void
  /** These endpoints' settings changed, or some endpoint's when the list is missing. */
  settings(endpoints?: readonly number[]): void
  /** These messages must not be sent from memory any more; without a list, any may be meant. */
  expunged?(messages?: readonly number[]): void
  /** A message was accepted whose deliveries have yet to be expanded. */
  fanOuts?(): void
  /** There may be a task to take. */
  tasks?(): void
  /** There may be rows in the inbox. */
  inbox?(): void
  /** Other workers share the lanes from now on: one has joined, is leaving, or has ended. */
  workers?(): void
  /** Workers were found dead between two renewals. */
  workersDied?(died: NonNullable<Renewal['died']>): void
  /** The store has lost sight of this process, and others may soon end its workers; until it is seen again. */
  sessionLost?(): void
  sessionHeld?(): void
  /** A request asks for snapshots of these lanes; their owners answer. */
  asked?(endpoints: readonly number[]): void
}
