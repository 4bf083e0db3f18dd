import { listOf } from '../answers/field.ts'
import { ScheduleOut, ScheduleRanOut } from '../answers/schedule.ts'
import { ScheduleIn, ScheduleListQuery, SchedulePatch, ScheduleQuery } from '../schemas/schedule.ts'
import { tagged } from './operation.ts'

export const scheduleOperations = tagged('Schedule', {
  'GET /app/:app/schedule': {
    id: 'v1.schedule.list',
    summary: 'List schedules',
    query: ScheduleListQuery,
    answers: { 200: listOf(ScheduleOut) },
  },
  'POST /app/:app/schedule': {
    id: 'v1.schedule.create',
    summary: 'Publish a message again and again, by a cron expression',
    description:
      'Five fields of cron in a time zone. A time that does not exist because clocks are set forward runs at the moment they are; one that exists twice runs the first time. What repeats within a day, such as every half hour, goes by the time that passes. An application may have 1,000.',
    query: ScheduleQuery,
    body: ScheduleIn,
    answers: { 201: ScheduleOut },
  },
  'GET /app/:app/schedule/:schedule': {
    id: 'v1.schedule.get',
    summary: 'Get a schedule, when it ran and when it will',
    query: ScheduleQuery,
    answers: { 200: ScheduleOut },
  },
  'PUT /app/:app/schedule/:schedule': {
    id: 'v1.schedule.update',
    summary: 'Replace a schedule, or create it',
    description:
      'What is absent goes back to its default; the uid stays, and whether it is paused. Another timing begins anew from now on.',
    query: ScheduleQuery,
    body: ScheduleIn,
    answers: { 200: ScheduleOut, 201: ScheduleOut },
  },
  'PATCH /app/:app/schedule/:schedule': {
    id: 'v1.schedule.patch',
    summary: 'Change some fields of a schedule',
    description: 'What is absent stays. Another timing begins anew from now on.',
    query: ScheduleQuery,
    body: SchedulePatch,
    answers: { 200: ScheduleOut },
  },
  'DELETE /app/:app/schedule/:schedule': {
    id: 'v1.schedule.delete',
    summary: 'Delete a schedule',
    description: 'What it has published stays.',
    answers: { 204: null },
  },
  'POST /app/:app/schedule/:schedule/pause': {
    id: 'v1.schedule.pause',
    summary: 'Pause a schedule',
    query: ScheduleQuery,
    answers: { 200: ScheduleOut },
  },
  'POST /app/:app/schedule/:schedule/resume': {
    id: 'v1.schedule.resume',
    summary: 'Resume a schedule',
    description: 'It goes on with the next run. What its pause left out is not made up for.',
    query: ScheduleQuery,
    answers: { 200: ScheduleOut },
  },
  'POST /app/:app/schedule/:schedule/run': {
    id: 'v1.schedule.run',
    summary: 'Publish the message of a schedule now',
    description: 'Also while it is paused. When it runs by itself stays as it is.',
    answers: { 202: ScheduleRanOut },
  },
})
