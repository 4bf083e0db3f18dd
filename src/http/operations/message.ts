import { Type } from 'typebox'
import { listOf } from '../answers/field.ts'
import { BulkExpungeOut, MessageBatchOut, MessageOut, MessagePrecheckOut } from '../answers/message.ts'
import { TaskStartedOut } from '../api/background-task.ts'
import { batchLimit } from '../read-publish.ts'
import { ContentQuery, MessageHeadIn, PrecheckIn, RawQuery } from '../schemas/message.ts'
import { BulkExpungeIn, MessageListQuery } from '../schemas/message-list.ts'
import { anyBytes, tagged } from './operation.ts'

/** What publishes a message. The payload is checked as bytes, where the rest is checked as `MessageHeadIn`. */
export const MessageIn = Type.Object({
  ...MessageHeadIn.properties,
  payload: Type.Object({}, { additionalProperties: true, description: 'Stored and delivered byte for byte.' }),
})

/** What publishes several messages. */
export const MessageBatchIn = Type.Object({ messages: Type.Array(MessageIn, { minItems: 1, maxItems: batchLimit }) })

export const messageOperations = tagged('Message', {
  'POST /app/:app/msg': {
    id: 'v1.message.create',
    summary: 'Publish a message',
    description:
      'The answer comes after a commit that survives a power cut. A refused publish leaves no trace. An eventId that was used before is a conflict.',
    query: ContentQuery,
    body: MessageIn,
    answers: { 202: MessageOut },
  },
  'POST /app/:app/msg/batch': {
    id: 'v1.message.create-batch',
    summary: 'Publish several messages, all or none',
    query: ContentQuery,
    body: MessageBatchIn,
    answers: { 202: MessageBatchOut },
  },
  'POST /app/:app/msg/raw': {
    id: 'v1.message.create-raw',
    summary: 'Publish any bytes, to be delivered with their content type',
    query: RawQuery,
    body: anyBytes,
    answers: { 202: MessageOut },
  },
  'POST /app/:app/msg/precheck/active': {
    id: 'v1.message.precheck',
    summary: 'Ask whether a message would reach anybody',
    body: PrecheckIn,
    answers: { 200: MessagePrecheckOut },
  },
  'GET /app/:app/msg': {
    id: 'v1.message.list',
    summary: 'List messages',
    description: 'The last 90 days, unless `before` or `after` says otherwise.',
    query: MessageListQuery,
    answers: { 200: listOf(MessageOut) },
  },
  'GET /app/:app/msg/:message': {
    id: 'v1.message.get',
    summary: 'Get a message by its id or eventId',
    query: ContentQuery,
    answers: { 200: MessageOut },
  },
  'POST /app/:app/msg/bulk-expunge': {
    id: 'v1.message.bulk-expunge-content',
    summary: 'Erase what several messages said',
    body: BulkExpungeIn,
    answers: { 200: BulkExpungeOut },
  },
  'POST /app/:app/msg/expunge-all-contents': {
    id: 'v1.message.expunge-all-contents',
    summary: "Erase what all of an application's messages said",
    description: 'Those accepted so far, in the background.',
    answers: { 202: TaskStartedOut },
  },
  'DELETE /app/:app/msg/:message/content': {
    id: 'v1.message.expunge-content',
    summary: 'Erase what a message said',
    description: 'That it was, when, and what became of it stays. What has not been sent will not be.',
    answers: { 204: null },
  },
})
