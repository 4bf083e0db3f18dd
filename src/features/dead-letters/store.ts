import type { EpochMs } from '../../domain/clock.ts'
import type { DeadLetter, DeadLetterSummary, Message } from '../../domain/delivery.ts'
import { withKey } from '../../domain/ids.ts'
import type { DeliveryKey, KeyRange, Order } from '../../store/messages.ts'
import type { Variant } from '../../store/publishing.ts'

/** Dead letters: listing them, sending them again, and taking them to another store. */
export interface DeadLetters {
  findDead(endpoint: number, message: number): Promise<DeadLetter | undefined>
  /** The dead letters among these deliveries. */
  deadAmong(deliveries: readonly DeliveryKey[]): Promise<DeliveryKey[]>
  /** An application's dead letters, those of one of its endpoints, or all there are, by the instant they died. */
  listDead(app: number | null, range: DeadRange): Promise<DeadLetterSummary[]>
  /** An endpoint's dead letters by message. */
  listDeadOf(endpoint: number, range: KeyRange): Promise<DeadLetterSummary[]>
  /** The dead letters among these deliveries, without their answers; in no order. */
  summariseDead(deliveries: readonly DeliveryKey[]): Promise<DeadLetterSummary[]>
  /** Several dead letters, in the order asked; undefined where there is none any more. */
  loadDead(deliveries: readonly DeliveryKey[]): Promise<(DeadLetter | undefined)[]>
  /** How many rows one of these lists has, counted up to `limit`. */
  countListed(list: CountedList, limit: number): Promise<number>
  /**
   * Queues deliveries once more, in the class that is served last, and removes their dead letters. Attempts and age count
   * from zero; attempt numbers go on. Answers the deliveries that it queued. It leaves out deliveries that are queued
   * already, and those whose message is expunged or gone; a delivery that waits for more than a moment is brought forward.
   */
  replay(deliveries: readonly DeliveryKey[]): Promise<DeliveryKey[]>
  /** Which of these deliveries wait in the class of replays. */
  findReplaying(deliveries: readonly DeliveryKey[]): Promise<DeliveryKey[]>
  /** The contents of deliveries, in the order asked; undefined where the message no longer exists. */
  loadContents(deliveries: readonly DeliveryKey[]): Promise<(Contents | undefined)[]>
  /**
   * Brings dead letters of an application back, all or none, each with its message where that no longer exists. A message
   * keeps its id, unless that is another's here: then it gets one of a neighbouring key, the same one every time. Answers
   * the outcome of each:
   *   imported  — it is a dead letter now;
   *   unchanged — it is one already, or the delivery has gone on since: it is queued, or was tried after it died;
   *   missing   — its message no longer exists, and came without a body.
   */
  importDead(app: number, letters: readonly BroughtLetter[]): Promise<Brought[]>
}

/**
 * How far dead-letter files are written: one position for each region that processes write files for, and one for the
 * processes that write those of all regions, who name the region null. Letters are in the order in which deliveries died.
 */
export interface DeadFiling {
  /** Has the file begin with the next letter. Answers whether it begins here; false when it began before. */
  beginDeadFile(region: string | null): Promise<boolean>
  /**
   * The next letters behind the position of the file, of all regions. A letter is listed when no other that died before it can
   * become visible any more: at once on SQLite, after 15 seconds on Postgres, whose transactions commit in any order.
   */
  listLettersForFile(region: string | null, limit: number): Promise<LetterForFile[]>
  /** Keeps other writers from the file for this long. Answers false while another one has it. */
  takeDeadFile(region: string | null, writer: string, leaseMs: number): Promise<boolean>
  /** Moves the position behind a letter that the file holds, and lets other writers have the file. */
  moveDeadFile(region: string | null, writer: string, to: DeadPosition): Promise<void>
}

/** A dead letter's place in the order of their deaths. */
export type DeadPosition = Pick<DeadLetter, 'diedAt' | 'endpoint' | 'message'>

/** A dead letter that a file lacks: where it is, the region of its lane and the size of its answer. */
export interface LetterForFile extends DeadPosition {
  readonly region: string
  readonly bytes: number
}

export interface DeadRange {
  /** Only this endpoint's; null for all of the application's, or of every application. */
  readonly endpoint: number | null
  readonly from: EpochMs
  readonly until: EpochMs
  readonly after: DeadPosition | null
  readonly order: Order
  readonly limit: number
}

/** A list to be counted: keys or instants in `[from, until)`. */
export type CountedList =
  | { readonly of: 'messages'; readonly app: number; readonly from: number; readonly until: number }
  | { readonly of: 'dead by message'; readonly endpoint: number; readonly from: number; readonly until: number }
  | {
      readonly of: 'dead'
      readonly app: number | null
      readonly endpoint: number | null
      readonly from: EpochMs
      readonly until: EpochMs
    }

/** The message of a delivery, and its plan. */
export interface Contents extends Planning {
  readonly message: Message
}

/** How a delivery differs from a plain one, where that outlives its first end. */
export interface Planning {
  readonly orderKey: number | null
  readonly variant: Variant | null
}

/** A dead letter that comes from somewhere. */
export interface BroughtLetter extends Omit<DeadLetter, 'app' | 'message'>, Planning {
  readonly message: Omit<Message, 'app' | 'body' | 'endpoints' | 'expunged' | 'eraseReason'>
  /** Null when only the message that is here will do. */
  readonly body: Uint8Array | null
}

export type Brought = 'imported' | 'unchanged' | 'missing'

/** Keys that are tried for a message when another message has its own. */
const neighbours = 64

/** Where a message may be: under its own key, or under one of the next, as the ids there must then be. */
export function* placesOf({ key, id }: { readonly key: number; readonly id: string }) {
  for (let i = 0; i < neighbours; i++) yield { key: key + i, id: withKey('msg', id, key + i) }
}

/**
 * A fresh row is due within this time of its message's key, or else its whole class is searched. On Postgres the key is
 * made before the statement waits for a connection and a lock, so 20 ms, which are enough for SQLite, were too few there;
 * the range holds only rows that still wait, so that the wider one costs SQLite nothing.
 */
export const nearMs = 2000

/** A timed row due within this time stays where it is: a worker may already be about to read it, and would send it too. */
export const bringForwardMs = 1000
