import type { ReplayFilter } from '../features/tasks/rules.ts'
import type { EpochMs } from './clock.ts'
import type { DeadReason } from './judge.ts'
import { isMatched } from './match.ts'
import type { OutcomeCode, ResponseHeaders } from './outcome.ts'

/**
 * The class of a delivery: a lane serves fresh ones first, replays last. Fresh and replayed deliveries are due as soon as they
 * are stored; timed ones (retries, and messages published for later) at their instant.
 */
export const fresh = 0
export const timed = 1
export const replay = 2
export type Class = 0 | 1 | 2
export const classes: readonly Class[] = [fresh, timed, replay]

/** One accepted event; its body's bytes never change. */
export interface Message {
  readonly key: number
  readonly id: string
  readonly app: number
  readonly eventType: string
  readonly eventId: string | null
  readonly channels: readonly string[] | null
  readonly body: Uint8Array
  readonly contentType: string
  /** The endpoints it was accepted for. */
  readonly endpoints: readonly number[]
  /** For searching only. */
  readonly tags: readonly string[] | null
  /** Headers of every attempt. */
  readonly headers: Readonly<Record<string, string>> | null
  /** When its deliveries were first due, if that was later than the publish. */
  readonly deliverAt: EpochMs | null
  /** When it expires; null for never. */
  readonly expiresAt: EpochMs | null
  /** Messages with the same key go one after the other to endpoints that order by key. */
  readonly orderingKey: string | null
  /** Its body was erased on request: it is empty, and the message is not sent any more. */
  readonly expunged: boolean
  /**
   * Why the body was erased: `delivered` when all deliveries had succeeded, `subject` when it named a data subject that was
   * erased; null otherwise.
   */
  readonly eraseReason: 'delivered' | 'subject' | null
}

/** A message without its body, the list of its endpoints and its headers, which may be large. */
export interface MessageSummary extends Omit<Message, 'body' | 'endpoints' | 'headers'> {
  /** The size of its body. */
  readonly bytes: number
}

/** One HTTP try of one delivery, as history keeps it. */
export interface Attempt {
  readonly id: string
  readonly message: number
  readonly endpoint: number
  /** 1 for the first try of this message at this endpoint. */
  readonly n: number
  readonly at: EpochMs
  readonly durationMs: number
  readonly status: number
  readonly code: OutcomeCode
  readonly error: string | null
  readonly response: Uint8Array | null
  /** Null without an answer, and once the answer is erased. */
  readonly responseHeaders: ResponseHeaders | null
  /** See `readTimings`; null when the split of its time is unknown. */
  readonly timings: string | null
  /** When the next try is due; null when this one was the last. */
  readonly nextAt: EpochMs | null
  readonly trigger: 'scheduled' | 'manual'
}

/** All of an attempt but the receiver's answer, which may be large. */
export interface AttemptSummary extends Omit<Attempt, 'response' | 'responseHeaders'> {
  /** The size of the answer. */
  readonly bytes: number
}

/** A delivery that used up its attempts or its time. */
export interface DeadLetter extends Pick<Attempt, 'endpoint' | 'message' | 'status' | 'code' | 'error' | 'response'> {
  readonly app: number
  readonly reason: DeadReason
  readonly attempts: number
  readonly diedAt: EpochMs
}

/** All of a dead letter but the last answer, which may be large. */
export interface DeadLetterSummary extends Omit<DeadLetter, 'response'> {
  /** The size of the answer. */
  readonly bytes: number
}

/** Selects messages of a list. A missing field, or null, matches all. */
export interface MessageFilter {
  readonly channel?: string | null | undefined
  readonly tag?: string | null | undefined
  readonly eventTypes?: readonly string[] | null | undefined
}

/** Whether a filter matches every message. */
export function isOpen({ channel, tag, eventTypes }: MessageFilter): boolean {
  return channel == null && tag == null && eventTypes == null
}

/** Whether a message meets a filter. Event types are names, not patterns. */
export function meetsFilter(message: MessageSummary, { channel, tag, eventTypes }: MessageFilter): boolean {
  if (channel != null && !message.channels?.includes(channel)) return false
  if (tag != null && !message.tags?.includes(tag)) return false
  return isMatched(message.eventType, eventTypes)
}

/** Whether an attempt's status is of a class: 0 for no answer, 200 for 2xx and so on. */
export function isOfClass(attempt: Pick<Attempt, 'status'>, statusClass: number): boolean {
  return Math.floor(attempt.status / 100) * 100 === statusClass
}

type Latest = Pick<Attempt, 'code' | 'status' | 'nextAt'>

/** Whether a replay includes a message, by its latest attempt at the endpoint. Unfinished deliveries are not replayed. */
export function meetsReplay(message: MessageSummary, latest: Latest | undefined, filter: ReplayFilter): boolean {
  if (latest === undefined || latest.nextAt !== null || message.expunged) return false
  if (filter.outcome !== null && (filter.outcome === 'delivered') !== (latest.code === 'delivered')) return false
  if (filter.statusClass !== null && !isOfClass(latest, filter.statusClass)) return false
  return meetsFilter(message, filter)
}
