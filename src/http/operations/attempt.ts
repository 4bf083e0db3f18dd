import { listOf } from '../answers/field.ts'
import { MessageAttemptOut, MessageEndpointOut } from '../answers/message.ts'
import { PageQuery } from '../pagination.ts'
import { AttemptQuery } from '../schemas/attempt.ts'
import { tagged } from './operation.ts'

export const attemptOperations = tagged('Message Attempt', {
  'GET /app/:app/attempt/msg/:message': {
    id: 'v1.message-attempt.list-by-msg',
    summary: 'List the attempts of a message',
    query: AttemptQuery,
    answers: { 200: listOf(MessageAttemptOut) },
  },
  'GET /app/:app/msg/:message/endpoint': {
    id: 'v1.message-attempt.list-attempted-destinations',
    summary: 'List the endpoints a message was accepted for',
    query: PageQuery,
    answers: { 200: listOf(MessageEndpointOut) },
  },
})
