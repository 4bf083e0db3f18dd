import type { EpochMs } from '../domain/clock.ts'
import type { Class, Message } from '../domain/delivery.ts'
import type { DeadReason, Verdict } from '../domain/judge.ts'
import type { OutcomeCode } from '../domain/outcome.ts'
import type { TraceContext } from '../domain/trace-context.ts'
import type { DisabledReason, Endpoint } from '../features/endpoints/rules.ts'
import type { Notice } from '../features/notices/rules.ts'
import type { QueueCursor } from './publishing.ts'
import type { Store } from './store.ts'

/** Reading, settling and ending deliveries. */
export interface Deliveries extends Delivering, Bounding {}

/** Deliveries on their way out, for the owners of their lanes. */
export interface Delivering {
  /** Reads the head of queues, in order: by due instant, then by key. Rows stay in place until they are settled. */
  readDue(reads: readonly DueRead[]): Promise<DueRows[]>
  /**
   * Reads fresh rows by their names, and with them the messages that are wanted; rows that no longer wait are left out. A
   * message may be missing although it exists: `loadMessages` brings it.
   */
  readNamed(names: readonly WantedRow[]): Promise<NamedRows>
  /** The parts of these messages that sending needs; messages that no longer exist are left out. */
  loadMessages(keys: readonly number[]): Promise<Outgoing[]>
  /** As `loadMessages`, for deliveries that get something else than the message's own body, or a signature with it. */
  loadVariants(keys: readonly VariantKey[]): Promise<Outgoing[]>
  /**
   * Records attempts and their verdicts, all or none. `fenced` means the worker was declared dead: nothing was recorded,
   * and it must drop its lanes. Settling the same delivery twice is harmless: a row that is no longer queued is not
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

/** Names a fresh row, so that it can be read without the rows in front of it. */
export interface RowName {
  readonly endpoint: number
  readonly message: number
  readonly dueAt: EpochMs
}

export interface WantedRow extends RowName {
  /** Whether its message is wanted, too. */
  readonly withMessage: boolean
}

export interface NamedRows {
  readonly rows: readonly (PendingRow & { readonly endpoint: number })[]
  readonly messages: readonly Outgoing[]
}

export interface DueRows {
  readonly rows: PendingRow[]
  /** For the timed class, when fewer rows than asked were due: when the next one will be, from now. */
  readonly nextInMs: number | undefined
}

/** The first rows of a queue. */
export interface QueueFront {
  /** By class. */
  readonly pages: readonly [fresh: DueRows, timed: DueRows, replay: DueRows]
  /** A page with fewer rows than this has all that there are. */
  readonly limit: number
}

export interface PendingRow {
  readonly message: number
  readonly class: Class
  /** The stored due instant: part of the row's key. Not for deciding by. */
  readonly dueAt: EpochMs
  /** Attempts that count against the policy. */
  readonly attempts: number
  /** Attempts that do not: those before a replay, and those that Sluice gave up. */
  readonly priorAttempts: number
  /** How long ago the delivery was first due, when read. */
  readonly ageMs: number
  /** How long ago its next attempt was due, when read; missing where the row does not tell. */
  readonly lateMs?: number
  /** In ordered lanes: deliveries with the same key go one after the other; null for a delivery without an order. */
  readonly orderKey: number | null
  /**
   * In ordered lanes: how long it still waits for its retry, when read; `Infinity` until an operator acts, and `skipped`
   * once an operator has skipped it.
   */
  readonly retryInMs: number
  /** How long until the message expires, when read; 0 or less when it has, null for never. */
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
  /** The context of the trace that the message belongs to; null when it belongs to none. */
  readonly trace: TraceContext | null
  /** The headers with which it arrived at a source; null for a message that was published. */
  readonly arrivedHeaders: Readonly<Record<string, string>> | null
  /** Null for the message's own body. */
  readonly variant: number | null
  /** Made when the message was accepted; null when each attempt is signed by itself. */
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
  readonly verdict: Verdict
}

/** How an attempt went, as it is recorded. */
export interface TriedAttempt {
  readonly id: string
  /** How long ago it began, at the moment of the call: in trouble, minutes pass before it can be recorded. */
  startedAgoMs(): number
  readonly durationMs: number
  readonly status: number
  readonly code: OutcomeCode
  readonly error: string | null
  readonly response: Uint8Array | null
  readonly responseHeaders?: string | undefined
  /** See `writeTimings`. */
  readonly timings?: string | null
  /** Time from the instant at which the delivery was first due until the attempt started. Counted, not stored. */
  readonly waitedMs?: number
  /** How much of that its lane could send and waited for a slot of its worker; 0 for none. Counted, not stored. */
  readonly heldUpMs?: number
  /** Time from the instant at which this attempt was due until it started, where that is known. Counted, not stored. */
  readonly lateMs?: number | undefined
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
  /** Other notices for operators. Of the frequent ones, those that an operational webhook subscribes to are written. */
  readonly notices?: readonly Notice[]
}

/**
 * Ends deliveries without an attempt that wait too long or are too many. The owner of a lane does so by settling. On an
 * unowned lane any process may do so, here, because the lane stays unowned until that is done. So a delivery never has two
 * ends. The caller decides which deliveries end and why.
 */
export interface Bounding {
  /**
   * Unowned lanes in which deliveries wait, among the next `limit` endpoints behind `after` that have any waiting. Each comes
   * with the first row of every class, due or not. Lanes that became due within the last `wakingMs` are left out: a worker is
   * about to take them. `next` is null behind the last endpoint.
   */
  readResting(
    after: number | null,
    limit: number,
    wakingMs?: number,
  ): Promise<{ readonly lanes: readonly RestingLane[]; readonly next: number | null }>
  /** The first `limit` rows of every class of one queue, due or not. */
  readFronts(endpoint: number, limit: number): Promise<PendingRow[]>
  /**
   * Up to `limit` deliveries whose message has expired, the earliest first, from `next` of another page on; those in lanes
   * with an owner are left out. A page may be short, or repeat deliveries of an earlier one. `next` is null when nothing more
   * has expired.
   */
  readExpired(
    from: number | null,
    limit: number,
  ): Promise<{ readonly deliveries: readonly WaitingDelivery[]; readonly next: number | null }>
  /** Ends deliveries without an attempt, where their lane is unowned and they still wait; answers which. */
  endResting(ends: readonly RestingEnd[]): Promise<RestingEnd[]>
}

/** An unowned lane, with the settings that decide how long its rows may wait. */
export interface RestingLane extends Pick<Endpoint, 'app' | 'retry' | 'flow'> {
  readonly endpoint: number
  readonly rows: readonly PendingRow[]
}

export interface WaitingDelivery {
  readonly endpoint: number
  readonly app: number
  readonly row: PendingRow
}

export interface RestingEnd extends WaitingDelivery {
  readonly reason: DeadReason
}

/** The last attempt of a dead letter that was never tried. */
export const untried = { status: 0, code: 'untried', error: null, response: null } as const

/** `held_until` of a row that waits for an operator: no instant is later. */
export const blockedUntil: EpochMs = Number.MAX_SAFE_INTEGER

/** `held_until` of a row that an operator has skipped: its lane's owner ends it. */
export const skipMark: EpochMs = -1

/** `PendingRow.retryInMs` of a row that is to be ended without being sent. */
export const skipped = -1

/** Rows counted at once: about half a millisecond of SQLite's time. */
const rowsPerPage = 5000
/** Counting goes on by at least this much beyond the limit, or by a tenth of it, so that one count is worth its cost. */
const leastCounted = 500

/** Counts how many more of an endpoint's deliveries wait than may, a page at a time. The queue may change meanwhile. */
export class SurplusCount {
  readonly #store: Pick<Store, 'surveyWaiting'>
  readonly #endpoint: number
  readonly #limit: number
  readonly #most: number
  #counted = 0
  #after: QueueCursor | null

  constructor(store: Pick<Store, 'surveyWaiting'>, endpoint: number, limit: number) {
    this.#store = store
    this.#endpoint = endpoint
    this.#limit = limit
    this.#most = limit + Math.max(leastCounted, Math.ceil(limit / 10))
    this.#after = { endpoint, class: 0, dueAt: 0, message: 0 }
  }

  /** Counts the next page; answers the surplus once that is known, negative while there is room. */
  async step(): Promise<number | undefined> {
    const rows = Math.min(rowsPerPage, this.#most - this.#counted)
    const page = await this.#store.surveyWaiting(this.#after, rows, 0, true)
    for (const { endpoint, count } of page.counts) if (endpoint === this.#endpoint) this.#counted += count
    this.#after = page.next
    const isOver = this.#after?.endpoint !== this.#endpoint || this.#counted >= this.#most
    return isOver ? this.#counted - this.#limit : undefined
  }
}
