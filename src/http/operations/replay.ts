import { Type } from 'typebox'
import { AppUsageStatsOut, BackgroundTaskOut, TaskStartedOut } from '../answers/background-task.ts'
import { DeadImportOut, DeadLetterLine, DeadLetterOut, DeadLetterTrailOut } from '../answers/dead.ts'
import { listOf } from '../answers/field.ts'
import { HeadOut, LaneOut } from '../answers/lane.ts'
import { ApplicationWhyOut, EndpointWhyOut, WhyOut } from '../answers/why.ts'
import { TaskQuery } from '../schemas/background-task.ts'
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
import { HeadIn } from '../schemas/order.ts'
import { BulkReplayIn, ReplayIn } from '../schemas/replay.ts'
import { AppUsageStatsIn } from '../schemas/statistics.ts'
import { WhyQuery } from '../schemas/why.ts'
import { tagged } from './operation.ts'

export const replayOperations = tagged('Replay', {
  'POST /app/:app/msg/:message/endpoint/:endpoint/resend': {
    id: 'v1.message-attempt.resend',
    summary: 'Send a message to an endpoint again',
    answers: { 202: Type.Object({}) },
  },
  'POST /app/:app/endpoint/:endpoint/recover': {
    id: 'v1.endpoint.recover',
    summary: 'Send again what an endpoint failed to take',
    body: ReplayIn,
    answers: { 202: TaskStartedOut },
  },
  'POST /app/:app/endpoint/:endpoint/replay-missing': {
    id: 'v1.endpoint.replay-missing',
    summary: 'Send what an endpoint would have got, had it been there',
    body: ReplayIn,
    answers: { 202: TaskStartedOut },
  },
  'POST /app/:app/endpoint/:endpoint/bulk-replay': {
    id: 'v1.endpoint.bulk-replay',
    summary: 'Send again what meets a filter',
    body: BulkReplayIn,
    answers: { 202: TaskStartedOut },
  },
})

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

export const laneOperations = tagged('Lane', {
  'GET /app/:app/endpoint/:endpoint/lane': {
    id: 'v1.lane.get',
    summary: "Get the state of an endpoint's lane",
    answers: { 200: LaneOut },
  },
  'POST /app/:app/endpoint/:endpoint/lane/head/retry': {
    id: 'v1.lane.retry-head',
    summary: 'Try the delivery that keeps others back anew',
    description:
      'In a lane that keeps an order: at once, and with all its attempts. Without `messageId`, the first in line. The worker that has the lane carries it out.',
    body: HeadIn,
    bodyOptional: true,
    answers: { 202: HeadOut },
  },
  'POST /app/:app/endpoint/:endpoint/lane/head/skip': {
    id: 'v1.lane.skip-head',
    summary: 'Take the delivery that keeps others back out of the way',
    description:
      'It becomes a dead letter, which can be replayed. Without `messageId`, the first in line. The worker that has the lane carries it out.',
    body: HeadIn,
    bodyOptional: true,
    answers: { 202: HeadOut },
  },
  'GET /app/:app/msg/:message/endpoint/:endpoint/why': {
    id: 'v1.lane.why',
    summary: 'Tell why a message is not delivered yet',
    description: 'Or what became of it. The worker that has the lane is asked, and waited for half a second at most.',
    answers: { 200: WhyOut },
  },
  'GET /app/:app/endpoint/:endpoint/why': {
    id: 'v1.lane.why-endpoint',
    summary: 'Tell what stands in the way of all that waits for an endpoint',
    answers: { 200: EndpointWhyOut },
  },
  'GET /app/:app/why': {
    id: 'v1.lane.why-application',
    summary: "Tell what an application's endpoints wait for",
    description:
      'Only endpoints that something waits for, the worst of a page first. A page may be short and not `done` when many endpoints had to be looked at.',
    query: WhyQuery,
    answers: { 200: ApplicationWhyOut },
  },
})

export const backgroundTaskOperations = tagged('Background Task', {
  'GET /background-task': {
    id: 'v1.background-task.list',
    summary: 'List background tasks',
    query: TaskQuery,
    answers: { 200: listOf(BackgroundTaskOut) },
  },
  'GET /background-task/:task': {
    id: 'v1.background-task.get',
    summary: 'Get a background task',
    answers: { 200: BackgroundTaskOut },
  },
  'POST /background-task/:task/pause': {
    id: 'v1.background-task.pause',
    summary: 'Pause a background task',
    description: 'It does nothing more until it is resumed, also over restarts. What it has queued already is sent.',
    answers: { 200: BackgroundTaskOut },
  },
  'POST /background-task/:task/resume': {
    id: 'v1.background-task.resume',
    summary: 'Let a paused background task go on',
    answers: { 200: BackgroundTaskOut },
  },
  'POST /background-task/:task/cancel': {
    id: 'v1.background-task.cancel',
    summary: 'End a background task',
    description: 'What it has done stays done.',
    answers: { 200: BackgroundTaskOut },
  },
})

export const statisticsOperations = tagged('Statistics', {
  'POST /stats/usage/app': {
    id: 'v1.statistics.aggregate-app-stats',
    summary: 'Count deliveries per application, in the background',
    body: AppUsageStatsIn,
    answers: { 202: AppUsageStatsOut },
  },
  'PUT /stats/usage/event-types': {
    id: 'v1.statistics.aggregate-event-types',
    summary: "List what each application's endpoints subscribe to, in the background",
    answers: { 202: TaskStartedOut },
  },
})
