import { type Static, Type } from 'typebox'
import { type Task, type TaskStatus, taskStatuses, taskTypes } from '../../domain/task.ts'
import { PageQuery } from '../pagination.ts'

/** The states that Svix's tasks have; its libraries refuse an answer with another. */
export const svixStatuses = ['running', 'finished', 'failed'] as const

/** Svix's word for a state: what is paused has yet to end, and what was cancelled did not fail. */
export function svixStatus(status: TaskStatus): (typeof svixStatuses)[number] {
  return status === 'paused' ? 'running' : status === 'cancelled' ? 'finished' : status
}

/** The filters of the list of tasks. */
export const TaskQuery = Type.Object({
  ...PageQuery.properties,
  status: Type.Optional(Type.Enum([...svixStatuses])),
  state: Type.Optional(Type.Enum([...taskStatuses])),
  task: Type.Optional(Type.Enum([...taskTypes])),
})
export type TaskQuery = Static<typeof TaskQuery>

/** A task as whoever asked for it sees it first. */
export function toStartedOut(task: Task) {
  const { id, status, work, updatedAt } = task
  return { id, status: svixStatus(status), task: work.type, updatedAt: new Date(updatedAt).toISOString() }
}

/** A task as callers see it. */
export function toTaskOut(task: Task) {
  const { status: state, work, createdAt, data } = task
  const perSecond = 'perSecond' in work.input ? (work.input.perSecond ?? null) : null
  return { ...toStartedOut(task), state, perSecond, createdAt: new Date(createdAt).toISOString(), data }
}
