import type { Static } from 'typebox'
import { AppError, noSuch } from '../domain/app-error.ts'
import { keyTime } from '../domain/ids.ts'
import type { DeadReason } from '../domain/judge.ts'
import { readTraceContext } from '../domain/trace-context.ts'
import type { MessageAttemptOut } from '../features/attempts/schemas.ts'
import type { DeadReplayIn } from '../features/dead-letters/routes.ts'
import type { DeadLetterOut, DeadLetterTrailOut } from '../features/dead-letters/schemas.ts'
import type { LaneOut as LaneOutSchema } from '../features/lanes/schemas.ts'
import { readFields } from '../features/messages/reading-service.ts'
import type { EnvelopeIn, MessageOut } from '../features/messages/schemas.ts'
import type { TaskStartedOut } from '../features/tasks/schemas.ts'
import type { ApplicationWhyOut, EndpointWhyOut, WhyOut } from '../features/why/routes.ts'
import type { Accepted } from '../intake/publisher.ts'
import { type CallRoute, invalid } from '../operations/in-process.ts'
import { isRef } from '../operations/lookup.ts'
import { systemClock } from '../runtime/clock.ts'
import { type List, type ListOptions, unanswered } from './manage.ts'

/** A message to publish. */
export interface NewMessage extends EnvelopeIn {
  /** An object is sent as JSON. Text and bytes are sent exactly as they are. */
  readonly payload: object | string | Uint8Array
  /** The content type of the payload; `application/json` by default. */
  readonly contentType?: string | undefined
  /** The W3C `traceparent` of the span that publishes it; an invalid one is ignored. */
  readonly traceparent?: string | undefined
  readonly tracestate?: string | undefined
}

/** A message that is stored and will be delivered. */
export interface PublishedMessage {
  readonly id: string
  readonly timestamp: Date
  /** Deliveries that are dead letters with the reason `unfiltered`, because the filters of their endpoints take too much work. */
  readonly unfiltered: number
}

/** Splits a message into its envelope and body. Throws AppError that names every mistake. */
export function readMessage(app: string, message: NewMessage, limitBytes: number) {
  if (!isRef(app)) throw noSuch('application', app)
  const { payload, contentType = 'application/json', traceparent, tracestate, ...input } = message
  const body = bytesOf(payload)
  const noBody = { at: ['body', 'payload'], message: 'must be an object, text or bytes', type: 'type' }
  const { envelope, problems } = readFields(input, contentType, systemClock.now(), body === undefined ? [noBody] : [])
  if (envelope === undefined) throw invalid(problems)
  if (body !== undefined && body.byteLength > limitBytes) {
    throw new AppError('payload_too_large', `The payload is larger than bodyLimit, ${limitBytes} bytes.`)
  }
  const trace = readTraceContext(traceparent, tracestate)
  return { envelope: trace === null ? envelope : { ...envelope, trace }, body: body as Buffer }
}

export function published({ key, id, unfiltered }: Accepted): PublishedMessage {
  return { id, timestamp: new Date(keyTime(key)), unfiltered }
}

function bytesOf(payload: unknown): Buffer | undefined {
  if (typeof payload === 'string') return Buffer.from(payload)
  // Copied, because the caller may change the bytes while they are being stored.
  if (payload instanceof Uint8Array) return Buffer.from(payload)
  if (typeof payload !== 'object' || payload === null) return undefined
  const text = JSON.stringify(payload)
  return text === undefined ? undefined : Buffer.from(text)
}

/** A message as the API shows it. */
export type Message = Static<typeof MessageOut>
/** An attempt as the API shows it. */
export type Attempt = Static<typeof MessageAttemptOut>

/** The messages, or the attempts by their messages, to list. */
export interface HistoryOptions extends ListOptions {
  readonly eventTypes?: readonly string[] | undefined
  readonly channel?: string | undefined
  readonly tag?: string | undefined
  readonly before?: Date | undefined
  readonly after?: Date | undefined
}

/** Published messages. Each is named by its id or eventId. */
export interface Messages {
  get(app: string, message: string): Promise<Message>
  /** The newest first, of the last 90 days unless `before` or `after` is given. */
  list(app: string, options?: HistoryOptions): Promise<List<Message>>
  /** Sends it to one endpoint again, behind new messages. */
  resend(app: string, message: string, endpoint: string): Promise<void>
  /** Erases its payload and cancels its waiting deliveries. */
  expunge(app: string, message: string): Promise<void>
}

export function messages(call: CallRoute): Messages {
  const list = call('GET', '/app/:app/msg')
  return {
    get: call('GET', '/app/:app/msg/:message'),
    list: (app, options) => list(app, historyQuery(options)),
    resend: unanswered(call('POST', '/app/:app/msg/:message/endpoint/:endpoint/resend')),
    expunge: unanswered(call('DELETE', '/app/:app/msg/:message/content')),
  }
}

/** Attempts to deliver. */
export interface Attempts {
  /** The attempts of one message at all endpoints, the newest first. */
  ofMessage(app: string, message: string, options?: HistoryOptions): Promise<List<Attempt>>
  /** The attempts at one endpoint, the newest first. */
  atEndpoint(app: string, endpoint: string, options?: HistoryOptions): Promise<List<Attempt>>
}

export function attempts(call: CallRoute): Attempts {
  const ofMessage = call('GET', '/app/:app/attempt/msg/:message')
  const atEndpoint = call('GET', '/app/:app/attempt/endpoint/:endpoint')
  return {
    ofMessage: (app, message, options) => ofMessage(app, message, historyQuery(options)),
    atEndpoint: (app, endpoint, options) => atEndpoint(app, endpoint, historyQuery(options)),
  }
}

function historyQuery({ eventTypes, ...options }: HistoryOptions = {}): object {
  return { ...options, event_types: eventTypes }
}

/** The state of an endpoint's lane as the API shows it. */
export type LaneOut = Static<typeof LaneOutSchema>

/** The lanes of endpoints. In an ordered lane, one delivery may block the others. */
export interface Lanes {
  /** Its waiting deliveries, attempts under way and limits, as its worker reports them. */
  get(app: string, endpoint: string): Promise<LaneOut>
  /**
   * Retries the delivery that blocks the lane: the first one, or that of the given message, which a lane with ordering
   * keys requires. Resolves with the message's id; null when the message no longer exists.
   */
  retryHead(app: string, endpoint: string, message?: string): Promise<string | null>
  /** Makes it a dead letter, so that the next delivery can go. Otherwise like `retryHead`. */
  skipHead(app: string, endpoint: string, message?: string): Promise<string | null>
}

export function lanes(call: CallRoute): Lanes {
  const retry = call('POST', '/app/:app/endpoint/:endpoint/lane/head/retry')
  const skip = call('POST', '/app/:app/endpoint/:endpoint/lane/head/skip')
  const bodyOf = (message?: string) => (message === undefined ? {} : { messageId: message })
  return {
    get: call('GET', '/app/:app/endpoint/:endpoint/lane'),
    retryHead: async (app, endpoint, message) => (await retry(app, endpoint, bodyOf(message))).messageId,
    skipHead: async (app, endpoint, message) => (await skip(app, endpoint, bodyOf(message))).messageId,
  }
}

/** The explanation of one delivery. */
export type DeliveryWhy = Static<typeof WhyOut>
/** The explanation of an endpoint's waiting deliveries. */
export type EndpointWhy = Static<typeof EndpointWhyOut>
/** The explanation of an application: its first hundred endpoints with waiting deliveries, the worst first. */
export type ApplicationWhy = Static<typeof ApplicationWhyOut>

/**
 * Explains why deliveries wait, and until when: of an application, of one endpoint, or of a message at one endpoint. Each
 * is named by its id or uid, a message by its id or eventId.
 */
export interface Explain {
  (app: string): Promise<ApplicationWhy>
  (app: string, endpoint: string): Promise<EndpointWhy>
  (app: string, endpoint: string, message: string): Promise<DeliveryWhy>
}

export function explain(call: CallRoute): Explain {
  const ofApplication = call('GET', '/app/:app/why', { limit: 100 })
  const ofEndpoint = call('GET', '/app/:app/endpoint/:endpoint/why')
  const ofDelivery = call('GET', '/app/:app/msg/:message/endpoint/:endpoint/why')
  const why = (app: string, endpoint?: string, message?: string): Promise<unknown> => {
    if (endpoint === undefined) return ofApplication(app)
    return message === undefined ? ofEndpoint(app, endpoint) : ofDelivery(app, message, endpoint)
  }
  return why as Explain
}

/** A delivery that was given up, as the API shows it. */
export type DeadLetter = Static<typeof DeadLetterOut>
/** A dead letter with every attempt. */
export type DeadLetterTrail = Static<typeof DeadLetterTrailOut>
/** The dead letters to send again: those that match every given field, or all; and how many a second. */
export type DeadReplay = Static<typeof DeadReplayIn>
/** A background task that was started. */
export type StartedTask = Static<typeof TaskStartedOut>

/** The dead letters to list. */
export interface DeadListOptions extends ListOptions {
  /** Only those at the endpoint with this id or uid. */
  readonly endpoint?: string | undefined
  readonly eventTypes?: readonly string[] | undefined
  readonly reason?: DeadReason | undefined
  /** Only those that died before, and after, these instants. */
  readonly before?: Date | undefined
  readonly after?: Date | undefined
}

/** Deliveries that were given up. They are kept until they are replayed, purged or too old. */
export interface DeadLetters {
  list(app: string, options?: DeadListOptions): Promise<List<DeadLetter>>
  get(app: string, message: string, endpoint: string): Promise<DeadLetterTrail>
  /** Sends them again in the background. Resolves with the task; its progress is at `/background-task/{id}`. */
  replay(app: string, which?: DeadReplay): Promise<StartedTask>
}

export function deadLetters(call: CallRoute): DeadLetters {
  const list = call('GET', '/app/:app/dead')
  const replay = call('POST', '/app/:app/dead/replay')
  return {
    list: (app, { endpoint, eventTypes, ...options } = {}) =>
      list(app, { ...options, endpoint_id: endpoint, event_types: eventTypes }),
    get: call('GET', '/app/:app/dead/:message/:endpoint'),
    replay: (app, which = {}) => replay(app, which),
  }
}
