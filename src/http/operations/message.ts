import { Type } from 'typebox'
import { MessageOut } from '../answers/message.ts'
import { ContentQuery, MessageHeadIn } from '../schemas/message.ts'
import { tagged } from './operation.ts'

/** What publishes a message. The payload is checked as bytes, where the rest is checked as `MessageHeadIn`. */
export const MessageIn = Type.Object({
  ...MessageHeadIn.properties,
  payload: Type.Object({}, { additionalProperties: true, description: 'Stored and delivered byte for byte.' }),
})

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
  'GET /app/:app/msg/:message': {
    id: 'v1.message.get',
    summary: 'Get a message by its id or eventId',
    query: ContentQuery,
    answers: { 200: MessageOut },
  },
})
