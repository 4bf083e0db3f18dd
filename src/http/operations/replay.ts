import { DeadImportOut, DeadLetterLine, DeadLetterOut, DeadLetterTrailOut } from '../answers/dead.ts'
import { listOf } from '../answers/field.ts'
import { TaskStartedOut } from '../api/background-task.ts'
import {
  AnyDeadFilterQuery,
  AnyDeadListQuery,
  AnyDeadReplayIn,
  DeadFilterQuery,
  DeadImportQuery,
  DeadLineIn,
  DeadListQuery,
  DeadReplayIn,
} from '../schemas/dead.ts'
import { tagged } from './operation.ts'

export const deadOperations = tagged('Dead Letter', {
  'GET /app/:app/dead': {
    id: 'v1.dead.list',
    summary: 'List dead letters',
    query: DeadListQuery,
    answers: { 200: listOf(DeadLetterOut) },
  },
  'GET /app/:app/dead/:message/:endpoint': {
    id: 'v1.dead.get',
    summary: 'Get a dead letter with every attempt',
    answers: { 200: DeadLetterTrailOut },
  },
  'POST /app/:app/dead/replay': {
    id: 'v1.dead.replay',
    summary: 'Send dead letters again',
    description: 'All that meet every field given; without any, all of the application.',
    body: DeadReplayIn,
    answers: { 202: TaskStartedOut },
  },
  'DELETE /app/:app/dead': {
    id: 'v1.dead.purge',
    summary: 'Throw dead letters away',
    query: DeadFilterQuery,
    answers: { 202: TaskStartedOut },
  },
  'GET /app/:app/dead/export': {
    id: 'v1.dead.export',
    summary: 'Export dead letters with their payloads, one per line',
    query: DeadFilterQuery,
    answers: { 200: { lines: DeadLetterLine } },
  },
  'POST /app/:app/dead/import': {
    id: 'v1.dead.import',
    summary: 'Bring exported dead letters back',
    description:
      'All lines or none, unless bad ones are to be skipped; 500 lines at most. A message that no longer exists is made again with its id. Importing twice changes nothing.',
    query: DeadImportQuery,
    body: { lines: DeadLineIn },
    answers: { 200: DeadImportOut },
  },
  'GET /dead': {
    id: 'v1.dead.list-all',
    summary: 'List the dead letters of all applications',
    query: AnyDeadListQuery,
    answers: { 200: listOf(DeadLetterOut) },
  },
  'POST /dead/replay': {
    id: 'v1.dead.replay-all',
    summary: 'Send dead letters of all applications again',
    description: 'All that meet every field given.',
    body: AnyDeadReplayIn,
    answers: { 202: TaskStartedOut },
  },
  'DELETE /dead': {
    id: 'v1.dead.purge-all',
    summary: 'Throw dead letters of all applications away',
    query: AnyDeadFilterQuery,
    answers: { 202: TaskStartedOut },
  },
  'GET /dead/export': {
    id: 'v1.dead.export-all',
    summary: 'Export the dead letters of all applications, one per line',
    query: AnyDeadFilterQuery,
    answers: { 200: { lines: DeadLetterLine } },
  },
})
