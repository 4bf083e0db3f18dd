import { type Static, Type } from 'typebox'
import type { MessageFilter } from '../../domain/message-filter.ts'
import { PageQuery } from '../page.ts'
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

/** Which messages' contents to erase. */
export const BulkExpungeIn = Type.Object({
  ids: Type.Optional(Type.Array(Type.String({ maxLength: 256 }), { maxItems: 100 })),
})
export type BulkExpungeIn = Static<typeof BulkExpungeIn>
