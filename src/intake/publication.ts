import type { Clock } from '../domain/clock.ts'
import type { Once } from '../store/publishing.ts'
import type { Publication } from '../store/store.ts'
import { dedupeOnce } from './once.ts'
import type { Route } from './routes.ts'
import { treat, treating } from './treat.ts'
import { doneInParts, type Work } from './work.ts'

/** What a producer says of an event, beside its body. */
export interface Envelope {
  readonly eventType: string
  readonly eventId: string | null
  readonly channels: readonly string[] | null
  readonly contentType: string
  readonly delayMs: number
  readonly tags?: readonly string[] | null
  /** Sent along with every attempt. */
  readonly headers?: Readonly<Record<string, string>> | null
  /** Messages with the same one go one after the other to endpoints that keep that order. */
  readonly orderingKey?: string | null
  /** What the application's dedupe window goes by, instead of the content. */
  readonly dedupeKey?: string | null
  /** From when on nobody wants it any more. */
  readonly expiresInMs?: number | null
  /** For how long the body is kept, when that is less than the message is. */
  readonly payloadForMs?: number | null
}

/** One event with its body. */
export interface Item {
  readonly envelope: Envelope
  readonly body: Uint8Array
}

/** A message about to be stored: what its producer said, and what is known of its application. */
export interface Routed extends Item {
  readonly route: Route
  readonly request?: Once | null
}

const none: readonly Once[] = []

/** What the store is asked to keep of a message: what its producer said, and who gets it. */
export function publicationOf(routed: Routed): Publication {
  const publication = untreated(routed)
  const { route, envelope, body } = routed
  if (route.treatments === undefined) return publication
  return { ...publication, ...treat(route.treatments, envelope, body, publication.endpoints) }
}

/**
 * The same, for requests: filters and shapes take no more than the work that is left, and others go on between two parts
 * of it. A promise only when there is more than one part.
 */
export function publicationWithin(routed: Routed, work: Work, clock: Clock): Publication | Promise<Publication> {
  const publication = untreated(routed)
  const { route, envelope, body } = routed
  if (route.treatments === undefined) return publication
  const treated = doneInParts(treating(route.treatments, envelope, body, publication.endpoints, work), clock)
  if (!(treated instanceof Promise)) return { ...publication, ...treated }
  return treated.then((its) => ({ ...publication, ...its }))
}

/** A publication for all endpoints that match, in the form that it was published in. */
function untreated({ route, envelope, body, request }: Routed): Publication {
  const { eventType, eventId, channels, contentType, delayMs, tags = null, headers = null } = envelope
  const { app, version, matcher, dedupeMs } = route
  const dedupe = dedupeMs == null ? null : dedupeOnce(app, envelope, body, dedupeMs)
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
    once: request == null && dedupe === null ? none : [request, dedupe].filter((once) => once != null),
  }
}
