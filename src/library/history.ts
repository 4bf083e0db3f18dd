import type { Static } from 'typebox'
import type { CallRoute } from '../operations/in-process.ts'
import type { MessageAttemptOut } from '../operations/nouns/attempt-schema.ts'
import type { MessageOut } from '../operations/nouns/message-schema.ts'
import { type List, type ListOptions, unanswered } from './manage.ts'

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
