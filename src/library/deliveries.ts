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

/** What flows to an endpoint, and, where it keeps an order, a word about what keeps the rest back. */
export interface Lanes {
  /** What waits, what is under way, what limits it: just now, by whoever delivers it. */
  get(app: string, endpoint: string): Promise<LaneOut>
  /**
   * Has the delivery that keeps others back tried anew: the first in line, or the one of the message that is named, which it
   * must be where each key has its own line. Resolves with the message's id; null when the message is no longer there.
   */
  retryHead(app: string, endpoint: string, message?: string): Promise<string | null>
  /** Has it become a dead letter, so that the next may go. Otherwise as `retryHead`. */
  skipHead(app: string, endpoint: string, message?: string): Promise<string | null>
}

export function lanes(request: Request): Lanes {
  const at = (app: string, endpoint: string) => `/app/${part(app)}/endpoint/${part(endpoint)}/lane`
  const direct = (order: 'retry' | 'skip') => async (app: string, endpoint: string, message?: string) => {
    const body = message === undefined ? {} : { messageId: message }
    const { messageId } = await request<Static<typeof HeadOut>>('POST', `${at(app, endpoint)}/head/${order}`, body)
    return messageId
  }
  return {
    get: (app, endpoint) => request('GET', at(app, endpoint)),
    retryHead: direct('retry'),
    skipHead: direct('skip'),
  }
}

/** Where one delivery stands. */
export type DeliveryWhy = Static<typeof WhyOut>
/** What stands in the way of all that waits for an endpoint. */
export type EndpointWhy = Static<typeof EndpointWhyOut>
/** What an application's endpoints wait for: the first hundred of them that something waits for, the worst first. */
export type ApplicationWhy = Static<typeof ApplicationWhyOut>

/**
 * Tells why something is not delivered yet, and when it will next move: an application, one of its endpoints, or a message
 * on its way to one. Each is named by its id or its uid, a message by its id or eventId.
 */
export interface Explain {
  (app: string): Promise<ApplicationWhy>
  (app: string, endpoint: string): Promise<EndpointWhy>
  (app: string, endpoint: string, message: string): Promise<DeliveryWhy>
}

export function explain(request: Request): Explain {
  function told(app: string): Promise<ApplicationWhy>
  function told(app: string, endpoint: string): Promise<EndpointWhy>
  function told(app: string, endpoint: string, message: string): Promise<DeliveryWhy>
  function told(app: string, endpoint?: string, message?: string): Promise<unknown> {
    const at = `/app/${part(app)}`
    if (endpoint === undefined) return request('GET', `${at}/why?limit=100`)
    if (message === undefined) return request('GET', `${at}/endpoint/${part(endpoint)}/why`)
    return request('GET', `${at}/msg/${part(message)}/endpoint/${part(endpoint)}/why`)
  }
  return told
}

/** A delivery that came to its end without being delivered, as the API shows it. */
export type DeadLetter = Static<typeof DeadLetterOut>
/** The same, with every attempt that was made. */
export type DeadLetterTrail = Static<typeof DeadLetterTrailOut>
/** Which dead letters to send again, and how many a second: all that meet every field given; without any, all. */
export type DeadReplay = Static<typeof DeadReplayIn>
/** Work that was begun and goes on in the background. */
export type StartedTask = Static<typeof TaskStartedOut>

/** Which dead letters to list. */
export interface DeadListOptions extends ListOptions {
  /** Only those of the endpoint with this id or uid. */
  readonly endpoint?: string | undefined
  readonly eventTypes?: readonly string[] | undefined
  readonly reason?: DeadReason | undefined
  /** Only those that died before, and after, these instants. */
  readonly before?: Date | undefined
  readonly after?: Date | undefined
}

/** What could not be delivered. It is kept until it is sent again or thrown away. */
export interface DeadLetters {
  list(app: string, options?: DeadListOptions): Promise<List<DeadLetter>>
  get(app: string, message: string, endpoint: string): Promise<DeadLetterTrail>
  /** Sends them again, in the background: resolves with the task, which `/background-task/{id}` tells of. */
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
