import type { Static } from 'typebox'
import type { DeadReason } from '../domain/judge.ts'
import type { Request } from '../operations/in-process.ts'
import type { TaskStartedOut } from '../operations/nouns/background-task.ts'
import type { DeadReplayIn } from '../operations/nouns/dead-letter.ts'
import type { DeadLetterOut, DeadLetterTrailOut } from '../operations/nouns/dead-letter-schema.ts'
import type { HeadOut, LaneOut as LaneOutSchema } from '../operations/nouns/lane.ts'
import type { ApplicationWhyOut, EndpointWhyOut, WhyOut } from '../operations/nouns/why.ts'
import { type List, type ListOptions, part, queryOf } from './manage.ts'

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

export function lanes(request: Request): Lanes {
  const at = (app: string, endpoint: string) => `/app/${part(app)}/endpoint/${part(endpoint)}/lane`
  const direct = (action: 'retry' | 'skip') => async (app: string, endpoint: string, message?: string) => {
    const body = message === undefined ? {} : { messageId: message }
    const { messageId } = await request<Static<typeof HeadOut>>('POST', `${at(app, endpoint)}/head/${action}`, body)
    return messageId
  }
  return {
    get: (app, endpoint) => request('GET', at(app, endpoint)),
    retryHead: direct('retry'),
    skipHead: direct('skip'),
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

export function explain(request: Request): Explain {
  function why(app: string): Promise<ApplicationWhy>
  function why(app: string, endpoint: string): Promise<EndpointWhy>
  function why(app: string, endpoint: string, message: string): Promise<DeliveryWhy>
  function why(app: string, endpoint?: string, message?: string): Promise<unknown> {
    const at = `/app/${part(app)}`
    if (endpoint === undefined) return request('GET', `${at}/why?limit=100`)
    if (message === undefined) return request('GET', `${at}/endpoint/${part(endpoint)}/why`)
    return request('GET', `${at}/msg/${part(message)}/endpoint/${part(endpoint)}/why`)
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

export function deadLetters(request: Request): DeadLetters {
  const all = (app: string) => `/app/${part(app)}/dead`
  return {
    list(app, { endpoint, eventTypes, before, after, ...options } = {}) {
      const query = queryOf({
        ...options,
        endpoint_id: endpoint,
        event_types: eventTypes?.join(','),
        before: before?.toISOString(),
        after: after?.toISOString(),
      })
      return request('GET', all(app) + query)
    },
    get: (app, message, endpoint) => request('GET', `${all(app)}/${part(message)}/${part(endpoint)}`),
    replay: (app, which = {}) => request('POST', `${all(app)}/replay`, which),
  }
}
