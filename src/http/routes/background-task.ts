import type { FastifyInstance } from 'fastify'
import { AppError } from '../../domain/app-error.ts'
import { decodeKey } from '../../domain/ids.ts'
import type { Task, TaskOrder } from '../../domain/task.ts'
import type { HttpContext } from '../context.ts'
import { svixStatus, TaskQuery, toTaskOut } from '../schemas/background-task.ts'
import { sift } from '../sift.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

const taskProblems = compile(TaskQuery, 'query')

/** Work that goes on after the request that asked for it. */
export function backgroundTaskRoutes(api: FastifyInstance, { store }: HttpContext): void {
  api.get('/background-task', async (request) => {
    const query = readQuery(TaskQuery, request.query)
    refuseIf(taskProblems(query))
    const { status, state, task: type, ...page } = query as TaskQuery
    const meets = (task: Task) =>
      (status === undefined || svixStatus(task.status) === status) &&
      (state === undefined || task.status === state) &&
      (type === undefined || task.work.type === type)
    const list = await sift(page, {
      read: (after: number | null, order, limit) => store.listTasks({ after, order, limit }),
      keep: async (rows) => rows.filter(meets).map((row) => ({ row })),
      keepsAll: status === undefined && state === undefined && type === undefined,
      positionOf: ({ key }: Task) => key,
      write: ({ id }) => id,
      parse: (text) => decodeKey('qtask', text),
    })
    return { ...list, data: list.data.map(({ row }) => toTaskOut(row)) }
  })

  api.get<{ Params: { task: string } }>('/background-task/:task', async (request) => {
    const task = await store.findTask(request.params.task)
    if (task === undefined) throw new AppError('not_found', 'There is no such task.')
    return toTaskOut(task)
  })

  for (const order of ['pause', 'resume', 'cancel'] satisfies TaskOrder[]) {
    const options = { config: { bodyOptional: true } }
    api.post<{ Params: { task: string } }>(`/background-task/:task/${order}`, options, async (request) => {
      const task = await store.orderTask(request.params.task, order)
      if (task === undefined) throw new AppError('not_found', 'There is no such task.')
      if (task === 'ended') throw new AppError('conflict', 'The task has ended.')
      return toTaskOut(task)
    })
  }
}
