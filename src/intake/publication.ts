import { hash } from 'node:crypto'
import { AppError } from '../domain/app-error.ts'
import type { Once } from '../store/publishing.ts'
import { type Publication, StoreTrouble } from '../store/store.ts'
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

/** How long an Idempotency-Key is remembered. */
export const keyLifeMs = 24 * 60 * 60 * 1000

/** 128 bits of SHA-256, as text: enough that no two things anybody will ever send share one. */
export function digest(...parts: readonly (string | Uint8Array)[]): string {
  // Several parts are each told with their length, so that no two lists of them run together alike.
  const [only] = parts
  const text = parts.length === 1 && only !== undefined ? only : parts.map(lengthAndText).join('')
  return hash('sha256', text, 'base64url').slice(0, 22)
}

/**
 * What makes a publish the same as another within its application's dedupe window: the key its producer gave, or else
 * everything a receiver could tell apart.
 */
export function dedupeOnce(app: number, envelope: Envelope, body: Uint8Array, windowMs: number): Once {
  const { dedupeKey, eventType, channels, contentType } = envelope
  const of =
    dedupeKey == null
      ? digest('content', eventType, JSON.stringify(channels), contentType, digest(body))
      : digest('key', dedupeKey)
  return { hash: digest('dedupe', String(app), of), fingerprint: '', ttlMs: windowMs }
}

function lengthAndText(part: string | Uint8Array): string {
  const text = typeof part === 'string' ? part : digest(part)
  return `${text.length}:${text}`
}

/** The eventId is that of another message. */
export function usedEventId(eventId: string | null, id: string): AppError {
  return new AppError('conflict', `The eventId ${eventId} is already used by the message ${id}.`)
}

/** The request's key was used before, for something else. */
export function usedKey(): AppError {
  const field = { at: ['header', 'idempotency-key'], message: 'was used for another request', type: 'idempotency' }
  return new AppError('validation', 'The Idempotency-Key was used for another request.', [field])
}

/** What a caller is told when the store failed: that it cannot now, where that is all there is to it. */
export function refusalFor(error: unknown): unknown {
  if (!(error instanceof StoreTrouble)) return error
  return new AppError('unavailable', error.detail ?? 'The store cannot take messages at the moment.', [], {
    cause: error,
  })
}

/** A message was matched again and again, and each time before it was stored somebody changed who gets it. */
export function keepChanging(): AppError {
  return new AppError('unavailable', "The application's endpoints keep changing.")
}
