import { type Static, Type } from 'typebox'
import { type Task, taskStatuses, taskTypes } from '../../domain/task.ts'
import { PageQuery } from '../pagination.ts'

/** The filters of the list of tasks. */
export const TaskQuery = Type.Object({
  ...PageQuery.properties,
  status: Type.Optional(Type.Enum([...taskStatuses])),
  task: Type.Optional(Type.Enum([...taskTypes])),
})
export type TaskQuery = Static<typeof TaskQuery>

/** A task as whoever asked for it sees it first. */
export function toStartedOut(task: Task) {
  return { id: task.id, status: task.status, task: task.work.type, updatedAt: new Date(task.updatedAt).toISOString() }
}

/** A task as callers see it. */
export function toTaskOut(task: Task) {
  return { ...toStartedOut(task), data: task.data }
}
