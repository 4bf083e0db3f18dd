import type { Once } from '../store/publishing.ts'
import type { Publication } from '../store/store.ts'
import { dedupeOnce } from './once.ts'
import type { AppSubscriptions } from './subscriptions.ts'

/** The producer's description of an event, beside its body. */
export interface Envelope {
  readonly eventType: string
  readonly eventId: string | null
  readonly channels: readonly string[] | null
  readonly contentType: string
  readonly delayMs: number
  readonly tags?: readonly string[] | null
  /** Headers of every attempt. */
  readonly headers?: Readonly<Record<string, string>> | null
  /** Endpoints with ordering per key get messages with the same key one after the other. */
  readonly orderingKey?: string | null
  /** Identifies the message within the application's dedupe window, instead of its content. */
  readonly dedupeKey?: string | null
  /** The delivery is a dead letter when it was not delivered within this time. */
  readonly expiresInMs?: number | null
  /** The time for which the body is kept, when it is shorter than that of the message. */
  readonly payloadForMs?: number | null
}

/** One event with its body. */
export interface Item {
  readonly envelope: Envelope
  readonly body: Uint8Array
}

const none: readonly Once[] = []

/** A message for all endpoints that match, before their filters and shapes are applied. */
export function plainPublication(
  { app, version, matcher, dedupeMs }: AppSubscriptions,
  { envelope, body }: Item,
  request: Once | null,
): Publication {
  const { eventType, eventId, channels, contentType, delayMs, tags = null, headers = null } = envelope
  const dedupe = dedupeMs === null ? null : dedupeOnce(app, envelope, body, dedupeMs)
  return {
    app,
    version,
    eventType,
    eventId,
    channels,
    contentType,
    delayMs,
    tags,
    headers,
    body,
    payloadForMs: envelope.payloadForMs ?? null,
    expiresInMs: envelope.expiresInMs ?? null,
    orderingKey: envelope.orderingKey ?? null,
    endpoints: matcher.match(eventType, channels),
    once: request === null && dedupe === null ? none : [request, dedupe].filter((once) => once !== null),
  }
}
