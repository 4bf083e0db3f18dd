import type { Static } from 'typebox'
import type { DeadReason } from '../domain/judge.ts'
import type { CallRoute } from '../operations/in-process.ts'
import type { TaskStartedOut } from '../operations/nouns/background-task.ts'
import type { DeadReplayIn } from '../operations/nouns/dead-letter.ts'
import type { DeadLetterOut, DeadLetterTrailOut } from '../operations/nouns/dead-letter-schema.ts'
import type { LaneOut as LaneOutSchema } from '../operations/nouns/lane.ts'
import type { ApplicationWhyOut, EndpointWhyOut, WhyOut } from '../operations/nouns/why.ts'
import type { List, ListOptions } from './manage.ts'

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
  function why(app: string): Promise<ApplicationWhy>
  function why(app: string, endpoint: string): Promise<EndpointWhy>
  function why(app: string, endpoint: string, message: string): Promise<DeliveryWhy>
  function why(app: string, endpoint?: string, message?: string): Promise<unknown> {
    if (endpoint === undefined) return ofApplication(app)
    return message === undefined ? ofEndpoint(app, endpoint) : ofDelivery(app, message, endpoint)
  }
  return why
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
