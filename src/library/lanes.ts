import type { Static } from 'typebox'
import type { HeadOut, LaneOut as LaneOutSchema } from '../http/api/lane.ts'
import type { Request } from '../http/in-process.ts'
import { part } from './manage.ts'

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
