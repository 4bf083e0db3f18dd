import { listOf } from '../answers/field.ts'
import { EndpointMessageOut, MessageAttemptOut, MessageEndpointOut } from '../answers/message.ts'
import { PageQuery } from '../page.ts'
import { AttemptedQuery, AttemptQuery, OneAttemptQuery } from '../schemas/attempt.ts'
import { tagged } from './operation.ts'

const shorterPages = 'Where a filter leaves out much, a page may be shorter than asked: go on until `done`.'

export const attemptOperations = tagged('Message Attempt', {
  'GET /app/:app/attempt/endpoint/:endpoint': {
    id: 'v1.message-attempt.list-by-endpoint',
    summary: 'List the attempts at an endpoint',
    description: `The latest first, of the last 90 days unless a time is given. ${shorterPages}`,
    query: AttemptQuery,
    answers: { 200: listOf(MessageAttemptOut) },
  },
  'GET /app/:app/attempt/msg/:message': {
    id: 'v1.message-attempt.list-by-msg',
    summary: 'List the attempts of a message',
    query: AttemptQuery,
    answers: { 200: listOf(MessageAttemptOut) },
  },
  'GET /app/:app/endpoint/:endpoint/msg': {
    id: 'v1.message-attempt.list-attempted-messages',
    summary: 'List the messages tried at an endpoint, and where each stands',
    description: `By their latest attempt, the last 90 days unless a time is given. ${shorterPages}`,
    query: AttemptedQuery,
    answers: { 200: listOf(EndpointMessageOut) },
  },
  'GET /app/:app/msg/:message/endpoint': {
    id: 'v1.message-attempt.list-attempted-destinations',
    summary: 'List the endpoints a message was accepted for',
    query: PageQuery,
    answers: { 200: listOf(MessageEndpointOut) },
  },
  'GET /app/:app/msg/:message/attempt/:attempt': {
    id: 'v1.message-attempt.get',
    summary: 'Get an attempt',
    query: OneAttemptQuery,
    answers: { 200: MessageAttemptOut },
  },
  'DELETE /app/:app/msg/:message/attempt/:attempt/content': {
    id: 'v1.message-attempt.expunge-content',
    summary: 'Erase what a receiver answered',
    answers: { 204: null },
  },
  'GET /app/:app/msg/:message/attempt': {
    id: 'v1.message-attempt.list-by-msg-deprecated',
    summary: 'List the attempts of a message (older path)',
    query: AttemptQuery,
    answers: { 200: listOf(MessageAttemptOut) },
  },
  'GET /app/:app/msg/:message/endpoint/:endpoint/attempt': {
    id: 'v1.message-attempt.list-by-endpoint-deprecated',
    summary: 'List the attempts of a message at an endpoint (older path)',
    query: AttemptQuery,
    answers: { 200: listOf(MessageAttemptOut) },
  },
})
