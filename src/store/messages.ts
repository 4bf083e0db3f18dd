import type { EpochMs } from '../domain/clock.ts'
import type { Attempt, AttemptSummary, Message, MessageSummary } from '../domain/delivery.ts'
import type { PayloadEnd } from './maintenance.ts'

/**
 * Messages and their attempts. Each list is a range of an index, read in its order or backwards, with at most `limit` rows.
 * A list has no bodies and no answers, only their sizes: a caller loads those that it shows, as many at a time as it can
 * hold.
 */
export interface Messages {
  /** By id or eventId, within the application. */
  findMessage(app: number, ref: string): Promise<Message | undefined>
  /** All attempts of one message, by endpoint and ordinal. */
  attemptsOf(message: number): Promise<Attempt[]>
  /** Counts of all rows, for tests and operators: deliveries not finished, dead letters, messages, attempts. */
  counts(): Promise<{ pending: number; dead: number; messages: number; attempts: number }>
  /** Whether any application has a message. */
  hasMessages(): Promise<boolean>
  /** An application's messages by key, from `from` on and before `until`. */
  listMessages(app: number, range: KeyRange): Promise<MessageSummary[]>
  /** Several messages by key, whatever their application; those that no longer exist are left out. */
  loadSummaries(keys: readonly number[]): Promise<MessageSummary[]>
  /** The endpoints that these messages were accepted for. A message that went to more than `most` is left out. */
  loadDestinations(keys: readonly number[], most: number): Promise<{ key: number; endpoints: number[] }[]>
  /** Which of these messages the endpoint has not missed: they were accepted for it, or for another endpoint by name. */
  acceptedFor(endpoint: number, keys: readonly number[]): Promise<number[]>
  /** How many deliveries the messages of a range were accepted for, ascending, and the last message counted. */
  countDestinations(app: number, range: Omit<KeyRange, 'order'>): Promise<DestinationCount>
  /** An endpoint's attempts by the instant they began. */
  listAttempts(endpoint: number, range: AttemptRange): Promise<ListedAttempt[]>
  /** The newest attempts of messages that were accepted within this time, by message, the newest first. */
  recentAttempts(withinMs: number, limit: number): Promise<RecentlyTried[]>
  /** The endpoints at which a message was tried, by key. */
  attemptedEndpoints(message: number): Promise<number[]>
  /** All attempts of a message, by endpoint and ordinal: there may be very many. */
  attemptBriefsOf(message: number): Promise<AttemptBrief[]>
  /** Several attempts, in the order asked; undefined where there is none any more. */
  loadAttempts(attempts: readonly AttemptKey[]): Promise<(Attempt | undefined)[]>
  findAttempt(message: number, id: string): Promise<Attempt | undefined>
  /** The latest attempt of each delivery, in the order asked; undefined before the first. */
  latestAttempts(deliveries: readonly DeliveryKey[]): Promise<(AttemptSummary | undefined)[]>
  /** Replaces the receiver's answer, also in the dead letter that quotes it. */
  expungeAttempt(attempt: AttemptKey): Promise<void>
  /** The messages that deliveries were coalesced into, in the order asked; undefined for others. */
  findCoalesced(deliveries: readonly DeliveryKey[]): Promise<(Coalesced | undefined)[]>
  /**
   * When the deliveries of a message ended, of those to the endpoints from `from` on, some hundred at a time; undefined
   * while one of them is queued or not expanded yet.
   */
  deliveriesEnd(message: number, from: number): Promise<DeliveriesEnd | undefined>
  /**
   * Erases the bodies of messages; channels, tags and attempts stay. `deliveriesEnd` has found, after `duePayloadEnds` gave
   * these ends, that all deliveries succeeded. A message of which any delivery was replayed since keeps its body. Answers
   * the messages that were erased.
   */
  eraseDelivered(ends: readonly Pick<PayloadEnd, 'message' | 'at'>[]): Promise<number[]>
  /**
   * Erases the bodies of messages and takes their deliveries out of every queue. An attempt under way may still arrive. The
   * caller bounds the list: it is one transaction (see `stepsOf` in features/erasure/rules.ts).
   */
  expungeMessages(messages: readonly number[]): Promise<void>
}

export interface DeliveriesEnd {
  /** The latest recorded end; the instant of the message when there is none. */
  readonly at: EpochMs
  /** Whether the latest attempt of each succeeded. */
  readonly allDelivered: boolean
  /** Where to continue; null when these were the last. */
  readonly next: number | null
}

export interface Coalesced {
  readonly at: EpochMs
  /** The message that took its place, which may have given way itself; null when that message is gone. */
  readonly into: string | null
}

export type Order = 'ascending' | 'descending'

/** One message on its way to one endpoint. */
export interface DeliveryKey {
  readonly endpoint: number
  readonly message: number
}

/** Keys in `[from, until)` behind `after`. */
export interface KeyRange {
  readonly from: number
  readonly until: number
  readonly after: number | null
  readonly order: Order
  readonly limit: number
}

export interface DestinationCount {
  readonly messages: number
  readonly destinations: number
  /** Null when there was none. */
  readonly last: number | null
}

/** Instants in `[from, until)` behind `after`, which names one row among those of one instant. */
export interface AttemptRange {
  readonly from: EpochMs
  readonly until: EpochMs
  readonly after: Pick<Attempt, 'at' | 'message' | 'n'> | null
  readonly order: Order
  readonly limit: number
}

/** An attempt without the receiver's answer. */
export type RecentlyTried = Omit<AttemptSummary, 'bytes' | 'timings' | 'trigger'>

/** One attempt among all. */
export type AttemptKey = Pick<Attempt, 'message' | 'endpoint' | 'n'>

/** The little of an attempt that choosing among very many takes. */
export type AttemptBrief = Pick<
  AttemptSummary,
  'id' | 'message' | 'endpoint' | 'n' | 'at' | 'status' | 'code' | 'bytes'
>

export interface ListedAttempt extends AttemptSummary {
  /** Whether no later attempt of the same delivery is recorded. */
  readonly isLatest: boolean
}

/** The text in place of an erased answer. */
export const expungedResponse = new TextEncoder().encode('EXPUNGED')
