import { type Static, Type } from 'typebox'
import { AppError, noSuch } from '../../domain/app-error.ts'
import { admin, read, view } from '../../operations/access.ts'
import { listOf, optional } from '../../operations/fields.ts'
import { PageQuery } from '../../operations/page.ts'
import { type Noun, route } from '../../operations/route.ts'
import { type Task, type TaskCommand, taskStatuses, taskTypes } from './rules.ts'
import { BackgroundTaskOut, pageOfTasks, svixStatus, svixStatuses, TaskStartedOut, toTaskOut } from './schemas.ts'

const TaskQuery = Type.Object({
  ...PageQuery.properties,
  status: optional(Type.Enum([...svixStatuses]), 'Only tasks with this status.'),
  state: optional(
    Type.Enum([...taskStatuses]),
    'Only tasks with this state; unlike `status`, it includes `paused` and `cancelled`.',
  ),
  task: optional(Type.Enum([...taskTypes]), 'Kind of work.'),
})

function isWanted({ status, state, task: type }: Static<typeof TaskQuery>) {
  return (task: Task) =>
    (status === undefined || svixStatus(task.status) === status) &&
    (state === undefined || task.status === state) &&
    (type === undefined || task.work.type === type)
}

function commandRoute(command: TaskCommand, summary: string, description?: string) {
  return route(`POST /background-task/:task/${command}`, admin, {
    id: `v1.background-task.${command}`,
    summary,
    ...(description && { description }),
    answers: { 200: BackgroundTaskOut },
    handle: async ({ task: { id }, request }, { store }) => {
      const task = await store.commandTask(id, command)
      if (task === undefined) throw noSuch('task', id)
      if (task === 'ended') throw new AppError('conflict', 'The task has ended.')
      return toTaskOut(task, request.caller)
    },
  })
}

export const backgroundTasks = {
  tag: 'Background Task',
  description: 'Work that continues after the request that started it, also over restarts.',
  schemas: { BackgroundTaskOut, TaskStartedOut },
  routes: [
    route('GET /background-task', read, {
      id: 'v1.background-task.list',
      summary: 'List background tasks',
      query: TaskQuery,
      answers: { 200: listOf(BackgroundTaskOut) },
      handle: async ({ query, request }, services) => {
        const { status, state, task: type } = query
        const keepsAll = status === undefined && state === undefined && type === undefined
        const page = await pageOfTasks(services, query, isWanted(query), keepsAll)
        return { ...page, data: page.data.map(({ row }) => toTaskOut(row, request.caller)) }
      },
    }),
    route('GET /background-task/:task', read, {
      id: 'v1.background-task.get',
      summary: 'Get a background task',
      answers: { 200: BackgroundTaskOut },
      handle: ({ task, request }) => toTaskOut(task, request.caller),
    }),
    route('GET /app/:app/background-task/:task', view, {
      id: 'v1.background-task.get-of-application',
      summary: 'Get a background task of an application',
      description: 'Keys and portal tokens of the application follow their replays with it.',
      answers: { 200: BackgroundTaskOut },
      handle: ({ task, request }) => toTaskOut(task, request.caller),
    }),
    commandRoute(
      'pause',
      'Pause a background task',
      'The task pauses until it is resumed, also over restarts. Deliveries that it has queued are sent.',
    ),
    commandRoute('resume', 'Resume a background task'),
    commandRoute('cancel', 'End a background task', 'Work that is done stays done.'),
  ],
} satisfies Noun
