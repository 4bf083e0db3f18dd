import type { Static } from 'typebox'
import type { Request } from '../operations/in-process.ts'
import type { MessageAttemptOut } from '../operations/nouns/attempt-schema.ts'
import type { MessageOut } from '../operations/nouns/message-schema.ts'
import { type List, type ListOptions, part, queryOf } from './manage.ts'

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

export function messages(request: Request): Messages {
  const at = (app: string, message: string) => `/app/${part(app)}/msg/${part(message)}`
  return {
    get: (app, message) => request('GET', at(app, message)),
    list: (app, options) => request('GET', `/app/${part(app)}/msg${historyQuery(options)}`),
    resend: async (app, message, endpoint) =>
      void (await request('POST', `${at(app, message)}/endpoint/${part(endpoint)}/resend`)),
    expunge: async (app, message) => void (await request('DELETE', `${at(app, message)}/content`)),
  }
}

/** Attempts to deliver. */
export interface Attempts {
  /** The attempts of one message at all endpoints, the newest first. */
  ofMessage(app: string, message: string, options?: HistoryOptions): Promise<List<Attempt>>
  /** The attempts at one endpoint, the newest first. */
  atEndpoint(app: string, endpoint: string, options?: HistoryOptions): Promise<List<Attempt>>
}

export function attempts(request: Request): Attempts {
  const list = (of: 'msg' | 'endpoint') => (app: string, name: string, options?: HistoryOptions) =>
    request<List<Attempt>>('GET', `/app/${part(app)}/attempt/${of}/${part(name)}${historyQuery(options)}`)
  return { ofMessage: list('msg'), atEndpoint: list('endpoint') }
}

function historyQuery({ eventTypes, before, after, ...options }: HistoryOptions = {}): string {
  return queryOf({
    ...options,
    event_types: eventTypes?.join(','),
    before: before?.toISOString(),
    after: after?.toISOString(),
  })
}
