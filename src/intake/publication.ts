import { hash } from 'node:crypto'
import { AppError } from '../domain/app-error.ts'
import type { Matcher } from '../domain/match.ts'
import type { TraceContext } from '../domain/trace-context.ts'
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
  /** The headers with which it arrived at a source. */
  readonly arrivedHeaders?: Readonly<Record<string, string>> | null
  /** The event of the source that it stands for: a second arrival of that event is the same message. */
  readonly arrival?: Once | null
  /** The context of the trace that it belongs to. */
  readonly trace?: TraceContext | null
  /** Endpoints with ordering per key get messages with the same key one after the other. */
  readonly orderingKey?: string | null
  /** Identifies the message within the application's dedupe window, instead of its content. */
  readonly dedupeKey?: string | null
  /** The delivery is a dead letter when it was not delivered within this time. */
  readonly expiresInMs?: number | null
  /** The id or uid of the one endpoint that gets the message, whatever its event types, channels and filter. */
  readonly endpoint?: string | null
  /** The time for which the body is kept, when it is shorter than that of the message. */
  readonly payloadForMs?: number | null
  /** The row of the inbox that it is made from. */
  readonly inbox?: number | null
}

/** One event with its body. */
export interface Item {
  readonly envelope: Envelope
  readonly body: Uint8Array
}

const none: readonly Once[] = []

/** Refuses a message that names an endpoint which the application does not have. */
export class UnknownEndpoint extends AppError {
  constructor(ref: string) {
    const message = `must be the id or uid of an endpoint of the application, which has none called ${ref}`
    super('validation', `The application has no endpoint ${ref}.`, [
      { at: ['body', 'endpoint'], message, type: 'endpoint' },
    ])
  }
}

function endpointNamed(matcher: Matcher, ref: string): number {
  const found = matcher.named(ref)
  if (found === undefined) throw new UnknownEndpoint(ref)
  return found
}

/** A message for all endpoints that match, before their filters and shapes are applied. */
export function plainPublication(
  { app, version, matcher, dedupeMs, eraseDelivered, payloadForMs }: AppSubscriptions,
  { envelope, body }: Item,
  request: Once | null,
): Publication {
  const { eventType, eventId, channels, contentType, delayMs, tags = null, headers = null, trace = null } = envelope
  const { arrivedHeaders = null, arrival = null } = envelope
  const named = envelope.endpoint == null ? undefined : endpointNamed(matcher, envelope.endpoint)
  // Two events of a source may have the same content: the id of the event tells them apart.
  const dedupe = dedupeMs === null || arrival !== null ? null : dedupeOnce(app, envelope, body, dedupeMs, named)
  // No spread: copying the members of an object takes longer than all else here.
  const publication = {
    app,
    version,
    eventType,
    eventId,
    channels,
    contentType,
    delayMs,
    tags,
    headers,
    trace,
    arrivedHeaders,
    body,
    payloadForMs: sooner(envelope.payloadForMs ?? null, payloadForMs),
    eraseDelivered,
    expiresInMs: envelope.expiresInMs ?? null,
    orderingKey: envelope.orderingKey ?? null,
    inbox: envelope.inbox ?? null,
    endpoints: named === undefined ? matcher.match(eventType, channels) : [named],
    once: allOf(request, dedupe, arrival),
  }
  return named === undefined ? publication : { ...publication, special: [{ endpoint: named, direct: true }] }
}

function sooner(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.min(a, b)
}

/** The hashes for which a message may be stored only once, the most specific first. */
function allOf(request: Once | null, dedupe: Once | null, arrival: Once | null): readonly Once[] {
  if (request === null && dedupe === null && arrival === null) return none
  return [request, dedupe, arrival].filter((once) => once !== null)
}

/** How long an Idempotency-Key is remembered. */
export const keyLifeMs = 24 * 60 * 60 * 1000

/** 128 bits of SHA-256 as text, so that two different inputs practically never share one. */
export function digest(...parts: readonly (string | Uint8Array)[]): string {
  // Each of several parts carries its length, so that different lists never join to the same text.
  const [only] = parts
  let text: string | Uint8Array = ''
  if (parts.length === 1 && only !== undefined) text = only
  else for (const part of parts) text += lengthAndText(part)
  return hash('sha256', text, 'base64url').slice(0, 22)
}

/** Identifies a publish within the application's dedupe window: by the producer's key, or by all that a receiver sees. */
function dedupeOnce(
  app: number,
  envelope: Envelope,
  body: Uint8Array,
  windowMs: number,
  named: number | undefined,
): Once {
  const { dedupeKey, eventType, channels, contentType, headers } = envelope
  // Absent parts add nothing, so that their hashes stay those of earlier versions.
  const rest = [...(named === undefined ? [] : [String(named)]), ...(headers == null ? [] : [JSON.stringify(headers)])]
  const of =
    dedupeKey == null
      ? digest('content', eventType, JSON.stringify(channels), contentType, digest(body), ...rest)
      : digest('key', dedupeKey)
  return { hash: digest('dedupe', String(app), of), fingerprint: '', ttlMs: windowMs }
}

function lengthAndText(part: string | Uint8Array): string {
  const text = typeof part === 'string' ? part : digest(part)
  return `${text.length}:${text}`
}

/** Refuses an eventId that another message has. */
export function usedEventId(eventId: string | null, id: string): AppError {
  return new AppError('conflict', `The eventId ${eventId} is already used by the message ${id}.`)
}

/** Refuses an Idempotency-Key that was used for another request. */
export function usedKey(): AppError {
  const field = { at: ['header', 'idempotency-key'], message: 'was used for another request', type: 'idempotency' }
  return new AppError('validation', 'The Idempotency-Key was used for another request.', [field])
}

/** The caller's error for a failed publish: trouble of the store is `unavailable`, any other error stays. */
export function refusalFor(error: unknown): unknown {
  if (!(error instanceof StoreTrouble)) return error
  return new AppError('unavailable', error.detail ?? 'The store cannot take messages at the moment.', [], {
    cause: error,
  })
}

/** Refuses a message whose endpoints changed before it was stored, each time that it was matched. */
export function keepChanging(): AppError {
  return new AppError('unavailable', "The application's endpoints keep changing.")
}
