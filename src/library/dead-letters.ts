import type { Static } from 'typebox'
import type { DeadReason } from '../domain/judge.ts'
import type { TaskStartedOut } from '../http/api/background-task.ts'
import type { DeadReplayIn } from '../http/api/dead-letter.ts'
import type { DeadLetterOut, DeadLetterTrailOut } from '../http/api/dead-letter-schema.ts'
import type { Request } from '../http/in-process.ts'
import { type List, type ListOptions, part, queryOf } from './manage.ts'

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
