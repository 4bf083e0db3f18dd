import { type Static, Type } from 'typebox'
import type { MessageFilter } from '../../domain/message-filter.ts'
import { PageQuery } from '../pagination.ts'
import { messageFilterProperties } from './attempt.ts'

/** The filters of the list of an application's messages. */
export const MessageListQuery = Type.Object({
  ...PageQuery.properties,
  ...messageFilterProperties,
  with_content: Type.Optional(Type.Boolean()),
})
export type MessageListQuery = Static<typeof MessageListQuery>

/** What a query asks of messages beside their time. */
export function toMessageFilter(query: {
  readonly channel?: string
  readonly tag?: string
  readonly event_types?: string
}): MessageFilter {
  return { channel: query.channel, tag: query.tag, eventTypes: query.event_types?.split(',') }
}
